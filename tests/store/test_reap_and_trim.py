"""reap returns leases, trim takes URLs out."""

from __future__ import annotations

import pytest
import redis

from node.rules.entry import Entry
from node.rules.outcome import Signal
from node.rules.shard import lane_of
from node.store import keys
from node.store.check import check
from node.store.frontier import Kind
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import START_MS, World

LANE = lane_of("x.test")


def reap(world: World, most: int = 100, *, all_leases: bool = False) -> int:
    return world.store.call(world.frontier.reap(world.now_ms, LANE, most, all_leases=all_leases))


def trim(world: World, keep: int, reason: str = "", host: str = "") -> list[str]:
    verb = world.frontier.trim(world.now_ms, "x.test", LANE, keep, host=host, reason=reason)
    return [entry[3:] for entry in world.store.call(verb)]


def test_only_what_expired_is_reaped(world: World) -> None:
    """A lease that still runs stays, unless all are asked for."""
    world.offer("x.test", "https://x.test/a")
    lease = world.lease().leases[0]
    world.now_ms = lease.expiry_ms - 1
    assert reap(world) == 0
    world.now_ms += 1
    assert reap(world) == 1
    assert world.ready_at("x.test") == lease.expiry_ms + 2_000


def test_all_leases_of_a_stopped_node_return(world: World) -> None:
    """Nobody holds them any more; the domain owes what the visit could have sent, hops included."""
    world.offer("x.test", "https://x.test/a")
    lease = world.lease().leases[0]
    target = Entry("https://x.test/b", 1, 1).pack()
    slots = world.frontier.slots("https://x.test/b")
    world.store.call(world.frontier.hop(world.now_ms, lease, target, slots, outcome="redirected", same=False))
    assert reap(world, all_leases=True) == 1
    assert world.ready_at("x.test") == START_MS + 4_000


def test_a_url_that_is_never_settled_is_dropped_in_the_end(world: World) -> None:
    """At the fourth lease that runs out the URL itself is taken to be the cause."""
    world.offer("x.test", "https://x.test/a")
    for _ in range(4):
        world.now_ms = world.lease().leases[0].expiry_ms
        reap(world)
        world.now_ms += 2_000
    assert world.lease().leases == []
    assert (world.ledger("drop:poison"), world.ledger("queued")) == (1, 0)
    assert check(world.store).sound


def test_a_reap_is_bounded(make_world: MakeWorld) -> None:
    """It takes as many as it is told, and says how many that were."""
    world = make_world(delay_s=0.0)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(9)))
    assert len(world.lease(4).leases) == 4
    assert [reap(world, 3, all_leases=True) for _ in range(3)] == [3, 1, 0]


def fill(world: World) -> None:
    for level in (0, 2, 5):
        world.offer(
            "x.test",
            *(Entry(f"https://{'www.' * (level > 1)}x.test/{level}{i}", level, level) for i in (1, 2)),
        )


def test_the_worst_go_first_and_order_stays(world: World) -> None:
    """From the end of the highest level on; what is kept keeps its order and its place in ready."""
    fill(world)
    assert trim(world, 3, "trimmed") == [f"https://www.x.test/{n}" for n in ("52", "51", "22")]
    assert world.store.redis.execute_command("LRANGE", keys.queue(0, "x.test"), 0, -1) == [
        b"000https://x.test/01",
        b"000https://x.test/02",
    ]
    assert (world.ledger("drop:trimmed"), world.ledger("queued"), world.record("x.test").queued) == (3, 3, 3)
    assert trim(world, 0, "trimmed")[-1] == "https://x.test/01"
    assert world.ready_at("x.test") is None
    assert check(world.store, every_url=True).sound


def test_without_a_reason_it_only_shows(world: World) -> None:
    """The same answer, and nothing has changed."""
    fill(world)
    before = world.dump()
    shown = trim(world, 1)
    assert world.dump() == before
    assert trim(world, 1, "trimmed") == shown


def test_only_a_host_and_what_is_under_it(world: World) -> None:
    """Excluding www.x.test leaves x.test alone, and doesn't touch notwww.x.test."""
    fill(world)
    world.offer("x.test", Entry("https://a.www.x.test:8443/", 1, 1), Entry("https://notwww.x.test/", 1, 1))
    gone = trim(world, 0, "excluded", host="www.x.test")
    assert len(gone) == 5
    assert all("://www.x.test" in url or "://a.www.x.test" in url for url in gone)
    left = world.record("x.test").queued
    assert left == 3
    assert check(world.store, every_url=True).sound


def test_what_waits_in_later_is_taken_out_too(world: World) -> None:
    """It is counted as queued, and goes first since it can't be served now."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    lease = world.lease().leases[0]
    world.settle(lease, Kind.LATER, outcome="robots_unavailable", signal=Signal.NONE, wait_ms=9_000)
    assert trim(world, 1, "trimmed") == ["https://x.test/a"]
    assert world.record("x.test").later == 0
    assert check(world.store, every_url=True).sound


def test_a_long_queue(make_world: MakeWorld) -> None:
    """More URLs than Lua's stack holds."""
    world = make_world(max_urls_per_domain=20_000, seen_error_rate=1e-9)
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(20_000)))
    assert len(trim(world, 9_500, "trimmed")) == 10_500
    assert (
        world.store.redis.execute_command("LINDEX", keys.queue(1, "x.test"), -1) == b"110https://x.test/9499"
    )


def test_both_go_on_at_maxmemory(world: World) -> None:
    """An operator makes room by trimming."""
    fill(world)
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        assert len(trim(world, 1, "trimmed")) == 5
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")
    assert check(world.store, every_url=True).sound


def test_a_damaged_key_stops_a_trim_before_it_changes_anything(world: World) -> None:
    """Of several lists none is cut."""
    fill(world)
    world.store.redis.execute_command("SET", keys.queue(1, "x.test"), "no list")
    before = world.dump()
    with pytest.raises(redis.ResponseError):
        trim(world, 0, "trimmed")
    assert world.dump() == before
