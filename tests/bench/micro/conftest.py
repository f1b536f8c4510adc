"""A frontier with something in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from node.rules.entry import Entry
from tests.redis_server import RedisServer
from tests.store.frontier_world import World, settings_for

DOMAINS, URLS = 500, 100


@pytest.fixture(scope="session")
def world(redis_server: RedisServer) -> Iterator[World]:
    """500 domains with 100 URLs each, no delay, all of them seen before; one fetcher serves all lanes."""
    made = World(redis_server, settings_for(redis_server, delay_s=1.0, max_urls_per_domain=1_000))
    made.beat()
    for number in range(DOMAINS):
        name = f"d{number}.test"
        made.offer(name, *(Entry(f"https://{name}/news/article-{k}.html", 1, 1) for k in range(URLS)))
    yield made
    made.close()
