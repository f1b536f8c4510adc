"""What the frontier knows of its domains: of all, of those with the longest queues, of one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from node.errors import InputError
from node.rules.addresses import words
from node.rules.domain import registrable
from node.rules.entry import unpack
from node.rules.health import Health
from node.rules.pace import Limits
from node.rules.shard import lane_of
from node.store import domain_record, exclusions, keys, near, robots_cache
from node.store.closeup import health_of
from node.store.connection import Store
from node.store.frontier import Frontier
from node.work.operate import BATCH, all_domains, host_of


@dataclass(frozen=True, slots=True)
class DomainState:
    """What the frontier knows of a domain. Times in ms; ``due_in_ms`` below zero = overdue.

    ``address``: where it was met last, or nothing; ``turn_in_ms``: when it is looked at again, where it waits
    for that address. ``ttfb_ms``: its time to first byte of late, smoothed; 0 = not known.
    """

    domain: str
    queued: int
    later: int
    leased: int
    admitted: int
    delay_ms: int
    crawl_delay_ms: int
    width: float
    unreachable: int
    due_in_ms: int
    address: str
    turn_in_ms: int | None
    retired: bool
    slowdowns: int
    ttfb_ms: int
    usual_ttfb_ms: int
    health: Health


def _state(domain: str, packed: bytes, base_ms: int, now_ms: int) -> DomainState:
    record = domain_record.unpack(packed)
    limits = Limits(base_ms, 0)
    return DomainState(
        domain,
        queued=record.queued,
        later=record.later,
        leased=record.leased,
        admitted=record.admitted,
        delay_ms=record.pace.delay_ms(limits),
        crawl_delay_ms=max(0, record.crawl_delay_ms),
        width=record.width / 1000 if record.pace.visits_at_once(limits) > 1 else 1.0,
        unreachable=record.unreachable,
        due_in_ms=int(record.due_ms) - now_ms,
        address=words(record.place),
        turn_in_ms=int(record.turn_ms) - now_ms if record.turn_ms and record.queued else None,
        retired=bool(record.gone),
        slowdowns=record.slowdowns,
        ttfb_ms=record.ttfb // 256,
        usual_ttfb_ms=record.usual_ttfb // 256,
        health=health_of(record, base_ms, now_ms),
    )


def states(store: Store, frontier: Frontier) -> Iterator[DomainState]:
    """Every domain with state, in no order."""
    now = store.now_ms()
    batch: list[str] = []
    for domain in all_domains(store):
        batch.append(domain)
        if len(batch) == BATCH:
            yield from _states(store, batch, frontier.base_delay_ms, now)
            batch = []
    yield from _states(store, batch, frontier.base_delay_ms, now)


def top(store: Store, frontier: Frontier, most: int) -> list[DomainState]:
    """The domains with the longest queues."""
    every = states(store, frontier)
    return heapq.nlargest(most, every, key=lambda state: (state.queued + state.later, state.domain))


def _states(store: Store, domains: list[str], base_ms: int, now_ms: int) -> list[DomainState]:
    answers = store.calls([], extra=[("GET", keys.domain(domain)) for domain in domains])
    return [_state(d, packed, base_ms, now_ms) for d, packed in zip(domains, answers, strict=True) if packed]


@dataclass(frozen=True, slots=True)
class Inspection:
    """All about one domain. ``next_urls``: the first in its queues; ``robots``: origin -> words;
    ``likeness``: how alike its pages are, in words, where they are compared."""

    state: DomainState
    lane: int
    served_by: str
    excluded: bool
    per_level: dict[int, int]
    next_urls: list[str]
    robots: dict[str, str]
    likeness: str


def inspect(store: Store, frontier: Frontier, data: Path, name: str) -> Inspection:
    """What the frontier holds and knows of a domain; ``data``: the node's folder. Raises ``InputError`` where
    it knows nothing."""
    domain = registrable(host_of(name))
    lane = lane_of(domain)
    now = store.now_ms()
    levels = range(keys.LEVELS)
    packed, owner, origins, near_pages, *queues = store.calls(
        [],
        extra=[
            ("GET", keys.domain(domain)),
            ("HGET", keys.LANES, str(lane)),
            ("HGETALL", keys.robots(domain)),
            ("GET", keys.near(domain)),
            *(("LLEN", keys.queue(level, domain)) for level in levels),
            *(("LRANGE", keys.queue(level, domain), "0", "4") for level in levels),
        ],
    )
    if packed is None:
        raise InputError(f"the frontier knows nothing of {domain}")
    lengths, heads = queues[: keys.LEVELS], queues[keys.LEVELS :]
    origins = dict(zip(origins[::2], origins[1::2], strict=True))
    return Inspection(
        _state(domain, packed, frontier.base_delay_ms, now),
        lane,
        served_by=f"fetcher {owner.decode().partition('.')[0]}" if owner else "nobody",
        excluded=exclusions.in_force(store, data).covers(domain),
        per_level={level: int(n) for level, n in zip(levels, lengths, strict=True) if n},
        next_urls=[unpack(entry.decode()).url for head in heads for entry in head][:10],
        robots={origin.decode(): _robots_words(value, now) for origin, value in sorted(origins.items())},
        likeness=near.unpack(near_pages).words,
    )


def _robots_words(value: bytes, now_ms: int) -> str:
    known = robots_cache.unpack(value)
    left_s = (known.expires_ms - now_ms) / 1000
    if known.rules is None:
        return f"can't be had (asked {known.failures} times), asked again in {max(0.0, left_s):.0f} s"
    return f"{len(known.rules.paths)} rules for us, asked again in {max(0.0, left_s) / 3600:.1f} h"
