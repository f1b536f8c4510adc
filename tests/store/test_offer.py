"""offer: URLs in, pages off the spool."""

from __future__ import annotations

import pytest
import redis

from node.rules.entry import Entry
from node.store import keys
from node.store.domain_record import DomainRecord
from node.store.frontier import Group, Offered
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import START_MS, World


def levels(world: World, domain: str) -> dict[int, list[str]]:
    """The URLs' last parts by level."""
    found = {}
    for level in range(keys.LEVELS):
        entries = world.store.redis.execute_command("LRANGE", keys.queue(level, domain), 0, -1)
        if entries:
            found[level] = [entry.decode().rpartition("/")[2] for entry in entries]
    return found


def urls(*paths: int | str, level: int = 1) -> list[Entry]:
    return [Entry(f"https://x.test/{path}", level, level) for path in paths]


def test_new_urls_are_queued_by_level_and_make_their_domain_ready(world: World) -> None:
    """Entries stand in the list of their level, in order; the domain is in ready at its first due."""
    answer = world.offer("x.test", *urls("a", "b", level=1), *urls("c", level=0))
    assert answer == Offered(0, 3, 0, 0, 0, {})
    assert levels(world, "x.test") == {0: ["c"], 1: ["a", "b"]}
    assert world.ready_at("x.test") == START_MS
    assert world.record("x.test") == DomainRecord(START_MS, 3, 0, 3, 0, -1, 0, 4_000, 0, 0, 0, 20)
    assert (world.ledger("admitted"), world.ledger("queued"), world.ledger("domains")) == (3, 3, 1)


def test_a_url_is_admitted_once(world: World) -> None:
    """What was offered before, or twice in one call, is seen."""
    assert world.offer("x.test", *urls("a", "a", "b")).seen == 1
    assert world.offer("x.test", *urls("a", "b", "c")) == Offered(0, 1, 2, 0, 0, {})
    assert levels(world, "x.test") == {1: ["a", "b", "c"]}


def test_a_domain_twice_in_one_call(world: World) -> None:
    """Two groups of one domain are taken one after the other."""
    groups = [world.group("x.test", *urls("a", "b")), world.group("x.test", *urls("b", "c"))]
    assert world.store.call(world.frontier.offer(world.now_ms, groups)) == Offered(0, 3, 1, 0, 0, {})
    assert levels(world, "x.test") == {1: ["a", "b", "c"]}
    assert world.record("x.test").queued == 3


def test_a_fraction_of_first_due_orders_seeds(world: World) -> None:
    """Ranks that differ by less than a millisecond stay apart, and record and ready agree."""
    for name, fraction in (("x.test", 0.0625), ("y.test", 0.03125)):
        group = Group(name, 3, START_MS + fraction)
        entry = Entry(f"https://{name}/", 0, 0)
        group.entries.append(entry.pack())
        group.slots += world.frontier.slots(entry.url)
        world.store.call(world.frontier.offer(world.now_ms, [group]))
        assert world.record(name).due_ms == START_MS + fraction
    order = world.store.redis.execute_command("ZRANGE", keys.ready(3), 0, -1, "WITHSCORES")
    assert order[::2] == [b"y.test", b"x.test"]
    assert float(order[1]) == START_MS + 0.03125


def test_a_full_queue_takes_only_what_is_better(make_world: MakeWorld) -> None:
    """The worst waiting URL gives way to a better one; one that is no better is refused, not marked, and
    the answer says from which level on it is no use to send more."""
    world = make_world(max_urls_per_domain=3)
    world.offer("x.test", *urls(1, 2, level=5), *urls(3, level=2))
    assert world.offer("x.test", *urls(4, level=5)) == Offered(0, 0, 0, 1, 0, {"x.test": (5, 5_000)})
    assert world.offer("x.test", *urls(5, level=1)) == Offered(0, 1, 0, 0, 1, {})
    assert levels(world, "x.test") == {1: ["5"], 2: ["3"], 5: ["1"]}
    assert world.ledger("drop:displaced") == 1
    world.offer("x.test", *urls(6, 7, level=1))
    assert levels(world, "x.test") == {1: ["5", "6", "7"]}
    # 4 was refused, so it is new; 2 was displaced, so it is known
    assert world.offer("x.test", *urls(4, 2, level=0)) == Offered(0, 1, 1, 0, 1, {})


def test_a_batch_displaces_its_own_worst(make_world: MakeWorld) -> None:
    """Within one call a better URL displaces a worse one that has just come."""
    world = make_world(max_urls_per_domain=2)
    answer = world.offer(
        "x.test", *urls(1, 2, level=6), *urls(3, level=3), *urls(4, level=6), *urls(5, level=0)
    )
    assert answer == Offered(0, 4, 0, 1, 2, {"x.test": (6, 5_000)})
    assert levels(world, "x.test") == {0: ["5"], 3: ["3"]}


def test_a_domain_s_life_is_bounded(make_world: MakeWorld) -> None:
    """Displacement ends: a domain admits four queues full in its life, then nothing is better."""
    world = make_world(max_urls_per_domain=2)
    admitted = 0
    for path in range(40):
        admitted += world.offer("x.test", *urls(path, level=7 - path % 8)).admitted
    assert admitted <= world.frontier.life_cap == 8
    for path in range(100, 120):
        world.offer("x.test", *urls(path, level=0))
    assert world.record("x.test").admitted <= 8
    world.beat()
    while True:
        world.now_ms += 3_000
        leases = world.lease().leases
        if not leases:
            break
        world.settle(leases[0])
    for path in range(200, 220):
        world.offer("x.test", *urls(path, level=0))
    assert world.record("x.test").admitted == 8
    assert world.offer("x.test", *urls(999, level=0)).full == {"x.test": (-1, 5_000)}


def test_domains_are_bounded(make_world: MakeWorld) -> None:
    """Beyond max_domains nothing new is kept; known domains go on."""
    world = make_world(max_domains=1)
    world.offer("x.test", *urls("a"))
    assert world.offer("y.test", "https://y.test/").full == {"y.test": (-1, 5_000)}
    assert world.store.redis.execute_command("EXISTS", keys.domain("y.test")) == 0
    assert world.offer("x.test", *urls("b")).admitted == 1


def spooled(world: World, *paths: str) -> list[bytes]:
    """Pages in a parser's hands."""
    world.beat()
    for path in paths:
        world.offer("x.test", *urls(path))
        world.now_ms += 5_000
        world.settle(world.lease().leases[0])
    answer = world.store.redis.execute_command(
        "XREADGROUP", "GROUP", keys.PARSERS, "p1", "COUNT", 10, "STREAMS", keys.SPOOL, ">"
    )
    return [page[0] for page in answer[0][1]]


def test_pages_are_acknowledged_with_their_links(world: World) -> None:
    """The call that brings a page's links takes it off the spool; it counts as done once."""
    pages = spooled(world, "a", "b")
    assert world.offer("y.test", "https://y.test/", acks=(pages[0],)).acknowledged == 1
    assert world.store.redis.execute_command("XLEN", keys.SPOOL) == 1
    assert world.offer("y.test", acks=tuple(pages)).acknowledged == 1
    assert (world.ledger("spooled"), world.ledger("done")) == (0, 2)


def test_a_page_whose_delivery_was_forgotten_still_counts(world: World) -> None:
    """A power cut may take back who read a page; acknowledging it counts by what leaves the spool."""
    pages = spooled(world, "a")
    world.store.redis.execute_command("XGROUP", "DESTROY", keys.SPOOL, keys.PARSERS)
    world.store.redis.execute_command("XGROUP", "CREATE", keys.SPOOL, keys.PARSERS, "0")
    assert world.offer("y.test", acks=tuple(pages)).acknowledged == 1
    assert world.ledger("spooled") == 0


def test_an_offer_larger_than_lua_s_stack(world: World) -> None:
    """Thousands of domains that are full, and thousands of URLs and acks, fit one call."""
    first = [world.group(f"d{i}.test", Entry(f"https://d{i}.test/", 1, 1)) for i in range(9_000)]
    world.frontier.life_cap = 1
    assert world.store.call(world.frontier.offer(world.now_ms, first)).admitted == 9_000
    again = [world.group(f"d{i}.test", Entry(f"https://d{i}.test/2", 1, 1)) for i in range(9_000)]
    assert len(world.store.call(world.frontier.offer(world.now_ms, again)).full) == 9_000
    acks = [b"%d-1" % i for i in range(1, 9_001)]
    assert world.store.call(world.frontier.offer(world.now_ms, [], acks)).acknowledged == 0


def test_at_maxmemory_nothing_is_admitted_but_pages_are_acknowledged(world: World) -> None:
    """Redis without room: URLs are refused and counted, their domains told as full; the ack counts."""
    pages = spooled(world, "a")
    redis_ = world.store.redis
    redis_.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        answer = world.offer("y.test", "https://y.test/", acks=tuple(pages))
        assert answer == Offered(1, 0, 0, 1, 0, {"y.test": (-1, 5_000)})
        assert world.ledger("refuse:memory") == 1
        assert world.ledger("spooled") == 0
    finally:
        redis_.execute_command("CONFIG", "SET", "maxmemory", "0")
    assert world.offer("y.test", "https://y.test/").admitted == 1


def test_what_was_taken_out_comes_back_once(world: World) -> None:
    """``returning`` skips the filter, but brings no more than was dropped for that reason."""
    world.offer("x.test", *urls("a", "b", "c"))
    taken = world.store.call(world.frontier.trim(world.now_ms, "x.test", 0, 1, reason="excluded"))
    assert [entry[3:] for entry in taken] == ["https://x.test/c", "https://x.test/b"]
    group = Group("x.test", 0, world.now_ms, taken, bytearray(b"".join(map(world.frontier.slots, taken))))
    for admitted in (2, 0):
        answer = world.store.call(world.frontier.offer(world.now_ms, [group], returning="excluded"))
        assert answer.admitted == admitted
    assert (world.ledger("drop:excluded"), world.ledger("queued"), world.ledger("admitted")) == (0, 3, 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.domain("x.test"), "short"),
        (keys.queue(1, "x.test"), "no list"),
        (keys.queue(1, "y.test"), "no list"),
    ],
)
def test_a_damaged_key_stops_an_offer_before_it_changes_anything(world: World, key: str, value: str) -> None:
    """Of several groups and acks none is carried out, and no counter moves."""
    pages = spooled(world, "a")
    world.store.redis.execute_command("SET", key, value)
    groups = [world.group("a.test", Entry("https://a.test/", 1, 1)), world.group("x.test", *urls("b"))]
    groups.append(world.group("y.test", Entry("https://y.test/", 1, 1)))
    before = world.dump()
    with pytest.raises(redis.ResponseError):
        world.store.call(world.frontier.offer(world.now_ms, groups, pages))
    assert world.dump() == before


@pytest.mark.parametrize("entry", ["", "9", "x11https://x.test/", "/11https://x.test/"])
def test_a_corrupt_entry_changes_nothing(world: World, entry: str) -> None:
    """An entry without a level is an error; the good ones beside it are not admitted either."""
    group = world.group("x.test", *urls("a"))
    group.entries.append(entry)
    group.slots += world.frontier.slots("https://x.test/b")
    before = world.dump()
    with pytest.raises(redis.ResponseError, match="no queue entry"):
        world.store.call(world.frontier.offer(world.now_ms, [group]))
    assert world.dump() == before
