"""A node's own redis-server, where ``milliarde crawl`` starts it: private, on a unix socket."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from node.errors import StoreError
from node.settings import Settings
from node.store import aof
from node.work import process
from node.work.machine import memory_bytes

_SOCKET_PATH_MAX = 100
"""The kernel takes 107 bytes; Redis wants some of them."""
LAST_FLUSH_S = 20.0
"""How long a Redis that is being stopped may take to write its last."""
_START_TIMEOUT_S = 600.0
"""Loading a large append-only file takes minutes."""
HUGE_PAGES = dict.fromkeys(("MALLOC_CONF", "JE_MALLOC_CONF"), "thp:always,metadata_thp:auto")
"""Has a Redis ask the kernel for large pages (the variable's name depends on how its allocator was built)."""


def find_server() -> str:
    """Path of a Redis or Valkey server: beside our Python first, then on PATH."""
    here = Path(sys.executable).parent
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name, path=os.pathsep.join((str(here), os.environ.get("PATH", ""))))
        if found:
            return found
    raise StoreError("there is no redis-server or valkey-server on PATH: install one (scripts/setup does)")


def socket_path(folder: Path) -> Path:
    """Where the socket of a crawl in ``folder`` lies: inside, or in /tmp where the path is too long."""
    inside = folder.resolve() / "redis" / "redis.sock"
    if len(str(inside)) <= _SOCKET_PATH_MAX:
        return inside
    digest = hashlib.sha256(str(inside).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"milliarde-{os.getuid()}-{digest}" / "redis.sock"


def config_text(settings: Settings, folder: Path) -> str:
    """The configuration file of a Redis with its files in ``folder``."""
    lines = [
        "port 0",
        f'unixsocket "{settings.paths.redis_socket}"',
        "unixsocketperm 600",
        f'dir "{folder}"',
        "daemonize no",
        "logfile redis.log",
        'save ""',
        "appendonly yes",
        f"appendfsync {settings.redis.appendfsync}",
        "aof-load-truncated yes",
        "no-appendfsync-on-rewrite no",
        "maxmemory-policy noeviction",
        "stream-node-max-entries 100",
        "hash-max-listpack-entries 64",
        "lua-time-limit 5000",
        "disable-thp no",
    ]
    megabytes = settings.redis.maxmemory_mb
    # none set: half of the machine, since a rewrite of the append-only file may copy much of it
    lines.append(f"maxmemory {memory_bytes() // 2 if megabytes is None else megabytes << 20}")
    return "\n".join(lines) + "\n"


class RedisServer:
    """One redis-server process with its files in ``data/redis``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.data.resolve() / "redis"
        self._process: subprocess.Popen[bytes] | None = None
        self.mended = ""
        """What there is to say of its log, where its end had to be cut off at the last start."""

    def start(self, *, patience_s: float = LAST_FLUSH_S) -> None:
        """Start it and wait until it has loaded its data.

        A torn end of its log is cut off (``mended``). Raises ``StoreError``, ``DiskError`` where the log is
        damaged in the middle, or ``InUseError`` where another one runs on these files and does not end within
        ``patience_s``.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        Path(self._settings.paths.redis_socket).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = self._folder / "redis.conf"
        config.write_text(config_text(self._settings, self._folder), encoding="utf-8")
        log = self._folder / "redis.log"
        if log.exists() and log.stat().st_size > 10_000_000:
            log.replace(log.with_suffix(".log.1"))
        # the server keeps the lock until it has ended, so the next one waits for its last flush
        with process.lock(
            self._settings.data / "run" / "redis.lock", "the Redis of this crawl", patience_s=patience_s
        ) as held:
            mended = aof.mend(self._folder)
            self.mended = mended.words if mended else ""
            self._process = subprocess.Popen(
                [find_server(), str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=HUGE_PAGES | os.environ,
                start_new_session=True,
                pass_fds=(held,),
                preexec_fn=process.die_with_parent,
            )
        self._wait_until_loaded()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _wait_until_loaded(self) -> None:
        give_up = time.monotonic() + _START_TIMEOUT_S
        client = redis.Redis(unix_socket_path=self._settings.paths.redis_socket)
        try:
            while True:
                if not self.alive():
                    raise StoreError(f"redis-server did not start:\n{self._last_words()}")
                try:
                    client.ping()
                except (redis.RedisError, OSError):
                    if time.monotonic() > give_up:
                        raise StoreError(
                            f"redis-server was not ready after {_START_TIMEOUT_S:.0f} s: see redis.log"
                        ) from None
                    time.sleep(0.01)
                else:
                    return
        finally:
            client.close()

    def _last_words(self) -> str:
        try:
            lines = (self._folder / "redis.log").read_text(errors="replace").splitlines()
        except OSError:
            return "(it wrote no log)"
        return "\n".join(lines[-5:])

    def stop(self, timeout_s: float = 60.0) -> None:
        """Ask it to flush its append-only file and end; wait until it has."""
        if self._process is None:
            return
        if self.alive():
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
