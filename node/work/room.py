"""How much room there is on the disk of a node's data."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from node.settings import Settings


@dataclass(frozen=True, slots=True)
class Room:
    """Of the file system that holds ``paths.data``, bytes; ``reserve_bytes``: below it fetching pauses."""

    free_bytes: int
    total_bytes: int
    reserve_bytes: int


def room(settings: Settings) -> Room:
    """Look now; all zero where the folder is not there (a disk that did not come up)."""
    try:
        usage = shutil.disk_usage(settings.data)
    except OSError:
        return Room(0, 0, settings.archive.disk_reserve_bytes)
    return Room(usage.free, usage.total, settings.archive.disk_reserve_bytes)
