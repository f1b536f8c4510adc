"""Redis's append-only file after a power cut or a full disk: a torn or damaged end is cut off, and kept
aside; holes are closed.

Redis itself starts on a file that ends in the middle of a command; one with anything else at its end, zeros
that a file system left or bytes of another file, it refuses. What stands before that is whole, and a lost end
is what everything else is made for; so it need not be refused. Damage far from the end is another matter, and
for people.

A hole is what Redis 7.0 leaves where a write ended early because the disk was full: it takes back the part
that was written, but goes on behind it where the file is one that a rewrite has begun (it isn't open for
appending). Then there are zeros between two whole commands; all that follows is whole, and would be refused.
Where the disk is full again before the next rewrite, Redis takes back too much, and what it had answered is
gone from in front of the zeros: that is damage, with all behind it.

Run as ``python -m node.store.aof FOLDER`` before Redis starts, and by whoever starts one here.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from node.errors import DiskError, MilliardeError

TAIL_BYTES: Final = 1 << 20
"""So much of the end is looked at. Only where that is not whole is all of the file read."""
MAX_CUT_BYTES: Final = 128 << 20
"""More is no end: a node at its fastest writes some 50 MB in two seconds."""
KEPT: Final = 5
"""Ends that are kept aside; the oldest go first."""

_LINE_BYTES: Final = 1_000
"""Of annotation; Redis reads up to 1,024."""
_ANNOTATION: Final = b"#%b\r\n"
_BEHIND_ZEROS: Final = re.compile(rb"\0\*[1-9][0-9]*\r\n\$[0-9]+\r\n")
"""How a command begins behind a hole. (What sites say is in values, and may look so, too.)"""
_NO_ZERO: Final = re.compile(rb"[^\0]")

_Bytes = bytes | mmap.mmap
_APPENDED = re.compile(r"file (\S+) seq \d+ type i")
_IN_FORCE = re.compile(r"file (\S+) seq \d+ type [bi]")


@dataclass(frozen=True, slots=True)
class Mended:
    """An end that was cut off a file, and where it lies now; holes that were closed."""

    path: Path
    cut_bytes: int
    kept: Path | None
    """None where there was no room for it."""
    holes: int = 0

    @property
    def words(self) -> str:
        """For the operator."""
        return "; ".join(filter(None, (self._of_holes(), self._of_the_end())))

    def _of_holes(self) -> str:
        if not self.holes:
            return ""
        places = "1 place" if self.holes == 1 else f"{self.holes} places"
        return f"Redis's log had no data in {places}, where the disk was full once; nothing is lost by that"

    def _of_the_end(self) -> str:
        if not self.cut_bytes:
            return ""
        where = "are lost, for want of room" if self.kept is None else f"lie in {self.kept}"
        return (
            f"the last {self.cut_bytes:,} bytes of Redis's log were torn or damaged, as after a power cut; "
            f"they were cut off and {where}"
        )


def newest(folder: Path) -> Path | None:
    """The file that Redis with its files in ``folder`` appends to; None where there is none yet."""
    found = _named(folder, _APPENDED)
    return found[-1] if found and found[-1].exists() else None


def bytes_in_force(folder: Path) -> int:
    """Of all files that a start would read. Raises ``DiskError``."""
    try:
        return sum(path.stat().st_size for path in _named(folder, _IN_FORCE))
    except OSError as error:
        raise DiskError(f"{folder}: {error}; it can't be read") from error


def _named(folder: Path, kind: re.Pattern[str]) -> list[Path]:
    """Files by their manifest: that which is appended to comes last, after those that were it before while
    a rewrite of them is under way."""
    logs = folder / "appendonlydir"
    try:
        manifests = list(logs.glob("*.manifest"))
        names = [name for each in manifests for name in kind.findall(each.read_text(encoding="utf-8"))]
    except (OSError, UnicodeDecodeError) as error:
        raise DiskError(f"{logs}: {error}; it can't be read") from error
    return [logs / name for name in names]


def command_end(data: _Bytes, at: int) -> int | None:
    """Where the command that begins at ``at`` ends; None where no whole one does (RESP arrays)."""
    line_end = data.find(b"\r\n", at, at + 1_100)
    if line_end < 0:
        return None
    if data[at : at + 1] == b"#":  # a time, where Redis is told to note them
        return line_end + 2
    count = _number(data[at:line_end], b"*")
    if not count:
        return None
    at = line_end + 2
    for _ in range(count):
        line_end = data.find(b"\r\n", at, at + 32)
        size = _number(data[at:line_end], b"$") if line_end >= 0 else None
        if size is None:
            return None
        at = line_end + 2 + size + 2
        if at > len(data) or data[at - 2 : at] != b"\r\n":
            return None
    return at


def whole_bytes(data: _Bytes, at: int = 0) -> int:
    """Until where a file is whole from ``at`` on: commands, and transactions to their end."""
    outside = at
    in_transaction = False
    while (end := command_end(data, at)) is not None:
        head = data[at : at + 16].upper()
        if head.startswith(b"*1\r\n$5\r\nMULTI"):
            in_transaction = True
        elif head.startswith(b"*1\r\n$4\r\nEXEC"):
            in_transaction = False
        at = end
        if not in_transaction:
            outside = at
    return outside


def mend(folder: Path) -> Mended | None:
    """Cut off what is torn or damaged at the end, close holes; None where nothing is. Redis must not run.

    Raises ``DiskError`` where too much would go, or the folder can't be written.
    """
    path = newest(folder)
    if path is None:
        return None
    try:
        suspect = [each for each in _named(folder, _APPENDED) if each.exists() and _has_zeros(each)]
        holes = sum(map(_close_holes, suspect))
        size = path.stat().st_size
        if not size or (path not in suspect and _ends_whole(path, size)):
            return Mended(path, 0, None, holes) if holes else None
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            whole = whole_bytes(data)
        if whole == size:
            return Mended(path, 0, None, holes) if holes else None
        if size - whole > MAX_CUT_BYTES:
            raise DiskError(
                f"{path} is damaged at byte {whole:,} of {size:,}: too far from its end to cut off the rest; "
                "restore a snapshot, or see what 'redis-check-aof --fix' would leave"
            )
        return Mended(path, size - whole, _cut(path, whole), holes)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}; its end can't be mended") from error


def _number(line: bytes, sign: bytes) -> int | None:
    digits = line[1:]
    return int(digits) if line[:1] == sign and digits.isdigit() else None


def _ends_whole(path: Path, size: int) -> bool:
    """Do commands follow each other to the very end, from somewhere near it on?"""
    start = max(0, size - TAIL_BYTES)
    with path.open("rb") as file:
        file.seek(start)
        tail = file.read()
    candidates = re.finditer(rb"\r\n(?=\*[0-9])", tail)
    firsts = [0] if start == 0 else [found.end() for found, _ in zip(candidates, range(50), strict=False)]
    for first in firsts:
        at: int | None = first
        while at is not None and at < len(tail):
            at = command_end(tail, at)
        if at == len(tail):
            return True
    return False


def _has_zeros(path: Path) -> bool:
    """Does a command follow zeros anywhere? Some GB a second; only where it does all commands are read."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _BEHIND_ZEROS.search(data) is not None


def _close_holes(path: Path) -> int:
    """Fill the zeros between whole commands with what Redis reads over; how many holes there were."""
    closed, at = 0, 0
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        while (hole := _hole(data, at)) is not None:
            at, end = hole
            filler = _filler(end - at)
            data[at : at + len(filler)] = filler
            closed += 1
        if closed:
            data.flush()
    return closed


def _hole(data: mmap.mmap, at: int) -> tuple[int, int] | None:
    """The next one from the command at ``at`` on. Zeros at the very end, or before half a command, are none:
    those are what a power cut leaves, and what was there is missing."""
    begin = whole_bytes(data, at)
    if data[begin : begin + 1] != b"\0":
        return None
    behind = _NO_ZERO.search(data, begin)
    if behind is None or command_end(data, behind.start()) is None:
        return None
    return begin, behind.start()


def _filler(size: int) -> bytes:
    """What may stand between commands in the place of so many bytes: lines of annotation. Where there is no
    room for one, the next command's sign is written over, too: it may have zeros before its number."""
    if size < len(_ANNOTATION % b""):
        return b"*" + b"0" * size
    lines, least = b"", len(_ANNOTATION % b"")
    while size:
        here = min(size, _LINE_BYTES)
        if 0 < size - here < least:
            here -= least
        lines += _ANNOTATION % (b"-" * (here - least))
        size -= here
    return lines


def _cut(path: Path, whole: int) -> Path | None:
    """Copy what is behind ``whole`` bytes to a file of its own, where there is room, then cut it off."""
    aside = path.parent.parent / "cut-off"
    copy = aside / f"{path.name}.{whole}.{time.time_ns()}"
    kept: Path | None = copy
    with path.open("r+b") as file:
        try:
            aside.mkdir(exist_ok=True)
            _copy_from(file, whole, copy)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            copy.unlink(missing_ok=True)
            kept = None
        file.truncate(whole)
        os.fsync(file.fileno())
    if aside.is_dir():
        for old in sorted(aside.iterdir(), key=lambda each: each.name.rpartition(".")[2])[:-KEPT]:
            old.unlink()
    return kept


def _copy_from(file: BinaryIO, start: int, to: Path) -> None:
    file.seek(start)
    with to.open("wb") as copy:
        while piece := file.read(1 << 20):
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())


def main(words: list[str]) -> int:
    """Mend the files of the Redis in the folder that is named; the exit code."""
    try:
        (folder,) = words
        mended = mend(Path(folder))
    except MilliardeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if mended is not None:
        sys.stderr.write(f"{mended.words}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
