"""``exclude --list``: a list of hosts and domains that are not to be visited, as long as it may be.

A node has one such list, in its folder; another takes its place. It is in force on the disk alone, so it
outlives Redis, and a command may put it there before there is one.
"""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from node.errors import DiskError, InputError
from node.rules.excluded_names import parse_line
from node.rules.seeds import Junk
from node.settings import Settings
from node.store import namelist
from node.store.connection import Store
from node.store.exclusions import LIST_NAME, in_force
from node.store.frontier import Frontier
from node.store.namelist import NameList
from node.store.numbering import fsync_folder
from node.store.taken import EXCLUDED, FOLDER
from node.work import process
from node.work.operate import Taken, all_domains, audit, take_out
from node.work.operate import bring_back as bring_back_domain

JUNK_SHOWN = 20
LOCK_PATIENCE_S = 600.0
"""How long a list waits for another that is being made."""


@dataclass(slots=True)
class ListReport:
    """What became of a list. ``before``: how many names the one had whose place it took."""

    names: int = 0
    before: int = 0
    unchanged: bool = False
    junk_lines: int = 0
    junk: list[Junk] = field(default_factory=list)
    """The first ``JUNK_SHOWN`` lines that can't be used."""


def write(settings: Settings, path: Path) -> ListReport:
    """Make the node's list from a text file, gzipped or not; running processes take it within two seconds.

    Raises ``InputError`` where the file can't be read or names nothing, and ``DiskError``; what was in force
    then stays so.
    """
    report = ListReport()
    place = settings.data / LIST_NAME
    with process.lock(
        settings.data / "run" / "exclusion-list.lock",
        "'milliarde exclude --list'",
        patience_s=LOCK_PATIENCE_S,
    ):
        before = _header(place)
        report.before = before.names if before else 0
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        header = namelist.build(place, _hosts(path, report), source=str(path), made=made)
        report.unchanged = header is None
        report.names = report.before if header is None else header.names
    return report


def put_in_force(settings: Settings, path: Path, reason: str) -> ListReport:
    """``write``, and a line in the audit file."""
    report = write(settings, path)
    if not report.unchanged:
        audit(settings, exclude_list=str(path), names=report.names, before=report.before, reason=reason)
    return report


def lift(settings: Settings) -> None:
    """Take the list away. Raises ``InputError`` where there is none, ``DiskError``."""
    place = settings.data / LIST_NAME
    try:
        place.unlink()
        fsync_folder(settings.data)
    except FileNotFoundError:
        raise InputError("there is no list of excluded names in force") from None
    except OSError as error:
        raise DiskError(f"{place} can't be removed: {error.strerror}") from None
    audit(settings, include_list=True)


def purge(store: Store, frontier: Frontier, settings: Settings) -> Iterator[Taken]:
    """Take out of all queues what is excluded, as it goes; fetchers drop the rest when its turn comes."""
    exclusions = in_force(store, settings.data)
    listed = exclusions.listed
    for domain in all_domains(store):
        if exclusions.covers(domain):
            hosts = [""]
        else:
            hosts = [host for host in listed.under(domain) if exclusions.covers(host)] if listed else []
        for host in hosts:
            taken = take_out(store, frontier, settings, domain, keep=0, host=host, reason=EXCLUDED)
            if taken.urls:
                yield taken


def bring_back(store: Store, frontier: Frontier, settings: Settings) -> Iterator[Taken]:
    """Bring back of all that was taken out as excluded what no longer is, as it goes."""
    exclusions = in_force(store, settings.data)
    for path in sorted((settings.data / FOLDER).glob(f"*.{EXCLUDED}.txt")):
        domain = path.name.removesuffix(f".{EXCLUDED}.txt")
        taken = bring_back_domain(
            store, frontier, settings, domain, EXCLUDED, lambda host: not exclusions.covers(host)
        )
        if taken.urls:
            yield taken


def _header(place: Path) -> namelist.Header | None:
    """What the list in force says of itself; None where there is none that can be used."""
    try:
        found = NameList(place)
    except InputError:
        return None
    found.close()
    return found.header


def _hosts(path: Path, report: ListReport) -> Iterator[str]:
    try:
        with path.open("rb") as probe:
            magic = probe.read(2)
        with gzip.open(path, "rb") if magic == b"\x1f\x8b" else path.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                found = parse_line(raw.decode("utf-8", "replace"), number, path.name)
                if isinstance(found, Junk):
                    report.junk_lines += 1
                    if len(report.junk) < JUNK_SHOWN:
                        report.junk.append(found)
                elif found is not None:
                    yield found
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"the list {path} can't be read: {why}") from None
