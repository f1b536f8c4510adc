"""Frontiers that are large, or were: what a start costs, and what domains leave behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from node import settings as settings_of
from node.rules.entry import Entry
from node.rules.outcome import Signal
from node.rules.shard import LANES, lane_of
from node.store import keys
from node.store.connection import Store
from node.store.frontier import Frontier, Group, Kind, Settlement
from tests.redis_server import RedisServer
from tests.store.frontier_world import World, settings_for
from tests.store.large import fill

DOMAINS, PER_DOMAIN = 80_000, 13
"""A million URLs."""
VISITED = 20_000
BYTES_PER_DOMAIN = 800
"""What a domain may leave in Redis once it is done: its state, what is seen of it, and its robots rules."""


def _store(server: RedisServer, folder: Path) -> Store:
    store = Store(
        settings_of.build(
            {
                "paths": {"data": str(folder), "redis_socket": str(server.socket)},
                "crawl": {"delay_s": 0.0, "max_urls_per_domain": 100},
            }
        )
    )
    store.begin()
    return store


def _offer(store: Store, first: int, last: int, per_domain: int) -> None:
    """URLs of the domains from ``first`` to ``last``."""
    frontier = Frontier(store.settings)
    groups = []
    for number in range(first, last):
        name = f"site-{number:06d}.test"
        group = Group(name, lane_of(name), store.now_ms())
        for page in range(per_domain):
            entry = Entry(f"https://{name}/a/{page}", 1, 1)
            group.entries.append(entry.pack())
            group.slots += frontier.slots(entry.url)
        groups.append(group)
    store.call(frontier.offer(store.now_ms(), groups))


@pytest.mark.timeout(300)
def test_a_million_urls_are_no_reason_to_wait(new_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    """F17: Redis is killed with a million URLs queued. Meeting it and leasing the first of them take it a few
    milliseconds, for nothing is gone through; what takes long is its loading, and that is its own affair."""
    server = new_redis(appendonly="yes", appendfsync="no")
    world = World(server, settings_for(server))
    fill(world, DOMAINS, PER_DOMAIN)
    world.store.calls([], extra=[("HSET", keys.META, "clean", "1")])  # no domain has to wait after it
    world.close()
    server.kill()
    server.start()
    with server.client() as client:
        client.config_resetstat()
        again = Store(world.settings)
        assert again.begin().how == "clean"
        frontier = Frontier(again.settings)
        lanes = again.call(frontier.beat(again.now_ms(), 1, "b"))
        leased = again.call(frontier.lease(again.now_ms(), "1.b", lanes, 100, 0))
        assert len(leased.leases) == 100
        stats = client.info("commandstats")
        verbs = ("cmdstat_evalsha", "cmdstat_hget", "cmdstat_script|load")
        assert sum(stats[name]["usec"] for name in verbs if name in stats) < 100_000
        assert int(client.hget(keys.LEDGER, "queued") or 0) > 1_000_000
    again.close()


@pytest.mark.timeout(300)
def test_domains_that_are_done_leave_little_behind(
    new_redis: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """F19: of tens of thousands of domains visited once nothing is left in any queue, and of each what has a
    known size."""
    server = new_redis()
    store = _store(server, tmp_path)
    frontier = Frontier(store.settings)
    lanes = store.call(frontier.beat(store.now_ms(), 1, "a"))
    with server.client() as client:
        empty = client.info("memory")["used_memory"]
        done = 0
        for first in range(0, VISITED, 500):
            _offer(store, first, first + 500, 1)
            while leases := store.call(frontier.lease(store.now_ms(), "1.a", lanes, 500, 0)).leases:
                ended = [
                    Settlement(each, Kind.DONE, "not_found", Signal.SUCCESS, sent=True) for each in leases
                ]
                store.call(frontier.settle(store.now_ms(), ended, {}, 0.0))
                done += len(leases)
        assert done == VISITED
        left = client.info("memory")["used_memory"] - empty
        assert left / VISITED < BYTES_PER_DOMAIN
        for of_lane in (keys.ready, keys.later, keys.leases):
            assert not any(client.exists(of_lane(lane)) for lane in range(LANES))
        assert client.dbsize() <= 2 * VISITED + 20, "its state and its filter, and no queue"
    store.close()
