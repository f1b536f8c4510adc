"""Talking to the node's Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from node import settings as settings_of
from node.errors import NoRedisError, OtherCrawlError, StoreError
from node.settings import Settings
from node.store.connection import CONNECTIONS, LOST, AsyncStore, Store
from node.store.frontier import Frontier
from tests.redis_server import RedisServer


def _settings(redis: RedisServer, folder: Path, **crawl: object) -> Settings:
    return settings_of.build(
        {"paths": {"data": str(folder), "redis_socket": str(redis.socket)}, "crawl": crawl}
    )


@pytest.mark.usefixtures("redis_client")
async def test_many_calls_at_once_wait_their_turn(redis_server: RedisServer, tmp_path: Path) -> None:
    """Thousands of visits may ask for something in the same moment; none is told that Redis is gone."""
    store = AsyncStore(_settings(redis_server, tmp_path))
    try:
        await store.begin()
        answers = await asyncio.gather(*(store.redis.hget("robots:h.test", str(n)) for n in range(2_000)))
        assert answers == [None] * 2_000
        with redis_server.client() as client:
            looking = 2  # this client and the fixture's
            assert len(client.client_list()) <= CONNECTIONS + looking
    finally:
        await store.close()


@pytest.mark.usefixtures("redis_client")
def test_lost_scripts_are_loaded_again(redis_server: RedisServer, tmp_path: Path) -> None:
    """A Redis that forgot the verbs (it was restarted) is met anew, and the call carried out."""
    store = Store(_settings(redis_server, tmp_path))
    store.begin()
    with redis_server.client() as client:
        client.script_flush()
    assert len(store.call(Frontier(store.settings).beat(store.now_ms(), 1, "a"))) == 64
    store.close()


@pytest.mark.usefixtures("redis_client")
def test_another_crawl_is_refused_in_words(redis_server: RedisServer, tmp_path: Path) -> None:
    """What is frozen can't change under a crawl; the difference is named, both ways (W13)."""
    Store(_settings(redis_server, tmp_path, delay_s=70.0)).begin()
    with pytest.raises(OtherCrawlError, match=r"now delay_s=5\.0; then delay_s=70\.0"):
        Store(_settings(redis_server, tmp_path, delay_s=5.0)).begin()


def test_no_redis_is_a_sentence(tmp_path: Path) -> None:
    """A socket where nobody listens is named."""
    settings = settings_of.build({"paths": {"data": "d", "redis_socket": str(tmp_path / "none.sock")}})
    with pytest.raises(StoreError, match=r"none\.sock"):
        Store(settings).begin()


def test_a_restarted_redis_is_a_new_generation(new_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    """What was leased before is not to be used after; and no domain is due before its delay (I3)."""
    redis = new_redis(appendonly="yes", appendfsync="always")
    store = Store(_settings(redis, tmp_path))
    assert store.begin().how == "first"
    before = store.generation
    redis.kill()
    redis.start()
    store.call(Frontier(store.settings).beat(store.now_ms(), 1, "a"))
    assert store.generation == before + 1
    assert store.begun is not None
    assert store.begun.epoch_ms > store.now_ms()
    store.close()


async def test_meeting_at_work_waits_for_a_redis_that_is_away(
    new_redis: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """At a start that nobody is there is an error in words; later it is a lost connection like any other."""
    redis = new_redis()
    store = AsyncStore(_settings(redis, tmp_path))
    await store.begin()
    redis.kill()
    with pytest.raises(LOST):
        await store.meet()
    with pytest.raises(NoRedisError, match="no Redis answers"):
        await store.begin()
    redis.start()
    assert (await store.meet()).how == "first"
    await store.close()
