"""What a fetcher's visits gave: gathered for a moment, brought to disk together, settled in one call.

Archive first, then the frontier; so a pointer never names bytes that are not on disk.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable

from node.errors import DiskError
from node.rules.entry import Lease
from node.rules.outcome import Outcome
from node.rules.sitemap import Named
from node.store.connection import LOST, AsyncStore
from node.store.found import SETTLED, Stored, found
from node.store.frontier import Frontier, Group, Kind, Settlement
from node.store.spool import unpack
from node.store.taken import EXCLUDED, append, taken_file
from node.store.tally import Tally
from node.work.gauges import Gauges
from node.work.held import Held
from node.work.links import Offering
from node.work.record import DiskRecorder
from node.work.trouble import Troubles
from node.work.visit import Visited

SETTLE_BATCH = 200


class Results:
    """Results on their way from visits to the frontier. ``settling`` is held while some are under way."""

    def __init__(
        self,
        store: AsyncStore,
        frontier: Frontier,
        recorder: DiskRecorder,
        offering: Offering,
        gauges: Gauges,
        held: Held,
        tally: Tally,
    ) -> None:
        self.store = store
        self.frontier = frontier
        self.recorder = recorder
        self.offering = offering
        self.gauges = gauges
        self.held = held
        self.tally = tally
        self.troubles = Troubles(frontier.base_delay_ms)
        self.settling = asyncio.Lock()
        self._settlements: list[Settlement] = []
        self._marks: dict[str, int] = {}
        self._run = ""
        self._found: list[tuple[str, int]] = []
        self._sitemaps: list[Named] = []
        self._settled_at_s = 0.0
        self._noted: set[str] = set()
        """Leases dropped as excluded that are noted on the disk, and not settled yet."""

    def settled_at_s(self, now_s: float) -> float:
        """All that was added before this time is settled; by the monotonic clock, which shows ``now_s``."""
        return self._settled_at_s if self.waiting or self.settling.locked() else now_s

    def meet(self, run_id: str) -> None:
        """From now on the frontier is in the Redis with this run id, and holds all that it must for that."""
        self._run = run_id
        self._marks = {}

    @property
    def waiting(self) -> bool:
        """Is there anything to settle?"""
        return bool(self._settlements)

    def add(self, visited: Visited) -> None:
        """Take what a visit gave."""
        self._settlements.append(visited.settlement)
        self._found += visited.found
        self._sitemaps += visited.sitemaps

    async def settle(self) -> None:
        """Bring what was gathered to disk, then tell the frontier. On a lost answer it is said again."""
        async with self.settling:
            await self._settle_gathered()

    async def _settle_gathered(self) -> None:
        begun_s = time.monotonic()
        batch, found, sitemaps = self._settlements, self._found, self._sitemaps
        self._settlements, self._found, self._sitemaps = [], [], []
        try:
            with self.gauges.disk_call():
                marks = await self.recorder.commit()
            groups = self.offering.groups(found, self.store.now_ms())
            self.offering.sitemaps(sitemaps, self.store.now_ms(), groups)
            if groups:
                await self._offer(groups.values())
            self._keep_excluded(batch)
            for start in range(0, len(batch), SETTLE_BATCH):
                part = batch[start : start + SETTLE_BATCH]
                # What was on disk a round ago is settled once this round is: a mark says no more.
                done = self._marks if start + SETTLE_BATCH >= len(batch) else {}
                with self.gauges.store_call():
                    answer = await self.store.call(
                        self.frontier.settle(self.store.now_ms(), part, done, random.random(), self._run)
                    )
                self.held.drop(each.lease for each in part)
                self.tally.add("settled_stale", answer.count("0"))
                for each, settled in zip(part, answer, strict=True):
                    if settled != "0":
                        self.troubles.note(each)
                late = [each for each, settled in zip(part, answer, strict=True) if settled == "0"]
                await self._settle_late([each for each in late if each.kind is Kind.PAGE])
            self._marks = marks
            self._settled_at_s = begun_s
            self._noted.clear()
        except (*LOST, DiskError):
            # a repeated settle is refused as stale where it was carried out before
            self._settlements[:0] = batch
            self._found[:0] = found
            self._sitemaps[:0] = sitemaps
            raise

    async def _settle_late(self, pages: Iterable[Settlement]) -> None:
        """Pages whose leases ran out, or were lost with a crash of Redis: they are in the archive all the
        same, and need not be fetched again where nobody is about to."""
        stored = [
            Stored(each.lease.entry, Kind.PAGE, each.outcome, unpack(each.pointer).position) for each in pages
        ]
        if stored:
            was = await self.store.call(found(self.frontier, self.store.now_ms(), 0, stored, {}, self._run))
            self.tally.add("settled_late", sum(each in SETTLED for each in was))

    def _keep_excluded(self, batch: Iterable[Settlement]) -> None:
        """Write what is dropped as excluded where ``exclude`` puts what it takes out of queues, so that
        ``include`` brings it back, too. First onto the disk, and once however long Redis is away."""
        dropped: dict[str, list[Lease]] = {}
        for each in batch:
            if (
                each.kind is Kind.DROP
                and each.outcome == Outcome.EXCLUDED
                and each.lease.member not in self._noted
            ):
                dropped.setdefault(each.lease.domain, []).append(each.lease)
        for domain, leases in dropped.items():
            append(taken_file(self.store.settings, domain, EXCLUDED), [each.entry.pack() for each in leases])
            self._noted.update(each.member for each in leases)

    async def _offer(self, groups: Iterable[Group]) -> None:
        try:
            offered = await self.store.call(self.frontier.offer(self.store.now_ms(), groups, run=self._run))
        except LOST:
            self.offering.forget()
            raise
        self.offering.learn(offered, self.store.now_ms())
