"""How many machines a crawl wants, for how long, and what binds. Arithmetic only: no files, no clock.

A limit is one of two kinds. Some bound the *pace* (politeness, CPU, Redis' one thread, network): of the
fleet, or of a node and so by the number of nodes. Others must have *room* (disk, memory) whatever the pace.
So a plan names two: what set the number of nodes, and what then sets the pace. What is assumed along the way
stands in ``assumptions.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, inf

from deploy import assumptions as given
from deploy.errors import InputError
from deploy.figures import Figures
from deploy.prices import GB, Instance
from node.rules import budget

HOUR_S = 3600.0
MB = 10**6
MOST_NODES = 10_000
_EVEN = 1.0 + 1e-9
"""Rounding is no need."""


class Limit(StrEnum):
    """What can bind."""

    POLITENESS = "politeness"
    CPU = "cpu"
    REDIS = "redis"
    NETWORK = "network"
    DISK = "disk"
    MEMORY = "memory"


class Archive(StrEnum):
    """What a node keeps of its pages until the crawl ends."""

    FULL = "full"
    COLLECTED = "collected"
    SPOOL = "spool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for. ``hours`` none: as long as ``nodes`` take; ``nodes`` none: as many as it needs.

    ``domains``: live ones. Shares of requests: ``error``, ``redirect``, ``retry``. ``queue_cap``: most URLs
    that wait for a domain; none: 2,000, or more where a domain must give more pages than that allows.
    """

    pages: float = 1e9
    hours: float | None = 24.0
    nodes: int | None = None
    domains: float = 1e6
    delay_s: float = 70.0
    page_bytes: float = given.PAGE_BYTES
    archive: Archive = Archive.FULL
    error: float = given.ERROR_SHARE
    redirect: float = given.REDIRECT_SHARE
    retry: float = given.RETRY_SHARE
    busy: float = given.BUSY_SHARE
    origins: float = given.ORIGINS_PER_DOMAIN
    utilisation: float = given.UTILISATION
    core_share: float | None = None
    queue_cap: int | None = None

    @property
    def requests_per_page(self) -> float:
        """Requests for URLs, robots.txt not among them."""
        return 1.0 / (1.0 - self.error - self.redirect - self.retry)

    @property
    def ceiling_per_s(self) -> float:
        """Requests a second that politeness allows at the very most: each domain one a delay."""
        return self.domains / self.delay_s if self.delay_s > 0 else inf

    @property
    def polite_pages_per_s(self) -> float:
        """Pages a second that come of it."""
        return self.ceiling_per_s * self.busy / self.requests_per_page

    def robots_per_page(self, hours: float) -> float:
        """Requests for robots.txt, of domains that are visited. They wait for no delay of their own."""
        visited = min(self.domains, self.pages * self.requests_per_page)
        return visited * self.origins * max(1, ceil(hours / 24)) / self.pages

    @property
    def most_queued(self) -> int:
        """``milliarde_max_urls_per_domain``: 2,000, or what a domain's life needs to give its pages."""
        return self.queue_cap if self.queue_cap is not None else max(given.QUEUE_CAP, self.queue_needed)

    @property
    def queue_needed(self) -> int:
        """The least that may wait for a domain at once, for its life to admit all the URLs it must give."""
        needed = self.pages * self.requests_per_page / self.domains / self.busy / budget.LIFE_CAPS
        return ceil(needed)


@dataclass(frozen=True, slots=True)
class Node:
    """What one machine can do. ``per_s``: pages a second by limit; ``cpu_ms`` a page, all in all, of an idle
    core, of which a vCPU is ``core_share``."""

    fetchers: int
    parsers: int
    core_share: float
    per_s: Mapping[Limit, float]
    cpu_ms: float
    redis_ms: float
    wire_bytes: float
    redis_room_bytes: float
    disk_room_bytes: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. ``needs``: how many nodes each limit asks for, not rounded, at this pace and length.

    ``hours`` is what the crawl takes, ``wanted_hours`` what was asked for. ``nodes_set_by``: what one node
    less would meet least; none for one node, and where the number was asked for. ``lacking``: what does not
    fit on so many.
    """

    wish: Wish
    instance: str
    nodes: int
    hours: float
    wanted_hours: float | None
    pages_per_s: float
    needs: Mapping[Limit, float]
    nodes_set_by: Limit | None
    pace_set_by: Limit
    lacking: tuple[Limit, ...]
    node: Node
    queue_cap: int
    in_flight: float
    redis_bytes: float
    memory_bytes: float
    disk_bytes: float
    archive_bytes: float

    @property
    def in_time(self) -> bool:
        return self.wanted_hours is None or self.hours <= self.wanted_hours * _EVEN

    @property
    def node_hours(self) -> float:
        return self.nodes * self.hours


def plan(wish: Wish, figures: Figures, instance: Instance, name: str) -> Plan:
    """The smallest fleet of ``instance`` that does it, or what the fleet that was asked for does.

    Where politeness does not allow the hours that are wanted, the plan is for those it takes. Raises
    ``InputError`` where no number of such machines would do.
    """
    if wish.nodes is not None:
        return with_nodes(wish, figures, instance, name, wish.nodes)
    before: Plan | None = None
    for nodes in range(1, MOST_NODES + 1):
        found = with_nodes(wish, figures, instance, name, nodes)
        if all(need <= nodes * _EVEN for need in found.needs.values()):
            return found if before is None else replace(found, nodes_set_by=_largest(before.needs))
        before = found
    raise InputError(f"more than {MOST_NODES:,} nodes of {name} would be needed")


def _largest(needs: Mapping[Limit, float]) -> Limit:
    return max(needs, key=lambda limit: needs[limit])


def with_nodes(wish: Wish, figures: Figures, instance: Instance, name: str, nodes: int) -> Plan:
    """What so many nodes do, and what each limit would need."""
    polite = wish.polite_pages_per_s
    node = node_of(wish, figures, instance, wish.hours or 24.0)
    slowest = min(node.per_s, key=lambda limit: node.per_s[limit])
    fleet = nodes * node.per_s[slowest]
    reached = min(fleet, polite)
    hours = wish.pages / reached / HOUR_S
    asked = reached if wish.hours is None else min(polite, wish.pages / wish.hours / HOUR_S)
    # Where a number is looked for, one that takes too long is out by its pace already, not by its memory.
    judged = reached if wish.nodes is not None else max(reached, asked)
    cap = budget.queue_cap(wish.most_queued, wish.delay_s, wish.pages / judged)
    redis = _redis_bytes(wish, figures, cap)
    disk = _disk_bytes(wish, reached, redis)
    own_disk = given.DISK_RESERVE_BYTES + 2 * given.OPEN_FILE_BYTES * node.fetchers
    needs = {limit: asked / per_s for limit, per_s in node.per_s.items()}
    needs[Limit.DISK] = disk / _room(node.disk_room_bytes - own_disk, name, "disk")
    needs[Limit.MEMORY] = redis / _room(node.redis_room_bytes, name, "memory")
    in_flight = reached / nodes * wish.requests_per_page * given.VISIT_S
    return Plan(
        wish=wish,
        instance=name,
        nodes=nodes,
        hours=hours,
        wanted_hours=wish.hours,
        pages_per_s=reached,
        needs=needs,
        nodes_set_by=None,
        pace_set_by=Limit.POLITENESS if polite <= fleet else slowest,
        lacking=tuple(limit for limit in (Limit.DISK, Limit.MEMORY) if needs[limit] > nodes * _EVEN),
        node=node,
        queue_cap=cap,
        in_flight=in_flight,
        redis_bytes=redis / nodes,
        memory_bytes=redis / nodes * 2 + _process_bytes(figures, node) + in_flight * given.VISIT_BYTES,
        disk_bytes=disk / nodes + own_disk,
        archive_bytes=wish.pages * wish.page_bytes,
    )


def node_of(wish: Wish, figures: Figures, instance: Instance, hours: float) -> Node:
    """What one machine can do with a crawl of so many hours."""
    requests = wish.requests_per_page + wish.robots_per_page(hours)
    fetcher_ms = figures.fetcher_ms * requests
    redis_ms = figures.redis_ms * (given.REDIS_FETCH_SHARE * requests + 1.0 - given.REDIS_FETCH_SHARE)
    cpu_ms = fetcher_ms + figures.parser_ms + redis_ms + figures.other_ms
    fetchers, parsers = split(fetcher_ms, figures.parser_ms, instance.vcpus - 1)
    core = given.CORE_SHARE[instance.threads_per_core] if wish.core_share is None else wish.core_share
    ms_per_s = 1000.0 * core * wish.utilisation
    wire = wish.page_bytes + requests * given.REQUEST_BYTES
    cpu = min(
        instance.vcpus * ms_per_s / cpu_ms,
        fetchers * ms_per_s / fetcher_ms,
        parsers * ms_per_s / figures.parser_ms,
    )
    per_s = {
        Limit.CPU: cpu,
        Limit.REDIS: 1000.0 * core * given.REDIS_UTILISATION / redis_ms,
        Limit.NETWORK: instance.internet_gbps * GB / 8 * wish.utilisation / wire,
    }
    if figures.pages_per_node_second is not None:
        per_s[Limit.CPU] = figures.pages_per_node_second * instance.vcpus / figures.vcpus
        del per_s[Limit.REDIS]  # it was part of that
    memory = instance.memory_bytes
    own = figures.fetcher_mb * MB * fetchers + figures.parser_mb * MB * parsers + figures.watch_mb * MB
    own += given.SYSTEM_BYTES + given.RESOLVER_SHARE * memory
    return Node(
        fetchers=fetchers,
        parsers=parsers,
        core_share=core,
        per_s=per_s,
        cpu_ms=cpu_ms,
        redis_ms=redis_ms,
        wire_bytes=wire,
        redis_room_bytes=min(given.REDIS_MEMORY_SHARE * memory, (memory - own) / 2),
        disk_room_bytes=given.FILE_SYSTEM_SHARE * instance.disk_bytes,
    )


def split(fetcher_ms: float, parser_ms: float, processes: int) -> tuple[int, int]:
    """Fetchers and parsers, at least one of each, that leave neither waiting for the other for long."""

    def pace(fetchers: int) -> float:
        return min(fetchers / fetcher_ms, (processes - fetchers) / parser_ms)

    if processes < 2:
        return 1, 1
    fetchers = max(range(1, processes), key=pace)
    return fetchers, processes - fetchers


def _redis_bytes(wish: Wish, figures: Figures, cap: int) -> float:
    """Of the whole fleet, at the most: full queues, and filters that have seen all that a life admits."""
    frontier = wish.domains * cap * figures.bytes_per_queued_url
    filters = wish.domains * budget.life_cap(cap) * figures.bits_per_seen_url / 8
    return frontier + filters


def _disk_bytes(wish: Wish, pace: float, redis: float) -> float:
    """Of the whole fleet, beside what each node keeps for itself."""
    logs = wish.pages * (wish.requests_per_page * given.LOG_BYTES + given.INDEX_BYTES)
    pages = {
        Archive.FULL: wish.pages * wish.page_bytes + logs,
        Archive.COLLECTED: min(wish.pages, pace * given.COLLECTED_AFTER_S) * wish.page_bytes + logs,
        Archive.SPOOL: logs,
    }
    return pages[wish.archive] + given.REDIS_DISK_FACTOR * redis


def _process_bytes(figures: Figures, node: Node) -> float:
    fetchers, parsers = figures.fetcher_mb * node.fetchers, figures.parser_mb * node.parsers
    return (fetchers + parsers + figures.watch_mb) * MB + given.SYSTEM_BYTES


def _room(count: float, name: str, what: str) -> float:
    if count <= 0:
        raise InputError(f"{name} has too little {what} for the processes of a node, however many there are")
    return count
