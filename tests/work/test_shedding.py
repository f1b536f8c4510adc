"""The watch's part in shedding, with a Redis whose memory is small."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.rules.entry import Entry
from node.rules.outcome import Signal
from node.rules.shed import STEP_S
from node.settings import Settings, build
from node.store import keys, snapshot
from node.store.exclusions import Exclusions
from node.store.frontier import Kind, Offered, Settlement
from node.store.tally import Tally
from node.work import machine, redis_server
from node.work.links import Offering
from node.work.shedding import Shedder, memory_limit, memory_share
from tests.redis_server import RedisServer
from tests.store.frontier_world import World

MB = 1 << 20


@pytest.fixture
def world(new_redis: Callable[..., RedisServer]) -> Iterator[World]:
    """A frontier whose Redis is half full when it begins (to some percent), and may use 16 MB in all."""
    server = new_redis()
    settings = build(
        {
            "paths": {"data": str(server.folder), "redis_socket": str(server.socket)},
            "crawl": {"delay_s": 0.0, "max_urls_per_domain": 1_000_000, "seen_error_rate": 1e-3},
            "redis": {"shed_queued_after_s": 30.0},
        }
    )
    made = World(server, settings)
    yield made
    made.close()


class Watching:
    """What the watch does each second, at driven time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.shedder = Shedder(world.settings, world.frontier)
        self.now_s = 1_000.0
        self.dropped = 0

    def second(self) -> int:
        """The grade from now on."""
        self.now_s += 1.0
        store = self.world.store
        fields = self.shedder.judge(snapshot.take(store), self.now_s)
        store.calls(
            [], extra=[("HSET", keys.CONTROL, *(p for pair in fields.items() for p in pair))], spare=True
        )
        self.dropped += self.shedder.sweep(store, self.now_s)
        return int(fields["shed"])


def offer(world: World, start: int, many: int, level: int) -> Offered:
    urls = [
        Entry(f"https://d{i % 50}.test/{'x' * 200}{level}-{i}", level, level)
        for i in range(start, start + many)
    ]
    groups: dict[str, list[Entry]] = {}
    for entry in urls:
        groups.setdefault(entry.url.split("/")[2], []).append(entry)
    return world.store.call(
        world.frontier.offer(world.now_ms, [world.group(name, *found) for name, found in groups.items()])
    )


def used(world: World) -> float:
    return memory_share(world.settings, dict(snapshot.take(world.store).redis))


def test_memory_that_fills_and_is_free_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The lowest priority is turned away, then more; where it lasts, what waits is dropped, the worst of all
    domains first, down to the mark and not much further; it is told; and in the end all enter again.
    """
    caplog.set_level(logging.WARNING)
    watching = Watching(world)
    assert watching.second() == 0
    offer(world, 0, 200, 1)
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", 16 * MB)
    at = 0
    while used(world) < 0.82:
        offer(world, at, 1_000, 6)
        offer(world, at, 1_000, 7)
        at += 1_000
    assert watching.second() == 1
    assert "URLs of priority 7 and lower" in caplog.text
    offered = offer(world, at, 100, 7)
    assert (offered.admitted, offered.below) == (0, 7)
    grades = [watching.second() for _ in range(20)]
    assert max(grades) >= 3, "it lasts, and nothing gets better"
    assert watching.dropped == 0, "30 s have not passed"
    for _ in range(30):
        watching.second()
        if watching.dropped:
            break
    assert watching.dropped > 0
    for _ in range(30):
        watching.second()
    look = snapshot.take(world.store)
    assert used(world) < 0.8
    assert look.ledger["drop:shed"] == watching.dropped < 2 * at
    assert world.ledger("shed:6") == 0 < world.ledger("shed:7")
    assert used(world) > 0.7
    assert sum(value for name, value in look.ledger.items() if name.startswith("shed:")) == (
        look.ledger["drop:shed"] + look.ledger["refuse:shed"]
    )
    assert look.ledger_gap == 0
    # what waits is visited, and memory is free
    world.beat()
    while used(world) >= 0.7:
        world.now_ms += 1_000
        leases = world.lease(1_000).leases
        assert leases
        done = [Settlement(each, Kind.DONE, "not_found", Signal.SUCCESS, sent=True) for each in leases]
        world.store.call(world.frontier.settle(world.now_ms, done, {}, 0.0))
    for _ in range(int(STEP_S) * 10):
        watching.second()
    assert watching.second() == 0
    assert "all URLs enter again" in caplog.text
    assert offer(world, at, 10, 7).admitted == 10


def test_a_watch_that_is_started_again_goes_on_at_the_same_grade(world: World) -> None:
    """Else each of its restarts would open the gates for a while."""
    watching = Watching(world)
    world.store.redis.execute_command("HSET", keys.CONTROL, "shed", 4)
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", str(int(used_bytes(world) / 0.75)))
    assert watching.second() == 4


def used_bytes(world: World) -> int:
    return int(snapshot.take(world.store).redis["used_memory"])


def test_whoever_offers_believes_it_for_a_while(world: World) -> None:
    """What can't enter is not sent at all, counted by its priority; soon it is tried again."""
    settings = world.settings
    tally = Tally("parsers")
    offering = Offering(settings, world.frontier, Exclusions(), tally)
    offering.take_lists({keys.SCOPE: [b"x.test"]})
    found = [("https://x.test/a", 2), ("https://x.test/b", 9)]
    world.store.redis.execute_command("HSET", keys.CONTROL, "shed", 2)
    for now_ms, sent in ((0, 2), (1, 1), (5_001, 2)):
        groups = offering.groups(found, now_ms)
        assert len(groups["x.test"].entries) == sent
        offering.learn(world.store.call(world.frontier.offer(world.now_ms, groups.values())), now_ms)
        offering.known.clear()
    counted = {name: int(by) for _verb, _key, name, by in tally.take() if "shed" in name}
    assert counted == {"drop:shed": 1, "shed:7": 1}


@pytest.mark.parametrize(
    ("maxmemory", "megabytes", "limit"),
    [
        (5 * MB, 8, 5 * MB),
        (0, 8, 8 * MB),
        (0, 0, machine.memory_bytes() // 2),
        (0, None, machine.memory_bytes() // 2),
    ],
)
def test_whose_limit_counts(maxmemory: int, megabytes: int | None, limit: int) -> None:
    """Redis's own; where it has none that of the settings, else half of the machine."""
    settings = build({"paths": {"data": "d"}, "redis": {"maxmemory_mb": megabytes}})
    assert memory_limit(settings, maxmemory) == limit
    info = {
        "used_memory": str(limit // 2 + 1_000),
        "mem_not_counted_for_evict": "1000",
        "maxmemory": str(maxmemory),
    }
    assert memory_share(settings, info) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("megabytes", "line"), [(None, machine.memory_bytes() // 2), (0, 0), (512, 512 * MB)]
)
def test_a_redis_of_our_own_is_bounded(tmp_path: Path, megabytes: int | None, line: int) -> None:
    """Half of the machine unless the settings say otherwise: a crawl must not take all of its memory."""
    settings: Settings = build({"paths": {"data": str(tmp_path)}, "redis": {"maxmemory_mb": megabytes}})
    assert f"maxmemory {line}\n" in redis_server.config_text(settings, tmp_path)


def test_the_memory_we_may_use(tmp_path: Path) -> None:
    """The least of the machine's and what control groups allow, ours or any above it, in both versions."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    own = tmp_path / "cgroup"
    own.write_text("7:cpu,cpuacct:/x\n")
    assert machine.memory_bytes(tmp_path, own) == physical
    assert machine.memory_bytes(tmp_path, tmp_path / "none") == physical
    inner = tmp_path / "system.slice" / "redis.service"
    inner.mkdir(parents=True)
    own.write_text("0::/system.slice/redis.service\n")
    (inner / "memory.max").write_text("max\n")
    assert machine.memory_bytes(tmp_path, own) == physical
    (inner.parent / "memory.max").write_text("1000000\n")
    assert machine.memory_bytes(tmp_path, own) == 1_000_000
    (inner / "memory.max").write_text("500000\n")
    assert machine.memory_bytes(tmp_path, own) == 500_000
    old = tmp_path / "memory" / "box"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("400000\n")
    own.write_text("9:memory:/box\n")
    assert machine.memory_bytes(tmp_path, own) == 400_000
