"""More time for leases whose visits live."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from node.rules.outcome import Signal
from node.store import keys
from node.store.frontier import Kind
from tests.store.frontier_world import World


def expiry(world: World, lane: int, member: str) -> int:
    return int(float(world.store.redis.execute_command("ZSCORE", keys.leases(lane), member)))


def test_an_extended_lease_is_not_given_out_again(world: World) -> None:
    """A slow visit that lives keeps its URL beyond the lease's first end, and settles it (F04)."""
    world.offer("h.test", "https://h.test/")
    world.beat()
    (lease,) = world.lease().leases
    until = lease.expiry_ms + 10_000
    world.now_ms = lease.expiry_ms - 1
    assert world.store.call(world.frontier.extend(world.now_ms, [(lease, until)])) == "1"
    assert expiry(world, lease.lane, lease.member) == until
    world.now_ms = until - 1
    assert world.store.call(world.frontier.reap(world.now_ms, lease.lane, 10)) == 0
    world.beat()
    assert world.lease().leases == []
    assert world.settle(lease) == "1"


def test_without_an_extension_it_is(world: World) -> None:
    """A visit that is dead loses its URL; what its ghost says later is refused (I3)."""
    world.offer("h.test", "https://h.test/")
    world.beat()
    (lease,) = world.lease().leases
    world.now_ms = lease.expiry_ms
    assert world.store.call(world.frontier.extend(world.now_ms, [(lease, world.now_ms + 10_000)])) == "0"
    assert world.store.call(world.frontier.reap(world.now_ms, lease.lane, 10)) == 1
    assert world.settle(lease) == "0"
    assert world.ready_at("h.test") == world.now_ms + world.frontier.base_delay_ms


def test_only_what_is_there_is_extended_and_never_shortened(world: World) -> None:
    """Among others that were settled; a caller whose clock lags takes no time away."""
    world.offer("a.test", "https://a.test/")
    world.offer("b.test", "https://b.test/")
    world.beat()
    one, other = world.lease().leases
    world.settle(one, Kind.DONE, signal=Signal.NONE)
    before = world.dump()
    wanted = [(one, one.expiry_ms + 5), (other, other.expiry_ms - 5)]
    assert world.store.call(world.frontier.extend(world.now_ms, wanted)) == "01"
    assert world.dump() == before
    assert world.store.call(world.frontier.extend(world.now_ms, [])) == ""


def test_it_works_at_maxmemory(world: World) -> None:
    """Where Redis has no memory left visits go on, since they free it."""
    world.offer("h.test", "https://h.test/")
    world.beat()
    (lease,) = world.lease().leases
    redis = world.store.redis
    redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        until = lease.expiry_ms + 10_000
        assert world.store.call(world.frontier.extend(world.now_ms, [(lease, until)])) == "1"
    finally:
        redis.execute_command("CONFIG", "SET", "maxmemory", "0")
    assert expiry(world, lease.lane, lease.member) == until


@pytest.mark.parametrize("until", ["soon", None])
def test_a_bad_time_changes_nothing(world: World, until: object) -> None:
    """A verb that is called wrongly stops before it has written."""
    world.offer("h.test", "https://h.test/")
    world.beat()
    (lease,) = world.lease().leases
    before = world.dump()
    with pytest.raises(ResponseError):
        world.store.call(world.frontier.extend(world.now_ms, [(lease, until)]))  # type: ignore[list-item]
    assert world.dump() == before
