"""The frontier's verbs as typed calls; each is one Lua script of the same name.

Nothing here talks to Redis: a method packs its arguments into a ``Verb``, a connection carries
it out. Shapes of arguments and answers stand in the header of each script.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any

import msgspec

from node.rules import budget
from node.rules.entry import Lease, parse_lease
from node.rules.outcome import Signal
from node.rules.seen import Plan, plan
from node.settings import Settings
from node.store import keys
from node.store.connection import ADOPT_MS
from node.store.scripts import Verb

_pack = msgspec.msgpack.Encoder().encode

_KNOWN = ord("1")
BELIEVE_MS = 5_000
"""How long a parser believes that a domain is full; by then a few of its URLs have been used."""


class Kind(StrEnum):
    """What a settled lease turns into."""

    PAGE = "page"
    """Stored; its pointer goes to the spool."""
    DONE = "done"
    """Visited; nothing to parse."""
    RETRY = "retry"
    """Again after ``wait_ms``, if the domain's retry budget grants it; else done."""
    LATER = "later"
    """Not visited; again after ``wait_ms``."""
    BACK = "back"
    """Not visited; back to the front of its queue."""
    DROP = "drop"
    """Not visited and never will be; ``outcome`` is the reason."""


@dataclass(slots=True)
class Group:
    """URLs offered to one domain: packed entries, and the filter slots of each in a row."""

    domain: str
    lane: int
    first_due_ms: float
    entries: list[str] = field(default_factory=list)
    slots: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class Offered:
    """What became of an offer. ``full``: domain -> (worst level it holds, believe for ms).

    Levels from ``below`` on are turned away for want of memory now, whatever their domain.
    """

    acknowledged: int
    admitted: int
    seen: int
    refused: int
    displaced: int
    full: Mapping[str, tuple[int, int]]
    below: int = keys.LEVELS


@dataclass(frozen=True, slots=True)
class Leased:
    """What was handed out; ``reason`` says why not (more), ``next_due_ms`` when there will be."""

    now_ms: int
    reason: str
    next_due_ms: int
    leases: list[Lease]


@dataclass(frozen=True, slots=True)
class Settlement:
    """One closed lease. Times in ms; ``crawl_delay_ms`` -1 = unknown, 0 = none asked; ``ttfb_ms`` 0 = not
    measured, or nothing that speaks of the site."""

    lease: Lease
    kind: Kind
    outcome: str
    signal: Signal
    sent: bool
    pointer: str = ""
    wait_ms: int = 0
    pause_ms: int = 0
    crawl_delay_ms: int = -1
    ttfb_ms: int = 0
    place: bytes = b""
    """Where its domain was met (``rules/addresses.py``); empty where it was not."""


@dataclass(frozen=True, slots=True)
class Shed:
    """What was dropped for want of memory; ``next``: where to go on in the lane, -1 = it has no more."""

    next: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Hop:
    """Answer to a hop: ok (go on with ``lease``), seen, refused or stale."""

    verdict: str
    lease: Lease | None


class Frontier:
    """Builds the verbs of one crawl from its settings."""

    def __init__(self, settings: Settings) -> None:
        crawl = settings.crawl
        self.base_delay_ms = round(crawl.delay_s * 1000)
        self.max_delay_ms = round(crawl.max_delay_s * 1000)
        self.lease_ms = round(settings.lease_s * 1000)
        self.spool_floor = settings.spool.floor
        self.later_max = keys.LATER_MAX
        self.max_domains = crawl.max_domains
        self.limits = settings.address_limits
        self._crawl = crawl
        cap = budget.queue_cap(crawl.max_urls_per_domain, crawl.delay_s, crawl.horizon_s)
        self.life_cap = budget.life_cap(cap)
        self.plan: Plan = plan(cap, crawl.seen_error_rate, self.life_cap)
        self.slots = self.plan.slots()
        """Dedup key -> its bytes in the filter."""
        self.wire_plan = [
            self.plan.rounds,
            [[layer.capacity_urls, layer.blocks] for layer in self.plan.layers],
        ]
        """The plan as the verbs want it."""

    def queue_cap(self, time_left_s: float | None) -> int:
        """Most URLs that may wait for one domain now."""
        return budget.queue_cap(self._crawl.max_urls_per_domain, self._crawl.delay_s, time_left_s)

    def offer(
        self,
        now_ms: int,
        groups: Iterable[Group],
        acks: Sequence[bytes] = (),
        *,
        time_left_s: float | None = None,
        returning: str = "",
        near: bytes = b"",
        run: str = "",
    ) -> Verb[Offered]:
        """Offer URLs by domain and acknowledge the pages they came from; ``near``: as in ``near.told``.

        ``run``: only to the Redis with that run id, else ``NewRedisError``.
        """
        options = [
            self.base_delay_ms,
            self.queue_cap(time_left_s),
            self.life_cap,
            self.max_domains,
            BELIEVE_MS,
            self.wire_plan,
            returning,
            run,
        ]
        wire: list[list[object]] = []
        entries: list[str] = []
        slots = bytearray()
        for group in groups:
            wire.append([group.domain, str(group.lane), group.first_due_ms, len(group.entries)])
            entries += group.entries
            slots += group.slots
        joined = "".join(entries)
        lengths = map(len, entries if joined.isascii() else [entry.encode() for entry in entries])
        ends = array("I", accumulate(lengths))
        if sys.byteorder == "big":
            ends.byteswap()
        ids = [each.decode() for each in acks]
        args = (now_ms, _pack(options), _pack(ids), _pack(wire), joined, ends.tobytes(), bytes(slots), near)
        return Verb("offer", args, _offered)

    def lease(self, now_ms: int, tag: str, lanes: Sequence[int], want: int, start: int) -> Verb[Leased]:
        """Ask for up to ``want`` URLs of ``lanes``, beginning with lane number ``start`` of them."""
        lease_ms = self.lease_ms

        def decode(answer: list[Any]) -> Leased:
            now, reason, next_due, known, *flat = answer
            expiry = now + lease_ms
            leases = [
                parse_lease(member.decode(), int(lane), expiry, delay, address_known=flag == _KNOWN)
                for flag, lane, delay, member in zip(known, flat[::3], flat[1::3], flat[2::3], strict=True)
            ]
            return Leased(now, reason.decode(), next_due, leases)

        lane_names = [str(lane) for lane in lanes]
        limits = [(limit.interval_ms, limit.at_once) for limit in self.limits.classes]
        options = [tag, want, lease_ms, self.base_delay_ms, lane_names, start, self.spool_floor, limits]
        return Verb("lease", (now_ms, _pack(options)), decode)

    def settle(
        self,
        now_ms: int,
        results: Sequence[Settlement],
        marks: Mapping[str, int],
        jitter: float,
        run: str = "",
    ) -> Verb[str]:
        """Close leases; answers one character each: 1 settled, 0 stale, r retry granted; ``run`` as above."""
        options = [
            self.base_delay_ms,
            self.max_delay_ms,
            self.later_max,
            self._crawl.retire_after,
            jitter,
            run,
        ]
        wire = [
            [
                str(r.lease.lane),
                r.lease.member,
                r.kind,
                r.outcome,
                r.signal,
                int(r.sent),
                r.pointer,
                r.wait_ms,
                r.pause_ms,
                r.crawl_delay_ms,
                r.ttfb_ms,
                _text(r.place),
            ]
            for r in results
        ]
        flat_marks = [part for mark in marks.items() for part in mark]
        return Verb("settle", (now_ms, _pack(options), _pack(wire), _pack(flat_marks)), bytes.decode)

    def extend(self, now_ms: int, wanted: Sequence[tuple[Lease, int]]) -> Verb[str]:
        """Give leases more time, each until a moment of its own; answers one character each: 1 extended, 0
        no longer there."""
        flat: list[object] = []
        for lease, until_ms in wanted:
            flat += str(lease.lane), lease.member, until_ms
        return Verb("extend", (now_ms, _pack(flat)), bytes.decode)

    def hop(
        self,
        now_ms: int,
        lease: Lease,
        target: str,
        slots: bytes,
        *,
        outcome: str,
        same: bool,
        look: bool = False,
    ) -> Verb[Hop]:
        """Register a redirect hop to the packed entry ``target`` before it is requested.

        With ``look`` nothing is changed, and a hop that would be registered is ``ok`` without a lease.
        """

        def decode(answer: list[bytes]) -> Hop:
            verdict = answer[0].decode()
            if len(answer) == 1:
                return Hop(verdict, None)
            return Hop(verdict, parse_lease(answer[1].decode(), lease.lane, lease.expiry_ms, lease.delay_ms))

        options = [target, self.wire_plan, self.life_cap, outcome, int(same), int(look)]
        return Verb("hop", (now_ms, lease.lane, lease.member, _pack(options), slots), decode)

    def beat(self, now_ms: int, fetcher: int, instance: str, *, leave: bool = False) -> Verb[list[int]]:
        """Show that a fetcher lives; answers the lanes it leases from."""

        def decode(answer: list[int]) -> list[int]:
            return answer[1:]

        args = (now_ms, fetcher, instance, ADOPT_MS, self.base_delay_ms, int(leave))
        return Verb("beat", args, decode)

    def reap(self, now_ms: int, lane: int, most: int, *, all_leases: bool = False) -> Verb[int]:
        """Return expired leases of a lane to the frontier, or all of them."""
        return Verb("reap", (now_ms, lane, self.base_delay_ms, most, int(all_leases)), int)

    def trim(
        self, now_ms: int, domain: str, lane: int, keep: int, *, host: str = "", reason: str = ""
    ) -> Verb[list[str]]:
        """Take URLs of a domain out, worst first; with no reason, only show which."""

        def decode(answer: list[bytes]) -> list[str]:
            return [entry.decode() for entry in answer]

        return Verb("trim", (now_ms, domain, lane, self.base_delay_ms, keep, host, reason), decode)

    def shed(self, now_ms: int, lane: int, start: int, *, domains: int, urls: int, level: int) -> Verb[Shed]:
        """Drop up to ``urls`` URLs of ``level`` and worse, of up to ``domains`` domains of a lane that are
        ready, beginning with the one at ``start``."""

        def decode(answer: list[int]) -> Shed:
            return Shed(*answer)

        return Verb("shed", (now_ms, lane, self.base_delay_ms, start, domains, urls, level), decode)


def _text(few_bytes: bytes) -> msgspec.Raw:
    """Up to 31 bytes as msgpack's text: Redis reads no other kind of bytes."""
    return msgspec.Raw(bytes((0xA0 | len(few_bytes),)) + few_bytes)


def _offered(answer: list[Any]) -> Offered:
    full = {answer[i].decode(): (answer[i + 1], answer[i + 2]) for i in range(6, len(answer), 3)}
    acknowledged, admitted, seen, refused, displaced, below = answer[:6]
    return Offered(acknowledged, admitted, seen, refused, displaced, full, below)
