"""Each verb of the frontier, from call to answer: the way to Redis and back is in it. Time is driven. A verb
that does its work only once is asked where it finds none to do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from node.rules.entry import Entry, Lease
from node.rules.outcome import Signal
from node.rules.shard import LANES, lane_of
from node.store import spool
from node.store.found import Stored, found, page_gone
from node.store.frontier import Group, Kind, Settlement
from node.store.gateway import gateway
from node.store.scripts import Verb, all_scripts
from node.store.warc import Position
from tests.bench.micro.conftest import DOMAINS, URLS
from tests.store.frontier_world import World

A_CALL = 50
"""Leases and settlements in a call."""
NAME = "d7.test"
PAGE = b"1-1"
"""A page that is not on the spool."""

_pack = msgspec.msgpack.encode


def url_of(domain: int, number: int) -> str:
    return f"https://d{domain}.test/news/article-{number}.html"


def groups(world: World, pages: int, number: Callable[[], int]) -> list[Group]:
    """Links of so many pages: one each that ``number`` says, 14 to the page's domain, 5 elsewhere."""
    made = []
    for domain in range(pages):
        known = [Entry(url_of(domain, k), 1, 1) for k in range(14)]
        made.append(world.group(f"d{domain}.test", Entry(url_of(domain, number()), 1, 1), *known))
        for k in range(5):
            other = pages + domain * 5 + k
            made.append(world.group(f"d{other}.test", Entry(url_of(other, k), 1, 1)))
    return made


def lease(world: World) -> list[Lease]:
    """A call's worth, once so much time has passed that all domains are due."""
    world.now_ms += 5_000
    world.beat()
    found = world.lease(A_CALL).leases
    assert len(found) == A_CALL
    return found


def settled(world: World, leases: list[Lease], kind: Kind = Kind.BACK) -> Verb[str]:
    batch = [
        Settlement(
            each,
            kind,
            "page",
            Signal.SUCCESS,
            sent=kind is Kind.PAGE,
            pointer=f"f.warc.gz 0 1 1 {each.entry.url}" if kind is Kind.PAGE else "",
            crawl_delay_ms=0,
        )
        for each in leases
    ]
    return world.frontier.settle(world.now_ms, batch, {}, 0.5)


# -- what a page takes


def test_lease_50(benchmark: Any, world: World) -> None:
    """50 domains that are due. They come back after each round."""

    def back(found: Any) -> None:
        world.store.call(settled(world, found.leases))

    def due() -> None:
        world.now_ms += 5_000
        world.beat()

    taken: list[Any] = []

    def setup() -> None:
        if taken:
            back(taken.pop())
        due()

    benchmark.pedantic(lambda: taken.append(world.lease(A_CALL)), setup=setup, rounds=200)
    assert len(taken[-1].leases) == A_CALL
    back(taken.pop())


def test_settle_50(benchmark: Any, world: World) -> None:
    """50 pages; the spool is emptied after each round."""

    def setup() -> tuple[tuple[Verb[str]], dict[str, object]]:
        world.store.redis.execute_command("XTRIM", "spool", "MAXLEN", 0)
        world.store.redis.execute_command("HSET", "ledger", "spooled", 0)
        return (settled(world, lease(world), Kind.PAGE),), {}

    answer = benchmark.pedantic(world.store.call, setup=setup, rounds=50)
    assert answer == "1" * A_CALL


def test_offer_16_pages_known(benchmark: Any, world: World) -> None:
    """320 links to 96 domains, nothing new among them."""
    made = groups(world, 16, lambda: 20)
    answer = benchmark(lambda: world.store.call(world.frontier.offer(world.now_ms, made)))
    assert (answer.admitted, answer.seen) == (0, 320)


def test_offer_16_pages(benchmark: Any, world: World) -> None:
    """The same with one new link for each page."""
    fresh = count(URLS)

    def setup() -> tuple[tuple[list[Group]], dict[str, object]]:
        return (groups(world, 16, lambda: next(fresh)),), {}

    def offer(made: list[Group]) -> Any:
        return world.store.call(world.frontier.offer(world.now_ms, made))

    assert benchmark.pedantic(offer, setup=setup, rounds=200).admitted == 16


def test_beat(benchmark: Any, world: World) -> None:
    """Of the only fetcher."""
    assert len(benchmark(world.beat)) == LANES


def test_extend(benchmark: Any, world: World) -> None:
    """50 leases."""
    leases = lease(world)
    wanted = [(each, world.now_ms + 60_000) for each in leases]
    answer = benchmark(lambda: world.store.call(world.frontier.extend(world.now_ms, wanted)))
    assert answer == "1" * A_CALL
    world.store.call(settled(world, leases))


def test_hop(benchmark: Any, world: World) -> None:
    """The look that comes first: may it be registered?"""
    leases = lease(world)
    target = "https://" + leases[0].domain + "/moved"
    packed, slots = Entry(target, 1, 1).pack(), world.frontier.slots(target)
    verb = world.frontier.hop(
        world.now_ms, leases[0], packed, slots, outcome="redirected", same=False, look=True
    )
    assert benchmark(world.store.call, verb).verdict == "ok"
    world.store.call(settled(world, leases))


def test_gateway(benchmark: Any, world: World) -> None:
    """The next turn of its limiter."""
    verb = gateway(world.now_ms, 1_000.0, max_wait_ms=0, successes=1)
    assert benchmark(world.store.call, verb).stop is None


# -- what comes about now and then


def test_begin(benchmark: Any, world: World) -> None:
    """A process meets a Redis that it has met before."""
    assert benchmark(world.begin).base_ms is not None


def test_reap(benchmark: Any, world: World) -> None:
    """A lane in which no lease has run out."""
    assert benchmark(world.store.call, world.frontier.reap(world.now_ms, 7, 16)) == 0


def test_shed(benchmark: Any, world: World) -> None:
    """Looking through the domains of a lane, none of which has a URL so low."""
    verb = world.frontier.shed(world.now_ms, 7, 0, domains=100, urls=1_000, level=7)
    assert benchmark(world.store.call, verb).dropped == 0


def test_trim(benchmark: Any, world: World) -> None:
    """What would be taken out of a domain of 100 URLs."""
    verb = world.frontier.trim(world.now_ms, NAME, lane_of(NAME), 10)
    assert len(benchmark(world.store.call, verb)) > 0


def test_found(benchmark: Any, world: World) -> None:
    """A record of a page that is known and done."""
    stored = Stored(Entry("https://nobody.test/", 1, 1), Kind.PAGE, "page", Position("f.warc.gz", 1, 1, ""))
    world.store.call(found(world.frontier, world.now_ms, 0, [stored], {}))
    assert len(benchmark(world.store.call, found(world.frontier, world.now_ms, 0, [stored], {}))) == 1


def test_unspool(benchmark: Any, world: World) -> None:
    """A page that is not on the spool any more."""
    verb = page_gone(world.frontier, world.now_ms, PAGE, Entry(url_of(7, 1), 1, 1))
    assert benchmark(world.store.call, verb) == 0


def test_charge(benchmark: Any, world: World) -> None:
    """The same."""
    assert benchmark(world.store.call, spool.charge(PAGE, "died", "p1", 3)) is spool.Fate.GONE


def test_requeue(benchmark: Any, world: World) -> None:
    """No dead letter has this number."""
    verb = Verb("requeue", (_pack(["1-1"]),), int)
    assert benchmark(world.store.call, verb) == 0


# -- what a check and a repair ask


def test_inspect(benchmark: Any, world: World) -> None:
    """The domains of a lane, every URL."""
    names = [f"d{number}.test" for number in range(DOMAINS)]
    lane = lane_of(names[0])
    mine = [name for name in names if lane_of(name) == lane]
    known = _pack([world.frontier.wire_plan, []])
    assert benchmark(world.store.call, Verb("inspect", (lane, 1, known, *mine), len)) == len(mine)


def test_totals(benchmark: Any, world: World) -> None:
    """The sums of all."""
    assert benchmark(world.store.call, Verb("totals", (), len)) > 0


def test_mark(benchmark: Any, world: World) -> None:
    """50 URLs of a domain that are known already."""
    slots = b"".join(world.frontier.slots(url_of(7, number)) for number in range(A_CALL))
    options = _pack([world.frontier.base_delay_ms, world.frontier.wire_plan])
    verb = Verb("mark", (world.now_ms, lane_of(NAME), NAME, options, slots), int)
    assert benchmark(world.store.call, verb) == 0


def test_mend(benchmark: Any, world: World) -> None:
    """A domain of 100 URLs with which nothing is wrong."""
    plan = world.frontier.plan
    latest = world.now_ms + 10**9
    options = [world.frontier.base_delay_ms, world.frontier.wire_plan, plan.bits_set, latest, latest]
    verb = Verb("mend", (world.now_ms, lane_of(NAME), NAME, _pack(options), _pack([])), len)
    world.store.call(verb)
    assert benchmark(world.store.call, verb) == 0


def test_move(benchmark: Any, world: World) -> None:
    """A member that is not there."""
    assert benchmark(world.store.call, Verb("move", ("leases", 7, "nothing", ""), int)) == 0


def test_reckon(benchmark: Any, world: World) -> None:
    """Counters that are right."""
    flat = world.store.redis.execute_command("HGETALL", "ledger")
    values = dict(zip(flat[::2], flat[1::2], strict=True))
    args = (values[b"queued"], values[b"domains"], *flat)
    world.store.call(Verb("reckon", args, len))
    flat = world.store.redis.execute_command("HGETALL", "ledger")
    assert benchmark(world.store.call, Verb("reckon", (*args[:2], *flat), len)) == 0


def test_every_verb_is_here() -> None:
    """A new verb gets a measurement."""
    missing = {each.name for each in all_scripts()} - {
        name.split("_")[1] for name in globals() if name.startswith("test_")
    }
    assert not missing
