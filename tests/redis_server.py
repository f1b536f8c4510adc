"""A real Redis of one's own: started on a unix socket in a folder of its own, no port, nothing shared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

START_TIMEOUT_S = 10.0


def find_redis_server() -> str | None:
    """The venv's server (scripts/setup), else one on PATH; ``MILLIARDE_REDIS_SERVER`` names another."""
    chosen = os.environ.get("MILLIARDE_REDIS_SERVER")
    if chosen:
        return chosen
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return shutil.which("redis-server", path=path) or shutil.which("valkey-server", path=path)


class RedisServer:
    """One server process. ``start`` after ``kill`` is a restart on the same folder and socket.

    ``options`` are redis-server's own (``appendonly="yes"`` is ``--appendonly yes``); without any,
    nothing is written to disk.
    """

    def __init__(self, binary: str, **options: str) -> None:
        self.binary = binary
        self.options = {"save": "", "appendonly": "no", **options}
        # Not pytest's tmp_path: a unix socket's path may have 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="milliarde-redis-"))
        self.socket = self.folder / "redis.sock"
        self.log = self.folder / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def client(self) -> redis.Redis:
        """A new blocking client, replies as bytes. The caller closes it."""
        return redis.Redis(unix_socket_path=str(self.socket), decode_responses=False)

    def start(self) -> None:
        """Start the server and wait until it answers; raises with the server's log if it doesn't."""
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "daemonize": "no",
            **self.options,
        }
        arguments = [
            word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self.binary, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError as error:  # not there yet, or loading its AOF
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        self.kill()
                        raise RuntimeError(f"{self.binary} did not start:\n{self.log.read_text()}") from error
                    time.sleep(0.005)

    def fail_to_save(self) -> None:
        """Have it refuse writes (MISCONF), as on a full disk: a snapshot can't be put in its place. It must
        have been started with ``save`` on."""
        (self.folder / "dump.rdb").mkdir()
        with self.client() as client:
            client.bgsave()
            deadline = time.monotonic() + 2 * START_TIMEOUT_S
            while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL, as a crash would; the folder stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
