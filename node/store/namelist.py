"""A list of names too long for memory: millions of hosts in one file, asked about by many processes.

The file is a line of JSON (``Header``), then a ``pybloom_live`` filter as that writes itself, then the names,
sorted, a line each, their labels the other way round (``com.example.www``), so that what is under a domain
stands together. The filter says "no" to nearly every host that is not in the list; where it says "yes" the
names themselves decide, by a binary search in the mapped file. So an answer is always exact, and a
process holds the filter (1.8 bytes a name) and nothing else; pages of the file are shared by all.

A file is made beside the old one and takes its place as a whole. Who has the old one open keeps it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec
from pybloom_live import BloomFilter

from node.errors import DiskError, InputError
from node.rules.domain import is_address
from node.store.numbering import fsync_folder

ERROR_RATE: Final = 1e-3
"""How often the filter alone would err: each error costs a search of 20 µs, so less is not worth its bits."""
_FORMAT: Final = "milliarde names 1"
_HEADER_LIMIT: Final = 16_384

Identity = tuple[int, int, int, int]
"""Device, inode, time of change and size: another file has another one."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of itself: its first line."""

    format: str
    names: int
    filter_bytes: int
    name_bytes: int
    digest: str
    """Of the names; equal lists have equal ones."""
    source: str
    """The file it was made from, as it was named."""
    made: str
    """When, ISO 8601, UTC."""


class NameList:
    """An open list. ``host in names`` is about this very name; see ``under`` for what lies below one.

    Raises ``InputError`` where the file is not there, can't be read, or is no such list.
    """

    __slots__ = ("_end", "_filter", "_map", "_start", "header", "identity")

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                about = os.fstat(file.fileno())
                self.identity: Identity = identity_of(about)
                first = file.readline(_HEADER_LIMIT)
                self.header = _header(first)
                self._start = len(first) + self.header.filter_bytes
                self._end = self._start + self.header.name_bytes
                if self._end != about.st_size:
                    raise ValueError(f"it has {about.st_size} bytes, not {self._end}")
                self._filter: BloomFilter = BloomFilter.fromfile(file, self.header.filter_bytes)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InputError(f"the list {path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(
                f"{path} is no whole list of names: {error}; make it anew with 'milliarde exclude --list'"
            ) from None

    def __contains__(self, host: str) -> bool:
        if host not in self._filter:
            return False
        key = _turned(host).encode("ascii", "replace")
        return self._line(self._place(key)) == key

    def __len__(self) -> int:
        return self.header.names

    def under(self, host: str) -> Iterator[str]:
        """The names of the list that lie below ``host`` (which itself may be in it or not)."""
        prefix = _turned(host).encode("ascii", "replace") + b"."
        at = self._place(prefix)
        while (line := self._line(at)).startswith(prefix):
            yield _turned(line.decode())
            at += len(line) + 1

    def close(self) -> None:
        """Give the file back; nothing can be asked any more."""
        self._map.close()

    def _place(self, key: bytes) -> int:
        """Where the first line begins that is not smaller than ``key``."""
        low, high, lines = self._start, self._end, self._map
        while low < high:
            middle = (low + high) // 2
            begin = lines.rfind(b"\n", low, middle) + 1 or low
            end = lines.find(b"\n", middle, high)
            if lines[begin:end] < key:
                low = end + 1
            else:
                high = begin
        return low

    def _line(self, at: int) -> bytes:
        return self._map[at : self._map.find(b"\n", at, self._end)] if at < self._end else b""


def identity_of(about: os.stat_result) -> Identity:
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size


def build(path: Path, hosts: Iterable[str], *, source: str, made: str) -> Header | None:
    """Make a list of ``hosts`` at ``path``; None where the very same names are there already.

    Needs about 100 bytes of memory a name while it works. Raises ``InputError`` for no names at all, and
    ``DiskError``; what was at ``path`` is then as it was.
    """
    keys = sorted(_turned(host).encode("ascii") for host in hosts)
    names = [key for key, _ in groupby(keys)]
    del keys
    if not names:
        raise InputError(f"there is no usable name in {source}")
    lines = b"\n".join(names) + b"\n"
    digest = blake2b(lines, digest_size=16).hexdigest()
    if _digest_at(path) == digest:
        return None
    filter_ = BloomFilter(len(names), ERROR_RATE)
    for name in names:
        filter_.add(_turned(name.decode()), skip_check=True)
    bits = BytesIO()
    filter_.tofile(bits)
    header = Header(
        format=_FORMAT,
        names=len(names),
        filter_bytes=bits.tell(),
        name_bytes=len(lines),
        digest=digest,
        source=source,
        made=made,
    )
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("wb") as file:
            file.writelines((msgspec.json.encode(header), b"\n", bits.getbuffer(), lines))
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)
        beside.replace(path)
        fsync_folder(path.parent)
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}; the list is as it was") from None
    return header


def _digest_at(path: Path) -> str:
    """That of a list that is there and whole, else nothing."""
    try:
        found = NameList(path)
    except InputError:
        return ""
    found.close()
    return found.header.digest


def _header(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("it has no header") from None
    if header.format != _FORMAT:
        raise ValueError(f"its format is {header.format!r}, not {_FORMAT!r}")
    return header


def _turned(host: str) -> str:
    """``www.example.com`` <-> ``com.example.www``; addresses stay as they are."""
    return host if is_address(host) else ".".join(reversed(host.split(".")))
