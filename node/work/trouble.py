"""Which of its domains give a fetcher trouble: a bounded table, of which the worst are told each second.

A domain is served by one fetcher at a time, so what its fetcher settles is all there is to know. This costs
Redis nothing per page; how a domain stands now is read from its own record (``store/closeup.py``) by whoever
wants to know. Counts are those since the domain first gave trouble, and are forgotten with the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest

from node.rules.outcome import Signal
from node.store.frontier import Kind, Settlement
from node.store.snapshot import TOLD_DOMAINS, Troubled

MAX_DOMAINS = 1_000
"""Domains in the table; when it is full, those with the least trouble of late make room."""
FADE = 0.9
"""Weight of trouble at the domain's next visit."""
FORGOTTEN = 0.01
"""Weight at which a domain is out of trouble: some 44 good visits after its last."""


@dataclass(slots=True)
class _Entry:
    weight: float = 0.0
    """Of its trouble, the latest visits counting most: 1 / (1 - ``FADE``) = 10 where all is trouble."""
    visits: int = 0
    throttled: int = 0
    unanswered: int = 0
    retries: int = 0
    last: str = ""


class Troubles:
    """The table. ``note`` is called for every settled lease, and looks no further where all is well."""

    def __init__(self, base_delay_ms: int) -> None:
        self._base_delay_ms = base_delay_ms
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, settled: Settlement) -> None:
        """Take in how a visit ended."""
        name = settled.lease.domain
        entry = self._entries.get(name)
        trouble = settled.signal is Signal.THROTTLE or settled.signal is Signal.DEAD
        wants_retry = settled.kind is Kind.RETRY
        if entry is None:
            if not (trouble or wants_retry or self._is_slowed(settled)):
                return
            self._make_room()
            entry = self._entries[name] = _Entry()
        if settled.sent:
            entry.visits += 1
            entry.retries += settled.lease.entry.tries > 0
        entry.throttled += settled.signal is Signal.THROTTLE
        entry.unanswered += settled.signal is Signal.DEAD
        entry.weight *= FADE
        if trouble or wants_retry:
            entry.weight += 1.0
            entry.last = settled.outcome
        elif entry.weight < FORGOTTEN and not self._is_slowed(settled):
            del self._entries[name]

    def worst(self, most: int = TOLD_DOMAINS) -> list[Troubled]:
        """Those with the most trouble of late, worst first."""
        chosen = nlargest(most, self._entries.items(), key=lambda item: item[1].weight)
        return [
            Troubled(name, each.visits, each.throttled, each.unanswered, each.retries, each.last)
            for name, each in chosen
        ]

    def _is_slowed(self, settled: Settlement) -> bool:
        """Did the lease carry a longer delay than the crawl and the site themselves ask for?"""
        asked_ms = settled.crawl_delay_ms
        return asked_ms >= 0 and settled.lease.delay_ms > max(self._base_delay_ms, asked_ms)

    def _make_room(self) -> None:
        if len(self._entries) >= MAX_DOMAINS:
            kept = nlargest(MAX_DOMAINS // 2, self._entries.items(), key=lambda item: item[1].weight)
            self._entries = dict(kept)
