"""A look from outside at a crawl that is measured: its processes, and what its Redis says if it is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from node import settings
from node.store import keys
from tests.bench.processes import children, cpu_seconds
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


def role_of(words: str) -> str:
    """A process of a node by its command line."""
    for role in ("fetcher", "parser", "watch", "crawl"):
        if f"-m node {role}" in words:
            return role
    return "redis" if "redis-server" in words or "valkey-server" in words else "other"


def cpu_by_role(crawl: Crawl) -> dict[str, float]:
    """CPU seconds so far of the living processes of a crawl that was started."""
    assert crawl.process is not None
    taken: dict[str, float] = {}
    for pid in (crawl.process.pid, *children(crawl.process.pid)):
        try:
            role = role_of(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            taken[role] = taken.get(role, 0.0) + cpu_seconds(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return taken
