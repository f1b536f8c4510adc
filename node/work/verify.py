"""Are collected files whole? Every record of every WARC file is read; the index is held against the files.

The folder is that of a crawl, or one into which crawls were copied: files are found at any depth, an
``index.cdxj`` belongs to the WARC files of its own folder and below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from node.errors import InputError
from node.store import archive_check
from node.store.archive_check import Verdict
from node.store.archive_names import OPEN, SUFFIX

INDEX = "index.cdxj"
BAD_SHOWN = 20


class _Entry(msgspec.Struct):
    filename: str
    offset: str
    length: str


_ENTRY = msgspec.json.Decoder(_Entry)


@dataclass(slots=True)
class Verified:
    """What was found. ``bad`` names the first files and lines of an index that are not right, and why."""

    files: int = 0
    records: int = 0
    responses: int = 0
    revisits: int = 0
    """Records of payloads that other records hold."""
    bytes: int = 0
    still_open: int = 0
    """Files that a fetcher is writing, or that a crash left; they are not read."""
    index_lines: int = 0
    elsewhere: int = 0
    """Lines of an index whose file is not here (not collected yet, or moved)."""
    bad_count: int = 0
    bad: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return self.bad_count == 0

    def note_bad(self, words: str) -> None:
        self.bad_count += 1
        if len(self.bad) < BAD_SHOWN:
            self.bad.append(words)


def verify(
    paths: Iterable[Path], *, jobs: int | None = None, on_file: Callable[[Verified], object] = lambda _: None
) -> Verified:
    """Read WARC files, given by name or by folder, in ``jobs`` processes (default: one for each core).

    Raises ``InputError`` where a path is not there, or no WARC file is.
    """
    found = Verified()
    files, indexes = _found(paths, found)
    if not files and not found.still_open:
        raise InputError("there are no WARC files there")
    with ProcessPoolExecutor(min(jobs or os.cpu_count() or 1, len(files) or 1)) as pool:
        for path, verdict in zip(files, pool.map(archive_check.verify, files), strict=True):
            _count(found, path, verdict)
            on_file(found)
    for index in indexes:
        _verify_index(index, found)
    return found


def _found(paths: Iterable[Path], found: Verified) -> tuple[list[Path], list[Path]]:
    files: list[Path] = []
    indexes: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.rglob(f"*{SUFFIX}"))
            indexes += sorted(path.rglob(INDEX))
            found.still_open += sum(1 for _ in path.rglob(f"*{SUFFIX}{OPEN}"))
        elif path.is_file():
            (indexes if path.name == INDEX else files).append(path)
        else:
            raise InputError(f"there is no {path}")
    return files, indexes


def _count(found: Verified, path: Path, verdict: Verdict) -> None:
    found.files += 1
    found.records += verdict.records
    found.responses += verdict.responses
    found.revisits += verdict.revisits
    found.bytes += path.stat().st_size
    if not verdict.ok:
        found.note_bad(f"{path}: {verdict.reason}, at byte {verdict.bad_offset:,}")


def _verify_index(index: Path, found: Verified) -> None:
    sizes = {path.name: path.stat().st_size for path in index.parent.rglob(f"*{SUFFIX}")}
    before = b""
    with index.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            found.index_lines += 1
            try:
                entry = _ENTRY.decode(line.split(b" ", 2)[2])
                end = int(entry.offset) + int(entry.length)
            except (IndexError, ValueError, msgspec.MsgspecError):
                found.note_bad(f"{index}, line {number:,} is no entry")
                continue
            if entry.filename not in sizes:
                found.elsewhere += 1
            elif end > sizes[entry.filename]:
                found.note_bad(f"{index}, line {number:,}: {entry.filename} ends before its record does")
            if line < before:
                found.note_bad(f"{index}, line {number:,} is out of order")
            before = line
