"""A Redis that lives and does not answer is ended, and no other."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from node.work import stuck
from node.work.stuck import Stuck
from tests.redis_server import RedisServer
from tests.whole.crawl import until

_AFTER_S = 30.0


class _Clock:
    """Each look takes as long as it waits for an answer."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += stuck.PATIENCE_S
        return self.now_s


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "PATIENCE_S", 0.2)


def _stop(server: RedisServer) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    until(lambda: _state(server) == "T", "it is stopped")


def _state(server: RedisServer) -> str:
    return Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_one_that_is_stopped_is_ended_when_its_time_is_over(new_redis: Callable[..., RedisServer]) -> None:
    """And not before; it is there again as after any other death."""
    server = new_redis()
    looks = Stuck(str(server.socket), 1.9, up_s=_Clock())
    assert not looks.look()
    _stop(server)
    assert [looks.look() for _ in range(9)] == [True] * 9
    assert _state(server) == "T"
    assert looks.look()
    until(lambda: _state(server) == "Z", "it was ended")
    server.kill()
    assert not looks.look(), "nobody listens: that is its supervisor's matter"
    server.start()
    assert not looks.look()


def test_one_that_answers_again_in_time_is_left_alone(new_redis: Callable[..., RedisServer]) -> None:
    """Its time begins anew."""
    server = new_redis()
    looks = Stuck(str(server.socket), 1.0, up_s=_Clock())
    for _ in range(3):
        _stop(server)
        assert [looks.look() for _ in range(4)] == [True] * 4
        os.kill(server.pid, signal.SIGCONT)
        assert not looks.look()
    assert _state(server) != "Z"


def test_time_in_which_nobody_looked_counts_little(new_redis: Callable[..., RedisServer]) -> None:
    """We may have been stopped ourselves, together with it."""
    server = new_redis()
    clock = _Clock()
    looks = Stuck(str(server.socket), _AFTER_S, up_s=clock)
    _stop(server)
    for _ in range(5):
        clock.now_s += 3_600
        assert looks.look()
    assert _state(server) == "T"


def test_one_that_is_busy_is_not_stuck(new_redis: Callable[..., RedisServer]) -> None:
    """A script that does not end: it says so. (A write would be lost with it.)"""
    server = new_redis(lua_time_limit="50")
    with server.client() as client:
        client.connection_pool.connection_kwargs["socket_timeout"] = 0.3
        with pytest.raises(Exception, match=r"(?i)time|busy"):
            client.eval("while true do end", 0)
    looks = Stuck(str(server.socket), 0.1, up_s=_Clock())
    assert not looks.look()
    assert not looks.look()
    assert _state(server) != "Z"


def test_none_is_ended_where_that_is_not_wanted(new_redis: Callable[..., RedisServer]) -> None:
    """``redis.stuck_s = 0``."""
    server = new_redis()
    _stop(server)
    looks = Stuck(str(server.socket), 0.0, up_s=_Clock())
    assert not any(looks.look() for _ in range(20))
    assert _state(server) == "T"
