"""The archive: WARC files, written by one fetcher each.

The life of a record: ``append`` builds it and gives it its place; ``commit`` writes all that was
appended to the file and flushes the disk, in a thread of its own, for all callers at once; then
a pointer to it may be handed on. A file is ``NAME.open`` while it is written and ``NAME`` once it is
closed, full or at the end. Files that a crash left open: see ``archive_check.recover``.

Nothing is lost by a full disk: what can't be written stays in memory (bounded), keeps its place,
and goes out with a later ``commit``; the file is cut back to the records that are whole.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from isal import isal_zlib

from node.errors import DiskError, InUseError
from node.store import warc
from node.store.archive_names import DAMAGED, OPEN, SUFFIX
from node.store.gzmember import Buffer
from node.store.numbering import Numbering, fsync_folder
from node.store.warc import Position, Response

_PARTS_PER_CALL: Final = 1000
"""Buffers in one ``pwritev``; Linux takes 1,024."""
_CHECK_BYTES: Final = 1 << 20


@dataclass(slots=True, eq=False)
class _File:
    """One file being written. ``durable``, ``crc`` and the rest change in the event loop only."""

    name: str
    warcinfo_id: str
    end: int = 0
    durable: int = 0
    crc: int = 0
    """Checksum of the ``durable`` bytes, so that a finished file can be held against what was written."""
    parts: list[Buffer] = field(default_factory=list)
    fd: int | None = None
    finished: bool = False
    publishing: bool = False


class ArchiveWriter:
    """Appends responses to ``folder/prefix-000001.warc.gz`` and so on; the numbers go on after a restart.

    A file is finished when it has reached ``rotate_bytes``. ``info`` goes into the ``warcinfo`` record
    that each file begins with: software, operator, and what every request of ours carried.
    ``fsync=False`` leaves flushing to the system. ``buffer_bytes`` bounds what waits to be written.
    Nothing is created on disk before there is something to write.

    Not thread-safe: all calls come from one event loop. Raises ``DiskError`` as each method says, and
    ``InUseError`` when somebody else writes files of the same prefix.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        *,
        rotate_bytes: int = 1_000_000_000,
        info: Mapping[str, str],
        fsync: bool = True,
        buffer_bytes: int = 64 << 20,
    ) -> None:
        self._folder = folder
        self._numbers = Numbering(folder, prefix, SUFFIX, (OPEN, DAMAGED))
        self._rotate_bytes = rotate_bytes
        self._info = dict(info)
        self._fsync = fsync
        self._buffer_bytes = buffer_bytes
        self._waiting_bytes = 0
        self._files: list[_File] = []
        self._flight: asyncio.Task[None] | None = None
        self._publications: set[asyncio.Task[None]] = set()
        # One thread of its own: writes keep their order, and never wait behind a name look-up.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archive")

    @property
    def waiting_bytes(self) -> int:
        """What is appended and not yet on disk: a measure of pressure."""
        return self._waiting_bytes

    @property
    def fill(self) -> float:
        """The same as a share of what may wait."""
        return self._waiting_bytes / self._buffer_bytes

    @property
    def marks(self) -> dict[str, int]:
        """High-water marks: file -> how many of its bytes are on disk, for every file not yet published."""
        return {file.name: file.durable for file in self._files if file.durable}

    def append(self, response: Response) -> Position:
        """Give a response its place; it is on disk when a ``commit`` that starts later has returned.

        Raises ``DiskError`` when ``buffer_bytes`` already wait, because the disk is full or too slow;
        the response is then not taken.
        """
        if self._waiting_bytes >= self._buffer_bytes:
            waiting = self._waiting_bytes
            raise DiskError(f"{self._folder}: {waiting} bytes wait; the disk is full or too slow")
        file = self._files[-1] if self._files and not self._files[-1].finished else self._begin()
        parts, size, digest = warc.response_member(response, file.warcinfo_id)
        position = Position(file.name, file.end, size, digest)
        self._add(file, parts, size)
        file.finished = file.end >= self._rotate_bytes
        return position

    async def commit(self) -> dict[str, int]:
        """Write and flush all that was appended before this call; answers the ``marks``.

        Callers at the same time share one flush; appends go on meanwhile.
        Raises ``DiskError`` when the disk refuses: what was appended is still held, at its place, and the
        next ``commit`` tries again. Raises it too when a file that was finished earlier turned out not to
        hold what was written to it (it is then named ``NAME.damaged``).
        """
        self._raise_trouble()
        wanted = [(file, file.end) for file in self._files]
        while any(file.durable < end for file, end in wanted):
            # One that is over may have left before what is wanted came; to wait for it is not to wait at all.
            if self._flight is None or self._flight.done():
                self._flight = asyncio.create_task(self._write_out())
                self._flight.add_done_callback(heard)
            # A caller that is cancelled must not take the others' flush with it.
            await asyncio.shield(self._flight)
        return self.marks

    async def close(self) -> None:
        """Commit, and publish the file that was being written. Raises ``DiskError`` like ``commit``.

        After an error it may be called again; files that stay ``.open`` are for ``recover``.
        """
        if self._files:
            self._files[-1].finished = True
        await self.commit()
        self._publish_finished()
        if self._publications:
            await asyncio.wait(self._publications)
        self._raise_trouble()
        self._thread.shutdown(wait=False)

    def _begin(self) -> _File:
        name = self._numbers.take()
        warcinfo_id, parts, size = warc.warcinfo_member(name, self._info, time.time())
        file = _File(name, warcinfo_id)
        self._files.append(file)
        self._add(file, parts, size)
        return file

    def _add(self, file: _File, parts: list[Buffer], size: int) -> None:
        file.parts += parts
        file.end += size
        self._waiting_bytes += size

    async def _write_out(self) -> None:
        """Write what waits, file by file; on an error it waits on, in front of what came meanwhile."""
        loop = asyncio.get_running_loop()
        for file in [file for file in self._files if file.durable < file.end]:
            parts, file.parts = file.parts, []
            end = file.end
            try:
                crc = await loop.run_in_executor(self._thread, self._store, file, parts)
            except BaseException:
                # Also when cancelled: writing the same bytes to the same place again does no harm.
                file.parts = parts + file.parts
                raise
            self._waiting_bytes -= end - file.durable
            file.durable, file.crc = end, crc
        self._publish_finished()

    def _publish_finished(self) -> None:
        for file in self._files:
            if file.finished and not file.publishing and file.durable == file.end and file.fd is not None:
                file.publishing = True
                self._publications.add(asyncio.create_task(self._publish(file, file.fd)))

    def _raise_trouble(self) -> None:
        for task in [task for task in self._publications if task.done()]:
            self._publications.discard(task)
            task.result()

    async def _publish(self, file: _File, fd: int) -> None:
        try:
            await asyncio.to_thread(self._check_and_rename, file, fd)
        finally:
            self._files.remove(file)

    # From here on: in a thread.

    def _store(self, file: _File, parts: list[Buffer]) -> int:
        """Write ``parts`` behind what is durable and flush them; answers the checksum up to their end."""
        start, crc = file.durable, file.crc
        try:
            fd = self._create(file) if file.fd is None else file.fd
            try:
                _write_all(fd, parts, start)
                if self._fsync:
                    os.fdatasync(fd)
            except OSError:
                self._cut_back(file, fd, start)
                raise
        except OSError as error:
            raise DiskError(
                f"{self._folder / file.name}: {error.strerror}; nothing is lost, make room and it goes on"
            ) from error
        for part in parts:
            crc = isal_zlib.crc32(part, crc)
        return crc

    def _create(self, file: _File) -> int:
        self._numbers.note(file.name, fsync=self._fsync)
        path = self._folder / (file.name + OPEN)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError as error:
            raise InUseError(f"{path} exists: another process writes here under the same name") from error
        try:
            # Held as long as the file is written, so that nobody recovers a file that is alive.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._fsync:
                fsync_folder(self._folder)
        except OSError:
            path.unlink()
            os.close(fd)
            raise
        file.fd = fd
        return fd

    def _cut_back(self, file: _File, fd: int, size: int) -> None:
        os.ftruncate(fd, size)
        if size == 0:
            # No empty files: it is made again when there is room.
            (self._folder / (file.name + OPEN)).unlink()
            os.close(fd)
            file.fd = None

    def _check_and_rename(self, file: _File, fd: int) -> None:
        """Publish a finished file if it holds, byte for byte, what was written to it."""
        path = self._folder / file.name
        working = self._folder / (file.name + OPEN)
        try:
            whole = os.fstat(fd).st_size == file.end and _file_crc(fd, file.end) == file.crc
            working.rename(path if whole else f"{path}{DAMAGED}")
            if self._fsync:
                fsync_folder(self._folder)
        except OSError as error:
            raise DiskError(f"{path}: {error.strerror}; it can't be published") from error
        finally:
            os.close(fd)
        if not whole:
            raise DiskError(f"{path}{DAMAGED} does not hold what was written to it; check the disk")


def heard(task: asyncio.Task[None]) -> None:
    """A task's error reaches whoever waits for it. If nobody does any more, what it was about still waits,
    and the next commit meets the same error."""
    if not task.cancelled():
        task.exception()


def _write_all(fd: int, parts: list[Buffer], at: int) -> None:
    """``pwrite`` everything. Raises ``OSError``; how much was written by then is unknown."""
    for first in range(0, len(parts), _PARTS_PER_CALL):
        group = parts[first : first + _PARTS_PER_CALL]
        left = sum(map(len, group))
        while left:
            written = os.pwritev(fd, group, at)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            at += written
            left -= written
            if left:
                group = _without(group, written)


def _without(parts: list[Buffer], count: int) -> list[Buffer]:
    """What is left of ``parts`` behind their first ``count`` bytes."""
    for index, part in enumerate(parts):
        if count < len(part):
            return [memoryview(part)[count:], *parts[index + 1 :]]
        count -= len(part)
    return []


def _file_crc(fd: int, size: int) -> int:
    crc = 0
    for at in range(0, size, _CHECK_BYTES):
        crc = isal_zlib.crc32(os.pread(fd, min(_CHECK_BYTES, size - at), at), crc)
    return crc
