"""What a command on a node meets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from node import settings
from node.errors import StoreError
from node.work import operate, show_status
from node.work.opened import opened
from tests.redis_server import RedisServer


def test_a_redis_that_cannot_write_is_still_read(
    new_redis: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """On a full disk, when an operator looks first of all, status answers; what would write is refused."""
    server = new_redis(save="3600 1")
    node = settings.build({"paths": {"data": str(tmp_path), "redis_socket": str(server.socket)}})
    with opened(node) as at:
        at.store.calls([], extra=[("HSET", "a", "b", "c")])
    server.fail_to_save()
    with server.client() as client, pytest.raises(redis.ResponseError, match="MISCONF"):
        client.set("a", "b")
    with opened(node) as at:
        show_status.status(at.store, as_json=True)
    with pytest.raises(StoreError, match="can't write"), opened(node) as at:
        operate.pause(at.store, "")
