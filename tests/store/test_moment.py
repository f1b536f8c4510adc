"""A moment of a Redis, read out of its append-only file: all that was before, nothing of what came after."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from node.errors import StoreError
from node.store import moment
from node.store.connection import Store
from node.store.moment import Moment
from node.store.scripts import Verb
from tests.redis_server import RedisServer
from tests.store.frontier_world import settings_for

NewRedis = Callable[..., RedisServer]


class Rewriting(Store):
    """Whose Redis begins to rewrite its file just before the mark is written, once."""

    rewrites = 1

    def calls(
        self, verbs: Sequence[Verb[Any]], *, extra: Sequence[tuple[Any, ...]] = (), spare: bool = False
    ) -> list[Any]:
        if extra and extra[0][0] == "EVAL" and self.rewrites:
            self.rewrites -= 1
            super().calls([], extra=[("BGREWRITEAOF",)])
        return super().calls(verbs, extra=extra, spare=spare)


def store_of(server: RedisServer, kind: type[Store] = Store) -> Store:
    store = kind(settings_for(server))
    store.begin()
    return store


@contextmanager
def another(new_redis: NewRedis, taken: Moment) -> Iterator[Any]:
    """A Redis on the files of a moment."""
    server = new_redis(appendonly="yes")
    server.kill()
    for path in sorted(server.folder.rglob("appendonly*")):
        if path.is_file():
            path.unlink()
    for part in taken.parts:
        to = server.folder / part.name
        to.parent.mkdir(exist_ok=True)
        to.write_bytes(os.pread(part.fd, part.size, 0))
    if taken.manifest_name:
        (server.folder / taken.manifest_name).write_text(taken.manifest)
    server.start()
    with server.client() as client:
        yield client


def fill(client: Any, count: int) -> None:
    client.mset({f"key-{number}": number for number in range(count)})


@pytest.mark.parametrize("kind", [Store, Rewriting])
def test_what_came_before_and_nothing_else(new_redis: NewRedis, kind: type[Store]) -> None:
    """The moment is exact, also where Redis rewrites its file just then."""
    server = new_redis(appendonly="yes")
    with closing(store_of(server, kind)) as store, server.client() as client, ExitStack() as held:
        fill(client, 1_000)
        client.xadd("spool", {"p": "c-f01-000001.warc.gz 0 10 0 https://a.test/"})
        taken, pages = moment.take(store, held, lambda: client.hincrby("ledger", "pages", 1))
        client.delete("key-7")
        client.set("late", 1)
        with suppress(redis.ResponseError):  # there is one under way
            client.bgrewriteaof()  # what is held open outlives it
        assert taken.spooled_in == {"c-f01-000001.warc.gz"}
        with another(new_redis, taken) as copy:
            assert copy.hget("meta", "snapshot").decode() == taken.id
            assert int(copy.hget("ledger", "pages") or 0) == taken.ledger.get("pages", 0) == pages - 1
            assert copy.exists("key-7", "key-999") == 2
            assert not copy.exists("late")


def test_without_memory_to_spare(new_redis: NewRedis) -> None:
    """A Redis at its limit can be copied, too: that may be why somebody wants to."""
    server = new_redis(appendonly="yes")
    with closing(store_of(server)) as store, server.client() as client, ExitStack() as held:
        fill(client, 100)
        client.config_set("maxmemory", 1)
        taken, _ = moment.take(store, held, lambda: None)
        with another(new_redis, taken) as copy:
            assert copy.exists("key-0", "key-99") == 2


def test_a_redis_without_a_file(new_redis: NewRedis, tmp_path: Path) -> None:
    """Where Redis keeps nothing on the disk it is said so."""
    server = new_redis()
    with (
        closing(store_of(server)) as store,
        ExitStack() as held,
        pytest.raises(StoreError, match="append-only"),
    ):
        moment.take(store, held, lambda: None)
