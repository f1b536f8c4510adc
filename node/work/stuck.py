"""A Redis that takes connections and answers none is ended, for its supervisor to start it again: nothing of
the node can work meanwhile, and no supervisor sees it, since its process lives.

One that loads its log, or is busy with a script, says so and is not stuck. Nothing is lost by it: the log is
in a file.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

_log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""A look waits for an answer so long."""
_PEER = struct.Struct("iII")


class Stuck:
    """Looks at the Redis behind ``socket_path``; ``after_s``: how long it may be silent, 0 = for ever."""

    def __init__(
        self, socket_path: str, after_s: float, *, up_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._after_s, self._up_s = socket_path, after_s, up_s
        self._silent_s, self._looked_s = 0.0, up_s()

    def look(self) -> bool:
        """Ask it something; True where it is silent. Where it was so for too long, it is ended.

        Call it again and again: time that went by between looks counts little, for we may have been stopped.
        """
        pid = _silent(self._path) if self._after_s else None
        now = self._up_s()
        went_by_s, self._looked_s = now - self._looked_s, now
        if pid is None:
            self._silent_s = 0.0
            return False
        self._silent_s += min(went_by_s, 2 * PATIENCE_S)
        if self._silent_s >= self._after_s:
            self._silent_s = 0.0  # the next one gets its time
            self._end(pid)
        return True

    def _end(self, pid: int) -> None:
        said = f"Redis (process {pid}) has not answered for {self._after_s:g} s"
        try:
            os.kill(pid, signal.SIGKILL)
            _log.error("%s, and was ended", said)
        except ProcessLookupError:
            pass
        except PermissionError:
            _log.error("%s, and is not ours to end", said)


def _silent(path: str) -> int | None:
    """The process that listens there and does not answer; None where one answers, or nobody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, suppress(OSError):
        client.settimeout(PATIENCE_S)
        client.connect(path)  # the kernel takes it, while there is room
        pid: int = _PEER.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        try:
            client.sendall(b"PING\r\n")
            client.recv(64)  # whatever it says, or that it hangs up
        except TimeoutError:
            return pid
    return None
