"""What is known of robots.txt, where Redis takes no writes: no visit may end for that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis.exceptions import ResponseError

from node.rules.entry import Entry, Lease
from node.rules.robots import parse
from node.store import keys
from node.store.connection import AsyncStore
from node.store.refusals import refuses_writes
from node.store.robots_cache import Known, RobotsCache
from node.work.sitemaps import Sitemaps
from tests.redis_server import RedisServer
from tests.store.frontier_world import settings_for

ORIGIN = "https://x.test"


@pytest.mark.parametrize("lacks", ["memory", "disk"])
async def test_what_redis_does_not_take_is_known_here(
    new_redis: Callable[..., RedisServer], lacks: str
) -> None:
    """At maxmemory, and while its disk is full: remembered in the process, and a sitemap may be read."""
    server = new_redis(save="3600 1")
    settings = settings_for(server)
    store = AsyncStore(settings)
    try:
        await store.begin()
        if lacks == "memory":
            await store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
        else:
            server.fail_to_save()
        with pytest.raises(ResponseError) as refused:
            await store.redis.execute_command("SET", "a", "b")
        assert refuses_writes(refused.value)
        known = Known(parse(b"User-agent: *\nDisallow: /a", "milliarde"), 5_000)
        cache = RobotsCache(store, max_origins_per_domain=10)
        await cache.put("x.test", ORIGIN, known)
        assert await cache.get("x.test", ORIGIN) == known
        assert await RobotsCache(store, max_origins_per_domain=10).get("x.test", ORIGIN) is None
        assert await Sitemaps(settings, store).may_read(
            Lease("", 0, "x.test", 0, Entry(ORIGIN + "/", 1, 1), 0, 0)
        )
        if lacks == "memory":
            await store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")
            await cache.put("x.test", ORIGIN, known)
            assert await store.redis.hget(keys.robots("x.test"), ORIGIN) == known.pack()
    finally:
        await store.close()


async def test_what_is_no_refusal_is_not_hidden(redis_server: RedisServer) -> None:
    """A key of another type is a fault of ours, and says so."""
    with redis_server.client() as client:
        client.flushall()
    store = AsyncStore(settings_for(redis_server))
    try:
        await store.begin()
        await store.redis.execute_command("SET", keys.robots("x.test"), "text")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await RobotsCache(store, max_origins_per_domain=10).put("x.test", ORIGIN, Known(None, 5_000))
    finally:
        await store.close()
