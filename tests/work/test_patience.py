"""Steps of the command while Redis is away for a moment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from node import settings
from node.errors import NoRedisError, OtherCrawlError, StoreError
from node.store import keys
from node.store.connection import LOST, Store
from node.store.frontier import Frontier
from node.work.local import LocalNode
from node.work.opened import opened
from node.work.patience import patiently
from node.work.redis_server import socket_path
from tests.redis_server import RedisServer


def _node(server: RedisServer, folder: Path, **crawl: object) -> Store:
    paths = {"data": str(folder), "redis_socket": str(server.socket)}
    return Store(settings.build({"paths": paths, "crawl": crawl}))


def test_a_step_is_done_once_redis_is_back(new_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    """It was killed in the middle of one: it is mended, and the step done again."""
    server = new_redis(appendonly="yes", appendfsync="always")
    store = _node(server, tmp_path)
    mended = []

    def mend() -> None:
        mended.append(1)
        server.start()

    patiently(store.begin, mend)
    assert not mended
    server.kill()
    lanes = patiently(lambda: store.call(Frontier(store.settings).beat(store.now_ms(), 1, "a")), mend)
    assert len(lanes) == 64
    assert len(mended) == 1
    store.close()


def test_a_step_is_done_once_there_is_memory(new_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    """At maxmemory it waits until memory is free, and says in words where none is, and what to do."""
    server = new_redis()
    store = _node(server, tmp_path)
    store.begin()
    with server.client() as client:
        client.config_set("maxmemory", 100_000)

        def step() -> object:
            return store.calls([], extra=[("SADD", keys.SCOPE, "a.test")])

        with pytest.raises(StoreError, match="maxmemory_mb"):
            patiently(step, lambda: None, give_up_s=0.3)
        with pytest.raises(StoreError, match="maxmemory_mb"), opened(store.settings) as at:
            at.store.calls([], extra=[("SADD", keys.SCOPE, "a.test")])
        assert patiently(step, lambda: client.config_set("maxmemory", 0)) == [1]
    store.close()


def test_patience_ends(new_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    """A Redis that stays away is told in the end; what is no absence is told at once."""
    server = new_redis()
    store = _node(server, tmp_path)
    store.begin()
    with pytest.raises(OtherCrawlError):
        patiently(_node(server, tmp_path, name="another").begin, lambda: pytest.fail("it is there"))
    server.kill()
    with pytest.raises(LOST):
        patiently(lambda: store.calls([], extra=[("PING",)]), lambda: None, give_up_s=0.3)
    with pytest.raises(NoRedisError):
        patiently(store.begin, lambda: None, give_up_s=0.3)
    store.close()


def test_a_redis_that_can_not_be_started_yet_is_started_later(redis_binary: str, tmp_path: Path) -> None:
    """It died, and its disk takes no file: the command lives on, and starts it as soon as it can."""
    paths = {"data": str(tmp_path), "redis_socket": str(socket_path(tmp_path))}
    node = LocalNode(
        settings.build({"paths": paths}), tmp_path / "node.toml", fetchers=0, parsers=0, watch=False
    )
    try:
        node.start()
        assert not node.mend_redis(), "it lives"
        pid = node.redis.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        config = tmp_path / "redis" / "redis.conf"
        config.unlink()
        config.mkdir()
        give_up = time.monotonic() + 20
        while node.redis.alive():
            assert time.monotonic() < give_up
            time.sleep(0.01)
        assert not node.mend_redis()
        assert not node.redis.alive()
        config.rmdir()
        assert node.mend_redis()
        assert node.store.begin().how == "unclean"
    finally:
        node.close()
