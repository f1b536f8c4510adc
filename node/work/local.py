"""A whole node under one command: Redis, fetchers, parsers and watch, for ``milliarde crawl``.

Children live in sessions of their own, so Ctrl-C reaches only this process, which then ends them in
order: fetchers first (they finish their visits), then parsers (they finish the pages in hand, or
empty the spool where the crawl is complete), watch, Redis last. A child that dies, or hangs, is started
again, later each time it dies young.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from node.errors import ExitCode, MilliardeError, StoreError
from node.settings import Settings
from node.store import deaths, keys, snapshot
from node.store.connection import LOST, Store, info_of
from node.store.meeting import Begun
from node.store.snapshot import Snapshot
from node.store.tally import Tally
from node.work import process, watchdog
from node.work.child import FATAL, Child
from node.work.page_guard import is_stuck
from node.work.patience import GIVE_UP_S, patiently
from node.work.redis_server import RedisServer
from node.work.watchdog import Watchdog

TICK_S = 0.25
STOP_FETCHERS_S = 60.0
STOP_PARSERS_S = 60.0
DRAIN_SPOOL_S = 600.0
REDIS_AGAIN = "Redis died and is started again"


class LocalNode:
    """Starts, watches and ends the processes of one node. Use as a context: it always cleans up."""

    def __init__(
        self,
        settings: Settings,
        config: Path,
        *,
        fetchers: int,
        parsers: int,
        watch: bool,
        watchdog_s: float = watchdog.LIMIT_S,
    ) -> None:
        self.settings = settings
        self.config = config
        self.redis = RedisServer(settings)
        self.fetchers = fetchers
        self.children = [Child("fetcher", n) for n in range(1, fetchers + 1)]
        self.children += [Child("parser", n) for n in range(1, parsers + 1)]
        if watch:
            self.children.append(Child("watch", 0))
        self.store = Store(settings)
        self.begun: Begun | None = None
        self._booked_s = time.monotonic()
        self._redis_cpu_booked = 0.0
        self._own = Tally("crawl")
        self.watchdog = Watchdog(watchdog_s)
        self._redis_gone_s: float | None = None
        """Since when Redis can't be started again."""
        self._to_be_told: set[str] = set()
        """Children whose deaths, or whose long life after some, are not noted in Redis yet."""

    # -- start

    def start(self) -> Begun:
        """Redis, then what the crawl is told; children are started by ``start_children``."""
        self.redis.start()
        self.begun = patiently(self.store.begin, self.mend_redis)
        return self.begun

    def tell(self, *, pages: int | None) -> None:
        """Write the limits of this run where the verbs see them, and lift an earlier stop."""
        commands: list[tuple[str, ...]] = [
            ("HDEL", keys.CONTROL, "stop", "pages_max"),
            ("DEL", keys.PROCS, keys.DEATHS),
        ]
        if pages is not None:
            commands.append(("HSET", keys.CONTROL, "pages_max", str(pages)))
        self.store.calls([], extra=commands)

    def start_children(self) -> None:
        for child in self.children:
            self._start(child)

    def _start(self, child: Child) -> None:
        environment = {"NOTIFY_SOCKET": self.watchdog.address}
        self.watchdog.begin(child.start(self.config, self.settings.log_folder, environment))

    # -- while it runs

    def look_after(self) -> list[str]:
        """Start again what died or hangs, and answer what there is to say about it.

        Raises ``MilliardeError`` where starting again can't help.
        """
        news: list[str] = []
        if self.mend_redis():
            news += [REDIS_AGAIN, self.redis.mended] if self.redis.mended else [REDIS_AGAIN]
        self.watchdog.listen()
        now = time.monotonic()
        for child in self.children:
            if child.process is not None:
                hung = self._kill_if_it_hangs(child)
                code = child.process.wait() if hung else child.process.poll()
                if code is None:
                    if child.has_grown_up():
                        self._to_be_told.add(child.name)
                    continue
                news.append(self._died(child, child.process.pid, code, hung=hung))
            elif now >= child.again_at:
                child.restarts += 1
                self._start(child)
                if child.young_deaths:
                    self._to_be_told.add(child.name)
        self._tell_of_deaths()
        return news

    def mend_redis(self) -> bool:
        """Start Redis again if it has ended. False where it has not, or can't be started for now, as on a
        full disk. Raises ``StoreError`` where that lasts.
        """
        if self.redis.alive():
            return False
        now = time.monotonic()
        try:
            self.redis.start()
        except (StoreError, OSError):
            self._redis_gone_s = self._redis_gone_s or now
            if now - self._redis_gone_s > GIVE_UP_S:
                raise
            return False
        self._redis_gone_s = None
        return True

    def _died(self, child: Child, pid: int, code: int, *, hung: bool) -> str:
        self.watchdog.forget(pid)
        words = child.last_words(self.settings.log_folder)
        if code in FATAL:
            error = MilliardeError(words or f"{child.name} can't start and gives no reason")
            error.exit_code = ExitCode(code)
            raise error
        self._to_be_told.add(child.name)
        return child.died(code, words, hung=hung)

    def _kill_if_it_hangs(self, child: Child) -> bool:
        if child.process is None or child.process.poll() is not None:
            return False
        pid = child.process.pid
        # a parser that hangs over a page without computing: no deadline of its own ends it
        stuck = child.role == "parser" and is_stuck(self.settings, child.number, pid)
        if not stuck and not self.watchdog.hangs(pid):
            return False
        child.process.kill()
        return True

    def _tell_of_deaths(self) -> None:
        """Have it where ``status`` and the metrics see it; while Redis is away it waits for the next time."""
        told = [child for child in self.children if child.name in self._to_be_told]
        if told:
            now_ms = self.store.now_ms()
            notes = [deaths.note(child.name.replace(" ", "."), child.told(now_ms)) for child in told]
            with contextlib.suppress(*LOST):
                self.store.calls([], extra=notes, spare=True)
                self._to_be_told.clear()

    @property
    def restarts(self) -> int:
        return sum(child.restarts for child in self.children)

    def book_time(self) -> None:
        """Add what has passed, and what Redis computed, to the crawl's account."""
        now = time.monotonic()
        passed_ms = round(1000 * (now - self._booked_s))
        (answer,) = self.store.calls([], extra=[("INFO", "cpu")])
        info = info_of(answer)
        # a restarted Redis counts from zero
        cpu_s = float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
        cpu_s += float(info["used_cpu_user_children"]) + float(info["used_cpu_sys_children"])
        if cpu_s < self._redis_cpu_booked:
            self._redis_cpu_booked = 0.0
        cpu_ms = round(1000 * (cpu_s - self._redis_cpu_booked))
        own = self._own.take()
        booked, _, *tallied = self.store.calls(
            [],
            extra=[
                ("HINCRBY", keys.TALLY, "active_ms", passed_ms),
                ("HINCRBY", keys.TALLY, "cpu_ms:redis", cpu_ms),
                *own,
            ],
            spare=True,
        )
        self._own.put_back([each for each, done in zip(own, tallied, strict=True) if done is None])
        if booked is None:  # no memory for it now: booked with the next
            return
        self._booked_s = now
        self._redis_cpu_booked = cpu_s

    def look(self) -> Snapshot:
        return snapshot.take(self.store)

    # -- end

    def stop(self, *, drain_spool: bool, on_tick: Callable[[], None] = lambda: None) -> None:
        """End the children in order. ``drain_spool``: parsers first empty the spool."""
        self._end([c for c in self.children if c.role == "fetcher"], STOP_FETCHERS_S, on_tick)
        parsers = [c for c in self.children if c.role == "parser"]
        if drain_spool:
            give_up = time.monotonic() + DRAIN_SPOOL_S
            while time.monotonic() < give_up and patiently(self._spooled, self.mend_redis):
                self.watchdog.listen()
                for child in parsers:
                    self._kill_if_it_hangs(child)
                    if child.process is None or child.process.poll() is not None:
                        child.process = None
                        self._start(child)
                on_tick()
                time.sleep(0.05)
        self._end(parsers, STOP_PARSERS_S, on_tick)
        self._end([c for c in self.children if c.role == "watch"], 10.0, on_tick)

    def _spooled(self) -> int:
        (left,) = self.store.calls([], extra=[("XLEN", keys.SPOOL)])
        return int(left)

    def _end(self, children: list[Child], within_s: float, on_tick: Callable[[], None]) -> None:
        alive = [c.process for c in children if c.process is not None]
        for each in alive:
            each.terminate()
        give_up = time.monotonic() + within_s
        while any(each.poll() is None for each in alive) and time.monotonic() < give_up:
            on_tick()
            time.sleep(0.05)
        for each in alive:
            if each.poll() is None:
                each.kill()
            each.wait()
        for child in children:
            child.process = None

    def ended_cleanly(self) -> None:
        """Note that nothing was cut off, so the next start need not wait."""
        self.store.calls([], extra=[("HSET", keys.META, "clean", "1")])

    def close(self) -> None:
        """End Redis; closing twice is harmless."""
        self.watchdog.close()
        self.store.close()
        self.redis.stop()

    def kill_children(self) -> None:
        """For the way out after an error: no child is left behind."""
        self._end(self.children, 5.0, lambda: None)


def data_lock(settings: Settings) -> AbstractContextManager[int]:
    """Hold a crawl's folder; two crawls on one folder are refused."""
    return process.lock(settings.data / "run" / "crawl.lock", f"a crawl in {settings.data}")
