"""The watchdog of ``milliarde crawl``: what ``WatchdogSec`` is under systemd, for the children of a command.

Children say that they live as they do to systemd (``process.notify``), to a socket of their supervisor's. One
that has said that it is ready and is then silent for too long hangs, whatever it hangs in, and is to be
killed. What it had in hand returns as after any other death.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Final

LIMIT_S: Final = 90.0
"""As in the units: a child speaks once a second; a call to a Redis that is stuck may take 30 s."""
START_S: Final = 1_800.0
"""Who is not ready by then hangs, too; it may have to wait for Redis, and to read what was left."""
AWAY_S: Final = 5.0
"""Who has not listened for so long can't say who was silent meanwhile."""
_CREDENTIALS: Final = struct.Struct("iII")


class Watchdog:
    """Hears from children, by their process ids. ``clock``: seconds that go on while we are stopped."""

    def __init__(self, limit_s: float = LIMIT_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._heard: dict[int, float] = {}
        self._begun: dict[int, float] = {}
        """Those that are not ready yet."""
        self._listened = clock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # so that nobody else on this machine can speak for a child
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("")  # the kernel finds a name that is free, in no folder

    @property
    def address(self) -> str:
        """For ``NOTIFY_SOCKET``."""
        name: bytes = self._socket.getsockname()
        return "@" + name[1:].decode()

    @property
    def ready(self) -> int:
        """How many have said that they are."""
        return len(self._heard)

    def begin(self, pid: int) -> None:
        """It was started."""
        self._begun[pid] = self._clock()

    def listen(self) -> None:
        """Hear what was said since; to be called again and again."""
        now = self._clock()
        away_s, self._listened = now - self._listened, now
        if away_s > AWAY_S:
            self._heard = {pid: heard + away_s for pid, heard in self._heard.items()}
        while True:
            try:
                said, told, _flags, _from = self._socket.recvmsg(256, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            for level, kind, data in told:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
                    if pid in self._heard or b"READY=1" in said:
                        self._heard[pid] = now
                        self._begun.pop(pid, None)

    def hangs(self, pid: int) -> bool:
        """Has it been silent for too long?"""
        now = self._clock()
        return now - self._heard.get(pid, now) > self._limit_s or now - self._begun.get(pid, now) > START_S

    def forget(self, pid: int) -> None:
        """It has ended; another may get its number."""
        self._heard.pop(pid, None)
        self._begun.pop(pid, None)

    def close(self) -> None:
        """Closing twice is harmless."""
        self._socket.close()
