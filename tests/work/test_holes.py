"""Redis's log is rewritten where a full disk has left a hole in it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from node.settings import build
from node.store.connection import Store
from node.work.holes import LOOKS, Holes
from tests.redis_server import RedisServer
from tests.store.full_disk import disk_that_was_full
from tests.whole.crawl import until


def _store(server: RedisServer) -> Store:
    store = Store(build({"paths": {"data": str(server.folder), "redis_socket": str(server.socket)}}))
    store.begin()
    return store


def test_a_hole_is_rewritten_away(redis_binary: str, tmp_path: Path) -> None:
    """Once; then Redis knows again how long its log is, and there are no zeros in it."""
    with disk_that_was_full(redis_binary, tmp_path / "disk") as disk:
        had_hole = disk.has_hole
        store = _store(disk.server)
        holes = Holes()
        assert [holes.look(store) for _ in range(LOOKS + 1)] == [False, False, had_hole, False]
        with disk.server.client() as client:
            until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "it is rewritten")
            until(lambda: not disk.has_hole, "the hole is gone")
        holes = Holes()
        assert not any(holes.look(store) for _ in range(2 * LOOKS))
        store.close()


def test_a_sound_log_is_left_alone(new_redis: Callable[..., RedisServer]) -> None:
    """Fresh, rewritten, and read at a start; and one that is written meanwhile."""
    server = new_redis(appendonly="yes", appendfsync="everysec")
    store = _store(server)
    holes = Holes()
    with server.client() as client:
        for number in range(500):
            client.set(f"value:{number}", "x")
            assert not holes.look(store)
        client.bgrewriteaof()
        for number in range(500):
            client.set(f"value:{number}", "y")
            assert not holes.look(store)
    server.kill()
    server.start()
    store.close()
    store = _store(server)
    assert not any(holes.look(store) for _ in range(2 * LOOKS))
    store.close()


def test_one_without_a_log_has_no_hole(new_redis: Callable[..., RedisServer]) -> None:
    """A Redis that keeps nothing."""
    store = _store(new_redis())
    holes = Holes()
    assert not any(holes.look(store) for _ in range(2 * LOOKS))
    store.close()
