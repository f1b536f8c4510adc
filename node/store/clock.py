"""The crawl's clock: CLOCK_BOOTTIME, rebased per boot.

It runs on while a process or the machine is suspended and does not jump when the wall clock is
set. The base is agreed on in Redis (``begin``), so all processes of a node show the same time.
Values are milliseconds, near Unix time for a reader's sake, but never to be taken for it.
"""

from __future__ import annotations

import time
from pathlib import Path


def boottime_ms() -> float:
    """Milliseconds since boot, suspends included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


def wall_ms() -> float:
    """Milliseconds of Unix time, as the machine believes it."""
    return time.time() * 1e3


def boot_id() -> str:
    """A name for this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


class Clock:
    """``now_ms()`` of one process; ``base_ms`` is set when the process meets Redis."""

    __slots__ = ("base_ms",)

    def __init__(self, base_ms: float = 0.0) -> None:
        self.base_ms = base_ms

    def now_ms(self) -> int:
        return int(self.base_ms + boottime_ms())
