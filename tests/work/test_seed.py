"""Seeds into a real frontier."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node import settings as settings_of
from node.errors import InputError
from node.rules.entry import unpack
from node.store import keys
from node.store.connection import Store
from node.store.frontier import Frontier
from node.work import seed
from tests.redis_server import RedisServer


def test_seeds_are_queued_by_the_priority_rules(redis_server: RedisServer, tmp_path: Path) -> None:
    """Best of all unless a rule says otherwise; how far a seed is from a seed stays 0."""
    settings = settings_of.build(
        {
            "paths": {"data": str(tmp_path), "redis_socket": str(redis_server.socket)},
            "priority": {"rules": [{"pattern": "/archive/", "domain": "a.test", "shift": 3}]},
        }
    )
    store = Store(settings)
    try:
        store.redis.flushall()
        store.begin()
        given = seed.given(["https://a.test/archive/", "https://a.test/", "https://b.test/archive/"])
        assert seed.sow(store, Frontier(settings), seed.gate(settings), given).admitted == 3
        places = (("a.test", 3), ("a.test", 0), ("b.test", 0))
        found = store.calls([], extra=[("LRANGE", keys.queue(level, name), 0, -1) for name, level in places])
        entries = [[unpack(each.decode()) for each in queue] for queue in found]
        assert [[(each.url, each.level, each.depth) for each in queue] for queue in entries] == [
            [("https://a.test/archive/", 3, 0)],
            [("https://a.test/", 0, 0)],
            [("https://b.test/archive/", 0, 0)],
        ]
    finally:
        store.redis.flushall()
        store.close()


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """It could be read only once, and what a first look took from it would be lost."""
    pipe = tmp_path / "seeds"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a pipe"):
        next(iter(seed.read(pipe)))
