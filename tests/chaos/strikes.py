"""How each fault strikes a crawl from outside, and how it is undone.

A strike answers what undoes it (``Undo``), or raises ``Missed`` where what it is for is not there, such as a
process that has just died of something else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from node.rules.shard import LANES
from node.store import keys
from node.work.redis_server import socket_path
from tests.chaos.place import RESERVE_MB, Place
from tests.chaos.plan import Fault, Kind
from tests.whole.crawl import Crawl

Undo = Callable[[], None]

MB = 1_000_000
MAXMEMORY_MB = 64
"""What Redis may use while it is well."""
_WAIT_S = 0.6
"""How long a strike waits for its target."""
_LEASE_S = 0.4
"""How long it waits for a fetcher to have a URL in hand."""
_PATIENCE_S = 1.0
"""How long it waits for Redis, which may be stopped: what was struck before is undone on time."""
_COUNT_TO = 500_000
"""Commands in Redis's log that are there to be loaded, so that it takes a while."""
_COUNTED_S = 10.0
"""How long Redis may take for them."""
_LOAD = "for i = 1, tonumber(ARGV[1]) do redis.call('INCR', KEYS[1]) end return redis.call('DEL', KEYS[1])"
_OTHER_DB = 9
"""Not the crawl's: nothing of it is touched."""
_NOTHING_LEFT = 3
"""Rounds in which a disk is filled: while it is, others write and free."""


class Missed(Exception):
    """The target of a fault is not there."""


def _nothing() -> None:
    """What undoes a fault that is over at once."""


@dataclass
class Strikes:
    """Strikes ``crawl`` in ``place``. ``loading``: how often Redis is known to have said LOADING."""

    crawl: Crawl
    place: Place
    killed: bool = False
    """The command was killed by us, and is to be started again."""
    loading: int = 0
    _fillers: int = field(default=0)
    _clocks: int = field(default=0)

    def strike(self, fault: Fault) -> Undo:
        """Let a fault happen. Raises ``Missed``."""
        match fault.kind:
            case Kind.KILL:
                return self._kill(fault.target)
            case Kind.STOP | Kind.STOP_LONG:
                return self._stop(fault.target)
            case Kind.STOP_IN_VISIT:
                self._await_lease(fault.target)
                return self._stop(fault.target)
            case Kind.CONNECTIONS:
                return self._cut_connections()
            case Kind.MEMORY:
                return self._no_memory()
            case Kind.DISK_LOW:
                return self._fill(RESERVE_MB * MB // 2)
            case Kind.DISK_FULL:
                return self._fill(0)
            case Kind.DNS_SILENT:
                return self._signal_names(signal.SIGSTOP, signal.SIGCONT)
            case Kind.DNS_BROKEN:
                return self._signal_names(signal.SIGUSR1, signal.SIGUSR2)
            case Kind.CLOCK:
                return self._set_clock()
            case Kind.REDIS_KILL:
                return self._kill("redis")
            case Kind.REDIS_LOADING:
                return self._slow_load()
            case Kind.REDIS_ROLLED_BACK:
                return self._roll_back()
            case Kind.CRAWL_KILL:
                return self._kill_crawl()
            case Kind.POWER_CUT:
                return self._cut_power()

    # -- processes

    def _pid(self, name: str) -> int:
        give_up = time.monotonic() + _WAIT_S
        while True:
            assert self.crawl.process is not None
            if self.crawl.process.poll() is not None:
                raise Missed("the command is not there")
            found = self.crawl.process.pid if name == "crawl" else self.crawl.children().get(name)
            if found is not None:
                return found
            if time.monotonic() > give_up:
                raise Missed(f"{name} is not there")
            time.sleep(0.05)

    def _kill(self, name: str) -> Undo:
        os.kill(self._pid(name), signal.SIGKILL)
        return _nothing

    def _stop(self, name: str) -> Undo:
        pid = self._pid(name)
        os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return go_on

    def _kill_crawl(self) -> Undo:
        self._pid("crawl")
        self.killed = True  # first: whoever looks on must not take it for a death of its own
        self.crawl.kill_everything()
        return _nothing

    def _await_lease(self, name: str) -> None:
        """Until a fetcher has a URL in hand."""
        self._pid(name)
        mine = f"{name.split()[1]}.".encode()
        give_up = time.monotonic() + _LEASE_S
        with self._redis() as client:
            while True:
                pipe = client.pipeline(transaction=False)
                for lane in range(LANES):
                    pipe.zrange(keys.leases(lane), 0, -1)
                if any(lease.startswith(mine) for leases in pipe.execute() for lease in leases):
                    return
                if time.monotonic() > give_up:
                    raise Missed(f"{name} visits nobody")

    # -- Redis

    @contextlib.contextmanager
    def _redis(self, database: int = 0, patience_s: float = _PATIENCE_S) -> Iterator[redis.Redis]:
        """A client; raises ``Missed`` where Redis does not answer."""
        client = redis.Redis(
            unix_socket_path=str(socket_path(self.crawl.out)),
            db=database,
            socket_timeout=patience_s,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            yield client
        except (redis.RedisError, OSError) as error:
            raise Missed(f"Redis does not answer: {error}") from None
        finally:
            client.close()

    def _cut_connections(self) -> Undo:
        with self._redis() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        return _nothing

    def _no_memory(self) -> Undo:
        """Less is allowed than is used, so that every write that needs memory is refused."""
        with self._redis() as client:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 0.9))

        def raise_again() -> None:
            with contextlib.suppress(Missed), self._redis() as client:
                client.config_set("maxmemory", MAXMEMORY_MB << 20)

        return raise_again

    def _slow_load(self) -> Undo:
        """Killed with so much in its log that it answers LOADING for a while."""
        pid = self._pid("redis")
        with self._redis(_OTHER_DB, _COUNTED_S) as client:
            client.eval(_LOAD, 1, "chaos", _COUNT_TO)
            # it is in the file once it was written before an answer
            client.ping()
        os.kill(pid, signal.SIGKILL)

        def shrink_log() -> None:
            with contextlib.suppress(Missed), self._redis() as client:
                stats = client.info("errorstats")
                self.loading += int(stats.get("errorstat_LOADING", {}).get("count", 0))
                client.bgrewriteaof()

        return shrink_log

    def _roll_back(self) -> Undo:
        """Killed, and the log ends where it ended a second ago, wherever in a command that is."""
        pid, command = self._pid("redis"), self._pid("crawl")
        log = self._append_only_file()
        size = log.stat().st_size
        time.sleep(1.0)
        os.kill(command, signal.SIGSTOP)  # else Redis is back before its log is cut
        try:
            os.kill(pid, signal.SIGKILL)
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.005)
            if log == self._append_only_file():  # it was not rewritten meanwhile
                os.truncate(log, size)
        finally:
            os.kill(command, signal.SIGCONT)
        return _nothing

    def _cut_power(self) -> Undo:
        """All ends at once, and of all that is written on and on what was not on disk a second ago is gone.

        First Redis's log, then what it points into: as it was at one moment, or later. A file that was closed
        since is whole, for it is synced before it gets its name.
        """
        self._pid("crawl")
        log = self._append_only_file()
        sizes = {log: log.stat().st_size}
        for folder, names in (("warc", "*.open"), ("log", "fetch-*.jsonl")):
            for path in (self.crawl.out / folder).glob(names):
                with contextlib.suppress(FileNotFoundError):  # it has just been closed
                    sizes[path] = path.stat().st_size
        time.sleep(1.0)
        undo = self._kill_crawl()
        if log == self._append_only_file():  # it was not rewritten meanwhile
            for path, size in sizes.items():
                if path.exists():
                    os.truncate(path, size)
        self.place.reboot()
        return undo

    def _append_only_file(self) -> Path:
        folder = self.crawl.out / "redis"
        parts = [*(folder / "appendonlydir").glob("*.incr.aof"), *folder.glob("appendonly.aof")]
        if not parts:
            raise Missed("Redis has no log yet")
        return max(parts, key=lambda path: path.stat().st_mtime_ns)

    # -- what is around it

    def _fill(self, leave_bytes: int) -> Undo:
        """Fill the disk until no more is left than that."""
        self._fillers += 1
        filler = self.place.disk / f"filler-{self._fillers}"
        with filler.open("wb") as file:
            for _ in range(_NOTHING_LEFT):
                room = self.place.free_bytes - leave_bytes
                if room > 0:
                    with contextlib.suppress(OSError):  # somebody else was faster
                        os.posix_fallocate(file.fileno(), filler.stat().st_size, room)

        def free() -> None:
            filler.unlink()

        return free

    def _set_clock(self) -> Undo:
        self._clocks += 1
        hours = 2 * self._clocks * (1 if self._clocks % 2 else -1)
        self.place.wall.set(3_600 * hours)
        return lambda: self.place.wall.set(0)

    def _signal_names(self, strike: signal.Signals, undo: signal.Signals) -> Undo:
        self.place.names.send_signal(strike)
        return lambda: self.place.names.send_signal(undo)
