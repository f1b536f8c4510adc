"""shed: while memory is short, what is worst is turned away, and dropped where that lasts."""

from __future__ import annotations

import pytest
import redis

from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.rules.shed import BETTER, NOTHING
from node.store import keys
from node.store.check import check
from node.store.frontier import Group, Offered, Shed
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World, domains_in_one_lane
from tests.store.test_offer import levels, spooled, urls

LANE = 7
DOMAINS = domains_in_one_lane(5, LANE)


def steer(world: World, grade: int) -> None:
    world.store.redis.execute_command("HSET", keys.CONTROL, "shed", grade)


def shed(world: World, start: int = 0, *, domains: int = 100, urls: int = 1_000, level: int = 1) -> Shed:
    verb = world.frontier.shed(world.now_ms, LANE, start, domains=domains, urls=urls, level=level)
    return world.store.call(verb)


def fill(world: World, name: str, **at: int) -> None:
    """``l5=3``: three URLs of level 5."""
    for level, many in at.items():
        number = int(level[1:])
        world.offer(name, *(Entry(f"https://{name}/{number}{i}", number, number) for i in range(many)))


# -- at the door


def test_the_lowest_priorities_are_turned_away_first(world: World) -> None:
    """Grade 2 turns away the two worst levels, counts each by its level, tells that it is no use to send
    more of the worst, and holds no domain for full.
    """
    steer(world, 2)
    offered = world.offer("x.test", *urls("a", level=5), *urls("b", "c", level=6), *urls("d", level=7))
    assert offered == Offered(0, 1, 0, 3, 0, {"x.test": (8, 0)}, below=7)
    assert levels(world, "x.test") == {5: ["a"]}
    assert (world.ledger("refuse:shed"), world.ledger("shed:6"), world.ledger("shed:7")) == (3, 2, 1)
    steer(world, 0)
    # what was turned away was not marked as seen
    assert world.offer("x.test", *urls("b", "c", level=6)) == Offered(0, 2, 0, 0, 0, {})


def test_what_is_better_than_what_waits_takes_its_place(world: World) -> None:
    """At any grade but the last: it takes no more memory."""
    fill(world, "x.test", l7=1)
    steer(world, 2)
    assert world.offer("x.test", *urls("a", "b", level=6)) == Offered(0, 1, 0, 1, 1, {"x.test": (8, 0)}, 7)
    assert levels(world, "x.test") == {6: ["a"]}
    assert check(world.store, every_url=True).sound


def test_then_only_what_takes_the_place_of_something_worse(world: World) -> None:
    """The queue gets better and no longer; a domain without a worse URL takes none, nor does a new one."""
    fill(world, "x.test", l5=2)
    steer(world, BETTER)
    assert world.offer("x.test", *urls("a", level=3)) == Offered(0, 1, 0, 0, 1, {}, 7)
    assert levels(world, "x.test") == {3: ["a"], 5: ["50"]}
    assert world.offer("x.test", *urls("b", level=5)) == Offered(0, 0, 0, 1, 0, {"x.test": (8, 0)}, 7)
    assert world.offer("y.test", "https://y.test/").admitted == 0
    assert world.store.redis.execute_command("EXISTS", keys.domain("y.test")) == 0
    assert (world.ledger("refuse:shed"), world.ledger("shed:5"), world.ledger("shed:1")) == (2, 1, 1)
    assert check(world.store, every_url=True).sound


def test_a_queue_that_is_full_as_well_says_so(make_world: MakeWorld) -> None:
    """What its domain would refuse anyway is counted as full, not as shed."""
    world = make_world(max_urls_per_domain=2)
    fill(world, "x.test", l5=2)
    steer(world, BETTER)
    assert world.offer("x.test", *urls("b", level=5)).full == {"x.test": (5, 5_000)}
    assert (world.ledger("refuse:shed"), world.ledger("refuse:full")) == (0, 1)


def test_then_nothing_while_pages_are_still_acknowledged(world: World) -> None:
    """Not even a seed enters; what was read is done; leasing goes on."""
    pages = spooled(world, "a")
    fill(world, "y.test", l1=1)
    steer(world, NOTHING)
    offered = world.offer("x.test", *urls("b", level=0), acks=tuple(pages))
    assert (offered.acknowledged, offered.admitted, offered.refused, offered.below) == (1, 0, 1, 0)
    assert world.ledger("shed:0") == 1
    world.now_ms += 5_000
    assert len(world.lease().leases) == 1


def test_what_an_operator_brings_back_enters_at_any_grade(world: World) -> None:
    """Including a domain again must not lose what was taken out of it."""
    fill(world, "x.test", l7=3)
    lane = lane_of("x.test")
    taken = world.store.call(world.frontier.trim(world.now_ms, "x.test", lane, 0, reason="excluded"))
    steer(world, NOTHING)
    slots = bytearray(b"".join(world.frontier.slots(entry[3:]) for entry in taken))
    group = Group("x.test", lane, world.now_ms, taken, slots)
    verb = world.frontier.offer(world.now_ms, [group], returning="excluded")
    assert world.store.call(verb).admitted == 3


# -- what waits


def test_the_worst_of_each_domain_is_dropped(world: World) -> None:
    """Of the level asked for and worse, from the ends of the lists; counted by level; the rest stays in order
    and in ready.
    """
    for name in DOMAINS[:2]:
        fill(world, name, l0=1, l4=2, l7=3)
    assert shed(world, level=4) == Shed(-1, 10)
    for name in DOMAINS[:2]:
        assert levels(world, name) == {0: ["00"]}
        assert world.ready_at(name) is not None
    assert (world.ledger("drop:shed"), world.ledger("shed:4"), world.ledger("shed:7")) == (10, 4, 6)
    assert world.ledger("queued") == 2
    assert check(world.store, every_url=True).sound


def test_a_domain_left_without_urls_is_ready_no_longer(world: World) -> None:
    """I2, and the others of its lane are still met."""
    for name in DOMAINS:
        fill(world, name, l5=2)
    at, dropped = 0, 0
    while at >= 0:
        step = shed(world, at, domains=2)
        at, dropped = step.next, dropped + step.dropped
    assert dropped == 10
    assert all(world.ready_at(name) is None for name in DOMAINS)
    assert check(world.store, every_url=True).sound


def test_each_step_is_bounded_and_goes_on_where_the_last_one_ended(world: World) -> None:
    """By domains and by URLs; in the end everything was met once."""
    for name in DOMAINS:
        fill(world, name, l0=1, l6=7)
    at, steps = 0, []
    while at >= 0:
        steps.append(shed(world, at, domains=2, urls=5))
        at = steps[-1].next
        assert len(steps) < 30
    assert max(step.dropped for step in steps) == 5
    assert sum(step.dropped for step in steps) == 35
    assert world.ledger("queued") == 5
    assert check(world.store, every_url=True).sound


def test_it_works_at_maxmemory(world: World) -> None:
    """It makes room, so it must not need any."""
    fill(world, DOMAINS[0], l5=4)
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        assert shed(world).dropped == 4
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")
    assert check(world.store, every_url=True).sound


def test_a_damaged_key_stops_it_before_it_changes_anything(world: World) -> None:
    """Of several domains none is cut."""
    for name in DOMAINS:
        fill(world, name, l5=2)
    world.store.redis.execute_command("SET", keys.queue(7, DOMAINS[-1]), "no list")
    before = world.dump()
    with pytest.raises(redis.ResponseError):
        shed(world)
    assert world.dump() == before
