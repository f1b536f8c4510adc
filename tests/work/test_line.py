"""Failures in a fetcher: held back for a moment, then charged to the site, or to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from node.rules.line import HOLD_S, PROBE_MOST_S
from node.rules.outcome import Outcome
from node.rules.pressure import Reason
from node.store.frontier import Kind
from node.work.http import Fetched
from node.work.line import LineWatch
from tests.redis_server import RedisServer
from tests.web.cables import Cables
from tests.web.running import MiniWeb
from tests.work.signalling import BASE_MS, Rig, rig

SITES = 12
SLOW = "https://slow.test/wait/20"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    folder = tmp_path_factory.mktemp("web")
    with MiniWeb(folder, domains=SITES, pages_per_domain=4, mean_bytes=3_000) as running:
        yield running


def sites(web: MiniWeb) -> dict[str, str]:
    """Domain -> a page of it."""
    return {".".join((urlsplit(u).hostname or "").split(".")[-2:]): u for u in sorted(web.expected().pages)}


@pytest.fixture
def cables(web: MiniWeb) -> Iterator[Cables]:
    hosts = {urlsplit(url).hostname or "" for url in web.expected().pages}
    with Cables(web, {*hosts, *sites(web), "slow.test"}) as laid:
        yield laid


@pytest.fixture
async def made(tmp_path: Path, web: MiniWeb, cables: Cables, redis_server: RedisServer) -> AsyncIterator[Rig]:
    """A fetcher that all sites have answered."""
    sections = {"dns": {"connect_to": cables.connect_to}, "fetcher": {"deadline_s": 30.0}}
    async with rig(tmp_path, web, redis_server, **sections) as running:
        for domain in sites(web):
            await fetch(running, f"https://{domain}/no-such-page")
        yield running


async def fetch(made: Rig, url: str) -> Fetched:
    return await made.one.client.fetch(url, deadline_s=30, max_wire_bytes=100_000)


def watch_of(made: Rig) -> LineWatch:
    assert isinstance(made.one.client, LineWatch)
    return made.one.client


async def test_a_failure_waits_until_somebody_asked_later_answers(made: Rig, web: MiniWeb) -> None:
    """Then it was the site's own: charged, as soon as that is known."""
    failing = asyncio.create_task(fetch(made, "https://dead.test/"))
    while not watch_of(made)._held:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert not failing.done()
    await fetch(made, next(iter(sites(web).values())))
    failed = await asyncio.wait_for(failing, HOLD_S / 2)
    assert failed.outcome is Outcome.REFUSED
    assert not watch_of(made).down


async def test_who_knows_few_sites_holds_nothing_back(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """Where no verdict can come there is nothing to wait for."""
    async with rig(tmp_path, web, redis_server) as alone:
        failed = await asyncio.wait_for(fetch(alone, "https://dead.test/"), HOLD_S / 2)
        assert failed.outcome is Outcome.REFUSED


async def test_what_may_have_arrived_is_paid_for_and_nothing_else(
    made: Rig, web: MiniWeb, cables: Cables
) -> None:
    """A request that was under way when the link went down: the URL goes back, its domain owes one delay,
    its pace and its retries are untouched."""
    one = made.one
    await one.offer(SLOW)
    (lease,) = await one.lease(1)
    visit = asyncio.create_task(one.visitor.visit(lease))
    while one.asked[-2:] != [SLOW, SLOW]:  # noqa: ASYNC110  robots.txt, then the page
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.2)
    before = await made.record("slow.test")
    cables.cut()
    failed = await asyncio.gather(*(fetch(made, url) for url in sites(web).values()))
    assert {each.outcome for each in failed} == {Outcome.LINE_DOWN}
    assert one.client.short_of is Reason.LINE_DOWN
    visited = await visit
    assert (visited.settlement.outcome, visited.settlement.kind) == (Outcome.LINE_LOST, Kind.BACK)
    await one.settle([visited])
    after = await made.record("slow.test")
    assert (after.slowed_ms, after.slowdowns, after.unreachable) == (0, 0, 0)
    assert (after.queued, after.later) == (1, 0)
    assert after.retry_tokens >= before.retry_tokens
    assert 0 < after.due_ms - one.store.now_ms() <= BASE_MS
    counts = one.recorder._tally._counts
    assert counts["line_outages"] == 1
    assert counts["line_spared"] >= SITES + 1


async def test_a_stop_ends_what_is_held_back(made: Rig) -> None:
    """Closing wakes who waits for others to answer."""
    failing = asyncio.create_task(fetch(made, "https://dead.test/"))
    while not watch_of(made)._held:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    failing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await failing
    assert watch_of(made)._under_way == 0


async def test_a_probe_that_failed_waits_until_the_line_is_up(
    made: Rig, web: MiniWeb, cables: Cables
) -> None:
    """So the next probe goes to other domains, and those that failed are free again the moment it is up."""
    pages = list(sites(web).values())
    cables.cut()
    await asyncio.gather(*(fetch(made, url) for url in pages))
    assert watch_of(made).down
    failing = asyncio.create_task(fetch(made, pages[0]))
    done, _ = await asyncio.wait([failing], timeout=0.2)
    assert not done
    cables.mend()
    for url in pages[1:4]:
        assert (await fetch(made, url)).status
    assert not watch_of(made).down
    assert (await asyncio.wait_for(failing, PROBE_MOST_S / 2)).outcome is Outcome.LINE_DOWN
