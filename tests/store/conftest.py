"""Fixtures of the tests of the verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.redis_server import RedisServer
from tests.store.frontier_world import World, settings_for

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(redis_server: RedisServer) -> Iterator[MakeWorld]:
    """Call as ``make_world(delay_s=0)``: an empty frontier; keywords are settings of ``crawl``."""
    worlds: list[World] = []

    def make(**crawl: Any) -> World:
        worlds.append(World(redis_server, settings_for(redis_server, **crawl)))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """An empty frontier: 2 s delay, 100 URLs a domain, fetcher 1.a serves all lanes."""
    made = make_world()
    made.beat()
    return made
