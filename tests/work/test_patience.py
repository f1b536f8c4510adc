"""Steps of the command while Redis is away for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from node import settings
from node.errors import NoRedisError, OtherCrawlError
from node.store.connection import LOST, Store
from node.store.frontier import Frontier
from node.work.patience import patiently
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
