"""A frontier on a real Redis with driven time, for the tests of the verbs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from node.rules.entry import Entry, Lease
from node.rules.outcome import Signal
from node.rules.shard import lane_of
from node.settings import Settings, build
from node.store import keys
from node.store.connection import GRACE_MS, Store
from node.store.domain_record import DomainRecord, unpack
from node.store.frontier import Frontier, Group, Kind, Leased, Offered, Settlement
from node.store.meeting import Begun, fingerprint
from node.store.scripts import Verb
from tests.redis_server import RedisServer

START_MS = 1_796_160_000_000
"""A clock of 13 digits, as in use."""


def settings_for(server: RedisServer, **crawl: Any) -> Settings:
    """Settings for a crawl on ``server``; ``crawl`` are keys of that section."""
    return build(
        {
            "paths": {"data": str(server.folder), "redis_socket": str(server.socket)},
            "crawl": {"delay_s": 2.0, "max_urls_per_domain": 100, **crawl},
            "fetcher": {"deadline_s": 0.1},
        }
    )


def domains_in_one_lane(how_many: int, lane: int = 7) -> list[str]:
    """Names whose lane is the same."""
    found: list[str] = []
    number = 0
    while len(found) < how_many:
        name = f"d{number}.test"
        if lane_of(name) == lane:
            found.append(name)
        number += 1
    return found


@dataclass
class World:
    """The store, its verbs, and what time it is."""

    server: RedisServer
    settings: Settings
    now_ms: int = START_MS
    run: int = 1
    store: Store = field(init=False)
    frontier: Frontier = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.settings)
        self.store.redis.flushall()
        self.store.begin()
        self.store.redis.flushall()
        self.frontier = Frontier(self.settings)
        self.begin()

    def close(self) -> None:
        self.store.close()

    def begin(self, **changes: str | int) -> Begun:
        """Meet this Redis at driven time, which both the boot clock and the wall show."""
        args: dict[str, str | int] = {
            "fingerprint": fingerprint(self.settings),
            "run": f"run-{self.run}",
            "boot": "boot-1",
            "boottime": self.now_ms,
            "wall": self.now_ms,
            "grace": GRACE_MS,
            "schema": keys.SCHEMA,
        }

        def decode(answer: list[bytes]) -> Begun:
            assert answer[0] == b"ok", answer
            return Begun(float(answer[1]), answer[2].decode(), int(answer[3]))

        return self.store.call(Verb("begin", tuple((args | changes).values()), decode))

    def group(self, domain: str, *entries: Entry, due_ms: int | None = None) -> Group:
        group = Group(domain, lane_of(domain), self.now_ms if due_ms is None else due_ms)
        for entry in entries:
            group.entries.append(entry.pack())
            group.slots += self.frontier.slots(entry.url)
        return group

    def offer(self, domain: str, *entries: Entry | str, acks: tuple[bytes, ...] = ()) -> Offered:
        """Offer URLs; a string is an entry of level 1."""
        made = [Entry(each, 1, 1) if isinstance(each, str) else each for each in entries]
        groups = [self.group(domain, *made)] if made else []
        return self.store.call(self.frontier.offer(self.now_ms, groups, acks))

    def beat(self, fetcher: int = 1, instance: str = "a", **options: Any) -> list[int]:
        return self.store.call(self.frontier.beat(self.now_ms, fetcher, instance, **options))

    def lease(self, want: int = 10, *, tag: str = "1.a", lanes: list[int] | None = None) -> Leased:
        every = list(range(64)) if lanes is None else lanes
        return self.store.call(self.frontier.lease(self.now_ms, tag, every, want, 0))

    def settle(self, lease: Lease, kind: Kind = Kind.PAGE, **options: Any) -> str:
        """Settle one lease, as a success unless told otherwise."""
        known: dict[str, Any] = {
            "outcome": "page",
            "signal": Signal.SUCCESS,
            "sent": True,
            "crawl_delay_ms": 0,
        }
        if kind is Kind.PAGE:
            known["pointer"] = f"f.warc.gz 0 1 1 {lease.entry.url}"
        jitter = options.pop("jitter", 0.0)
        result = Settlement(lease, kind, **(known | options))
        return self.store.call(self.frontier.settle(self.now_ms, [result], {}, jitter))

    def record(self, domain: str) -> DomainRecord:
        packed = self.store.redis.execute_command("GET", keys.domain(domain))
        assert packed is not None, f"nothing is kept of {domain}"
        return unpack(packed)

    def ready_at(self, domain: str) -> float | None:
        score = self.store.redis.execute_command("ZSCORE", keys.ready(lane_of(domain)), domain)
        return None if score is None else float(score)

    def ledger(self, name: str) -> int:
        return int(self.store.redis.execute_command("HGET", keys.LEDGER, name) or 0)

    def dump(self) -> dict[bytes, bytes]:
        """The whole of Redis, to compare."""
        redis = self.store.redis
        names = redis.execute_command("KEYS", "*")
        return {name: redis.execute_command("DUMP", name) for name in names}
