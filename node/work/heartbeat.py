"""A fetcher's heartbeat: once a second it shows that it lives, tells how it fares, and hears what is new.

What it hears decides what it may do: which lanes are its own, until when it may send, and who is excluded.
"""

from __future__ import annotations

import os
import time

import msgspec

from node.rules.entry import Lease
from node.store import keys
from node.store.connection import GRACE_MS, LOST, READ_RUN_ID, AsyncStore
from node.store.exclusions import READ_VERSIONS, Versions
from node.store.frontier import Frontier
from node.store.snapshot import Report
from node.store.tally import Tally, rss_bytes
from node.work.gauges import Gauges
from node.work.held import Held
from node.work.links import Offering
from node.work.trouble import Troubles


class Heartbeat:
    """Of fetcher ``number``; ``instance`` tells it from the process that had the number before."""

    def __init__(
        self,
        number: int,
        instance: str,
        store: AsyncStore,
        frontier: Frontier,
        gauges: Gauges,
        held: Held,
        troubles: Troubles,
        offering: Offering,
        tally: Tally,
    ) -> None:
        self._number = number
        self._instance = instance
        self._name = f"fetcher.{number}"
        self._store = store
        self._frontier = frontier
        self._gauges = gauges
        self._held = held
        self._troubles = troubles
        self._offering = offering
        self._tally = tally
        self._versions = Versions()
        self._generation = 0
        self.lanes: list[int] = []
        self._may_send_until_ms = 0
        self._commands_booked = 0
        self._up_booked = time.monotonic()

    async def beat(self, waiting: str, in_hand: int) -> None:
        """Show that we live, tell what we do (``waiting``: why nothing is begun), and hear what is new."""
        sent_ms = self._store.now_ms()
        self._gauges.look(in_hand)
        report = Report(
            os.getpid(),
            sent_ms,
            in_hand=in_hand,
            limit=self._gauges.limit,
            lag_ms=round(self._gauges.worst_lag_ms, 1),
            waiting=waiting,
            rss_mb=rss_bytes() // 1_000_000,
            oldest_ms=self._held.oldest_ms(sent_ms),
            in_trouble=len(self._troubles),
            worst=self._troubles.worst(),
        )
        tallies = self._tallies()
        try:
            with self._gauges.store_call():
                lanes, excluded, scope, run_id, _, *tallied = await self._store.calls(
                    [self._frontier.beat(sent_ms, self._number, self._instance)],
                    extra=[
                        *READ_VERSIONS,
                        READ_RUN_ID,
                        ("HSET", keys.PROCS, self._name, msgspec.json.encode(report)),
                        *tallies,
                    ],
                    spare=True,
                )
        except LOST:
            self._tally.put_back(tallies)
            raise
        self._tally.put_back([each for each, done in zip(tallies, tallied, strict=True) if done is None])
        if (run_id or b"").decode() != self._store.run_id:
            await self._store.meet()  # another process met a new Redis first
        if self._generation != self._store.generation:
            self._versions = Versions()  # what Redis lost may be numbered again
            self._generation = self._store.generation
        self.lanes = lanes
        self._may_send_until_ms = sent_ms + GRACE_MS
        outdated = self._versions.outdated((excluded, scope))
        lists = await self._store.calls([], extra=list(outdated.values())) if outdated else []
        self._offering.take_lists(dict(zip(outdated, lists, strict=True)))
        self._versions.note((excluded, scope))

    async def leave(self) -> None:
        """Give the lanes back: others may have them at once."""
        now = self._store.now_ms()
        await self._store.call(self._frontier.beat(now, self._number, self._instance, leave=True))
        await self._store.calls([], extra=[*self._tallies(), ("HDEL", keys.PROCS, self._name)], spare=True)

    def _tallies(self) -> list[tuple[str, ...]]:
        self._tally.add("redis_commands", self._store.commands - self._commands_booked)
        self._commands_booked = self._store.commands
        now = time.monotonic()
        self._tally.add("up_ms:fetchers", round(1000 * (now - self._up_booked)))
        self._up_booked = now
        return self._tally.take()

    def may_send(self, lease: Lease) -> bool:
        """Is a lease still ours and young enough, and its lane ours?

        The clock runs on while a process is stopped, so one that slept too long finds out here.
        """
        now = self._store.now_ms()
        return now < self._may_send_until_ms and self._held.may_send(lease, self._store.generation, now)

    async def extend(self) -> None:
        """More time for the leases of visits that live, however slow they are."""
        now = self._store.now_ms()
        wanted = self._held.to_extend(now)
        if wanted:
            answer = await self._store.call(self._frontier.extend(now, wanted))
            self._held.extended(wanted, answer)
            self._tally.add("leases_extended", answer.count("1"))
