"""The CDXJ index of a crawl: where each URL's newest record lies, for pywb and its kin.

A line is ``SURT timestamp {JSON}``, lines sorted by their bytes::

    org,example)/a 20261201201322 {"url": "https://example.org/a", "mime": "text/html", "status": "200",
        "digest": "sha1:…", "length": "31456", "offset": "1024", "filename": "crawl-f03-000001.warc.gz"}

It is made from the fetch logs, not from the archive: an external merge sort, so that the size of a
crawl doesn't matter, only the disk does (as much again as the index, while it is made).
"""

from __future__ import annotations

import heapq
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from node.errors import DiskError
from node.rules.outcome import Outcome
from node.store import fetchlog
from node.store.archive_names import DAMAGED, OPEN
from node.store.surt import surt

_log = logging.getLogger(__name__)
REVISIT: Final = "warc/revisit"
"""Stands for the type where a record only refers to the one that holds its payload."""
_RUN_BYTES: Final = 64 << 20
_RUNS_AT_ONCE: Final = 128
"""Files open in one merge; with 64 MB each, 8 GB of index are merged in one pass."""


@dataclass(slots=True)
class IndexCounts:
    """What ``build`` found in the logs."""

    entries: int = 0
    """Lines of the index: URLs with a record."""
    superseded: int = 0
    """Older records of a URL that has a newer one."""
    dangling: int = 0
    """Records that the archive does not hold: their file ends before they do."""
    not_here: int = 0
    """Records of files that are not there, where those are not wanted."""
    bad_lines: int = 0
    """Lines of the logs that are no entry; each is reported as a warning."""


class _Stored(msgspec.Struct):
    """What the index takes of a line of the fetch log."""

    t: str
    url: str
    outcome: str = ""
    status: int | None = None
    type: str | None = None
    file: str | None = None
    offset: int = 0
    length: int = 0
    digest: str = ""


class _Entry(msgspec.Struct):
    """The JSON of an index line; all values are strings, by custom. An unknown type is left out."""

    url: str
    mime: str | msgspec.UnsetType
    status: str
    digest: str
    length: str
    offset: str
    filename: str


class _Url(msgspec.Struct):
    url: str


_STORED: Final = msgspec.json.Decoder(_Stored)
_URL: Final = msgspec.json.Decoder(_Url)


def build(
    log_folder: Path,
    output: Path,
    *,
    warc_folder: Path | None = None,
    only_here: bool = False,
    run_bytes: int = _RUN_BYTES,
) -> IndexCounts:
    """Write ``output``: one line for each URL that has a record, its newest one; what was there is replaced.

    With ``warc_folder``, entries are left out whose record lies beyond the end of its file there; a file
    that is not there may have been moved, so its entries stay, but for ``only_here`` (files go once they have
    been parsed: ``archive.keep``). ``run_bytes`` of lines are sorted in memory at a time.
    Raises ``DiskError``; ``output`` is then as it was.
    """
    counts = IndexCounts()
    try:
        with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as work:
            runs = _sorted_runs(_lines(log_folder, warc_folder, only_here, counts), Path(work), run_bytes)
            merges = 0
            while len(runs) > _RUNS_AT_ONCE:
                first, runs = runs[:_RUNS_AT_ONCE], runs[_RUNS_AT_ONCE:]
                merges += 1
                runs.append(_write(Path(work) / f"merged-{merges:06d}", _merged(first)))
            whole = _write(Path(work) / "index", _newest(_merged(runs), counts), fsync=True)
            whole.replace(output)
    except OSError as error:
        raise DiskError(f"{output}: {error.strerror}; the index could not be made") from error
    return counts


def _lines(
    log_folder: Path, warc_folder: Path | None, only_here: bool, counts: IndexCounts
) -> Iterator[bytes]:
    """``SURT time {JSON}``, with the time as the log has it, to the microsecond."""
    sizes: dict[str, int | None] = {}
    for path in fetchlog.log_files(log_folder):
        for number, line in fetchlog.lines(path):
            if b'"file":' not in line:
                continue
            try:
                stored = _STORED.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                counts.bad_lines += 1
                _log.warning("%s, line %d is no entry: %s", path, number, error)
                continue
            if stored.file is None:
                continue
            if warc_folder is not None:
                if stored.file not in sizes:
                    sizes[stored.file] = _size(warc_folder, stored.file)
                size = sizes[stored.file]
                if size is None and only_here:
                    counts.not_here += 1
                    continue
                if size is not None and stored.offset + stored.length > size:
                    counts.dangling += 1
                    continue
            yield _line(stored)


def _line(stored: _Stored) -> bytes:
    entry = _Entry(
        stored.url,
        REVISIT if stored.outcome == Outcome.DUPLICATE else stored.type or msgspec.UNSET,
        str(stored.status or "-"),
        stored.digest,
        str(stored.length),
        str(stored.offset),
        stored.file or "",
    )
    return b"%b %b %b\n" % (surt(stored.url).encode(), stored.t.encode(), msgspec.json.encode(entry))


def _size(folder: Path, file: str) -> int | None:
    for suffix in ("", OPEN, DAMAGED):
        try:
            return (folder / (file + suffix)).stat().st_size
        except FileNotFoundError:
            continue
    return None


def _sorted_runs(lines: Iterable[bytes], work: Path, run_bytes: int) -> list[Path]:
    runs: list[Path] = []
    run: list[bytes] = []
    size = 0
    for line in lines:
        run.append(line)
        size += len(line)
        if size >= run_bytes:
            runs.append(_write(work / f"{len(runs):06d}", sorted(run)))
            run, size = [], 0
    if run:
        runs.append(_write(work / f"{len(runs):06d}", sorted(run)))
    return runs


def _merged(runs: list[Path]) -> Iterator[bytes]:
    with ExitStack() as stack:
        yield from heapq.merge(*[stack.enter_context(run.open("rb", buffering=1 << 18)) for run in runs])
    for run in runs:
        run.unlink()


def _newest(lines: Iterable[bytes], counts: IndexCounts) -> Iterator[bytes]:
    """Of each URL the newest line, with the time in the form of the index."""
    # A key is bounded by a space, which is smaller than any character in one: so equal keys lie together.
    # Memory holds the URLs of one key, of which a domain's budget admits no more than it can use.
    for key, group in groupby(lines, lambda line: line[: line.index(b" ")]):
        by_url: dict[str, bytes] = {}
        for line in group:
            _, time, entry = line.split(b" ", 2)
            url = _URL.decode(entry).url
            counts.superseded += url in by_url
            by_url[url] = b"%b %b %b" % (key, _digits(time), entry)
        counts.entries += len(by_url)
        yield from sorted(by_url.values())


def _digits(time: bytes) -> bytes:
    """``2026-12-01T20:13:22.123456Z`` -> ``20261201201322``."""
    return time[:19].translate(None, b"-:T")


def _write(path: Path, lines: Iterable[bytes], *, fsync: bool = False) -> Path:
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(lines)
        if fsync:
            file.flush()
            os.fsync(file.fileno())
    return path
