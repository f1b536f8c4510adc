"""beat: who lives, and who serves which lanes."""

from __future__ import annotations

from node.rules.entry import Entry
from node.store import keys
from node.store.connection import ADOPT_MS
from tests.store.frontier_world import World


def owners(world: World) -> dict[int, str]:
    flat = world.store.redis.execute_command("HGETALL", keys.LANES)
    return {int(flat[i]): flat[i + 1].decode() for i in range(0, len(flat), 2)}


def all_beat(world: World, *numbers: int, times: int = 3) -> dict[int, list[int]]:
    for _ in range(times):
        lanes = {number: world.beat(number) for number in numbers}
    return lanes


def lease_everywhere(world: World, tag: str, lanes: list[int]) -> int:
    """A lease in as many lanes as 300 domains fall into; answers how many."""
    for i in range(300):
        world.offer(f"d{i}.test", f"https://d{i}.test/")
    return len(world.lease(500, tag=tag, lanes=lanes).leases)


def test_a_fetcher_alone_serves_all_lanes(world: World) -> None:
    """From its first beat on."""
    assert world.beat() == list(range(64))


def test_shares_differ_by_one_at_most(world: World) -> None:
    """However many fetchers there are, none is without lanes; nine get seven or eight each."""
    for count in (2, 3, 5, 9, 13, 31):
        sizes = sorted(map(len, all_beat(world, *range(1, count + 1), times=4).values()))
        assert sum(sizes) == 64
        assert sizes[-1] - sizes[0] <= 1
    assert len(all_beat(world, *range(1, 71))[70]) == 0  # more fetchers than lanes


def test_lanes_of_a_silent_fetcher_are_adopted(world: World) -> None:
    """One that was silent for longer than adopt_ms loses them; a moment before, it doesn't."""
    all_beat(world, 1, 2)
    world.now_ms += ADOPT_MS
    assert len(world.beat(1)) == 32
    world.now_ms += 1
    assert len(world.beat(1)) == 64


def test_it_gets_its_share_back(world: World) -> None:
    """Who was only stopped for a while is served again, as lanes become free."""
    all_beat(world, 1, 2)
    world.now_ms += 2 * ADOPT_MS
    world.beat(1)
    assert [len(lanes) for lanes in all_beat(world, 1, 2).values()] == [32, 32]


def test_a_lane_with_leases_is_not_given_up(world: World) -> None:
    """It is leased from no more, and changes hands when its last lease ends."""
    for i in range(300):
        world.offer(f"d{i}.test", f"https://d{i}.test/")
    busy = {lease.lane for lease in world.lease(500).leases}
    lanes = all_beat(world, 1, 2)
    assert not set(lanes[2]) & busy
    assert len(busy) > 32 > len(lanes[2]) == 64 - len(busy)
    world.now_ms += world.frontier.lease_ms
    assert [len(each) for each in all_beat(world, 1, 2).values()] == [32, 32]


def test_leaving_gives_all_up_at_once(world: World) -> None:
    """What it served is there for others with their next beat."""
    all_beat(world, 1, 2)
    assert world.beat(1, leave=True) == []
    assert len(world.beat(2)) == 64
    assert "1.a" not in owners(world).values()


def test_a_new_instance_takes_over_and_its_earlier_leases_return(world: World) -> None:
    """At once, with the domains due a delay later, also from lanes that others adopted meanwhile."""
    lanes = all_beat(world, 1, 2)
    out = lease_everywhere(world, "1.a", lanes[1])
    assert out > 0
    world.now_ms += ADOPT_MS + 1
    assert len(world.beat(2)) == 64
    assert world.ledger("leased") == out
    world.beat(1, "b")
    assert (world.ledger("leased"), world.ledger("reaped")) == (0, out)
    # the other half of the domains was never leased; these wait for their delay
    assert len(world.lease(500, tag="2.a").leases) == 300 - out
    world.now_ms += 2_000
    assert len(world.lease(500, tag="2.a").leases) > 0


def test_many_leases_return_over_several_beats(world: World) -> None:
    """No beat keeps Redis for long: a few hundred at a time, until none is left."""
    groups = [world.group(f"d{i}.test", Entry(f"https://d{i}.test/", 1, 1)) for i in range(1_200)]
    world.store.call(world.frontier.offer(world.now_ms, groups))
    world.store.redis.execute_command("HSET", keys.CONTROL, "spool_max", 100_000)
    assert len(world.lease(1_200).leases) == 1_200
    left = []
    for _ in range(4):
        world.beat(1, "b")
        left.append(world.ledger("leased"))
    assert left == [700, 200, 0, 0]


def test_beats_of_the_long_silent_are_forgotten(world: World) -> None:
    """The hash does not grow with every number that ever was."""
    all_beat(world, 1, 2, 3)
    world.now_ms += 61 * ADOPT_MS
    world.beat(1)
    assert world.store.redis.execute_command("HKEYS", keys.BEATS) == [b"1"]


def test_a_fetcher_lives_on_at_maxmemory(world: World) -> None:
    """Were beats refused, nobody would lease, and memory would never be freed."""
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        world.now_ms += 1_000
        assert len(world.beat()) == 64
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")
