"""A Redis that is there and refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from node import settings
from node.store import keys
from node.store.connection import LOST, AsyncStore, Store
from node.store.frontier import Frontier
from node.store.refusals import CanNotWriteError
from tests.redis_server import RedisServer


async def test_a_redis_whose_disk_is_full_is_waited_for(
    new_redis: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """Verbs, plain commands and a first meeting say so by what a lost connection is told by, too: else
    processes would die of it, and a parser would charge its page. Nothing was changed."""
    server = new_redis(save="3600 1")
    server.fail_to_save()
    node = settings.build({"paths": {"data": str(tmp_path), "redis_socket": str(server.socket)}})
    store, asyncly = Store(node), AsyncStore(node)
    try:
        for meeting in (store.begin, store._meet):
            with pytest.raises(CanNotWriteError):
                meeting()
        with pytest.raises(CanNotWriteError):
            await asyncly.begin()
        with pytest.raises(LOST):
            store.call(Frontier(node).beat(1, 1, "a"))
        with pytest.raises(LOST):
            store.calls([], extra=[("HSET", keys.TALLY, "a", "1")], spare=True)
        with pytest.raises(LOST):
            await asyncly.calls([], extra=[("HSET", keys.TALLY, "a", "1")])
        with server.client() as client:
            assert client.keys() == []
    finally:
        store.close()
        await asyncly.close()
