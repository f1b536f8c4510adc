"""A fetcher's visitor with everything real around it, one visit at a time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node import settings as settings_of
from node.rules import url as urls
from node.rules.domain import registrable
from node.rules.entry import Entry, Lease
from node.rules.outcome import Outcome
from node.rules.shard import lane_of
from node.rules.url import dedup_key
from node.store.archive import ArchiveWriter
from node.store.connection import AsyncStore
from node.store.exclusions import Exclusions
from node.store.fetchlog import FetchLog
from node.store.frontier import Frontier, Group
from node.store.robots_cache import RobotsCache
from node.store.tally import Tally
from node.work.http import Fetching
from node.work.record import DiskRecorder
from node.work.robots import Robots
from node.work.sitemaps import Sitemaps
from node.work.visit import Visited, Visitor
from node.work.wire import new_client
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb


@dataclass
class Visits:
    """Offers URLs, leases them and visits them. ``mine`` = may anything be sent (the lease is ours)?"""

    store: AsyncStore
    frontier: Frontier
    client: Fetching
    visitor: Visitor
    recorder: DiskRecorder
    exclusions: Exclusions
    tally: Tally
    mine: bool = True
    asked: list[str] = field(default_factory=list)
    """URLs of which a lease was asked whether it may be used."""

    async def offer(self, *texts: str, bare: bool = False) -> None:
        """Queue URLs as seeds."""
        groups: dict[str, Group] = {}
        now = self.store.now_ms()
        for url in texts:
            domain = registrable(urls.host(url))
            group = groups.setdefault(domain, Group(domain, lane_of(domain), now - 1))
            group.entries.append(Entry(url, 0, 0, bare=bare).pack())
            group.slots += self.frontier.slots(dedup_key(url))
        await self.store.call(self.frontier.offer(now, groups.values()))

    async def lease(self, want: int = 10) -> list[Lease]:
        now = self.store.now_ms()
        lanes = await self.store.call(self.frontier.beat(now, 1, "test"))
        return (await self.store.call(self.frontier.lease(now, "1.test", lanes, want, 0))).leases

    async def visit(self, url: str, *, bare: bool = False) -> Visited:
        """Offer, lease and visit one URL; settle it."""
        await self.offer(url, bare=bare)
        (lease,) = await self.lease(1)
        visited = await self.visitor.visit(lease)
        await self.settle([visited])
        return visited

    async def settle(self, visits: Iterable[Visited]) -> str:
        results = [each.settlement for each in visits]
        return await self.store.call(self.frontier.settle(self.store.now_ms(), results, {}, 0.5))

    def outcome(self, visited: Visited) -> Outcome:
        return Outcome(visited.settlement.outcome)


@asynccontextmanager
async def visits(
    folder: Path, web: MiniWeb, redis: RedisServer, **changes: dict[str, Any]
) -> AsyncIterator[Visits]:
    """The parts of a fetcher on an empty frontier; ``changes``: sections of the settings."""
    with redis.client() as client:
        client.flushall()
    tree: dict[str, Any] = {
        "paths": {"data": str(folder), "redis_socket": str(redis.socket)},
        "crawl": {"delay_s": 0.05} | changes.get("crawl", {}),
        "fetcher": {"deadline_s": 3.0} | changes.get("fetcher", {}),
        "tls": {"ca_file": str(web.ca)} | changes.get("tls", {}),
        "dns": {"connect_to": web.connect_to, "timeout_s": 1.0} | changes.get("dns", {}),
    }
    for section in changes.keys() - tree.keys():
        tree[section] = changes[section]
    settings = settings_of.build(tree)
    store = AsyncStore(settings)
    await store.begin()
    frontier = Frontier(settings)
    archive = ArchiveWriter(settings.warc_folder, "test-f01", info={}, fsync=False)
    settings.warc_folder.mkdir(parents=True, exist_ok=True)
    settings.log_folder.mkdir(parents=True, exist_ok=True)
    log = FetchLog(settings.log_folder, "fetch-f01")
    tally = Tally("fetchers")
    recorder = DiskRecorder(archive, log, tally, known_pages=settings.fetcher.known_pages)
    client = new_client(settings, store, tally)
    exclusions = Exclusions()
    dice = random.Random(1)

    def may_send(lease: Lease) -> bool:
        made.asked.append(lease.entry.url)
        return made.mine

    visitor = Visitor(
        settings,
        store,
        frontier,
        client,
        Robots(
            client,
            RobotsCache(store, max_origins_per_domain=settings.crawl.max_origins_per_domain),
            token=settings.identity.token,
            deadline_s=settings.fetcher.deadline_s,
            max_pause_s=settings.crawl.max_crawl_delay_s,
            now_ms=store.now_ms,
            jitter=dice.random,
            on_request=recorder.robots,
        ),
        exclusions,
        recorder,
        may_send,
        dice.random,
        Sitemaps(settings, store),
        lambda: True,
    )
    made = Visits(store, frontier, client, visitor, recorder, exclusions, tally)
    try:
        yield made
    finally:
        await archive.close()
        log.close()
        await client.close()
        await store.close()
