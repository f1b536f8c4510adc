"""One queue per domain: nobody waits behind another site."""

from __future__ import annotations

import heapq

import pytest

from node.store.frontier import Kind
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World

HEALTHY = {f"healthy{i}.test": (10, 200) for i in range(100)}
SLOW = {"slow.test": (10_000, 20_000)}


def finished_ms(
    world: World, sites: dict[str, tuple[int, int]], in_flight: int, until_ms: int
) -> dict[str, int]:
    """Crawl with one fetcher, in driven time; site -> when its last URL was done.

    ``sites``: name -> (URLs, how long each takes in ms); ``in_flight``: visits at once.
    """
    left = {name: urls for name, (urls, _) in sites.items()}
    for name, (urls, _) in sites.items():
        for first in range(0, urls, 1_000):
            some = range(first, min(urls, first + 1_000))
            world.offer(name, *(f"https://{name}/{i}" for i in some))
    world.beat()
    done: dict[str, int] = {}
    start = world.now_ms
    under_way: list[tuple[int, str, int]] = []
    leases = {}
    turn = 0
    while world.now_ms < start + until_ms and (under_way or any(left.values())):
        turn += 1  # as a fetcher does, so that each lane comes first once
        room = in_flight - len(under_way)
        ask = world.frontier.lease(world.now_ms, "1.a", range(64), room, turn % 64)
        got = world.store.call(ask) if room > 0 else None
        for lease in got.leases if got is not None else ():
            heapq.heappush(under_way, (world.now_ms + sites[lease.domain][1], lease.member, lease.lane))
            leases[lease.member] = lease
        due = got.next_due_ms if got is not None and got.next_due_ms > world.now_ms else None
        ends = under_way[0][0] if under_way else None
        world.now_ms = min(at for at in (due, ends, world.now_ms + 1_000) if at is not None)
        while under_way and under_way[0][0] <= world.now_ms:
            lease = leases.pop(heapq.heappop(under_way)[1])
            assert world.settle(lease, Kind.DONE, outcome="page") == "1"
            left[lease.domain] -= 1
            if left[lease.domain] == 0:
                done[lease.domain] = world.now_ms - start
        world.beat()
    return done


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_a_slow_site_with_very_many_urls_holds_up_nobody(make_world: MakeWorld, delay_s: float) -> None:
    """A hundred healthy sites finish as fast as if the slow one with its 10,000 URLs were not there."""
    alone = make_world(delay_s=delay_s, max_urls_per_domain=20_000)
    without = finished_ms(alone, HEALTHY, 64, 120_000)
    together = make_world(delay_s=delay_s, max_urls_per_domain=20_000)
    beside = finished_ms(together, SLOW | HEALTHY, 64, 120_000)
    assert without.keys() == HEALTHY.keys()
    assert beside.keys() == HEALTHY.keys(), "all but the slow one are done"
    # the slow one may have its own few visits of the 64
    assert max(beside.values()) <= 1.1 * max(without.values())


def test_a_crowd_of_slow_sites_does_not_stop_the_fast_ones(make_world: MakeWorld) -> None:
    """300 slow sites and 300 fast ones share 100 visits at once; each has its turn."""
    slow = {f"slow{i}.test": (50, 10_000) for i in range(300)}
    fast = {f"fast{i}.test": (5, 100) for i in range(300)}
    world = make_world(delay_s=1.0, max_urls_per_domain=100)
    done = finished_ms(world, slow | fast, 100, 400_000)
    assert fast.keys() <= done.keys()
    # Five turns, each after three rounds of slow ones; which lane comes first is not quite even.
    assert max(done[name] for name in fast) <= 2 * 5 * 3 * 10_000
