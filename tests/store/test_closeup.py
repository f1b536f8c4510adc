"""The closer look: the age of the frontier, and the domains in trouble, whatever the frontier's size."""

from __future__ import annotations

import time

import msgspec
import pytest

from node.rules.entry import Entry
from node.rules.health import State
from node.rules.outcome import Signal
from node.rules.shard import lane_of
from node.store import closeup, domain_record, keys, snapshot
from node.store.closeup import Closeup
from node.store.domain_record import DomainRecord
from node.store.frontier import Kind
from node.store.snapshot import TOLD_DOMAINS, Report, Troubled
from tests.store.frontier_world import World
from tests.store.large import fill

BASE_MS = 2_000


def look(world: World) -> Closeup:
    return closeup.take(world.store, snapshot.take(world.store), BASE_MS, world.now_ms)


def report(world: World, name: str, *domains: str, visits: int = 9) -> None:
    """A fetcher tells that these domains give it trouble."""
    worst = [Troubled(domain, visits, 3, 0, 1, "rate_limited") for domain in domains]
    told = msgspec.json.encode(Report(1, world.now_ms, worst=worst))
    world.store.calls([], extra=[("HSET", keys.PROCS, name, told)])


def throttle(world: World, domain: str, times: int) -> None:
    """Visit a domain, which tells us so often to slow down; there is more to visit."""
    world.offer(domain, Entry(f"https://{domain}/more", 7, 7))
    for number in range(times):
        world.offer(domain, f"https://{domain}/{number}")
        world.now_ms += 10_000_000
        (lease,) = [each for each in world.lease().leases if each.domain == domain]
        world.settle(lease, Kind.DONE, outcome="rate_limited", signal=Signal.THROTTLE)


def test_the_age_of_the_frontier_is_that_of_its_longest_due_domain(world: World) -> None:
    """Not of one that is not due yet, nor of one that is being visited."""
    assert look(world).frontier_age_ms == 0
    world.offer("a.test", "https://a.test/1", "https://a.test/2")
    assert look(world).frontier_age_ms == 0
    world.now_ms += 700
    world.offer("b.test", "https://b.test/1")
    world.now_ms += 300
    assert look(world).frontier_age_ms == 1_000
    (first,) = world.lease(1, lanes=[lane_of("a.test")]).leases
    assert look(world).frontier_age_ms == 300
    world.settle(first)
    world.lease()
    assert look(world).frontier_age_ms == 0
    world.now_ms += BASE_MS + 50
    assert look(world).frontier_age_ms == 50


def test_after_an_unclean_start_nobody_is_late_before_its_delay(world: World) -> None:
    """What was due before the start may be visited a delay after it, and is late from then on."""
    world.offer("a.test", "https://a.test/1")
    world.now_ms += 60_000
    world.run += 1
    epoch_ms = world.begin().epoch_ms
    assert epoch_ms >= world.now_ms
    world.now_ms = epoch_ms + BASE_MS - 1
    assert look(world).frontier_age_ms == 0
    world.now_ms = epoch_ms + BASE_MS + 40
    assert look(world).frontier_age_ms == 40


def test_domains_in_trouble_are_told_as_they_stand(world: World) -> None:
    """Who is named comes from the fetchers, how it fares from the domain's own record; the worst is first."""
    throttle(world, "slow.test", 2)
    throttle(world, "slower.test", 5)
    world.offer("well.test", Entry("https://well.test/", 0, 0))
    report(world, "fetcher.1", "slow.test", "never-heard-of.test")
    report(world, "fetcher.2", "slower.test", "well.test")
    told = look(world).worst
    assert [each.counted.domain for each in told] == ["slower.test", "slow.test", "well.test"]
    slower, _, well = told
    assert slower.health.state is State.STRUGGLING
    assert slower.delay_ms == world.record("slower.test").slowed_ms > BASE_MS
    assert (slower.in_flight, slower.width) == (0, 1.0)
    assert slower.retry_share == pytest.approx(1 / 9)
    assert well.health.state is State.HEALTHY


def test_a_domain_that_changed_hands_is_told_once(world: World) -> None:
    """Two fetchers name it: the one that saw more of it is believed."""
    throttle(world, "slow.test", 1)
    report(world, "fetcher.1", "slow.test", visits=3)
    report(world, "fetcher.2", "slow.test", visits=40)
    (told,) = look(world).worst
    assert told.counted.visits == 40


def test_no_more_are_told_than_can_be_labels(world: World) -> None:
    """However many fetchers name however many domains."""
    domains = [f"d{number}.test" for number in range(3 * TOLD_DOMAINS)]
    for domain in domains:
        world.offer(domain, f"https://{domain}/")
    for start in range(0, len(domains), TOLD_DOMAINS):
        report(world, f"fetcher.{start}", *domains[start : start + TOLD_DOMAINS])
    assert len(look(world).worst) == TOLD_DOMAINS


def test_domains_that_were_given_up_or_are_done_are_not_told(world: World) -> None:
    """There is nothing left to do about them."""
    throttle(world, "done.test", 2)
    report(world, "fetcher.2", "done.test")
    assert [told.counted.domain for told in look(world).worst] == ["done.test"]
    world.now_ms += 10_000_000
    world.settle(world.lease().leases[0])
    assert look(world).worst == []
    world.offer("gone.test", "https://gone.test/")
    record = world.record("gone.test")
    fields = {name: getattr(record, name) for name in record.__slots__} | {"gone": 1}
    packed = domain_record.pack(DomainRecord(**fields))
    world.store.calls([], extra=[("SET", keys.domain("gone.test"), packed)])
    report(world, "fetcher.1", "gone.test")
    assert look(world).worst == []


QUEUED = 1_000_000
DOMAINS = 80_000


def cost(world: World) -> tuple[int, float, float]:
    """Commands that a whole look takes, CPU time of Redis for them, and wall time (the least of ten), s."""
    redis, walls, busy, calls = world.store.redis, [], [], 0
    for _ in range(10):
        redis.execute_command("CONFIG", "RESETSTAT")
        begun = time.monotonic()
        look(world)
        walls.append(time.monotonic() - begun)
        stats = [
            dict(pair.split("=") for pair in line.partition(":")[2].split(","))
            for line in redis.execute_command("INFO", "commandstats").decode().splitlines()
            if line.startswith("cmdstat_") and not line.startswith(("cmdstat_config", "cmdstat_info"))
        ]
        busy.append(sum(float(each["usec"]) for each in stats) / 1e6)
        calls = sum(int(each["calls"]) for each in stats)
    return calls, min(busy), min(walls)


@pytest.mark.timeout(300)
def test_a_look_costs_the_same_at_a_million_urls(world: World) -> None:
    """F25: 1,040,000 URLs of 80,000 domains queued: as many commands as with a handful, and under 100 ms."""
    fill(world, 50, 1)
    domains = [f"site-{number:06d}.test" for number in range(TOLD_DOMAINS)]
    report(world, "fetcher.1", *domains)
    few, _, _ = cost(world)
    fill(world, DOMAINS, 13)
    queued = snapshot.take(world.store).count("queued")
    many, busy_s, wall_s = cost(world)
    assert queued >= QUEUED
    assert many == few < 200
    assert busy_s < 0.02
    assert wall_s < 0.1
    world.store.redis.flushall()
