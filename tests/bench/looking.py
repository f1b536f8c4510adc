"""A look at a crawl that is measured, from outside: what its Redis says, if it is there by now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from node import settings
from node.store import keys
from tests.whole.crawl import Crawl


@contextmanager
def redis_of(crawl: Crawl) -> Iterator[Any]:
    """A client of its Redis. Raises ``redis.RedisError`` where there is none yet, or no more."""
    if not crawl.config.exists():
        raise redis.ConnectionError("it is only just starting")
    with redis.Redis(unix_socket_path=settings.load(crawl.config).paths.redis_socket) as client:
        yield client


def counters(crawl: Crawl, *names: str) -> list[int] | None:
    """Counters of its ledger; None where they can't be had now."""
    try:
        with redis_of(crawl) as client:
            return [int(value or 0) for value in client.hmget(keys.LEDGER, names)]
    except redis.RedisError:
        return None
