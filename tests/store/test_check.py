"""check: a sound node passes, and each kind of damage is found and named."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable

import pytest

from node.rules.entry import Entry
from node.rules.outcome import Signal
from node.rules.shard import lane_of
from node.store import keys
from node.store.check import check
from node.store.connection import Store
from node.store.domain_record import DomainRecord, pack, unpack
from node.store.findings import MOST_NAMED
from node.store.frontier import Kind, Settlement
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import START_MS, World

LANE = lane_of("x.test")


@pytest.fixture
def busy(world: World) -> World:
    """URLs in every place: queued at two levels, later, leased, spooled, done, dropped."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b", Entry("https://x.test/c", 3, 3))
    for name in ("later", "page", "done", "drop", "empty"):
        world.offer(f"{name}.test", f"https://{name}.test/")
    leases = {lease.domain: lease for lease in world.lease().leases}
    world.settle(leases["later.test"], Kind.LATER, outcome="x", signal=Signal.NONE, wait_ms=9_000)
    world.settle(leases["page.test"])
    world.settle(leases["done.test"], Kind.DONE)
    world.settle(leases["drop.test"], Kind.DROP, outcome="excluded", sent=False)
    world.settle(leases["x.test"], Kind.BACK, signal=Signal.NONE)
    world.settle(leases["empty.test"], Kind.DONE)
    world.offer("leased.test", "https://leased.test/1", "https://leased.test/2")
    assert len(world.lease().leases) == 1
    return world


def test_a_sound_node(busy: World) -> None:
    """Every place is counted, and the sum of the queues is held against its counter."""
    findings = check(busy.store, every_url=True)
    assert findings.sound, list(findings.lines())
    counts = (findings.domains, findings.queued, findings.leased, findings.spooled)
    assert counts == (7, 5, 1, 1)
    assert findings.totals_compared
    assert list(findings.lines()) == [
        "10 admitted = 5 queued + 1 leased + 1 spooled + 2 done + 1 dropped (excluded 1)",
        "sound: 7 domains, 5 queued, 1 leased, 1 spooled",
    ]


def test_a_node_without_memory(busy: World) -> None:
    """At maxmemory, when one would most like to know, it can be checked, too."""
    with busy.server.client() as client:
        before = client.config_get("maxmemory")["maxmemory"]
        client.config_set("maxmemory", 1)
        try:
            assert check(busy.store, every_url=True).sound
        finally:
            client.config_set("maxmemory", before)


def test_an_empty_node(make_world: MakeWorld) -> None:
    """Nothing begun yet is sound."""
    assert check(make_world().store).sound


def change(world: World, domain: str, **fields: float | bytes) -> None:
    record = world.record(domain)
    values = {name: getattr(record, name) for name in DomainRecord.__slots__} | fields
    world.store.redis.execute_command("SET", keys.domain(domain), pack(DomainRecord(**values)))


def run(world: World, *command: str | bytes | float) -> None:
    world.store.redis.execute_command(*command)


def _all(*steps: Callable[[], None]) -> None:
    for step in steps:
        step()


SPOILED: dict[str, tuple[Callable[[World], None], str, str, str]] = {
    "a URL lost from a list": (
        lambda world: run(world, "LPOP", keys.queue(1, "x.test")),
        "I1",
        "x.test",
        "counted 3 URLs in lists, but 2 are there",
    ),
    "a URL lost from later": (
        lambda world: run(world, "DEL", keys.later(lane_of("later.test"))),
        "I1",
        "later.test",
        "counted 1 URLs in later, but 0 are there",
    ),
    "a lease lost": (
        lambda world: run(world, "DEL", keys.leases(lane_of("leased.test"))),
        "I1",
        "leased.test",
        "counted 1 URLs leased, but 0 are there",
    ),
    "a lease counted wrongly": (
        lambda world: run(world, "HINCRBY", keys.LEDGER, "leased", 1),
        "I1",
        "leased",
        "counted 2, but leases holds 1",
    ),
    "a page lost from the spool": (
        lambda world: run(world, "XTRIM", keys.SPOOL, "MAXLEN", 0),
        "I1",
        "spooled",
        "counted 1, but the spool holds 0",
    ),
    "a URL never accounted for": (
        lambda world: run(world, "HINCRBY", keys.LEDGER, "admitted", 1),
        "I1",
        "admitted",
        "counted 11, but 10 are accounted for",
    ),
    "visits of an address counted wrongly": (
        lambda world: run(world, "SET", keys.address("192.0.2.7"), struct.pack("<ddi", 0, 0, 3)),
        "I4",
        "ip:192.0.2.7",
        "counted 3 visits, but 0 leases are out there",
    ),
    "visits of an address not counted": (
        lambda world: change(world, "leased.test", place=b"\1\xc0\0\2\7"),
        "I4",
        "ip:192.0.2.7",
        "counted 0 visits, but 1 leases are out there",
    ),
    "a sum that is wrong": (
        lambda world: _all(
            lambda: run(world, "HINCRBY", keys.LEDGER, "queued", 2),
            lambda: run(world, "HINCRBY", keys.LEDGER, "done", -2),
        ),
        "I1",
        "queued",
        "counted 7, but 5 URLs wait in lists and in later",
    ),
    "a domain too many": (
        lambda world: run(world, "HINCRBY", keys.LEDGER, "domains", 1),
        "I1",
        "domains",
        "counted 8, but 7 domains have a state",
    ),
    "a list without a state": (
        lambda world: run(world, "RPUSH", keys.queue(2, "ghost.test"), "220https://ghost.test/"),
        "I1",
        "ghost.test",
        "there is no state of it, but 1 URLs in lists",
    ),
    "a lease without a state": (
        lambda world: run(
            world, "ZADD", keys.leases(lane_of("ghost.test")), 1, "1.a.1 0 ghost.test 110https://g"
        ),
        "I1",
        "ghost.test",
        "there is no state of it, but 0 URLs in lists, 0 in later, 1 leases",
    ),
    "a state cut short": (
        lambda world: run(world, "SET", keys.domain("x.test"), "short"),
        "I1",
        "x.test",
        "its state has 5 bytes",
    ),
    "a key of a wrong type": (
        lambda world: run(world, "SET", keys.queue(7, "x.test"), "x"),
        "I1",
        "x.test",
        "one of its keys is damaged",
    ),
    "a URL in two places": (
        lambda world: _all(
            lambda: run(world, "RPUSH", keys.queue(3, "x.test"), "330https://x.test/a"),
            lambda: change(world, "x.test", queued=4),
        ),
        "I1",
        "x.test",
        "'330https://x.test/a' is in two places",
    ),
    "an entry in the wrong list": (
        lambda world: run(world, "LSET", keys.queue(3, "x.test"), 0, "110https://x.test/z"),
        "I1",
        "x.test",
        "is in the list of level 3",
    ),
    "an entry that is none": (
        lambda world: run(world, "LSET", keys.queue(3, "x.test"), 0, "nonsense"),
        "I1",
        "x.test",
        "'nonsense' is no queue entry",
    ),
    "a list that leases pass over": (
        lambda world: change(world, "x.test", lowest=2),
        "I2",
        "x.test",
        "has URLs of level 1, but is searched from level 2 on",
    ),
    "a workable domain that is not ready": (
        lambda world: run(world, "ZREM", keys.ready(LANE), "x.test"),
        "I2",
        "x.test",
        "has 3 URLs queued and free width, but is not in ready",
    ),
    "a domain ready without URLs": (
        lambda world: run(world, "ZADD", keys.ready(lane_of("empty.test")), 5, "empty.test"),
        "I2",
        "empty.test",
        "is in ready with 0 URLs queued",
    ),
    "a domain ready without width": (
        lambda world: run(world, "ZADD", keys.ready(lane_of("leased.test")), 5, "leased.test"),
        "I2",
        "leased.test",
        "is in ready with 1 URLs queued and 1 leased",
    ),
    "a domain ready too soon": (
        lambda world: run(world, "ZADD", keys.ready(LANE), START_MS, "x.test"),
        "I2",
        "x.test",
        f"is due at {START_MS + 2_000}.000, but stands in ready at {START_MS}.000",
    ),
    "an unknown domain in ready": (
        lambda world: run(world, "ZADD", keys.ready(lane_of("ghost.test")), 5, "ghost.test"),
        "I1",
        "ghost.test",
        "there is no state of it",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_damage_is_found_and_named(busy: World, what: str) -> None:
    """Each kind of it, by the invariant it breaks and the domain, URL or counter it breaks it at."""
    spoil, invariant, subject, words = SPOILED[what]
    spoil(busy)
    findings = check(busy.store, every_url=True)
    assert not findings.sound
    told = [each.words for each in findings.named if (each.invariant, each.subject) == (invariant, subject)]
    assert any(words in each for each in told), findings.named


def test_many_findings_are_counted_and_some_named(world: World) -> None:
    """A node that lost much does not fill the screen."""
    for i in range(50):
        world.offer(f"d{i}.test", f"https://d{i}.test/")
    for i in range(50):
        run(world, "ZREM", keys.ready(lane_of(f"d{i}.test")), f"d{i}.test")
    findings = check(world.store)
    assert (findings.broken, len(findings.named)) == (50, MOST_NAMED)
    lines = list(findings.lines())
    assert lines[-2] == f"... and {50 - MOST_NAMED} more"
    assert lines[-1].startswith("50 broken: 50 domains")


def test_a_node_at_work_raises_no_false_alarm(make_world: MakeWorld) -> None:
    """Checked again and again while URLs come, are leased and settled: nothing broken, ever."""
    world = make_world(delay_s=0.0)
    world.beat()
    ended = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            number = 0
            while not ended.is_set():
                number += 1
                for domain in range(20):
                    world.offer(f"d{domain}.test", f"https://d{domain}.test/{number}")
                kinds = (Kind.BACK, Kind.LATER, Kind.DONE, Kind.DONE)
                leases = world.lease(50).leases
                results = [
                    Settlement(lease, kinds[i % 4], "x", Signal.SUCCESS, True, wait_ms=1)
                    for i, lease in enumerate(leases)
                ]
                world.now_ms += 5
                world.store.call(world.frontier.settle(world.now_ms, results, {}, 0.0))
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    own = Store(world.settings)
    try:
        for _ in range(10):
            findings = check(own, every_url=True)
            assert findings.sound, list(findings.lines())
    finally:
        ended.set()
        worker.join()
        own.close()
    assert not failed
    assert check(world.store, every_url=True).totals_compared


def test_inspect_changes_nothing(busy: World) -> None:
    """The whole check only reads."""
    before = busy.dump()
    check(busy.store, every_url=True)
    assert busy.dump() == before


def test_records_are_packed_as_the_scripts_pack_them(busy: World) -> None:
    """Python's format is Lua's."""
    packed = busy.store.redis.execute_command("GET", keys.domain("later.test"))
    assert unpack(packed) == DomainRecord(START_MS + 2_000, 0, 1, 1, 0, 0, 0, 4_000, 0, 1, 0, 21)
    assert pack(unpack(packed)) == packed
