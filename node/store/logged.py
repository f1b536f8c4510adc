"""What the fetch log says of records at the end of archive files: read backwards, file by file.

Only what was written last is wanted, after a crash. So the newest log is read first, and no further back than
to lines about records before those asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from node.store import fetchlog

MAX_BYTES: Final = 512 << 20
"""Most of the logs that is read: 1 to 2 s. A second's crawling leaves some hundred kilobytes."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A line about a record."""

    outcome: str
    depth: int
    tries: int


class _Line(msgspec.Struct):
    outcome: str
    file: str = ""
    offset: int = 0
    depth: int = 0
    tries: int = 0


_LINE: Final = msgspec.json.Decoder(_Line)


def logged(folder: Path, prefix: str, wanted: Mapping[str, int]) -> dict[tuple[str, int], Logged]:
    """(file, offset) -> what logs ``prefix-*`` in ``folder`` say of it, for the records of ``wanted``
    (archive file -> from which offset on). Lines that can't be read are passed over.

    Raises ``DiskError``.
    """
    known: dict[tuple[str, int], Logged] = {}
    left = MAX_BYTES
    paths = [path for path in fetchlog.log_files(folder) if path.name.startswith(f"{prefix}-")]
    for path in reversed(paths):
        if left <= 0 or not wanted:
            break
        left -= path.stat().st_size
        is_older = False
        for _, line in fetchlog.lines(path):
            if b'"file":' not in line:
                continue
            try:
                found = _LINE.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            start = wanted.get(found.file)
            if start is None:
                continue
            if found.offset < start:
                is_older = True
            else:
                known[found.file, found.offset] = Logged(found.outcome, found.depth, found.tries)
        if is_older:
            break
    return known
