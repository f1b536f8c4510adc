"""One IP address, many domains: leases keep to what it bears, in order, at once for all others."""

from __future__ import annotations

from typing import Any

import pytest

from node.rules.addresses import FORGET, Limit, Limits
from node.rules.entry import Lease
from node.rules.outcome import Signal
from node.rules.shard import lane_of
from node.store import domain_record, keys
from node.store.address_record import unpack
from node.store.check import check
from node.store.domain_record import DomainRecord
from node.store.frontier import Kind
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World

IP, OTHER = "192.0.2.7", "198.51.100.1"
LIMITS = Limits(Limit(10, 3))
PLACE, ELSEWHERE = LIMITS.place(IP), LIMITS.place(OTHER)


@pytest.fixture
def shared(world: World) -> World:
    """An address bears 10 visits a second, 3 at once."""
    world.frontier.limits = LIMITS
    return world


def place(world: World, domain: str, *, at: bytes = PLACE, urls: int = 3, due_ms: int | None = None) -> None:
    """A domain whose address is known already, due now or at ``due_ms``."""
    world.offer(domain, *(f"https://{domain}/{number}" for number in range(urls)))
    due = float(world.now_ms if due_ms is None else due_ms)
    change(world, domain, place=at, due_ms=due)
    world.store.redis.execute_command("ZADD", keys.ready(lane_of(domain)), due, domain)


def change(world: World, domain: str, **fields: Any) -> None:
    record = world.record(domain)
    values = {name: getattr(record, name) for name in DomainRecord.__slots__} | fields
    world.store.redis.execute_command("SET", keys.domain(domain), domain_record.pack(DomainRecord(**values)))


def out(world: World, ip: str = IP) -> int | None:
    """Visits under way at an address, by Redis; None where it is forgotten."""
    state = world.store.redis.execute_command("GET", keys.address(ip))
    return None if state is None else unpack(state).out


def settle(world: World, lease: Lease, **options: Any) -> None:
    world.settle(lease, **({"place": PLACE} | options))


def names(leases: list[Lease]) -> list[str]:
    return [lease.domain for lease in leases]


def test_no_more_at_once_than_an_address_bears(shared: World) -> None:
    """The visits of all its domains count together; one that ends lets the next one in, in order."""
    for number in range(6):
        place(shared, f"d{number}.test", due_ms=shared.now_ms - 10 + number)
    leased: list[Lease] = []
    for _ in range(20):
        leased += shared.lease().leases
        shared.now_ms += 100
    assert len(leased) == 3
    assert out(shared) == 3
    assert shared.ledger("awaiting_address") == 3
    settle(shared, leased[0])
    assert out(shared) == 2
    shared.now_ms += 400
    assert len(shared.lease().leases) == 1
    assert shared.ledger("awaiting_address") == 2


def test_no_more_a_second_than_an_address_bears(shared: World) -> None:
    """Visits that end at once don't come faster than the rate, and all of it is used."""
    shared.frontier.limits = Limits(Limit(10, 0))
    for number in range(100):
        place(shared, f"d{number}.test")
    per_second: list[int] = []
    for _ in range(4):
        begun = 0
        for _ in range(20):
            for lease in shared.lease(50).leases:
                settle(shared, lease)
                begun += 1
            shared.now_ms += 50
        per_second.append(begun)
    assert per_second[0] <= 10 + 10 / 2 + 1
    assert all(9 <= begun <= 11 for begun in per_second[1:]), per_second
    assert shared.ledger("address_waits") < 4 * 20 + 100


def test_domains_come_in_the_order_in_which_they_were_due(shared: World) -> None:
    """Whoever waits longest is next, also after later ones have come due."""
    for number in range(8):
        place(shared, f"d{number}.test", urls=1, due_ms=shared.now_ms - 100 + number)
    order: list[str] = []
    for step in range(60):
        if step == 5:
            place(shared, "late.test", urls=1)
        for lease in shared.lease().leases:
            order.append(lease.domain)
            settle(shared, lease, kind=Kind.DONE)
        shared.now_ms += 50
    first = sorted(order[:4])
    assert len(order) == 9
    assert order[-1] == "late.test"
    assert len(set(order)) == 9, first


def test_others_are_not_held_up(shared: World) -> None:
    """Domains at other addresses, and those nobody knows the address of, are leased in the same call."""
    for number in range(40):
        place(shared, f"d{number}.test", due_ms=shared.now_ms - 1_000)
    place(shared, "other.test", at=ELSEWHERE)
    shared.offer("unknown.test", "https://unknown.test/")
    got = shared.lease(20)
    assert {"other.test", "unknown.test"} <= set(names(got.leases))
    assert len(got.leases) == 2 + 3
    known = {lease.domain: lease.address_known for lease in got.leases}
    assert not known["unknown.test"]
    assert known["other.test"]
    nothing = shared.lease(20)
    assert nothing.leases == []
    assert nothing.reason == ""
    assert shared.now_ms < nothing.next_due_ms <= shared.now_ms + 200


def test_what_a_dead_fetcher_had_comes_back(shared: World) -> None:
    """Leases that ran out no longer count at their address, and its record goes away with the last one."""
    for number in range(3):
        place(shared, f"d{number}.test")
    leases = shared.lease().leases
    shared.now_ms += 100
    leases += shared.lease().leases
    assert out(shared) == len(leases) == 3
    shared.now_ms += shared.frontier.lease_ms
    for lane in {lease.lane for lease in leases}:
        shared.store.call(shared.frontier.reap(shared.now_ms, lane, 100))
    assert out(shared) is None


def test_a_new_instance_starts_from_nothing(shared: World) -> None:
    """A fetcher that was started again returns what its former self had, and its addresses are free."""
    place(shared, "x.test")
    assert len(shared.lease().leases) == 1
    shared.beat(instance="b")
    assert out(shared) in (0, None)
    assert check(shared.store).sound


def test_a_restart_forgets_nothing(shared: World) -> None:
    """Redis comes back, unclean, with leases out: they count until they are settled or run out."""
    for number in range(5):
        place(shared, f"d{number}.test")
    leases = shared.lease().leases
    shared.now_ms += 300
    leases += shared.lease().leases
    shared.run += 1
    assert shared.begin().how == "unclean"
    assert out(shared) == len(leases) == 3
    shared.now_ms += 20_000
    assert shared.lease().leases == []
    for lease in leases:
        settle(shared, lease)
    shared.now_ms += 60_000
    assert len(shared.lease().leases) == 3


def test_an_address_moves_with_its_domain(make_world: MakeWorld) -> None:
    """What is under way counts at the address that is known now; what the next visit finds is what counts."""
    world = make_world(delay_s=0)
    world.frontier.limits = LIMITS
    world.beat()
    place(world, "x.test", urls=20)
    world.now_ms += 1_000
    first, *others = world.lease().leases
    while len(others) < 2:
        world.now_ms += 100
        others += world.lease().leases
    assert (out(world), out(world, OTHER)) == (3, None)
    settle(world, first, place=ELSEWHERE)
    assert (out(world), out(world, OTHER)) == (0, 2)
    settle(world, others[0], place=b"")
    assert out(world, OTHER) == 1
    settle(world, others[1], place=FORGET)
    assert world.record("x.test").place == b""
    world.now_ms += 60_000
    assert out(world, OTHER) in (0, None)
    assert not world.lease(1).leases[0].address_known


def test_networks_with_limits_of_their_own(shared: World) -> None:
    """A large hoster's addresses bear more, and what has no limit is not counted at all."""
    exempt = ("203.0.113.0/24", Limit(0, 0))
    limits = Limits(Limit(10, 1), [("198.51.100.0/24", Limit(0, 50)), exempt])
    shared.frontier.limits = limits
    for ip in (IP, OTHER, "203.0.113.9"):
        for number in range(60):
            place(shared, f"d{number}-{ip.partition('.')[0]}.test", at=limits.place(ip))
    leased = names(shared.lease(200).leases)
    assert sum("-192." in name for name in leased) == 1
    assert sum("-198." in name for name in leased) == 50
    assert sum("-203." in name for name in leased) == 60
    assert out(shared, "203.0.113.9") is None


def test_settings_that_have_changed(shared: World) -> None:
    """A class that there is no more is taken for the first; with no limit at all nobody waits."""
    gone = bytes((9,)) + PLACE[1:]
    for number in range(10):
        place(shared, f"d{number}.test", at=gone)
    assert len(shared.lease().leases) == 3
    shared.frontier.limits = Limits(Limit(0, 0))
    shared.now_ms += 10_000
    assert len(shared.lease().leases) == 7


def test_a_wait_is_no_reason_to_forgive(make_world: MakeWorld) -> None:
    """While a domain waits for its address, a host that can't be reached is found to be dead all the same."""
    world = make_world(delay_s=0, retire_after=3)
    world.frontier.limits = Limits(Limit(0, 1))
    world.beat()
    place(world, "x.test", urls=50)
    for _ in range(3):
        (lease,) = world.lease().leases
        assert world.record("x.test").turn_ms > world.now_ms
        settle(world, lease, kind=Kind.DONE, signal=Signal.DEAD)
        world.now_ms += 10_000_000
    assert world.record("x.test").gone == 1


def test_nothing_is_left_behind(shared: World) -> None:
    """After everybody has been visited, Redis keeps no address but for a moment."""
    for number in range(30):
        place(shared, f"d{number}.test", urls=1)
    for _ in range(100):
        for lease in shared.lease().leases:
            settle(shared, lease, kind=Kind.DONE)
        shared.now_ms += 100
    assert shared.ledger("queued") == shared.ledger("leased") == 0
    assert shared.ledger("awaiting_address") == 0
    redis = shared.store.redis
    for key in redis.execute_command("KEYS", keys.address("*")):
        assert 0 < redis.execute_command("PTTL", key) <= 70_000
    assert check(shared.store).sound


def _crowd(world: World, domains: int) -> None:
    """So many domains of one address, all due at once and before all others."""
    world.offer("model.test", "https://model.test/")
    record = world.record("model.test")
    fields = {name: getattr(record, name) for name in DomainRecord.__slots__}
    due = world.now_ms - 1_000.0
    packed = domain_record.pack(DomainRecord(**(fields | {"place": PLACE, "due_ms": due})))
    for start in range(0, domains, 2_000):
        pipe = world.store.redis.pipeline(transaction=False)
        for number in range(start, min(start + 2_000, domains)):
            name = f"site-{number:06d}.test"
            pipe.execute_command("RPUSH", keys.queue(1, name), f"110https://{name}/")
            pipe.execute_command("SET", keys.domain(name), packed)
            pipe.execute_command("ZADD", keys.ready(lane_of(name)), due, name)
        pipe.execute()


def _commands(world: World) -> int:
    """Commands that scripts have carried out, since the last count."""
    redis = world.store.redis
    lines = redis.execute_command("INFO", "commandstats").decode().splitlines()
    redis.execute_command("CONFIG", "RESETSTAT")
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines if "calls=" in line)


def test_very_many_domains_at_one_address(shared: World) -> None:
    """Each call looks at a bounded number of them, once each; then a lease costs what it does without them,
    and others are leased at once."""
    domains, want = 8_000, 50
    _crowd(shared, domains)
    calls = most = 0
    _commands(shared)
    while shared.ledger("address_waits") < domains - 10:
        shared.lease(want)
        most = max(most, _commands(shared))
        calls += 1
    looks = 4 * want + 64
    assert calls <= 2 * domains / looks
    assert most < 12 * looks
    for number in range(want):
        place(shared, f"other-{number}.test", at=LIMITS.place(f"198.51.100.{number}"))
    shared.lease(0)
    _commands(shared)
    assert len(shared.lease(want).leases) == want
    assert _commands(shared) < 12 * want + 5 * 64
    assert shared.ledger("address_waits") <= domains + 10
