"""Seeds: lists of domains and URLs into the frontier, each node keeping its own.

A list is plain text (one domain or URL a line, ``#`` comments), ``rank,domain`` CSV, or .gz of
either. A bare domain means https first and http where that fails. Rank (else the line number)
orders who is visited first.
"""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from node.errors import InputError
from node.rules import url as urls
from node.rules.admit import Admission, Scope, ScopeKind
from node.rules.domain import registrable
from node.rules.entry import Entry
from node.rules.refusal import Refusal
from node.rules.seeds import Junk, Seed, parse_line
from node.rules.url import dedup_key
from node.settings import Settings
from node.store import keys
from node.store.connection import Store
from node.store.frontier import Frontier, Group

_BATCH = 1_000
JUNK_SHOWN = 20


@dataclass(slots=True)
class SeedReport:
    """What became of the lists."""

    seeds: int = 0
    admitted: int = 0
    known: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    junk_lines: int = 0
    junk: list[Junk] = field(default_factory=list)
    """The first ``JUNK_SHOWN`` of them."""


def read(path: Path) -> Iterator[Seed | Junk]:
    """The lines of a list. Raises ``InputError`` where the file can't be read, or is a pipe: lists are read
    more than once, and again when a crawl goes on."""
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            raise InputError(
                f"the list {path} is a pipe, and lists are read more than once: save it to a file"
            )
        with path.open("rb") as probe:
            magic = probe.read(2)
        with gzip.open(path, "rb") if magic == b"\x1f\x8b" else path.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                found = parse_line(raw.decode("utf-8", "replace"), number, path.name)
                if found is not None:
                    yield found
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"the list {path} can't be read: {why}") from None


def given(texts: Iterable[str]) -> Iterator[Seed | Junk]:
    """Seeds given on the command line, best first."""
    for number, text in enumerate(texts, 1):
        found = parse_line(text, number, "the command line")
        yield found if found is not None else Junk("the command line", number, "empty")


def domains_of(path: Path) -> Iterator[str]:
    """Registrable domains of a list's good lines, for scope ``list``."""
    for each in read(path):
        if isinstance(each, Seed):
            yield registrable(urls.host(each.url))


def gate(settings: Settings) -> Admission:
    """What seeds pass: any domain of this node's shard."""
    crawl = settings.crawl
    return Admission(
        Scope(ScopeKind.OPEN), crawl.nodes, crawl.me, lambda _host: False, priorities=settings.priorities
    )


def sow(
    store: Store,
    frontier: Frontier,
    admission: Admission,
    seeds: Iterable[Seed | Junk],
    *,
    on_batch: Callable[[], object] = lambda: None,
) -> SeedReport:
    """Offer seeds to the frontier in batches; note their domains as the scope ``seeds``.

    ``admission`` must let any domain of the shard in (scope ``open``). Known seeds are passed over,
    so sowing twice is harmless.
    """
    report = SeedReport()
    start_ms = store.now_ms()
    groups: dict[str, Group] = {}
    waiting = 0

    def flush() -> None:
        nonlocal waiting
        if not groups:
            return
        scope = ("SADD", keys.SCOPE, *groups)
        answer, *_ = store.calls(
            [frontier.offer(store.now_ms(), groups.values())],
            extra=[scope, ("INCR", keys.SCOPE_VERSION)],
        )
        report.admitted += answer.admitted
        report.known += answer.seen
        if answer.refused:
            report.refused["full"] = report.refused.get("full", 0) + answer.refused
        groups.clear()
        waiting = 0
        on_batch()

    for each in seeds:
        if isinstance(each, Junk):
            report.junk_lines += 1
            if len(report.junk) < JUNK_SHOWN:
                report.junk.append(each)
            continue
        report.seeds += 1
        place = admission.admit(each.url, -1)
        if isinstance(place, Refusal):
            report.refused[place.value] = report.refused.get(place.value, 0) + 1
            continue
        group = groups.get(place.domain)
        if group is None:
            # a thousandth of a millisecond a rank: the order of the list, all of it due at once
            group = Group(place.domain, place.lane, start_ms + each.rank / 1000)
            groups[place.domain] = group
        group.entries.append(Entry(each.url, place.level, 0, bare=each.bare).pack())
        group.slots += frontier.slots(dedup_key(each.url))
        waiting += 1
        if waiting >= _BATCH:
            flush()
    flush()
    return report


def sow_files(store: Store, frontier: Frontier, settings: Settings, files: Iterable[Path]) -> SeedReport:
    """Sow whole lists into a node (``milliarde seed``). Raises ``InputError`` where no line is usable."""
    lines = (each for path in files for each in read(path))
    report = sow(store, frontier, gate(settings), lines)
    if not report.seeds:
        raise InputError("there is no usable line in the lists")
    return report
