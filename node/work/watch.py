"""The watch process: measures what the parsers can do, bounds the spool by it, serves /metrics."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from dataclasses import dataclass, replace

import msgspec
from prometheus_client import CollectorRegistry, start_http_server

from node.errors import InUseError, StoreError
from node.rules.advice import Advice, Window, advise
from node.rules.pressure import spool_bound
from node.settings import Settings
from node.store import closeup, keys, snapshot
from node.store.connection import LOST, Store
from node.store.frontier import Frontier
from node.store.snapshot import Report, Snapshot
from node.store.tally import Tally, rss_bytes
from node.work import process, shedding
from node.work.holes import Holes
from node.work.metrics import NodeCollector
from node.work.process import StopFlag
from node.work.shedding import Shedder
from node.work.stuck import Stuck
from node.work.syncing import Syncing
from node.work.systemd import Units

EVERY_S = 1.0
_LET_GO_S = 2.0
_ANSWER_S = 10.0
"""Who has not answered a look by then is asked whether it answers anything (``stuck``)."""
ADVICE_OVER_S = 10.0


@dataclass(slots=True)
class _Rate:
    """Pages a parser does in a second of work, over all parsers, smoothed."""

    pages: int = 0
    busy_ms: int = 0
    per_busy_s: float = 0.0

    def update(self, look: Snapshot) -> float:
        pages, busy = look.tally.get("pages_parsed", 0), look.tally.get("parser_busy_ms", 0)
        if busy - self.busy_ms >= 100:
            now = 1000 * (pages - self.pages) / (busy - self.busy_ms)
            self.per_busy_s = now if not self.per_busy_s else 0.7 * self.per_busy_s + 0.3 * now
            self.pages, self.busy_ms = pages, busy
        return self.per_busy_s


class Advisor:
    """Judges stretches of time by the counters at their two ends."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Snapshot]] = deque()

    def judge(self, look: Snapshot) -> tuple[Advice, Window]:
        now = time.monotonic()
        self._looks.append((now, look))
        while now - self._looks[0][0] > ADVICE_OVER_S:
            self._looks.popleft()
        window = _window(self._looks[0][1], look)
        return advise(window), window

    @property
    def pages_per_s(self) -> float:
        """Stored pages per second, over the stretch that was judged last."""
        (began, first), (ended, last) = self._looks[0], self._looks[-1]
        return (last.pages - first.pages) / (ended - began) if ended > began else 0.0


def _window(before: Snapshot, after: Snapshot) -> Window:
    def grown(name: str) -> int:
        return after.tally.get(name, 0) - before.tally.get(name, 0)

    waits = {
        name.removeprefix("wait_ms:fetchers:"): grown(name)
        for name in after.tally
        if name.startswith("wait_ms:fetchers:")
    }
    roles = [name.partition(".")[0] for name in after.procs]
    return Window(
        pages=after.pages - before.pages,
        fetchers=roles.count("fetcher"),
        parsers=roles.count("parser"),
        fetchers_up_ms=grown("up_ms:fetchers"),
        fetchers_waited_ms=waits,
        parsers_up_ms=grown("up_ms:parsers"),
        parsers_idle_ms=grown("wait_ms:parsers:no_pages"),
        parsers_store_ms=grown("wait_ms:parsers:store"),
        worst_lag_ms=max((report.lag_ms for report in after.procs.values()), default=0.0),
    )


def port_is_free(settings: Settings) -> None:
    """See, before a node is started, that its metrics can be served. Raises ``InUseError``.

    The watch of a crawl that was killed a moment ago gets the time to follow it.
    """
    give_up = time.monotonic() + _LET_GO_S
    address = settings.watch.host, settings.watch.port
    while True:
        try:
            family = socket.getaddrinfo(*address)[0][0]
            with socket.create_server(address, family=family):
                return
        except OSError as error:
            if time.monotonic() > give_up:
                raise _taken(settings, error) from None
            time.sleep(0.1)


def _taken(settings: Settings, error: OSError) -> InUseError:
    watch = settings.watch
    return InUseError(
        f"metrics can't be served on {watch.host}:{watch.port} ({error.strerror}): "
        f"choose another watch.port, or 0 for any"
    )


class Watch:
    """One per node."""

    def __init__(self, settings: Settings, stop: StopFlag) -> None:
        self.settings = settings
        self.stop = stop
        self.store = Store(settings, timeout_s=_ANSWER_S)
        self.tally = Tally("watch")
        self.collector = NodeCollector()
        self._base_delay_ms = round(1000 * settings.crawl.delay_s)
        self._rate = _Rate()
        self._advisor = Advisor()
        self._units = Units(settings)
        self._shedder = Shedder(settings, Frontier(settings))
        self._syncing = Syncing()
        self._holes = Holes()
        self._stuck = Stuck(settings.paths.redis_socket, settings.redis.stuck_s)

    def run(self) -> None:
        self._serve()
        self._meet()
        process.notify("READY=1")
        while not self.stop.requested:
            try:
                self._tick()
            except LOST:
                self._meet()
            process.notify("WATCHDOG=1")
            time.sleep(EVERY_S)
        self._leave()

    def _serve(self) -> None:
        registry = CollectorRegistry()
        registry.register(self.collector)
        watch = self.settings.watch
        try:
            server, _thread = start_http_server(watch.port, watch.host, registry)
        except OSError as error:
            raise _taken(self.settings, error) from None
        self.port = server.server_port

    def _meet(self) -> None:
        while not self.stop.requested:
            try:
                self.store.begin()
                return
            except (*LOST, StoreError):
                process.notify("WATCHDOG=1")
                while self._stuck.look() and not self.stop.requested:
                    process.notify("WATCHDOG=1")
                time.sleep(0.25)

    def _tick(self) -> None:
        look = snapshot.take(self.store)
        look = replace(look, deaths={**look.deaths, **self._units.look()})
        self.collector.show(look, closeup.take(self.store, look, self._base_delay_ms, self.store.now_ms()))
        parsers = sum(1 for name in look.procs if name.startswith("parser."))
        bound = spool_bound(
            self._rate.update(look), parsers, self.settings.spool.seconds, self.settings.spool.floor
        )
        advice, window = self._advisor.judge(look)
        control = {
            "spool_max": str(bound),
            "metrics_port": str(self.port),
            "pace": advice.stage.value,
            "advice": advice.words(window),
            "pages_per_s": f"{self._advisor.pages_per_s:.1f}",
            **self._shedder.judge(look, time.monotonic()),
        }
        report = Report(os.getpid(), self.store.now_ms(), rss_mb=rss_bytes() // 1_000_000)
        tallies = self.tally.take()
        _, _, *tallied = self.store.calls(
            [],
            extra=[
                ("HSET", keys.CONTROL, *(part for pair in control.items() for part in pair)),
                ("HSET", keys.PROCS, "watch", msgspec.json.encode(report)),
                *tallies,
            ],
            spare=True,
        )
        self.tally.put_back([each for each, done in zip(tallies, tallied, strict=True) if done is None])
        self._shedder.sweep(self.store, time.monotonic())
        self._syncing.look(self.store)
        self._holes.look(self.store)

    def _leave(self) -> None:
        gone = [("HDEL", keys.PROCS, "watch"), ("HDEL", keys.CONTROL, shedding.FIELD)]
        try:
            self.store.calls([], extra=[*self.tally.take(), *gone], spare=True)
        except LOST:
            return
        finally:
            self.store.close()


def main(settings: Settings) -> None:
    """Run the watch until it is stopped."""
    process.follow_parent()
    stop = StopFlag()
    stop.install()
    with process.lock(settings.data / "run" / "watch.lock", "watch"):
        Watch(settings, stop).run()
    process.notify("STOPPING=1")
