"""Redis goes on syncing its log where the wall clock is set back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.settings import build
from node.store import keys
from node.store.connection import Store
from node.work import syncing
from node.work.syncing import Syncing
from tests.chaos import wall
from tests.conftest import missing
from tests.redis_server import RedisServer
from tests.whole.crawl import until

HOUR_S = 3_600


class _Node:
    """A Redis that sees a wall clock which can be set, and a connection to it."""

    def __init__(self, server: RedisServer, clock: wall.Wall) -> None:
        self.server, self.clock = server, clock
        self.store = Store(build({"paths": {"data": str(server.folder), "redis_socket": str(server.socket)}}))

    def syncs_soon(self, within_s: float = 10.0) -> bool:
        """Write until a file has been synced."""
        before = self.clock.syncs

        def synced() -> bool:
            self.store.calls([], extra=[("INCR", "writes")])
            return self.clock.syncs > before

        try:
            until(synced, "it syncs", within_s=within_s)
        except AssertionError:
            return False
        return True

    @property
    def policy(self) -> bytes:
        """How often it syncs, by its settings."""
        answer: list[list[bytes]] = self.store.calls([], extra=[("CONFIG", "GET", "appendfsync")])
        return answer[0][1]


@pytest.fixture
def node(redis_binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Node]:
    """Its log is synced once a second."""
    if wall.why_not():
        missing(f"a wall clock can't be set here: {wall.why_not()}")
    clock = wall.Wall(tmp_path)
    server = RedisServer(redis_binary, appendonly="yes", appendfsync="everysec")
    with monkeypatch.context() as patch:
        for each in clock.environment:
            patch.setenv(*each.split("=", 1))
        server.start()
    assert "LD_PRELOAD" not in os.environ
    try:
        found = _Node(server, clock)
        yield found
        found.store.close()
    finally:
        server.close()


def _settable() -> tuple[Syncing, list[float]]:
    """One whose wall clock is the number in the list."""
    now = [1_000_000.0]
    return Syncing(wall_s=lambda: now[0], up_s=lambda: 0.0), now


def test_a_clock_that_is_set_back_stops_no_syncing(node: _Node) -> None:
    """Redis alone would sync nothing for an hour; with a look it goes on, as often as before."""
    watch, now = _settable()
    watch.look(node.store)
    assert node.syncs_soon()
    node.clock.set(-HOUR_S)
    now[0] -= HOUR_S
    for _ in range(3):  # one may have been under way; and another Redis may count otherwise
        if not node.syncs_soon(within_s=2.5):
            break
    assert watch.look(node.store)
    assert node.syncs_soon()
    assert node.syncs_soon()
    assert node.policy == b"everysec"
    assert not node.store.calls([], extra=[("HEXISTS", keys.CONTROL, syncing.FIELD)])[0]
    assert not watch.look(node.store)


def test_what_was_begun_by_a_watch_that_died_is_ended(node: _Node) -> None:
    """Else each command would be synced for ever."""
    node.store.calls(
        [], extra=[("HSET", keys.CONTROL, syncing.FIELD, "1"), ("CONFIG", "SET", "appendfsync", "always")]
    )
    assert Syncing().look(node.store)
    assert node.policy == b"everysec"


@pytest.mark.parametrize("policy", ["always", "no"])
def test_another_policy_is_left_alone(node: _Node, policy: str) -> None:
    """It is the operator's, and does not go by the clock."""
    node.store.calls([], extra=[("CONFIG", "SET", "appendfsync", policy)])
    watch, now = _settable()
    assert not watch.look(node.store)
    now[0] -= HOUR_S
    assert not watch.look(node.store)
    assert node.policy.decode() == policy


def test_a_clock_that_is_led_is_not_set(node: _Node) -> None:
    """A little at a time, or ahead: nothing to do."""
    watch, now = _settable()
    assert watch.look(node.store), "what happened before, nobody knows"
    for step in (0.3, -0.3, -0.4, 2 * HOUR_S, 0.0):
        now[0] += step
        assert not watch.look(node.store)


def test_without_memory_it_waits(node: _Node) -> None:
    """At ``maxmemory`` nothing can be noted: it is done once there is some."""
    watch, _ = _settable()
    node.store.calls([], extra=[("SET", "large", "x" * 100_000), ("CONFIG", "SET", "maxmemory", "1")])
    assert not watch.look(node.store)
    assert node.policy == b"everysec"
    node.store.calls([], extra=[("CONFIG", "SET", "maxmemory", "0")])
    assert watch.look(node.store)
