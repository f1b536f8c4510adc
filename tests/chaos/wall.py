"""The wall clock of a crawl, which can be set while it runs: by a small library loaded before all others.

Python, Redis and OpenSSL ask the C library for the time; ``wall.c`` stands before it. What sleeps, and the
clocks that only run on, are the kernel's.
"""

from __future__ import annotations

import shutil
import struct
import time
from pathlib import Path

from tests.fleet.shell import run

_SOURCE = Path(__file__).with_suffix(".c")
_COMPILER = "cc"
_ASIDE_S = 60.0
"""How far from the time it was shown at a line may lie: its process was stopped in between."""


def why_not() -> str | None:
    """Why it can't be had here, if it can't."""
    return None if shutil.which(_COMPILER) else "not installed: cc (apt-get install gcc libc6-dev)"


class Wall:
    """In ``folder``. ``environment``: for ``env``, has a command see this clock. Raises ``Failed``."""

    def __init__(self, folder: Path) -> None:
        library, self._file = folder / "wall.so", folder / "wall"
        run(_COMPILER, "-O2", "-shared", "-fPIC", "-o", library, _SOURCE)
        self._file.write_bytes(bytes(16))
        self.environment = [f"LD_PRELOAD={library}", f"MILLIARDE_WALL={self._file}"]
        self._shown: list[tuple[float, int]] = [(time.time(), 0)]
        """From when, in true seconds, it was so many seconds ahead."""

    def set(self, ahead_s: int) -> None:
        """From now on it shows so many seconds more than it should. Each time others, hours apart."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", ahead_s))
        self._shown.append((time.time(), ahead_s))

    @property
    def syncs(self) -> int:
        """How often those that see this clock have synced a file (``fdatasync``)."""
        count: int = struct.unpack("=8xq", self._file.read_bytes())[0]
        return count

    def true_s(self, shown_s: float) -> float:
        """When it showed this time. Raises ``ValueError`` where it never did."""
        now = time.time()
        ends = [*(since for since, _ in self._shown[1:]), now]
        for (since, ahead_s), until_s in zip(self._shown, ends, strict=True):
            if since - _ASIDE_S <= shown_s - ahead_s <= until_s + _ASIDE_S:
                return shown_s - ahead_s
        raise ValueError(f"the wall clock never showed {shown_s}")
