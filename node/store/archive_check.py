"""Walking an archive file from member to member: is it whole, and what did a crash leave?

``verify`` looks at a file as a reader elsewhere will. ``recover`` makes a file that a crash left
open whole again: what stands behind the last whole record is cut off.
"""

from __future__ import annotations

import fcntl
import os
import re
from base64 import b32encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Final

from node.errors import DiskError, InUseError
from node.store import warc_read
from node.store.archive_names import OPEN, SUFFIX
from node.store.gzmember import DamagedMemberError, MemberReader
from node.store.numbering import fsync_folder
from node.store.warc import Position
from node.store.warc_read import NotAResponse

_END: Final = b"\r\n\r\n"
_HTTP_KINDS: Final = frozenset({"response", "revisit"})
_HTTP_KIND: Final = re.compile(rb"\r\nWARC-Type: (response|revisit)\r\n")


@dataclass(frozen=True, slots=True)
class Scanned:
    """One whole record. ``url`` is empty for what is neither a response nor a revisit, or has no usable
    target URI."""

    offset: int
    length: int
    kind: str
    url: str
    status: int
    fields: dict[str, str]
    headers: list[tuple[bytes, bytes]]
    payload_bytes: int
    digest_fits: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What ``verify`` found: ``bad_offset`` is where the first record lies that is not whole."""

    path: Path
    records: int
    responses: int
    skipped: int
    """Whole records that are neither a response nor a revisit with a target URI, and no warcinfo."""
    bad_offset: int | None = None
    reason: str = ""
    revisits: int = 0
    """Records of payloads that other records hold."""

    @property
    def ok(self) -> bool:
        """Whether every member is whole and holds what its lengths and digest say."""
        return self.bad_offset is None


@dataclass(frozen=True, slots=True)
class Found:
    """A response or revisit that lies behind the high-water mark: on disk, but maybe not settled."""

    position: Position
    url: str
    status: int
    date: str
    """ISO 8601, UTC, as in ``WARC-Date``."""
    headers: list[tuple[bytes, bytes]]
    payload_bytes: int
    ip: str | None
    truncated: str | None
    revisit: bool
    """It only refers to the record that holds its payload."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A file that a crash left open, now whole, and still under its working name.

    Settle what was ``found``, then ``publish``: a crash in between only means to do both again.
    """

    path: Path
    file: str
    size: int
    cut_bytes: int
    """Bytes of a torn record that were cut off."""
    missing_bytes: int
    """By how much the file was shorter than its high-water mark: records were lost that had been on disk."""
    found: tuple[Found, ...]
    skipped: int
    """Whole records behind the mark that are neither a response nor a revisit with a target URI, and no
    warcinfo."""

    def publish(self) -> Path | None:
        """Give the file its final name, or remove it if it is empty. Raises ``DiskError``."""
        final = self.path.with_name(self.file)
        try:
            if self.size:
                self.path.rename(final)
            else:
                self.path.unlink()
            fsync_folder(self.path.parent)
        except OSError as error:
            raise DiskError(f"{self.path}: {error.strerror}; it can't be published") from error
        return final if self.size else None


def scan(fd: int, start: int = 0) -> Iterator[Scanned]:
    """Every record from ``start`` on. Raises ``DamagedMemberError`` at the first that is not whole.

    Memory stays flat whatever the size of a record. The offset of the damage is the end of the last
    record that came.
    """
    size = os.fstat(fd).st_size
    while start < size:
        record = _scan_record(fd, start)
        yield record
        start += record.length


def verify(path: Path) -> Verdict:
    """Read the whole file: members, lengths, digests. Raises ``DiskError`` if it can't be read.

    A file of no bytes is not whole either: we publish none.
    """
    records = responses = revisits = skipped = at = 0

    def verdict(bad_offset: int | None = None, reason: str = "") -> Verdict:
        return Verdict(path, records, responses, skipped, bad_offset, reason, revisits)

    fd = _open(path, os.O_RDONLY)
    try:
        for record in scan(fd):
            if not record.digest_fits:
                return verdict(at, "the payload digest does not fit")
            records += 1
            responses += bool(record.url) and record.kind == "response"
            revisits += bool(record.url) and record.kind == "revisit"
            skipped += not record.url and record.kind != "warcinfo"
            at = record.offset + record.length
    except DamagedMemberError as error:
        return verdict(at, str(error))
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}; it can't be read") from error
    finally:
        os.close(fd)
    if not records:
        return verdict(0, "the file is empty")
    return verdict()


def left_over(folder: Path, prefix: str) -> list[Path]:
    """The files that a crash left open, of the writer with this ``prefix``, oldest first."""
    start = f"{prefix}-"
    return sorted(
        path
        for path in folder.glob(f"*{SUFFIX}{OPEN}")
        if path.name.startswith(start) and path.name[len(start) : -len(SUFFIX + OPEN)].isdigit()
    )


def recover(path: Path, trusted_offset: int = 0) -> Recovered:
    """Cut a file that was left open back to its last whole record, and tell what lies behind the mark.

    Everything before ``trusted_offset``, its high-water mark, was flushed and is not read again, unless the
    file is shorter than that. Raises ``DiskError``, and ``InUseError`` while somebody still writes the file.
    """
    file = path.name.removesuffix(OPEN)
    fd = _open(path, os.O_RDWR)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InUseError(f"{path} is still being written; end that process first") from error
        size = os.fstat(fd).st_size
        missing = max(0, trusted_offset - size)
        end = 0 if missing else trusted_offset
        found: list[Found] = []
        skipped = 0
        try:
            for record in scan(fd, end):
                end = record.offset + record.length
                if record.url:
                    found.append(found_of(file, record))
                else:
                    skipped += record.kind != "warcinfo"
        except DamagedMemberError:
            os.ftruncate(fd, end)
        # Also without a cut: what lies behind the mark may be in the page cache only.
        os.fsync(fd)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}; it can't be recovered") from error
    finally:
        os.close(fd)
    return Recovered(path, file, end, size - end, missing, tuple(found), skipped)


def found_of(file: str, record: Scanned) -> Found:
    """A record of ``file`` that has a URL, as what was found there."""
    fields = record.fields
    revisit = record.kind == "revisit"
    return Found(
        Position(file, record.offset, record.length, fields.get("warc-payload-digest", "")),
        record.url,
        record.status,
        fields.get("warc-date", ""),
        record.headers,
        record.payload_bytes,
        fields.get("warc-ip-address"),
        None if revisit else fields.get("warc-truncated"),
        revisit,
    )


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}; it can't be opened") from error


class _Record:
    """Takes the content of a member in pieces: keeps its heads, digests the rest."""

    def __init__(self) -> None:
        self.head = b""
        """WARC head, and HTTP head where the record is about a response, each with its empty line."""
        self.block_start = 0
        self.body_bytes = 0
        self._in_body = False
        self._tail = b""
        self._digest = sha1(usedforsecurity=False)

    def feed(self, piece: bytes) -> None:
        if self._in_body:
            self._body(piece)
            return
        self.head += piece
        too_long = len(self.head) > warc_read.HEAD_LIMIT_BYTES
        if not self.block_start:
            end = self.head.find(_END)
            if end < 0:
                if too_long:
                    raise DamagedMemberError("no WARC head")
                return
            self.block_start = end + 4
        if not _HTTP_KIND.search(self.head, 0, self.block_start):
            self._enter_body(self.block_start)
        elif (end := self.head.find(_END, self.block_start)) >= 0:
            self._enter_body(end + 4)
        elif too_long:
            self._enter_body(self.block_start)

    def finish(self) -> None:
        """The member is through. Raises ``DamagedMemberError`` if it didn't end as a record does."""
        if self.block_start and not self._tail:
            # There was no HTTP head, or its end was the record's: then the block is a body and no more.
            self._enter_body(self.block_start)
        if self._tail != _END:
            raise DamagedMemberError("no whole record in the member")

    def _enter_body(self, start: int) -> None:
        self._in_body = True
        rest, self.head = self.head[start:], self.head[:start]
        self._body(rest)

    def _body(self, piece: bytes) -> None:
        # The last four bytes are the end of the record, not of the body.
        data = self._tail + piece
        body = memoryview(data)[: max(0, len(data) - 4)]
        self._digest.update(body)
        self.body_bytes += len(body)
        self._tail = data[len(body) :]

    @property
    def digest(self) -> str:
        return "sha1:" + b32encode(self._digest.digest()).decode("ascii")


def _scan_record(fd: int, offset: int) -> Scanned:
    member = MemberReader(fd, offset)
    record = _Record()
    for piece in member:
        record.feed(piece)
    record.finish()
    try:
        fields, block_start = warc_read.split_record(record.head)
    except NotAResponse as error:
        raise DamagedMemberError(str(error)) from error
    if fields.get("content-length") != str(len(record.head) - block_start + record.body_bytes):
        raise DamagedMemberError("the length does not fit")
    kind, url, status = fields.get("warc-type", ""), "", 0
    headers: list[tuple[bytes, bytes]] = []
    if kind in _HTTP_KINDS:
        try:
            status, headers = warc_read.parse_http_head(record.head[block_start:-4])
            url = fields.get("warc-target-uri", "")
        except NotAResponse:
            # Whole, but nothing a reader can use: skipped and counted.
            pass
    digest = fields.get("warc-payload-digest", "")
    # a revisit's payload lies elsewhere
    fits = not url or kind == "revisit" or not digest.startswith("sha1:") or digest == record.digest
    length = member.end - offset
    return Scanned(offset, length, kind, url, status, fields, headers, record.body_bytes, fits)
