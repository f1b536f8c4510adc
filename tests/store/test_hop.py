"""hop: a redirect within the domain, registered before it is followed."""

from __future__ import annotations

import pytest
import redis

from node.rules.entry import Entry, Lease
from node.store import keys
from node.store.check import check
from node.store.frontier import Hop
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World


def hop(world: World, lease: Lease, path: str, *, same: bool = False, look: bool = False) -> Hop:
    target = Entry(f"https://x.test/{path}", 1, 1)
    slots = world.frontier.slots(target.url)
    verb = world.frontier.hop(
        world.now_ms, lease, target.pack(), slots, outcome="redirected", same=same, look=look
    )
    return world.store.call(verb)


def leased(world: World) -> Lease:
    world.offer("x.test", "https://x.test/a")
    return world.lease().leases[0]


def test_the_target_is_leased_in_place_of_its_source(world: World) -> None:
    """The source is done, the target admitted and marked; the lease keeps its token and expiry and counts
    the hop."""
    lease = leased(world)
    answer = hop(world, lease, "b")
    assert answer.lease is not None
    assert (answer.verdict, answer.lease.hops, answer.lease.entry.url) == ("ok", 1, "https://x.test/b")
    assert answer.lease.member.split(" ")[0] == lease.member.split(" ")[0]
    members = world.store.redis.execute_command("ZRANGE", keys.leases(lease.lane), 0, -1, "WITHSCORES")
    assert members == [answer.lease.member.encode(), str(lease.expiry_ms).encode()]
    assert [world.ledger(name) for name in ("admitted", "done", "leased")] == [2, 1, 1]
    assert world.store.redis.execute_command("HGET", keys.OUTCOMES, "redirected") == b"1"
    assert world.offer("x.test", "https://x.test/b").seen == 1
    assert check(world.store, every_url=True).sound


def test_a_known_target_ends_the_visit(world: World) -> None:
    """Nothing changes but what the settle will say."""
    lease = leased(world)
    world.offer("x.test", "https://x.test/b")
    before = world.dump()
    assert hop(world, lease, "b") == Hop("seen", None)
    assert world.dump() == before


def test_a_look_changes_nothing(world: World) -> None:
    """It says what the hop would be, be it to a new URL, a known one or one of the chain."""
    lease = leased(world)
    world.offer("x.test", "https://x.test/known")
    before = world.dump()
    assert hop(world, lease, "b", look=True) == Hop("ok", None)
    assert hop(world, lease, "known", look=True) == Hop("seen", None)
    assert hop(world, lease, "a", same=True, look=True) == Hop("ok", None)
    assert world.dump() == before


def test_the_same_url_again_needs_no_admission(world: World) -> None:
    """A cookie wall sends a visit to where it has been: counted as a hop, not as a URL."""
    answer = hop(world, leased(world), "a", same=True)
    assert answer.lease is not None
    assert (answer.lease.hops, world.ledger("admitted"), world.ledger("done")) == (1, 1, 0)


def test_a_lease_that_is_not_ours_any_more_sends_nothing(world: World) -> None:
    """Expired, though nobody has reaped it yet; or replaced by its own hop."""
    lease = leased(world)
    renewed = hop(world, lease, "b").lease
    assert renewed is not None
    assert hop(world, lease, "c") == Hop("stale", None)
    world.now_ms = lease.expiry_ms
    assert hop(world, renewed, "c") == Hop("stale", None)


def test_a_domain_s_life_bounds_hops_too(make_world: MakeWorld) -> None:
    """Endless redirects to new URLs end at the budget."""
    world = make_world(max_urls_per_domain=1)
    world.beat()
    lease: Lease | None = leased(world)
    verdicts = []
    for path in range(6):
        assert lease is not None
        answer = hop(world, lease, f"n{path}")
        verdicts.append(answer.verdict)
        lease = answer.lease or lease
    assert verdicts == ["ok"] * 3 + ["refused"] * 3


def test_a_hop_is_registered_at_maxmemory(world: World) -> None:
    """A visit that has begun can end as it would."""
    lease = leased(world)
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        assert hop(world, lease, "b").verdict == "ok"
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")


def test_a_corrupt_target_changes_nothing(world: World) -> None:
    """No source is done for a target that isn't one."""
    lease = leased(world)
    before = world.dump()
    slots = world.frontier.slots("https://x.test/b")
    with pytest.raises(redis.ResponseError, match="no queue entry"):
        world.store.call(
            world.frontier.hop(
                world.now_ms, lease, "https://x.test/b", slots, outcome="redirected", same=False
            )
        )
    assert world.dump() == before
