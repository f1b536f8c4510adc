"""The ends of a fetcher's archive files: what lies behind the high-water marks that Redis keeps of them."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from node.errors import DiskError
from node.store.archive_check import Found, found_of, scan
from node.store.archive_names import OPEN, SUFFIX
from node.store.gzmember import DamagedMemberError

_log = logging.getLogger(__name__)

UNKNOWN_BYTES: Final = 256 << 20
"""Most bytes of finished files that are looked at though Redis has no mark of them: what one fetcher can
write in the seconds that a crash may take back. If there are more, Redis is a new one beside old files."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file, from its mark on. ``working``: it has its working name still."""

    path: Path
    file: str
    start: int
    size: int
    working: bool


def tails(folder: Path, prefix: str, marks: Mapping[str, int]) -> list[Tail]:
    """The files of the writer with this ``prefix`` that hold more than Redis knows, and those that have their
    working name, oldest first. Raises ``DiskError``."""
    name = re.compile(rf"({re.escape(prefix)}-\d{{6,}}{re.escape(SUFFIX)})({re.escape(OPEN)})?")
    found: list[Tail] = []
    unknown = 0
    try:
        with os.scandir(folder) as entries:
            there = {entry.name: match for entry in entries if (match := name.fullmatch(entry.name))}
        for each in sorted(there, reverse=True):
            file, working = there[each][1], there[each][2] is not None
            try:
                size = (folder / each).stat().st_size
            except FileNotFoundError:  # renamed or taken away meanwhile
                continue
            if file not in marks and not working:
                unknown += size
                if unknown > UNKNOWN_BYTES:
                    continue
            if working or size > marks.get(file, 0):
                found.append(Tail(folder / each, file, marks.get(file, 0), size, working))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DiskError(f"{folder}: {error.strerror}; it can't be read") from error
    if unknown > UNKNOWN_BYTES:
        _log.warning("%s: Redis knows nothing of the older files %s-*; they are left alone", folder, prefix)
    return found[::-1]


def read_tail(tail: Tail, end: int) -> list[Found]:
    """The records from the mark up to ``end``, of a file that may be renamed meanwhile. Raises ``DiskError``.

    What is damaged, and all behind it, is left out, with a warning: ``verify`` has more to say about it.
    """
    records: list[Found] = []
    try:
        fd = _open(tail)
        try:
            for record in scan(fd, tail.start):
                if record.offset + record.length > end:
                    break
                if record.url:
                    records.append(found_of(tail.file, record))
        finally:
            os.close(fd)
    except DamagedMemberError as error:
        _log.warning("%s: a record is damaged (%s)", tail.file, error)
    except OSError as error:
        raise DiskError(f"{tail.path}: {error.strerror}; it can't be read") from error
    return records


def _open(tail: Tail) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.open(tail.path, os.O_RDONLY | os.O_CLOEXEC)
    return os.open(tail.path.with_name(tail.file), os.O_RDONLY | os.O_CLOEXEC)
