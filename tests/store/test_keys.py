"""The table of keys is true."""

from __future__ import annotations

import re

import pytest

from node.rules.entry import Entry
from node.rules.outcome import Signal
from node.store import keys
from node.store.frontier import Kind
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import domains_in_one_lane

ROW = re.compile(r"(\S+) +(string|hash|list|set|zset|stream) +\S")
TABLE = {row[1]: row[2] for line in (keys.__doc__ or "").splitlines() if (row := ROW.match(line))}


def pattern_of(name: str) -> re.Pattern[str]:
    """``ready:{lane}`` -> what such a key looks like."""
    parts = re.split(r"(\{\w+\})", name)
    known = {"{lane}": r"([0-9]|[1-5][0-9]|6[0-3])", "{level}": "[0-7]", "{layer}": "[1-9][0-9]*"}
    shapes = (known.get(part, r"\S+") if part[:1] == "{" else re.escape(part) for part in parts)
    return re.compile("".join(shapes))


def test_the_table_names_what_the_builders_build() -> None:
    """Each constant and each function of the module has a row, and each row its constant or function."""
    built = {
        keys.ready(0),
        keys.later(0),
        keys.leases(0),
        keys.domain("x.test"),
        keys.queue(0, "x.test"),
        keys.seen(1, "x.test"),
        keys.robots("x.test"),
        keys.sitemaps("x.test"),
        keys.near("x.test"),
    }
    not_keys = {keys.PARSERS, keys.SCHEMA}
    constants = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)}
    built |= constants - not_keys
    assert len(TABLE) > 20
    for name in built:
        assert [row for row in TABLE if pattern_of(row).fullmatch(name)], f"{name} has no row"


@pytest.mark.parametrize("delay_s", [0.0, 2.0])
def test_what_the_verbs_touch_is_in_the_table(make_world: MakeWorld, delay_s: float) -> None:
    """After everything that can happen to a URL each key is one of the table's, of its type."""
    world = make_world(delay_s=delay_s, retire_after=1, max_urls_per_domain=20)
    for fetcher in (1, 2, 1, 2):
        world.beat(fetcher)
    names = domains_in_one_lane(len(Kind) + 2, lane=world.beat(1)[0])
    for name in names:
        world.offer(name, *(Entry(f"https://{name}/{i}", i % 8, i % 8) for i in range(24)))
    leases = {lease.domain: lease for lease in world.lease(100).leases}
    for name, kind in zip(names, Kind, strict=False):
        signal = Signal.DEAD if kind is Kind.DROP else Signal.SUCCESS
        world.settle(leases[name], kind, signal=signal, outcome="some", wait_ms=10_000_000)
    hopping = leases[names[-1]]
    target = Entry(f"https://{names[-1]}/new", 1, 1)
    slots = world.frontier.slots(target.url)
    world.store.call(
        world.frontier.hop(world.now_ms, hopping, target.pack(), slots, outcome="redirected", same=False)
    )
    world.store.call(world.frontier.settle(world.now_ms, [], {"a.warc.gz": 5}, 0.0))
    world.store.call(world.frontier.trim(world.now_ms, names[0], hopping.lane, 1, reason="trimmed"))
    world.run += 1
    world.begin()
    world.now_ms += world.frontier.lease_ms
    world.store.call(world.frontier.reap(world.now_ms, hopping.lane, 100))
    world.now_ms += 100_000
    assert world.lease(1).leases
    redis = world.store.redis
    found = {
        key.decode(): redis.execute_command("TYPE", key).decode()
        for key in redis.execute_command("KEYS", "*")
    }
    assert len(found) > 30
    for key, its_type in found.items():
        rows = [row for row in TABLE if pattern_of(row).fullmatch(key)]
        assert rows, f"{key} is not in the table"
        assert its_type in {TABLE[row] for row in rows}, key
    touched = {row for row in TABLE for key in found if pattern_of(row).fullmatch(key)}
    per_domain = {"d:{domain}", "q:{level}:{domain}", "s:{layer}:{domain}"}
    assert per_domain | {"ready:{lane}", "later:{lane}", "leases:{lane}"} <= touched
    singles = {"meta", "clock", "epoch", "ledger", "outcomes", "lanes", "beats", "serial", "spool", "archive"}
    assert singles <= touched
