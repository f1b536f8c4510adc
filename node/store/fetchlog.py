"""The fetch log: what was visited, one JSON object a line. It feeds the index and the reports.

A line, keys in this order, those without a value left out::

    t           when the request was sent, ISO 8601, UTC, microseconds
    url         canonical URL
    outcome     name of the outcome (node.rules.outcome)
    status      HTTP status, if there was a response
    type        media type of the response, without parameters
    bytes       size of the body as received, content coding kept
    connect_ms  until the connection stood (TLS included)
    ttfb_ms     until the first byte of the answer
    total_ms    until the end of the body
    ip          address that was asked
    depth       links between a seed and this URL
    tries       earlier requests for this URL
    hop         0 for what was leased, n for the n-th redirect followed from it
    truncated   length, time or disconnect, if the body is not whole
    detail      what else is known, in words
    signals     what is said about the use of the page: place and statement (node.rules.usage)
    price       what the page costs, as its site writes it
    file, offset, length, digest
                the WARC record, if there is one

Control characters can't get in: JSON escapes them, so a line is a line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from node.errors import DiskError
from node.store.numbering import Numbering
from node.store.warc import Position, warc_date

SUFFIX: Final = ".jsonl"

_log = logging.getLogger(__name__)
_MAX_WAITING_BYTES: Final = 32 << 20
_MAX_WORDS: Final = 500


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request, or one decision not to send it. ``t`` is Unix seconds; the rest as in the file."""

    t: float
    url: str
    outcome: str
    status: int | None = None
    type: str | None = None
    bytes: int = 0
    ms: tuple[float | None, float | None, float | None] = (None, None, None)
    """Connect, first byte, total."""
    ip: str | None = None
    depth: int = 0
    tries: int = 0
    hop: int = 0
    position: Position | None = None
    truncated: str | None = None
    detail: str = ""
    signals: tuple[str, ...] = ()
    price: str = ""


class _Line(msgspec.Struct, omit_defaults=True):
    """A line as it stands in the file; further keys are ignored when reading."""

    t: str
    url: str
    outcome: str
    status: int | None = None
    type: str | None = None
    bytes: int = 0
    connect_ms: int | None = None
    ttfb_ms: int | None = None
    total_ms: int | None = None
    ip: str | None = None
    depth: int = 0
    tries: int = 0
    hop: int = 0
    truncated: str | None = None
    detail: str = ""
    signals: tuple[str, ...] = ()
    price: str = ""
    file: str | None = None
    offset: int = 0
    length: int = 0
    digest: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Line)


class FetchLog:
    """Appends to ``folder/prefix-000001.jsonl`` and so on; a file is closed at ``rotate_bytes``.

    Each start begins a new file, so a torn last line stays the last. Nothing is created before there is
    something to write. All calls come from one event loop.
    """

    def __init__(self, folder: Path, prefix: str, rotate_bytes: int = 256_000_000) -> None:
        self._folder = folder
        self._numbers = Numbering(folder, prefix, SUFFIX)
        self._rotate_bytes = rotate_bytes
        self._waiting = bytearray()
        self._name = ""
        self._fd: int | None = None
        self._size = 0

    def add(self, entry: LogEntry) -> None:
        """Take a line; it is written with the next ``flush``.

        Raises ``DiskError`` when 32 MB wait already and still can't be written.
        """
        if len(self._waiting) >= _MAX_WAITING_BYTES:
            self.flush()
        line = _line(entry)
        try:
            data = _ENCODER.encode(line)
        except UnicodeEncodeError:
            # Bytes of a header that are no text; they are kept in escaped form.
            line.type, line.detail, line.url = _text(line.type or ""), _text(line.detail), _text(line.url)
            data = _ENCODER.encode(line)
        self._waiting += data
        self._waiting += b"\n"

    def note(self, url: str, outcome: str, depth: int, detail: str = "") -> None:
        """Take a line for a URL that was not requested, now. Raises ``DiskError`` as ``add`` does."""
        self.add(LogEntry(t=time.time(), url=url, outcome=outcome, depth=depth, detail=detail))

    def flush(self) -> None:
        """Hand all lines to the system. Raises ``DiskError``; the lines then wait for the next ``flush``."""
        if not self._waiting:
            return
        try:
            fd = self._create() if self._fd is None else self._fd
            try:
                self._write(fd)
            except OSError:
                os.ftruncate(fd, self._size)
                raise
            self._size += len(self._waiting)
            self._waiting.clear()
            if self._size >= self._rotate_bytes:
                os.fdatasync(fd)
                self._end_file()
        except OSError as error:
            raise DiskError(f"{self._folder / self._name}: {error.strerror}; make room") from error

    async def commit(self) -> None:
        """``flush``, and have the lines on disk, in a thread. Raises ``DiskError``."""
        self.flush()
        if self._fd is not None:
            # A descriptor of its own, since a flush may close the file meanwhile.
            try:
                await asyncio.to_thread(_sync_and_close, os.dup(self._fd))
            except OSError as error:
                raise DiskError(f"{self._folder / self._name}: {error.strerror}") from error

    def close(self) -> None:
        """Flush and close. Raises ``DiskError``; what could not be written still waits then."""
        self.flush()
        if self._fd is not None:
            self._end_file()

    def _create(self) -> int:
        self._name = self._numbers.take()
        self._numbers.note(self._name, fsync=True)
        path = self._folder / self._name
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = 0
        return self._fd

    def _write(self, fd: int) -> None:
        with memoryview(self._waiting) as view:
            done = 0
            while done < len(view):
                done += os.write(fd, view[done:])

    def _end_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _line(entry: LogEntry) -> _Line:
    position = entry.position
    connect_ms, ttfb_ms, total_ms = entry.ms
    line = _Line(
        warc_date(entry.t),
        entry.url,
        entry.outcome,
        entry.status,
        entry.type[:_MAX_WORDS] if entry.type else None,
        entry.bytes,
        None if connect_ms is None else round(connect_ms),
        None if ttfb_ms is None else round(ttfb_ms),
        None if total_ms is None else round(total_ms),
        entry.ip,
        entry.depth,
        entry.tries,
        entry.hop,
        entry.truncated,
        entry.detail[:_MAX_WORDS],
        entry.signals,
        entry.price,
    )
    if position is not None:
        line.file, line.offset, line.length = position.file, position.offset, position.length
        line.digest = position.digest
    return line


def _entry(line: _Line) -> LogEntry:
    return LogEntry(
        t=datetime.fromisoformat(line.t).timestamp(),
        url=line.url,
        outcome=line.outcome,
        status=line.status,
        type=line.type,
        bytes=line.bytes,
        ms=(line.connect_ms, line.ttfb_ms, line.total_ms),
        ip=line.ip,
        depth=line.depth,
        tries=line.tries,
        hop=line.hop,
        position=Position(line.file, line.offset, line.length, line.digest) if line.file else None,
        truncated=line.truncated,
        detail=line.detail,
        signals=line.signals,
        price=line.price,
    )


def log_files(folder: Path) -> list[Path]:
    """The log files of all fetchers, by name."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of one file, with their numbers; a torn last line is left out.

    Raises ``DiskError`` if the file can't be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield number, line
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}; it can't be read") from error


def read(folder: Path) -> Iterator[LogEntry]:
    """Every entry of every log file in ``folder``, file by file.

    A torn last line, as a crash leaves it, is left out; any other line that is no entry is reported as
    a warning and skipped.
    """
    for path in log_files(folder):
        for number, line in lines(path):
            try:
                yield _entry(_DECODER.decode(line))
            except (msgspec.MsgspecError, ValueError) as error:
                _log.warning("%s, line %d is no entry: %s", path, number, error)


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _sync_and_close(fd: int) -> None:
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
