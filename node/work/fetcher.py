"""A fetcher: lease -> visit -> archive -> settle, thousands of visits at once on one event loop.

It leases only what it can serve now. Results are gathered for a moment, flushed to the disk together
and settled in one call, archive first. When the store is away it sends nothing new and waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time

from node.errors import DiskError, StoreError
from node.rules.entry import Lease
from node.rules.outcome import Outcome, Signal
from node.rules.pressure import Reason
from node.settings import Settings
from node.store.archive import ArchiveWriter
from node.store.connection import LOST, AsyncStore
from node.store.exclusions import Exclusions
from node.store.fetchlog import FetchLog
from node.store.frontier import Frontier, Kind, Settlement
from node.store.robots_cache import RobotsCache
from node.store.tally import Tally
from node.work import memory, process
from node.work.freeing import Freeing
from node.work.gauges import Gauges
from node.work.heartbeat import Heartbeat
from node.work.held import Held
from node.work.identity import warc_info
from node.work.links import Offering
from node.work.memory import Garbage
from node.work.process import Stop
from node.work.record import DiskRecorder
from node.work.recovery import catch_up, fetcher_prefix, recover_archive
from node.work.results import Results
from node.work.robots import Robots
from node.work.sitemaps import Sitemaps
from node.work.visit import Visited, Visitor
from node.work.wire import new_client

_log = logging.getLogger(__name__)

BEAT_S = 1.0
TIDY_EVERY_S = 30.0
DRAIN_S = 10.0
"""Visits get this long to end after a stop; what is left returns to the frontier."""
LEASE_AGAIN_S, LEASE_IDLE_S = 0.05, 0.25
"""After an answer with less than was asked for: the soonest and the latest that it is asked again,
unless something is settled in between."""


class Fetcher:
    """One fetcher process; ``number`` is its place in the node, from 1."""

    def __init__(self, settings: Settings, number: int, stop: Stop) -> None:
        self.settings = settings
        self.number = number
        self.stop = stop
        instance = process.instance()
        self.tag = f"{number}.{instance}"
        self.store = AsyncStore(settings)
        self.frontier = Frontier(settings)
        self.tally = Tally("fetchers")
        self.exclusions = Exclusions()
        name = f"f{number:02d}"
        self._prefix = fetcher_prefix(settings, number)
        self.archive = ArchiveWriter(
            settings.warc_folder,
            self._prefix,
            rotate_bytes=settings.archive.rotate_bytes,
            info=warc_info(settings),
            fsync=settings.archive.fsync,
        )
        self.log = FetchLog(settings.log_folder, f"fetch-{name}", settings.archive.log_rotate_bytes)
        self.recorder = DiskRecorder(
            self.archive,
            self.log,
            self.tally,
            known_pages=settings.fetcher.known_pages,
            gather_s=settings.fetcher.settle_every_ms / 1000,
        )
        self.gauges = Gauges(settings, name, self.archive, self.recorder)
        self.offering = Offering(settings, self.frontier, self.exclusions, self.tally)
        self.held = Held(settings)
        self.results = Results(
            self.store, self.frontier, self.recorder, self.offering, self.gauges, self.held, self.tally
        )
        self.heartbeat = Heartbeat(
            number,
            instance,
            self.store,
            self.frontier,
            self.gauges,
            self.held,
            self.results.troubles,
            self.offering,
            self.tally,
        )
        self.client = new_client(settings, self.store, self.tally)
        self.visitor = Visitor(
            settings,
            self.store,
            self.frontier,
            self.client,
            Robots(
                self.client,
                RobotsCache(self.store, max_origins_per_domain=settings.crawl.max_origins_per_domain),
                token=settings.identity.token,
                deadline_s=settings.fetcher.deadline_s,
                max_pause_s=settings.crawl.max_crawl_delay_s,
                now_ms=self.store.now_ms,
                jitter=random.random,
                on_request=self.recorder.robots,
            ),
            self.exclusions,
            self.recorder,
            self.heartbeat.may_send,
            random.random,
            Sitemaps(settings, self.store),
            self.gauges.on_time,
        )
        self.garbage = Garbage()
        self.waiting = ""
        self._visits: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._start = 0
        self._generation = 0
        """Of the Redis that holds all it must of what we have stored."""
        stop.on_request(self._wake.set)

    # -- life

    async def run(self) -> None:
        """Work until asked to stop; leaves nothing behind but what a crash would leave, too."""
        await self._begin()
        process.notify("READY=1")
        helpers = [
            asyncio.create_task(each)
            for each in (
                self.gauges.lag.watch(),
                self._beat_forever(),
                self._settle_forever(),
                self._tidy_forever(),
            )
        ]
        if self.settings.archive.keep == "spool":
            freeing = Freeing(self.settings, self._prefix, self.store, self.results.settled_at_s, self.tally)
            helpers.append(asyncio.create_task(freeing.run()))
        leasing = asyncio.create_task(self._lease_forever())
        try:
            done, _ = await asyncio.wait([*helpers, leasing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._drain()
        finally:
            async with self.results.settling:  # else what is being settled would be lost with its task
                await process.end((*helpers, leasing, *self._visits))
            await self._leave()

    async def _begin(self) -> None:
        while True:
            try:
                await self.store.begin()
                recovered = await recover_archive(
                    self.store, self.frontier, self.log, self._prefix, self.number
                )
                self.tally.add("recovered", recovered)
                self._meet(self.store.generation, self.store.run_id)
                await self.heartbeat.beat(self.waiting, len(self._visits))
                return
            except (*LOST, StoreError) as error:
                if await self.stop.wait(0.5):
                    raise StoreError(f"Redis went away: {error}") from None

    def _meet(self, generation: int, run_id: str) -> None:
        self.results.meet(run_id)
        self.offering.forget_all()
        self._generation = generation

    async def _catch_up(self) -> None:
        """Redis was restarted, and may have lost what it did last: settle what is in the archive."""
        generation, run_id = self.store.generation, self.store.run_id
        async with self.results.settling:
            await self.recorder.commit()
            recovered = await catch_up(
                self.store, self.frontier, self.log, self._prefix, self.number, self.archive.marks
            )
            self._meet(generation, run_id)
        self.tally.add("recovered", recovered)

    async def _drain(self) -> None:
        if self._visits:
            await asyncio.wait(self._visits, timeout=DRAIN_S)
        await process.end(self._visits)

    async def _leave(self) -> None:
        with contextlib.suppress(*LOST, DiskError):
            await self.results.settle()
            await self.heartbeat.leave()
        await self.archive.close()
        self.log.close()
        await self.client.close()
        await self.store.close()

    # -- heartbeat

    async def _beat_forever(self) -> None:
        while True:
            try:
                await self.heartbeat.beat(self.waiting, len(self._visits))
                await self.heartbeat.extend()
                await self.client.tend()
            except LOST:
                self.waiting = "no_store"
            process.notify("WATCHDOG=1")
            self.garbage.tend()
            await asyncio.sleep(BEAT_S)

    async def _tidy_forever(self) -> None:
        """A connection with TLS takes a quarter of a megabyte, and uses little of it, each time elsewhere."""
        while True:
            await asyncio.sleep(TIDY_EVERY_S)
            memory.give_back()

    # -- lease

    async def _lease_forever(self) -> None:
        while not self.stop.requested:
            if self._generation != self.store.generation:
                self.waiting = "no_store"
                try:
                    await self._catch_up()
                except (*LOST, DiskError):
                    await self._pause(0.5)
                continue
            want, why = self.gauges.room(len(self._visits), self.client, has_lanes=bool(self.heartbeat.lanes))
            if why is not None:
                self.waiting = why
                await self._pause(0.2)
                continue
            try:
                got, next_due_ms = await self._lease(want)
            except LOST:
                self.waiting = "no_store"
                await self._pause(0.5)
                continue
            if got < want:
                idle_s = (next_due_ms - self.store.now_ms()) / 1000 if next_due_ms >= 0 else LEASE_IDLE_S
                await self._pause(min(LEASE_IDLE_S, max(LEASE_AGAIN_S, idle_s)))

    async def _lease(self, want: int) -> tuple[int, int]:
        self._start += 1
        generation = self.store.generation
        begun = time.monotonic()
        try:
            with self.gauges.store_call():
                now, lanes = self.store.now_ms(), self.heartbeat.lanes
                leased = await self.store.call(
                    self.frontier.lease(now, self.tag, lanes, want, self._start % 64)
                )
        finally:
            self._waited(Reason.STORE, begun)
        self.waiting = leased.reason or ("" if leased.leases else "no_work")
        if not leased.reason and self.client.short_of is Reason.LINE_DOWN:  # it was for a probe
            self.waiting = Reason.LINE_DOWN
        if leased.reason:
            self.tally.add(f"refused:fetchers:{leased.reason}")
        self.held.take(leased.leases, generation, leased.now_ms)
        for lease in leased.leases:
            task = asyncio.create_task(self._serve(lease))
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        return len(leased.leases), leased.next_due_ms

    async def _pause(self, seconds: float) -> None:
        """Wait for a moment, or until something was settled or a stop is wished for."""
        self._wake.clear()
        if self.stop.requested:
            return
        begun = time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)
        # with some leases in hand, but fewer than were asked for, it waits for domains to be due, too
        self._waited(self.waiting or Reason.NO_WORK, begun)

    def _waited(self, reason: str, since: float) -> None:
        self.tally.add(f"wait_ms:fetchers:{reason}", round(1000 * (time.monotonic() - since)))

    # -- visit

    async def _serve(self, lease: Lease) -> None:
        try:
            visited = await self.visitor.visit(lease)
        except Exception as error:
            # a fault of ours: it must not take the process with it, nor be met for ever
            _log.exception("a visit to %s failed in a way nobody foresaw", lease.domain)
            with contextlib.suppress(DiskError):
                self.recorder.note(lease, lease.entry.url, Outcome.LOCAL_ERROR, type(error).__name__)
            visited = Visited(Settlement(lease, Kind.DONE, Outcome.LOCAL_ERROR, Signal.NONE, sent=True))
        self.recorder.out_of_files |= visited.settlement.outcome == Outcome.NO_FILES
        self.results.add(visited)

    async def _settle_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.fetcher.settle_every_ms / 1000)
            if not self.results.waiting:
                continue
            try:
                await self.results.settle()
            except (*LOST, DiskError):
                await asyncio.sleep(0.5)
            self._wake.set()


def main(settings: Settings, number: int) -> None:
    """Run fetcher ``number`` until it is stopped."""

    async def body(stop: Stop) -> None:
        await Fetcher(settings, number, stop).run()

    memory.map_large_buffers()
    Garbage.take_over()
    with process.lock(settings.data / "run" / f"fetcher-{number}.lock", f"fetcher {number}"):
        process.run(body)
