"""Which page a parser has in hand, where it can be read after the parser's death.

One small file per parser, mapped into memory: noting a page is a copy of some bytes, and what was noted
outlives the process, however it ends. (Where the machine went with it, the page is not to blame.)
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

from node.store.clock import boot_id, boottime_ms

_BOOT, _NOTE = 48, 80
"""Bytes: which boot of the machine it is; then the page's id in the spool, since when, and in whose hands."""
_EMPTY = bytes(_NOTE)


class Note(NamedTuple):
    """A page in hand: its id in the spool, since when (ms since the boot), in which process."""

    page: bytes
    since_ms: int
    pid: int


class InHand:
    """The note of one parser, which alone writes it. Raises ``OSError`` where the file can't be made.

    ``left_behind``: what the parser that was here before had in hand when it died.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            # with its blocks: a note on a disk that has become full would end the process (SIGBUS)
            os.posix_fallocate(handle, 0, _BOOT + _NOTE)
            self._map = mmap.mmap(handle, _BOOT + _NOTE)
        finally:
            os.close(handle)
        boot = boot_id().encode()[:_BOOT].ljust(_BOOT, b"\0")
        self.left_behind = _noted(self._map[:]) if self._map[:_BOOT] == boot else None
        self._map[:_BOOT] = boot
        self._pid = os.getpid()

    def note(self, page: bytes) -> None:
        """The page with this id is in hand, from now on."""
        self._map[_BOOT:] = (b"%b %d %d" % (page, boottime_ms(), self._pid)).ljust(_NOTE, b"\0")

    def clear(self) -> None:
        """None is."""
        self._map[_BOOT:] = _EMPTY

    def close(self) -> None:
        self._map.close()


def read(path: Path) -> Note | None:
    """What a parser has in hand now, for others to see; None where that is nothing."""
    try:
        return _noted(path.read_bytes())
    except OSError:
        return None


def _noted(raw: bytes) -> Note | None:
    parts = raw[_BOOT:].rstrip(b"\0").split(b" ")
    if len(parts) != 3 or not (parts[1] + parts[2]).isdigit():
        return None
    return Note(parts[0], int(parts[1]), int(parts[2]))
