"""The breaker for dead hosts, end to end, where it is robots.txt that can't be had: time is driven."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from node.rules.outcome import Outcome, Signal
from node.store.domain_record import DomainRecord, unpack
from node.store.frontier import Kind
from node.work.visit import Visited
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.net import NameServer
from tests.work.visiting import Visits, visits

RETIRE_AFTER = 4
BASE_MS = 50


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=2, mean_bytes=5_000) as running:
        yield running


async def record(one: Visits, domain: str) -> DomainRecord:
    return unpack(await one.store.redis.get(f"d:{domain}"))


async def ledger(one: Visits, name: str) -> int:
    return int(await one.store.redis.hget("ledger", name) or 0)


async def visit_next(one: Visits, domain: str) -> Visited:
    """Let time pass until the domain's URL may be visited again, and visit it."""
    for _ in range(4):
        leases = [lease for lease in await one.lease(1) if lease.domain == domain]
        if leases:
            visited = await one.visitor.visit(leases[0])
            await one.settle([visited])
            return visited
        one.store.clock.base_ms += 25 * 3_600_000  # a day is the longest that anything is put off
    pytest.fail(f"{domain} is never due")


@pytest.mark.parametrize(
    ("domain", "cause"),
    [
        ("dead.test", Outcome.REFUSED),
        ("badcert.test", Outcome.TLS_FAILED),
        ("noname.test", Outcome.DNS_FAILED),
        ("servfail.test", Outcome.DNS_SERVFAIL),
    ],
)
async def test_a_dead_host_is_parked_longer_each_time_and_given_up(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer, domain: str, cause: Outcome
) -> None:
    """Nothing answers, so not even robots.txt is to be had: each vain request parks the domain for twice as
    long, the last one gives it up with all it has, counted; its neighbour notices nothing."""
    named = [f"{host}:443:127.0.0.1:{web.https_port}" for host in ("other.test", "badcert.test")]
    named += [rule for rule in web.connect_to if not rule.startswith(":")]
    with NameServer() as names:
        names.zone["servfail.test", "A"] = NameServer.SERVFAIL
        dns = {"connect_to": named, "servers": [names.address], "negative_ttl_s": 0.0}
        crawl = {"retire_after": RETIRE_AFTER}
        async with visits(tmp_path, web, redis_server, dns=dns, crawl=crawl) as one:
            await one.visit("https://other.test/")
            beside = await record(one, "other.test")
            await one.offer(*(f"https://{domain}/{n}" for n in range(3)))
            parks = []
            for vain in range(1, RETIRE_AFTER + 1):
                visited = await visit_next(one, domain)
                while visited.settlement.signal is Signal.NONE:  # it is not yet time to ask again
                    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.LATER, False)
                    visited = await visit_next(one, domain)
                assert visited.settlement.outcome == Outcome.ROBOTS_UNAVAILABLE
                assert visited.settlement.signal is Signal.DEAD
                state = await record(one, domain)
                assert (state.unreachable, state.slowed_ms) == (vain, 0)
                parks.append(state.due_ms - one.store.now_ms())
            assert all(1.5 * a < b < 2.5 * a for a, b in pairwise(parks)), parks
            state = await record(one, domain)
            assert (state.gone, state.queued) == (1, 0)
            assert await ledger(one, "retired") == 1
            one.store.clock.base_ms += 25 * 3_600_000
            assert await one.lease() == []  # what waited in `later` is dropped when its time comes
            assert await ledger(one, "drop:dead_host") == 3
            assert await ledger(one, "queued") == 0
            counts = one.recorder._tally._counts
            assert counts[f"robots_unavailable:{cause}"] == RETIRE_AFTER
            assert await record(one, "other.test") == beside
            assert one.outcome(await one.visit("https://other.test/page/1")) is Outcome.PAGE
