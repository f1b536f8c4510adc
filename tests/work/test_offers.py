"""A parser's offers while Redis has no memory: its pages wait for room, for ten seconds and no longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from node.rules.entry import Entry
from node.rules.shed import BETTER, NOTHING, PATIENCE_S
from node.store import keys
from node.store.exclusions import Exclusions
from node.store.frontier import Group
from node.store.tally import Tally
from node.work.links import Offering
from node.work.offers import OUT_OF_MEMORY_WAIT_S, Offers
from tests.redis_server import RedisServer
from tests.store.frontier_world import World, settings_for
from tests.store.test_offer import spooled


@dataclass(slots=True)
class Rig:
    """A parser's offers at driven time. ``after``: what is done once it has waited so often."""

    world: World
    now_s: float = 0.0
    waits: int = 0
    after: dict[int, Callable[[], object]] = field(default_factory=dict)
    tally: Tally = field(default_factory=lambda: Tally("parsers"))

    def offers(self) -> Offers:
        settings, frontier = self.world.settings, self.world.frontier
        offering = Offering(settings, frontier, Exclusions(), self.tally)
        return Offers(
            self.world.store,
            frontier,
            offering,
            self.tally,
            self.meanwhile,
            now_s=lambda: self.now_s,
            wait=self.wait,
        )

    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    def meanwhile(self) -> None:
        self.waits += 1
        self.after.get(self.waits, lambda: None)()

    def groups(self, *urls: str) -> list[Group]:
        return [self.world.group("y.test", *(Entry(url, 1, 1) for url in urls))]

    def maxmemory(self, value: int) -> None:
        self.world.store.redis.execute_command("CONFIG", "SET", "maxmemory", value)

    def grade(self, value: int) -> None:
        self.world.store.redis.execute_command("HSET", keys.CONTROL, "shed", value)

    def counted(self) -> dict[str, int]:
        return {name: int(by) for _verb, _key, name, by in self.tally.take()}


@pytest.fixture
def rig(redis_server: RedisServer) -> Iterator[Rig]:
    world = World(redis_server, settings_for(redis_server))
    made = Rig(world)
    yield made
    made.maxmemory(0)
    world.close()


@pytest.mark.parametrize("short", ["maxmemory", NOTHING, BETTER])
def test_a_shortage_of_a_moment_is_waited_for(rig: Rig, short: str | int) -> None:
    """Its links enter when there is room, its pages are done then; nothing was turned away."""
    pages = spooled(rig.world, "a", "b")
    done = rig.world.ledger("done")
    if isinstance(short, int):
        rig.grade(short)
        rig.after[3] = lambda: rig.grade(0)
    else:
        rig.maxmemory(1)
        rig.after[3] = lambda: rig.maxmemory(0)
    offers = rig.offers()
    held: list[bool] = []
    rig.after[2] = lambda: held.append(offers.held)
    rig.after[1] = lambda: held.append(rig.world.ledger("done") > done)
    offers.offer(rig.groups("https://y.test/1", "https://y.test/2"), pages)
    assert held == [False, True]
    assert not offers.held
    counted = rig.counted()
    assert rig.waits == counted["refused:parsers:no_memory"] == 3
    assert counted["wait_ms:parsers:no_memory"] == 3 * 1000 * OUT_OF_MEMORY_WAIT_S
    assert (counted["links:admitted"], counted["pages_parsed"]) == (2, 2)
    assert rig.world.ledger("done") == done + 2
    assert rig.world.ledger("refuse:memory") == rig.world.ledger("refuse:shed") == 0


def test_what_lasts_is_not_waited_for_again_and_again(rig: Rig) -> None:
    """After ten seconds links are turned away, from then on at once; once there was room, they are kept."""
    pages = spooled(rig.world, "a", "b", "c")
    offers = rig.offers()
    rig.maxmemory(1)
    offers.offer(rig.groups("https://y.test/1"), pages[:1])
    assert rig.now_s == PATIENCE_S
    assert (rig.waits, rig.world.ledger("refuse:memory")) == (PATIENCE_S / OUT_OF_MEMORY_WAIT_S, 1)
    rig.waits = 0
    for _ in range(3):
        rig.now_s += 5.0
        offers.offer(rig.groups("https://y.test/2"), [])
    assert (rig.waits, rig.world.ledger("refuse:memory")) == (0, 4)
    rig.maxmemory(0)
    offers.offer(rig.groups("https://y.test/3"), pages[1:2])
    rig.maxmemory(1)
    rig.after[1] = lambda: rig.maxmemory(0)
    offers.offer(rig.groups("https://y.test/4"), pages[2:])
    assert (rig.waits, rig.world.ledger("refuse:memory")) == (1, 4)


def test_pages_without_links_wait_for_nothing(rig: Rig) -> None:
    """They only free memory."""
    pages = spooled(rig.world, "a")
    rig.maxmemory(1)
    rig.offers().offer([], pages)
    assert (rig.waits, rig.counted()["pages_parsed"]) == (0, 1)


def test_who_is_to_stop_meanwhile_leaves_its_pages(rig: Rig) -> None:
    """What ends the wait is passed on; links and pages are as they were."""
    pages = spooled(rig.world, "a")
    done = rig.world.ledger("done")
    rig.maxmemory(1)

    def stop() -> None:
        raise KeyboardInterrupt

    rig.after[2] = stop
    offers = rig.offers()
    with pytest.raises(KeyboardInterrupt):
        offers.offer(rig.groups("https://y.test/1"), pages)
    rig.maxmemory(0)
    assert not offers.held
    assert rig.world.ledger("done") == done
    assert len(rig.world.store.redis.xpending_range(keys.SPOOL, keys.PARSERS, "-", "+", 10)) == 1
    assert rig.world.ledger("refuse:memory") == 0
