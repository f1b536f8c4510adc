"""What URLs weigh in Redis, measured in one that the real offer has filled.

Queues are filled to the brim as a fleet's are in a day's crawl at 70 s a domain: 1,543 URLs each, 64
characters long, a few at a time as pages bring them. Then every filter is asked, through the same offer,
for URLs that were never there: what it calls seen is a false positive.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.rules.url import dedup_key
from node.settings import Settings
from node.store import keys
from node.store.connection import Store
from node.store.frontier import Frontier, Group, Offered
from node.work.redis_server import RedisServer
from tests.bench import crawls
from tests.bench.plan import Plan
from tests.bench.processes import RunError, cpu_seconds

URL_LENGTH = 64
_LINKS_A_VISIT = 16
"""Links to one domain that one offer brings."""
_DOMAINS_AN_OFFER = 100
_LAST_LEVEL = 7


@dataclass(frozen=True, slots=True)
class Weights:
    """``redis_bytes`` is all memory that Redis took for the domains; ``filter_bytes`` that of the filters
    among it, allocator and key included; ``filter_string_bytes`` their bare strings."""

    domains: int
    urls_per_domain: int
    urls: int
    redis_bytes: int
    filter_bytes: int
    filter_string_bytes: int
    probes: int
    false_positives: int
    error_rate_set: float
    redis_cpu_s: float
    """Of filling: that of the offers, all URLs new."""

    @property
    def bytes_per_queued_url(self) -> float:
        """Everything but the filters: queues, the domains' own state, ``ready``."""
        return (self.redis_bytes - self.filter_bytes) / self.urls

    @property
    def bits_per_seen_url(self) -> float:
        return 8 * self.filter_string_bytes / self.urls

    @property
    def bits_per_seen_url_allocated(self) -> float:
        """The same with what key and allocator add."""
        return 8 * self.filter_bytes / self.urls

    @property
    def false_positive_rate(self) -> float:
        return self.false_positives / self.probes


def weigh(work: Path, plan: Plan) -> Weights:
    """Start a node's own Redis, fill it, ask it, weigh it."""
    folder = work / "frontier"
    shutil.rmtree(folder, ignore_errors=True)
    settings = crawls.settings(folder, crawl={"delay_s": 70.0, "horizon_s": 86_400.0})
    server = RedisServer(settings)
    server.start()
    store, look = Store(settings), redis.Redis(unix_socket_path=settings.paths.redis_socket)
    try:
        store.begin()
        assert server.pid is not None
        return _weigh(settings, store, look, server.pid, plan)
    finally:
        store.close()
        look.close()
        server.stop()
        shutil.rmtree(folder)


def _weigh(settings: Settings, store: Store, look: Any, redis_pid: int, plan: Plan) -> Weights:
    frontier = Frontier(settings)
    cap = frontier.queue_cap(settings.crawl.horizon_s)
    names = [f"weight-{number:06d}.test" for number in range(plan.frontier_domains)]
    empty = _used_memory(look)
    cpu_s = cpu_seconds(redis_pid)
    admitted = false_positives = 0
    for start in range(0, cap, _LINKS_A_VISIT):
        numbers = range(start, min(start + _LINKS_A_VISIT, cap))
        for answer in _offers(store, frontier, names, numbers):
            admitted += answer.admitted
            false_positives += answer.seen
    # a URL that its filter takes for seen is not admitted; others take its place
    number = cap
    while admitted < len(names) * cap:
        for answer in _offers(store, frontier, names, range(number, number + 2)):
            admitted += answer.admitted
        number += 2
        if number > 2 * cap:
            raise RunError(f"the queues hold {admitted:,} URLs and take no more, of {len(names) * cap:,}")
    filled_cpu_s = cpu_seconds(redis_pid) - cpu_s
    redis_bytes = _used_memory(look) - empty
    filters = list(look.scan_iter(match="s:*", count=10_000))
    string_bytes = sum(look.strlen(key) for key in filters)
    filter_bytes = sum(look.memory_usage(key, samples=0) for key in filters)
    # the queues are full: what is not taken for seen is turned away, and not marked
    probes = found = 0
    for start in range(0, plan.false_probes, 100):
        for answer in _offers(store, frontier, names, range(10**6 + start, 10**6 + start + 100)):
            if answer.admitted:
                raise RunError("a full queue admitted a URL of the last level")
            probes += answer.seen + answer.refused
            found += answer.seen
    _check(look, admitted)
    return Weights(
        domains=len(names),
        urls_per_domain=cap,
        urls=admitted,
        redis_bytes=redis_bytes,
        filter_bytes=filter_bytes,
        filter_string_bytes=string_bytes,
        probes=probes,
        false_positives=found,
        error_rate_set=settings.crawl.seen_error_rate,
        redis_cpu_s=filled_cpu_s,
    )


def _offers(store: Store, frontier: Frontier, names: list[str], numbers: range) -> Iterator[Offered]:
    """Offer URLs of these numbers to all domains, a batch of domains to a call."""
    now_ms = store.now_ms()
    for start in range(0, len(names), _DOMAINS_AN_OFFER):
        groups = [
            _group(frontier, name, numbers, now_ms) for name in names[start : start + _DOMAINS_AN_OFFER]
        ]
        yield store.call(frontier.offer(now_ms, groups, time_left_s=86_400.0))


def _group(frontier: Frontier, name: str, numbers: range, now_ms: int) -> Group:
    group = Group(name, lane_of(name), now_ms)
    for number in numbers:
        url = url_of(name, number)
        level = level_of(number)
        group.entries.append(Entry(url, level, level).pack())
        group.slots += frontier.slots(dedup_key(url))
    return group


def url_of(name: str, number: int) -> str:
    """A URL of 64 characters, all different."""
    start = f"https://www.{name}/section-{number % 23}/article-{number:x}"
    return start + "-" * max(0, URL_LENGTH - len(start) - 5) + ".html"


def level_of(number: int) -> int:
    """A seed, then links of the first levels, the more the deeper; probes are of the last."""
    if number >= 10**6:
        return _LAST_LEVEL
    return 0 if number == 0 else 1 if number < 100 else 2 if number < 700 else 3


def _used_memory(look: Any) -> int:
    return int(look.info("memory")["used_memory"])


def _check(look: Any, admitted: int) -> None:
    queued = int(look.hget(keys.LEDGER, "queued"))
    if queued != admitted:
        raise RunError(f"the ledger counts {queued:,} URLs queued, the offers admitted {admitted:,}")
