"""Reading the archive back, record by record, for the parsers."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

from node.errors import CheckError
from node.store import warc_read
from node.store.archive_names import DAMAGED, OPEN
from node.store.gzmember import DamagedMemberError, inflate
from node.store.warc import Position
from node.store.warc_read import NotAResponse, StoredResponse


class BadRecordError(CheckError):
    """What lies at a position is no whole response record, or its file is not there."""


class RecordGoneError(BadRecordError):
    """The file ends before the record does, or is not there: the record was lost, or taken away."""


class ArchiveReader:
    """Reads single records of the files in ``folder``, whether they are still being written or not.

    At most ``max_open`` files are kept open; the one not read for longest is closed.
    Not thread-safe.
    """

    def __init__(self, folder: Path, *, max_open: int = 64) -> None:
        self._folder = folder
        self._max_open = max_open
        self._fds: OrderedDict[str, int] = OrderedDict()

    def read(self, position: Position, max_wire_bytes: int) -> StoredResponse:
        """The response at ``position``, its body cut at ``max_wire_bytes`` (still in its content coding).

        Raises ``BadRecordError``.
        """
        fd = self._open(position.file)
        try:
            member = os.pread(fd, position.length, position.offset)
            if len(member) < position.length:
                raise RecordGoneError(f"{_place(position)}: the file ends before the record does")
            record = inflate(member, max_wire_bytes + warc_read.HEAD_LIMIT_BYTES)
            return warc_read.parse_response(record, max_wire_bytes)
        except (DamagedMemberError, NotAResponse) as error:
            raise BadRecordError(f"{_place(position)}: {error}") from error
        except OSError as error:
            raise BadRecordError(f"{_place(position)}: {error.strerror}") from error

    def close(self) -> None:
        """Close every file; reading again opens them again."""
        while self._fds:
            os.close(self._fds.popitem()[1])

    def _open(self, name: str) -> int:
        fd = self._fds.get(name)
        if fd is not None:
            self._fds.move_to_end(name)
            return fd
        if os.sep in name:
            raise BadRecordError(f"{name!r} is no name of an archive file")
        # The name without suffix comes twice: the file may be renamed between two looks.
        for suffix in ("", OPEN, "", DAMAGED):
            try:
                fd = os.open(self._folder / (name + suffix), os.O_RDONLY | os.O_CLOEXEC)
                break
            except FileNotFoundError:
                continue
            except OSError as error:
                raise BadRecordError(f"{self._folder / name}: {error.strerror}") from error
        else:
            raise RecordGoneError(f"{self._folder / name} is not there")
        self._fds[name] = fd
        if len(self._fds) > self._max_open:
            os.close(self._fds.popitem(last=False)[1])
        return fd


def _place(position: Position) -> str:
    return f"{position.file} at {position.offset}"
