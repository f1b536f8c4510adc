"""What the walks through the table of signals share: two domains side by side, and what is kept of them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.rules.outcome import Outcome
from node.store import keys
from node.store.domain_record import DomainRecord, unpack
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.net import NameServer
from tests.work.visiting import Visits, visits

BASE_MS = 50
BESIDE = "other.test"
"""The healthy domain that must not notice anything."""
NOWHERE = "255.255.255.255"
"""TCP has no way there: the kernel says so at once, and nothing is sent."""


@contextmanager
def full_port() -> Iterator[int]:
    """A port of 127.0.0.1 that takes no connection more, nor refuses any: its queue is full."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@dataclass
class Rig:
    """A fetcher's parts, beside them what tells whether anybody else was slowed."""

    one: Visits
    before: DomainRecord
    """Of the healthy domain, before anything happened to the other."""

    async def record(self, domain: str) -> DomainRecord:
        packed = await self.one.store.redis.get(keys.domain(domain))
        assert packed is not None, f"nothing is kept of {domain}"
        return unpack(packed)

    async def queued(self) -> int:
        return int(await self.one.store.redis.hget(keys.LEDGER, "queued") or 0)

    def later(self, ms: int) -> None:
        """Let time pass for the scheduler."""
        self.one.store.clock.base_ms += ms

    async def nobody_else_noticed(self) -> None:
        """The domain beside it has its pace, there is room for visits, and its next one is a page."""
        assert await self.record(BESIDE) == self.before
        assert self.one.client.room(0) > 0
        self.later(BASE_MS)
        await self.one.offer(f"https://{BESIDE}/page/2")
        (lease,) = [each for each in await self.one.lease() if each.domain == BESIDE]
        visited = await self.one.visitor.visit(lease)
        await self.one.settle([visited])
        assert self.one.outcome(visited) is Outcome.PAGE
        after = await self.record(BESIDE)
        assert (after.slowed_ms, after.unreachable) == (0, 0)
        assert after.due_ms - self.one.store.now_ms() <= BASE_MS


@asynccontextmanager
async def rig(folder: Path, web: MiniWeb, redis: RedisServer, **changes: Any) -> AsyncIterator[Rig]:
    """A node on which the healthy domain was visited once; ``changes`` as for ``visits``."""
    with NameServer() as names, full_port() as full:
        names.zone["servfail.test", "A"] = NameServer.SERVFAIL
        names.zone["mute-dns.test", "A"] = None
        known = [rule for rule in web.connect_to if not rule.startswith(":")]
        hosts = (BESIDE, *OVER_HTTPS)
        rules = [
            f"full.test:80:127.0.0.1:{full}",
            f"nowhere.test:80:{NOWHERE}:80",
            *(f"{host}:443:127.0.0.1:{web.https_port}" for host in hosts),
            *known,
        ]
        sections: dict[str, Any] = {
            "dns": {"connect_to": rules, "servers": [names.address], "timeout_s": 0.4},
            "fetcher": {"deadline_s": 1.5},
        }
        async with visits(folder, web, redis, **(sections | changes)) as one:
            await one.visit(f"https://{BESIDE}/")
            made = Rig(one, DomainRecord(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
            made.before = await made.record(BESIDE)
            yield made


OVER_HTTPS = (
    "badcert.test",
    "challenge.test",
    "ratelimited.test",
    "reset.test",
    "robots-reset.test",
    "slow.test",
    "status.test",
    "unavailable.test",
)
"""Domains of the miniature web that are met at its ordinary port."""
