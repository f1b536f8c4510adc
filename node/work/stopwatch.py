"""How long a process waited for others: the time that passed, less what it waited for a processor.

On a busy machine a call to Redis may be answered at once and seen late. That is nobody's fault but the
processors', and told as waiting for Redis it would lead an operator astray.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


class Stopwatch:
    """Runs from when it is made, for the thread that made it.

    The kernel says how long a thread was ready to run and did not (Linux, schedstat); where it does not say,
    all that passed counts.
    """

    __slots__ = ("_began_s", "_delay_s", "_file")

    def __init__(self) -> None:
        try:
            self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self.start()

    def start(self) -> None:
        """Begin again, from now."""
        self._began_s, self._delay_s = time.monotonic(), self._delayed_s()

    def seconds(self) -> float:
        """How long others were waited for since then."""
        return max(0.0, time.monotonic() - self._began_s - (self._delayed_s() - self._delay_s))

    def _delayed_s(self) -> float:
        if self._file < 0:
            return 0.0
        return int(os.pread(self._file, 64, 0).split(b" ")[1]) / 1e9
