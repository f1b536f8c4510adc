"""What belongs into a snapshot: which files of a node, and how much of each.

All that makes the crawl go on: Redis's data, settings and lists, what was taken out, the fetch log, the
numbers that file names go on from, and of the archive at least the files that pages on the spool lie in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from node import settings as settings_of
from node.settings import Settings
from node.store import fetchlog
from node.store.archive_names import DAMAGED, OPEN
from node.store.exclusions import LIST_NAME
from node.store.moment import Moment
from node.store.taken import FOLDER as TAKEN

REDIS: Final = "redis"
WARC: Final = "warc"
LOG: Final = "log"
CONFIG: Final = "node.toml"
DOMAINS: Final = "domains"
"""The list that ``crawl.domain_list`` names."""
NUMBERS: Final = ".last"
"""Ending of the notes which numbers of files were used (``store/numbering.py``)."""

_NUMBERED: Final = re.compile(r"(?P<writer>.+)-(?P<number>\d{6,})" + re.escape(fetchlog.SUFFIX))


@dataclass(frozen=True, slots=True)
class Piece:
    """A file that is to be in a snapshot: ``content``, or the first ``size`` bytes of what is open as ``fd``,
    or of the first of ``sources`` that is there. ``final``: nothing is ever added to it. ``needed``: to be
    opened at once, before it may be freed; what is freed meanwhile, and was not, is left out. ``exchanged``:
    never added to, but another file may take its place, of another size."""

    path: str
    size: int
    final: bool = False
    content: bytes | None = None
    fd: int | None = None
    sources: tuple[Path, ...] = ()
    needed: bool = False
    exchanged: bool = False


def listing(settings: Settings) -> dict[str, int]:
    """Size of every file that may belong into a snapshot, by its path below the node's folder."""
    found: dict[str, int] = {}
    for folder in (WARC, LOG, TAKEN):
        try:
            with os.scandir(settings.data / folder) as entries:
                found |= {
                    f"{folder}/{each.name}": size for each in entries if (size := _size(each)) is not None
                }
        except FileNotFoundError:
            continue
    return found


def _size(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_size if entry.is_file() else None
    except FileNotFoundError:
        return None


def of_redis(now: Moment) -> Iterator[Piece]:
    """Redis's append-only file."""
    for part in now.parts:
        yield Piece(f"{REDIS}/{part.name}", part.size, part.final, fd=part.fd)
    if now.manifest_name:
        text = now.manifest.encode()
        yield Piece(f"{REDIS}/{now.manifest_name}", len(text), content=text)


def of_archive(
    settings: Settings, now: Moment, before: dict[str, int], after: dict[str, int], *, everything: bool
) -> Iterator[Piece]:
    """WARC files as they were right ``after`` the moment. ``everything``: not only those that are needed.

    Needed is what a page on the spool lies in, and what was being written shortly ``before`` or after.
    """
    for path, size in after.items():
        folder, _, name = path.partition("/")
        if folder != WARC or name.endswith(NUMBERS) or not size:
            continue
        plain = name.removesuffix(OPEN).removesuffix(DAMAGED)
        being_written = path not in before or f"{WARC}/{plain}{OPEN}" in before
        needed = being_written or plain in now.spooled_in
        if everything or needed:
            # one that is closed meanwhile has lost its suffix
            sources = tuple(settings.data / WARC / each for each in (name, plain, plain + DAMAGED))
            yield Piece(path, size, final=not name.endswith(OPEN), sources=sources, needed=needed)


def of_the_rest(settings: Settings, after: dict[str, int]) -> Iterator[Piece]:
    """Settings, lists, what was taken out, the fetch log, numbers. Raises ``OSError``."""
    text = settings_of.dump(settings).encode()
    yield Piece(CONFIG, len(text), content=text)
    if settings.crawl.domain_list is not None:
        source = Path(settings.crawl.domain_list)
        yield _list(DOMAINS + "".join(source.suffixes[-2:]), source)
    listed = settings.data / LIST_NAME
    if listed.exists():
        yield _list(LIST_NAME, listed)
    newest = _newest_logs(after)
    for path, size in after.items():
        folder, _, name = path.partition("/")
        is_log = folder == LOG and name.endswith(fetchlog.SUFFIX)
        if is_log or folder == TAKEN or name.endswith(NUMBERS):
            final = is_log and path not in newest
            yield Piece(path, size, final, sources=(settings.data / path,))


def _list(name: str, source: Path) -> Piece:
    return Piece(name, source.stat().st_size, sources=(source,), needed=True, exchanged=True)


def _newest_logs(after: dict[str, int]) -> set[str]:
    """The log files that may be growing: each writer's last."""
    last: dict[str, tuple[int, str]] = {}
    for path in after:
        found = _NUMBERED.fullmatch(path)
        if found is not None:
            last[found["writer"]] = max(last.get(found["writer"], (0, "")), (int(found["number"]), path))
    return {path for _, path in last.values()}
