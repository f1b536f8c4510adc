"""The limiter on calls to the gateway: the law, that the script keeps to it, and what stops and resumes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from node import settings as settings_of
from node.rules.gateway import MISSES, PAUSE_MS, UNREACHABLE_MISSES, Calls, Told
from node.store import keys
from node.store.connection import Store
from node.store.gateway import Event, Turn, gateway
from node.work import operate
from tests.redis_server import RedisServer

CEILING = 10.0


@pytest.fixture
def store(tmp_path: Path, redis_server: RedisServer, redis_client: redis.Redis) -> Iterator[Store]:
    """A node's store, just begun."""
    tree = {"paths": {"data": str(tmp_path), "redis_socket": str(redis_server.socket)}}
    store = Store(settings_of.build(tree))
    store.begin()
    yield store
    store.close()


class Limiter:
    """The verb with a clock of the test's own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = store.now_ms() + 1_000

    def turn(self, *, wait_ms: int = 0, successes: int = 0) -> Turn:
        """Take the next turn."""
        return self.store.call(gateway(self.now, CEILING, max_wait_ms=wait_ms, successes=successes))

    def tell(self, told: Told, *, sent_ago: float = 0.0, wait_ms: int = 0, for_ms: int = 0) -> Turn:
        """Say that a call let go so long ago ended like this; ``for_ms``: how long that lasts."""
        until = self.now + for_ms if for_ms else 0
        why = "" if told is Told.LIMITED else f"gateway: {told}"
        event = Event(told, self.now - sent_ago, wait_ms, why, until)
        return self.store.call(gateway(self.now, CEILING, event=event))

    @property
    def pause(self) -> str | None:
        (value,) = self.store.calls([], extra=[("HGET", keys.CONTROL, "pause")])
        return None if value is None else value.decode()


@pytest.fixture
def limiter(store: Store) -> Limiter:
    return Limiter(store)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 30_000),
        st.sampled_from(["turn", "success", "limited", "failed", "unreachable"]),
        st.integers(1, 40),
        st.integers(0, 5_000),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_script_keeps_to_the_law(
    redis_server: RedisServer, steps: list[tuple[int, str, int, int]]
) -> None:
    """Whatever happens in whatever order, rate and turns are those of rules/gateway.py."""
    with redis_server.client() as client:
        client.flushall()
    tree = {"paths": {"data": "/", "redis_socket": str(redis_server.socket)}}
    store = Store(settings_of.build(tree))
    store.begin()
    try:
        limiter = Limiter(store)
        start = limiter.now
        calls = Calls(CEILING / 2)
        paused_until = 0.0
        for passed_ms, what, count, ago in steps:
            limiter.now += passed_ms
            now = limiter.now - start
            sent = max(0, now - ago)
            if what == "turn":
                calls, expected = calls.turn(now, count * 100.0) if now >= paused_until else (calls, None)
                got = limiter.turn(wait_ms=count * 100)
                assert (got.at_ms is None) == (expected is None)
                if expected is not None and got.at_ms is not None:
                    assert got.at_ms - start == pytest.approx(expected, abs=0.5)
            elif what == "success":
                calls = calls.succeeded(count, CEILING)
                got = store.call(gateway(limiter.now, CEILING, successes=count))
            elif what == "limited":
                calls = calls.limited(now, sent, count * 10.0, CEILING)
                got = limiter.tell(Told.LIMITED, sent_ago=now - sent, wait_ms=count * 10)
            else:
                calls, pause_ms = calls.failed(now, sent, 1 if what == "failed" else UNREACHABLE_MISSES)
                paused_until = max(paused_until, now + pause_ms) if pause_ms else paused_until
                got = limiter.tell(Told(what), sent_ago=now - sent)
            assert got.rate == pytest.approx(calls.rate)
            assert (got.stop is not None) == (now < paused_until)
    finally:
        store.close()


def test_nine_fetchers_share_one_rate(limiter: Limiter, redis_server: RedisServer) -> None:
    """Turns taken at the same time from many connections are one after the other, the rate apart."""

    def take(_: int) -> float | None:
        own = Store(limiter.store.settings)
        try:
            own.begin()
            return own.call(gateway(limiter.now, CEILING, max_wait_ms=60_000)).at_ms
        finally:
            own.close()

    with ThreadPoolExecutor(9) as threads:
        turns = list(threads.map(take, range(45)))
    moments = sorted(turn for turn in turns if turn is not None)
    assert len(moments) == 45
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert min(gaps) == pytest.approx(1000 / (CEILING / 2), abs=0.01)


def test_too_many_calls_halve_the_rate_once(limiter: Limiter) -> None:
    """Ten refusals of calls that were under way together are one sign; one sent later is another."""
    before = limiter.turn().rate
    limiter.now += 1_000
    for _ in range(10):
        limiter.tell(Told.LIMITED, sent_ago=500)
    assert limiter.turn().rate == pytest.approx(before / 2)
    limiter.now += 1_000
    assert limiter.tell(Told.LIMITED, sent_ago=500).rate == pytest.approx(before / 4)


def test_the_rate_comes_back_and_never_beyond_the_ceiling(limiter: Limiter) -> None:
    """Success brings the rate back within a minute of calls, up to the ceiling and not further."""
    limiter.tell(Told.LIMITED)
    calls = 0
    while (turn := limiter.turn(wait_ms=60_000, successes=1)).rate < CEILING:
        calls += 1
        assert calls < CEILING * 60
    for _ in range(50):
        turn = limiter.turn(wait_ms=60_000, successes=5)
    assert turn.rate == CEILING


def test_retry_after_holds_all_calls(limiter: Limiter) -> None:
    """What the gateway asks for is kept by every fetcher, and said to those that wait already."""
    assert limiter.tell(Told.LIMITED, wait_ms=7_000).hold_ms == 7_000
    assert limiter.turn(wait_ms=6_000).at_ms is None
    turn = limiter.turn(wait_ms=7_000)
    assert turn.at_ms == limiter.now + 7_000


def test_a_long_retry_after_is_a_stop_that_is_told(limiter: Limiter) -> None:
    """An hour of quiet is no matter of waiting for a turn: the node pauses, and says for how long."""
    event = Event(Told.LIMITED, limiter.now, 3_600_000, "gateway: an hour of quiet")
    stopped = limiter.store.call(gateway(limiter.now, CEILING, event=event))
    assert (stopped.stop, limiter.pause) == (Told.LIMITED, "gateway: an hour of quiet")
    limiter.now += 3_600_000
    assert limiter.turn().at_ms is not None
    assert limiter.pause is None


def test_a_refusal_stops_everything_until_an_operator_resumes(limiter: Limiter) -> None:
    """The node is paused in the gateway's words; ``resume`` lifts the pause and calls go on."""
    assert limiter.tell(Told.REFUSED).stop is Told.REFUSED
    limiter.now += 10**9
    stopped = limiter.turn(wait_ms=60_000)
    assert (stopped.at_ms, stopped.stop, stopped.why) == (None, Told.REFUSED, "gateway: refused")
    assert limiter.pause == "gateway: refused"
    operate.resume(limiter.store)
    assert limiter.turn().stop is None
    assert limiter.pause is None


def test_a_spent_quota_stops_until_it_begins_anew(limiter: Limiter) -> None:
    """At the reset time the node goes on by itself; without one it waits for an operator."""
    limiter.tell(Told.QUOTA, for_ms=3_600_000)
    limiter.now += 3_599_000
    assert limiter.turn().stop is Told.QUOTA
    limiter.now += 1_000
    assert limiter.turn().at_ms is not None
    assert limiter.pause is None
    limiter.tell(Told.QUOTA)
    limiter.now += 10**9
    assert limiter.turn().stop is Told.QUOTA


def test_a_dead_gateway_is_left_alone_for_longer_each_time(limiter: Limiter) -> None:
    """Failures in a row pause the node, and one more after that for twice as long; a success forgives."""
    for _ in range(MISSES - 1):
        assert limiter.tell(Told.FAILED).stop is None
        limiter.now += 10
    assert limiter.tell(Told.FAILED).stop is Told.FAILED
    assert limiter.tell(Told.FAILED, sent_ago=50).stop is Told.FAILED  # was under way: nothing new
    limiter.now += PAUSE_MS
    assert limiter.turn().at_ms is not None
    limiter.now += 1
    limiter.tell(Told.UNREACHABLE)
    limiter.now += 2 * PAUSE_MS - 1
    assert limiter.turn().stop is Told.UNREACHABLE
    limiter.now += 1
    assert limiter.turn(successes=1).at_ms is not None
    limiter.now += 10
    assert limiter.tell(Told.FAILED).stop is None


def test_no_gateway_at_all_is_noticed_soon(limiter: Limiter) -> None:
    """A gateway that can't be reached pauses the node after a few calls; one answer that fails doesn't."""
    for _ in range(MISSES // UNREACHABLE_MISSES - 1):
        assert limiter.tell(Told.UNREACHABLE).stop is None
        limiter.now += 10
    assert limiter.tell(Told.UNREACHABLE).stop is Told.UNREACHABLE


def test_an_operators_pause_is_his_own(limiter: Limiter) -> None:
    """A stop of the gateway neither replaces an operator's pause nor ends it."""
    operate.pause(limiter.store, "lunch")
    limiter.tell(Told.QUOTA, for_ms=1_000)
    assert limiter.pause == "lunch"
    assert limiter.turn().stop is Told.QUOTA
    limiter.now += 1_000
    assert limiter.turn().at_ms is not None
    assert limiter.pause == "lunch"


def test_what_waits_for_an_operator_is_not_replaced(limiter: Limiter) -> None:
    """A refused key stays the reason, though calls under way report that the quota is spent until noon."""
    limiter.tell(Told.REFUSED)
    assert limiter.tell(Told.QUOTA, for_ms=1_000).stop is Told.REFUSED
    limiter.now += 1_000
    assert limiter.turn().stop is Told.REFUSED


def test_turns_are_given_when_redis_is_full(store: Store, redis_client: redis.Redis) -> None:
    """At maxmemory calls go on, since only what is fetched and parsed makes room."""
    limiter = Limiter(store)
    limiter.turn()
    redis_client.config_set("maxmemory", 1)
    try:
        assert limiter.turn(wait_ms=60_000).at_ms is not None
    finally:
        redis_client.config_set("maxmemory", 0)
