"""A whole node under one command: Redis, fetchers, parsers and watch, for ``milliarde crawl``.

Children live in sessions of their own, so Ctrl-C reaches only this process, which then ends them in
order: fetchers first (they finish their visits), then parsers (they finish the pages in hand, or
empty the spool where the crawl is complete), watch, Redis last. A child that dies is started again,
later each time it dies young.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from node.errors import ExitCode, MilliardeError
from node.settings import Settings
from node.store import keys, snapshot
from node.store.connection import Begun, Store, info_of
from node.store.snapshot import Snapshot
from node.store.tally import Tally
from node.work import process
from node.work.page_guard import is_stuck
from node.work.process import PARENT_VARIABLE
from node.work.redis_server import RedisServer

TICK_S = 0.25
STOP_FETCHERS_S = 60.0
STOP_PARSERS_S = 60.0
DRAIN_SPOOL_S = 600.0
LOG_MAX_BYTES = 10_000_000
YOUNG_S = 10.0
"""A child that dies younger than this is started again later each time, up to ``BACK_OFF_S``."""
BACK_OFF_S = 30.0
FATAL = frozenset(
    {
        ExitCode.USAGE,
        ExitCode.BAD_SETTINGS,
        ExitCode.BAD_INPUT,
        ExitCode.OTHER_CRAWL,
        ExitCode.NOT_WRITABLE,
        ExitCode.NOT_INSTALLED,
    }
)
"""How a child may end that starting it again would not mend."""


@dataclass(slots=True)
class Child:
    """One process of the node, and how often it was started again."""

    role: str
    number: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    restarts: int = 0
    again_at: float = 0.0
    young_deaths: int = 0
    log_from: int = 0
    """Where in its log this start of it begins."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.number}" if self.number else self.role


class LocalNode:
    """Starts, watches and ends the processes of one node. Use as a context: it always cleans up."""

    def __init__(self, settings: Settings, config: Path, *, fetchers: int, parsers: int, watch: bool) -> None:
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

    # -- start

    def start(self) -> Begun:
        """Redis, then what the crawl is told; children are started by ``start_children``."""
        self.redis.start()
        self.begun = self.store.begin()
        return self.begun

    def tell(self, *, pages: int | None) -> None:
        """Write the limits of this run where the verbs see them, and lift an earlier stop."""
        commands: list[tuple[str, ...]] = [("HDEL", keys.CONTROL, "stop", "pages_max"), ("DEL", keys.PROCS)]
        if pages is not None:
            commands.append(("HSET", keys.CONTROL, "pages_max", str(pages)))
        self.store.calls([], extra=commands)

    def start_children(self) -> None:
        for child in self.children:
            self._start(child)

    def _start(self, child: Child) -> None:
        log = self._log_of(child)
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_MAX_BYTES:
            log.replace(log.with_suffix(".log.1"))
        words = [sys.executable, "-m", "node", child.role]
        if child.number:
            words.append(str(child.number))
        words += ["--config", str(self.config)]
        with log.open("ab") as out:
            child.log_from = out.tell()
            child.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            )
        child.started = time.monotonic()

    # -- while it runs

    def look_after(self) -> list[str]:
        """Start again what died, and answer what there is to say about it.

        Raises ``MilliardeError`` where starting again can't help.
        """
        news: list[str] = []
        if not self.redis.alive():
            news.append("Redis died and is started again")
            self.redis.start()
            news += [self.redis.mended] if self.redis.mended else []
        now = time.monotonic()
        for child in self.children:
            if child.process is not None:
                code = child.process.poll()
                if code is None:
                    self._end_if_stuck(child)
                    continue
                child.process = None
                words = self._last_words(child)
                if code in FATAL:
                    error = MilliardeError(words or f"{child.name} can't start and gives no reason")
                    error.exit_code = ExitCode(code)
                    raise error
                news.append(f"{child.name} died ({_death(code)}{': ' + words if words else ''})")
                child.young_deaths = child.young_deaths + 1 if now - child.started < YOUNG_S else 0
                wait = min(BACK_OFF_S, 0.25 * 2**child.young_deaths) if child.young_deaths else 0.0
                child.again_at = now + wait
            elif now >= child.again_at:
                child.restarts += 1
                self._start(child)
        return news

    def _end_if_stuck(self, child: Child) -> None:
        """A parser that hangs without computing: no deadline of its own ends it."""
        if child.role != "parser" or child.process is None:
            return
        if is_stuck(self.settings, child.number, child.process.pid):
            child.process.kill()

    def _last_words(self, child: Child) -> str:
        """What it wrote last, if it wrote anything since it was started."""
        log = self._log_of(child)
        if child.log_from >= log.stat().st_size:
            return ""
        with log.open("rb") as file:
            file.seek(max(child.log_from, log.stat().st_size - 2_000))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _log_of(self, child: Child) -> Path:
        return self.settings.log_folder / (child.name.replace(" ", "-") + ".log")

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
        if drain_spool and self.redis.alive():
            give_up = time.monotonic() + DRAIN_SPOOL_S
            while time.monotonic() < give_up and self._spooled():
                for child in parsers:
                    self._end_if_stuck(child)
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
        self.store.close()
        self.redis.stop()

    def kill_children(self) -> None:
        """For the way out after an error: no child is left behind."""
        self._end(self.children, 5.0, lambda: None)


def _death(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def data_lock(settings: Settings) -> AbstractContextManager[int]:
    """Hold a crawl's folder; two crawls on one folder are refused."""
    return process.lock(settings.data / "run" / "crawl.lock", f"a crawl in {settings.data}")
