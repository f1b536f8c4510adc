"""A Redis that was restarted under processes at work: what they took for known may be lost there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.store.refusals import NewRedisError
from node.work.parser import Parser
from node.work.process import StopFlag
from tests.redis_server import RedisServer
from tests.store.frontier_world import settings_for

KNOWN = 5


def test_a_parser_forgets_what_it_knew(new_redis: Callable[..., RedisServer]) -> None:
    """Links that it would leave out as known are offered again; until then an offer that rests on old
    knowledge is refused, and its pages are parsed anew."""
    redis = new_redis(appendonly="yes", appendfsync="always")
    parser = Parser(settings_for(redis), 1, StopFlag())
    try:
        parser.store.begin()
        parser._meet()
        parser.offering.known.add(KNOWN)
        parser._meet()
        assert parser.offering.known.has(KNOWN), "the same Redis: nothing is forgotten"
        redis.kill()
        redis.start()
        parser.store.redis.connection_pool.disconnect()  # it is met again without a word of a lost connection
        with pytest.raises(NewRedisError):
            parser._offer({}, [])
        parser._meet()
        assert not parser.offering.known.has(KNOWN)
        assert parser._offer({}, [])
    finally:
        parser.store.close()
