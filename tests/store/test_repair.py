"""repair: each kind of damage is put right, and the crawl goes on to its end with all that was there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from node.rules.entry import Entry, unpack
from node.rules.shard import LANES, lane_of
from node.store import keys, repair
from node.store.check import check
from node.store.findings import Findings
from node.store.frontier import Kind
from node.store.repair import WORDS, Repaired
from tests.store.frontier_world import World
from tests.store.test_check import LANE, SPOILED, busy, change, run

__all__ = ["busy"]
"""The fixture: URLs in every place."""


@pytest.fixture
def warc(tmp_path: Path) -> Path:
    """A folder with the record that pages on the spool point to."""
    (tmp_path / "f.warc.gz").write_bytes(b"x")
    return tmp_path


def _repair(world: World, warc: Path) -> tuple[Repaired, Findings]:
    done, after = repair.repair(world.store, warc)
    assert after.sound, list(after.lines())
    assert after.totals_compared
    # repairs go by the machine's clock, as all commands do
    world.now_ms = max(world.now_ms, int(world.store.redis.execute_command("GET", keys.CLOCK)))
    return done, after


def _crawl_to_the_end(world: World) -> set[str]:
    """Visit all that waits; answers which URLs that were."""
    visited: set[str] = set()
    while world.ledger("queued") or world.ledger("leased"):
        world.now_ms += 70_000
        assert len(visited) < 20, "it comes to an end"
        world.beat()
        world.store.calls([world.frontier.reap(world.now_ms, lane, 100) for lane in range(LANES)])
        for lease in world.lease(100).leases:
            assert lease.entry.url not in visited, "nothing is visited twice"
            visited.add(lease.entry.url)
            world.settle(lease, Kind.DONE)
    assert check(world.store, every_url=True).sound
    return visited


def _first_due(world: World, *domains: str) -> float:
    return min(score for domain in domains if (score := world.ready_at(domain)) is not None)


MORE: dict[str, tuple[Callable[[World], None], str]] = {
    "a lease in the lane of another domain": (
        lambda world: run(world, "ZADD", keys.leases(LANE + 1), 5, "1.a.9 0 x.test 110https://x.test/lane"),
        "brought",
    ),
    "a domain in the lane of another": (
        lambda world: run(world, "ZADD", keys.ready((LANE + 1) % 64), 5, "x.test"),
        "brought",
    ),
    "a lease of nobody": (
        lambda world: run(world, "ZADD", keys.leases(LANE), 5, "nonsense"),
        "removed",
    ),
    "what waits, and is no URL": (
        lambda world: run(world, "ZADD", keys.later(LANE), 5, "nonsense"),
        "removed",
    ),
    "a lease that never runs out": (
        lambda world: run(
            world, "ZADD", keys.leases(lane_of("leased.test")), 9e15, _leases(world, "leased.test")[0]
        ),
        "endless",
    ),
    "a URL leased and queued": (
        lambda world: run(world, "RPUSH", keys.queue(1, "leased.test"), "110https://leased.test/1"),
        "twice",
    ),
    "a URL on the spool and queued": (
        lambda world: run(world, "RPUSH", keys.queue(1, "page.test"), "110https://page.test/"),
        "twice",
    ),
    "a URL that waits and is queued": (
        lambda world: run(world, "RPUSH", keys.queue(1, "later.test"), "110https://later.test/"),
        "twice",
    ),
    "a domain that is never due": (lambda world: change(world, "x.test", due_ms=float("inf")), "due"),
    "a domain due at no time": (lambda world: change(world, "x.test", due_ms=float("nan")), "due"),
    "a filter lost": (lambda world: run(world, "DEL", keys.seen(1, "x.test")), "filter"),
    "a filter cut short": (lambda world: run(world, "SET", keys.seen(1, "x.test"), "x"), "filter"),
    "a state lost": (lambda world: run(world, "DEL", keys.domain("x.test")), "state"),
    "a state of another type": (
        lambda world: _all(
            lambda: run(world, "DEL", keys.domain("x.test")),
            lambda: run(world, "HSET", keys.domain("x.test"), "a", "b"),
        ),
        "type",
    ),
    "a domain given up that has a queue": (lambda world: change(world, "x.test", gone=1), "given_up"),
    "an entry of the spool that is no page": (
        lambda world: run(world, "XADD", keys.SPOOL, "*", "p", "nonsense"),
        "no_page",
    ),
    "a page whose record is gone": (
        lambda world: _all(
            lambda: run(world, "XADD", keys.SPOOL, "*", "p", "f.warc.gz 0 9 1 https://page.test/gone"),
            lambda: run(world, "HINCRBY", keys.LEDGER, "spooled", 1),
            lambda: run(world, "HINCRBY", keys.LEDGER, "admitted", 1),
        ),
        "page_gone",
    ),
    "a counter that is no number": (
        lambda world: run(world, "HSET", keys.LEDGER, "queued", "many"),
        "counter",
    ),
    "a negative counter": (lambda world: run(world, "HSET", keys.LEDGER, "done", -5), "lost"),
}


TAKES = {"a domain given up that has a queue": 3}
"""URLs that are not visited after it, where they are more than one."""


def _all(*steps: Callable[[], None]) -> None:
    for step in steps:
        step()


def _leases(world: World, domain: str) -> list[str]:
    found = world.store.redis.execute_command("ZRANGE", keys.leases(lane_of(domain)), 0, -1)
    return [each.decode() for each in found if f" {domain} " in each.decode()]


_KINDS = {what: spoil for what, (spoil, *_) in SPOILED.items()} | {
    what: spoil for what, (spoil, _) in MORE.items()
}


@pytest.mark.parametrize("what", _KINDS)
def test_damage_is_put_right(busy: World, warc: Path, what: str) -> None:
    """It is named, mended, and nothing is found after it; a second repair does nothing; the crawl goes on,
    and no URL is visited twice."""
    there = {entry.url for entry in _queued(busy)}
    _KINDS[what](busy)
    assert not check(busy.store, every_url=True, warc_folder=warc).sound
    done, _ = _repair(busy, warc)
    assert list(done.lines()), "it says what it did"
    again, _ = _repair(busy, warc)
    assert list(again.lines()) == []
    visited = _crawl_to_the_end(busy)
    assert len(there - visited) <= TAKES.get(what, 1), "what was there is visited, but for what was damaged"


def _queued(world: World) -> list[Entry]:
    found: list[Entry] = []
    for domain in ("x.test", "leased.test"):
        entries = world.store.call(world.frontier.trim(world.now_ms, domain, lane_of(domain), 0))
        found += [unpack(each) for each in entries]
    return found


@pytest.mark.parametrize("what", MORE)
def test_it_says_what_it_did(busy: World, warc: Path, what: str) -> None:
    """Each thing in words of its own, counted, with the subject."""
    spoil, expected = MORE[what]
    spoil(busy)
    done, _ = _repair(busy, warc)
    assert done.counts[expected] >= 1, list(done.lines())
    assert any(WORDS[expected] in line for line in done.lines())


def test_a_state_made_anew_keeps_the_gap(busy: World, warc: Path) -> None:
    """Nobody knows when the domain was visited last: not before a delay from now."""
    run(busy, "SET", keys.domain("x.test"), "short")
    busy.now_ms += 5_000
    busy.beat()  # so that Redis knows what time it is
    _repair(busy, warc)
    assert _first_due(busy, "x.test") >= busy.now_ms + 2_000
    assert busy.offer("x.test", "https://x.test/a", "https://x.test/b").seen == 2, "its filter is kept"


def test_a_filter_made_anew_knows_what_waits(busy: World, warc: Path) -> None:
    """URLs in the queue, in later, leased and on the spool are not admitted again."""
    for domain in ("x.test", "leased.test", "later.test", "page.test"):
        run(busy, "DEL", keys.seen(1, domain))
    done, _ = _repair(busy, warc)
    assert done.counts["filter"] == 4
    assert (
        busy.offer("x.test", "https://x.test/a", "https://x.test/b", Entry("https://x.test/c", 3, 3)).seen
        == 3
    )
    assert busy.offer("leased.test", "https://leased.test/1", "https://leased.test/2").seen == 2
    assert busy.offer("later.test", "https://later.test/").seen == 1
    assert busy.offer("page.test", "https://page.test/").seen == 1


def test_what_is_lost_is_counted(busy: World, warc: Path) -> None:
    """Two URLs vanish: the ledger says so, under a name of its own."""
    run(busy, "DEL", keys.queue(1, "x.test"))
    admitted = busy.ledger("admitted")
    done, after = _repair(busy, warc)
    assert (busy.ledger("drop:lost"), busy.ledger("admitted")) == (2, admitted)
    assert any(line.startswith("2 URLs are nowhere") for line in done.lines())
    assert "lost 2" in next(after.lines())


def test_a_sound_node_is_left_as_it_is(busy: World, warc: Path) -> None:
    """Not a byte changes."""
    before = busy.dump()
    done, _ = _repair(busy, warc)
    assert list(done.lines()) == []
    assert busy.dump() == before
