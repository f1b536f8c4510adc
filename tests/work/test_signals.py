"""Whose signal is it? Every row of the table, on real parts: what slows, and what does not.

A signal of a site slows that site's domain; one about a URL slows nothing; one about ourselves makes us wait,
all of us or this process, and is charged to no domain.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from node.rules.outcome import TABLE, Outcome, Signal
from node.rules.pace import WIDTH_START
from node.rules.pressure import Reason
from node.settings import build
from node.store import keys
from node.store.archive import ArchiveWriter
from node.store.fetchlog import FetchLog
from node.store.frontier import Kind
from node.store.tally import Tally
from node.work.gauges import Gauges
from node.work.http import Client
from node.work.line import LineWatch
from node.work.record import DiskRecorder
from node.work.resolve import Resolver
from node.work.tls import TlsContexts
from node.work.visit import Visited
from tests.redis_server import RedisServer
from tests.store.frontier_world import World, settings_for
from tests.web.cables import Cables
from tests.web.running import MiniWeb
from tests.work.net import NameServer, Server, plays
from tests.work.signalling import BASE_MS, BESIDE, Rig, rig
from tests.work.standin import TARGET_STATUS, StandIn, reply

SITES = 12


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    folder = tmp_path_factory.mktemp("web")
    with MiniWeb(folder, domains=SITES, pages_per_domain=4, mean_bytes=3_000) as running:
        yield running


@pytest.fixture
async def made(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> AsyncIterator[Rig]:
    async with rig(tmp_path, web, redis_server) as running:
        yield running


@dataclass(frozen=True, slots=True)
class OfASite:
    """What a URL gives, and what its domain is like afterwards."""

    url: str
    outcome: Outcome
    """Of the page, or what robots.txt failed by."""
    slowed: bool = False
    """Its delay has doubled."""
    parked: bool = False
    """It is left alone for a while; once again and it will be twice as long."""
    pause_ms: int = 0
    """It asked for that."""


SITE_ROWS = (
    OfASite("https://ratelimited.test/retry-after/7", Outcome.RATE_LIMITED, slowed=True, pause_ms=7_000),
    OfASite("https://unavailable.test/", Outcome.UNAVAILABLE, slowed=True),
    OfASite("https://unavailable.test/retry-after/9", Outcome.UNAVAILABLE, slowed=True, pause_ms=9_000),
    OfASite("https://slow.test/wait/20", Outcome.TIMEOUT, slowed=True),
    OfASite("https://robots-reset.test/", Outcome.DISCONNECTED, slowed=True),
    OfASite("https://challenge.test/cloudflare", Outcome.CHALLENGED, slowed=True),
    OfASite("https://dead.test/", Outcome.REFUSED, parked=True),
    OfASite("http://full.test/", Outcome.CONNECT_TIMEOUT, parked=True),
    OfASite("http://nowhere.test/", Outcome.UNREACHABLE, parked=True),
    OfASite("https://badcert.test/", Outcome.TLS_FAILED, parked=True),
    OfASite("http://noname.test/", Outcome.DNS_FAILED, parked=True),
    OfASite("http://servfail.test/", Outcome.DNS_SERVFAIL, parked=True),
    # of one name alone it says nothing: it may be our name server
    OfASite("http://mute-dns.test/", Outcome.DNS_TIMEOUT),
)


@pytest.mark.parametrize("row", SITE_ROWS, ids=lambda row: row.url)
async def test_what_a_site_says_slows_its_domain_only(made: Rig, row: OfASite) -> None:
    """429, 503, Retry-After, time-outs, disconnects, challenges, dead hosts: that domain, and nobody beside
    it."""
    domain = urlsplit(row.url).hostname or ""
    start = made.one.store.now_ms()
    visited = await made.one.visit(row.url)
    if visited.settlement.outcome == Outcome.ROBOTS_UNAVAILABLE:
        assert made.one.recorder._tally._counts[f"robots_unavailable:{row.outcome}"] == 1
        assert visited.settlement.kind is Kind.LATER
    else:
        assert made.one.outcome(visited) is row.outcome
        assert visited.settlement.kind is Kind.RETRY
    state, now = await made.record(domain), made.one.store.now_ms()
    assert state.slowed_ms == (2 * BASE_MS if row.slowed else 0)
    assert state.slowdowns == int(row.slowed)
    assert state.unreachable == int(row.parked)
    if row.parked:
        assert state.due_ms >= start + 1_000
        assert state.due_ms <= now + 1_200
    elif row.pause_ms:
        assert start + row.pause_ms <= state.due_ms <= now + row.pause_ms
    else:
        assert state.due_ms - now <= 2.2 * BASE_MS  # jitter is added to what is slowed
    await made.nobody_else_noticed()


async def test_where_there_is_no_delay_the_width_is_halved(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """The same signals; fewer visits at once to that domain, and to no other."""
    async with rig(tmp_path, web, redis_server, crawl={"delay_s": 0.0}) as made:
        await made.one.visit("https://unavailable.test/")
        state = await made.record("unavailable.test")
        assert (state.width, state.slowed_ms) == (WIDTH_START // 2, 0)
        await made.nobody_else_noticed()
        assert (await made.record(BESIDE)).width > WIDTH_START


URL_ROWS = {401: "unauthorized", 402: "payment_required", 403: "forbidden", 404: "not_found", 410: "gone"}


@pytest.mark.parametrize("status", URL_ROWS)
async def test_what_is_said_of_a_url_slows_nothing(made: Rig, status: int) -> None:
    """401, 402, 403, 404, 410: recorded, never tried again, and its domain keeps its pace."""
    visited = await made.one.visit(f"https://status.test/{status}")
    assert visited.settlement.outcome == URL_ROWS[status]
    assert (visited.settlement.kind, visited.settlement.signal) == (Kind.DONE, Signal.SUCCESS)
    state = await made.record("status.test")
    assert (state.slowed_ms, state.unreachable, state.queued, state.later) == (0, 0, 0, 0)
    assert state.due_ms - made.one.store.now_ms() <= BASE_MS
    await made.nobody_else_noticed()


# -- our own line


async def test_a_link_that_is_down_is_charged_to_nobody(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """Many unrelated domains fail at once: this fetcher pauses and probes, every URL goes back, every
    domain's pace is as it was; one answer or two, and it goes on."""
    pages = {domain_of(url): url for url in sorted(web.expected().pages)}
    hosts = {urlsplit(url).hostname or "" for url in web.expected().pages} | pages.keys()
    with Cables(web, hosts) as cables:
        dns = {"connect_to": cables.connect_to}
        async with rig(tmp_path, web, redis_server, dns=dns) as made:
            one = made.one
            for domain in pages:
                await one.visit(f"https://{domain}/no-such-page")
            made.later(1_000)
            await one.offer(*pages.values())
            before = {domain: replace(await made.record(domain), leased=0) for domain in pages}
            cables.cut()
            leases = await one.lease(SITES)
            assert len(leases) == SITES
            visits = await asyncio.gather(*(one.visitor.visit(lease) for lease in leases))
            assert {each.settlement.outcome for each in visits} == {Outcome.LINE_DOWN}
            assert {each.settlement.kind for each in visits} == {Kind.BACK}
            assert await one.settle(visits) == "1" * SITES
            assert {domain: await made.record(domain) for domain in pages} == before
            assert await made.queued() == SITES
            assert (one.client.room(0), one.client.short_of) == (0, Reason.LINE_DOWN)
            cables.mend()
            for visited in await probe_until_up(made):
                assert one.outcome(visited) is Outcome.PAGE
            assert one.client.room(0) > 0


async def probe_until_up(made: Rig) -> list[Visited]:
    """Go by what the client has room for, as a fetcher does, until the line is up."""
    done: list[Visited] = []
    give_up = time.monotonic() + 30
    while made.one.client.short_of is Reason.LINE_DOWN:
        assert time.monotonic() < give_up, "the line never comes up"
        room = made.one.client.room(0)
        if room:
            visits = [await made.one.visitor.visit(lease) for lease in await made.one.lease(room)]
            await made.one.settle(visits)
            done += visits
        await asyncio.sleep(0.02)
    return done


def domain_of(url: str) -> str:
    return ".".join((urlsplit(url).hostname or "").split(".")[-2:])


async def test_a_resolver_that_is_down_is_charged_to_nobody(tmp_path: Path) -> None:
    """Names that were known all fail at once while sites could be reached: it is the resolver, and over as
    soon as it answers."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    with NameServer() as names, Server(plays(answer)) as server:
        hosts = [f"site-{number}.test" for number in range(SITES)]
        for host in hosts:
            names.zone[host, "A"] = [(0, "127.0.0.1")]
        resolver = Resolver(servers=[names.address], ttl_floor_s=0, timeout_s=1, guard=False)
        watch = LineWatch(Client(user_agent="test", tls=TlsContexts(), resolver=resolver), Tally("fetchers"))

        async def outcomes() -> list[Outcome]:
            asked = (
                watch.fetch(f"http://{host}:{server.port}/", deadline_s=5, max_wire_bytes=100)
                for host in hosts
            )
            return [each.outcome for each in await asyncio.gather(*asked)]

        try:
            assert await outcomes() == [Outcome.PAGE] * SITES
            for host in hosts:
                names.zone[host, "A"] = NameServer.SERVFAIL
            assert await outcomes() == [Outcome.LINE_DOWN] * SITES
            assert (watch.resolver.down, watch.link.down) == (True, False)
            assert (watch.room(0), watch.short_of) == (0, Reason.LINE_DOWN)
            for host in hosts:
                names.zone[host, "A"] = [(0, "127.0.0.1")]
            give_up = time.monotonic() + 30
            while not watch.room(0):
                assert time.monotonic() < give_up
                await asyncio.sleep(0.02)
            # a probe asks for itself, whatever is remembered of failures
            assert await outcomes() == [Outcome.PAGE] * SITES
            assert not watch.down
        finally:
            await watch.close()


# -- our own pipeline


async def test_a_full_spool_makes_all_wait_and_charges_nobody(made: Rig) -> None:
    """Parsers are behind: nothing is handed out by the whole node; no domain moves, and it goes on as soon as
    there is room."""
    one, now = made.one, made.one.store.now_ms()
    await one.store.redis.hset(keys.CONTROL, "spool_max", 1)  # there is one page to parse
    await one.offer("https://status.test/200", f"https://{BESIDE}/page/1")
    lanes = await one.store.call(one.frontier.beat(now, 1, "test"))
    leased = await one.store.call(one.frontier.lease(now + 1_000, "1.test", lanes, 10, 0))
    assert (leased.leases, leased.reason) == ([], Reason.SPOOL_FULL)
    state = await made.record(BESIDE)
    assert state == replace(made.before, queued=1, admitted=made.before.admitted + 1)
    await one.store.redis.hset(keys.CONTROL, "spool_max", 100)
    assert len(await one.lease()) == 2


class Ready:
    """Who does the fetching, and could."""

    short_of = Reason.BUSY

    def room(self, in_hand: int) -> int:
        return 1_000


def gauges(folder: Path, **sections: dict[str, Any]) -> Gauges:
    (folder / "run").mkdir(parents=True, exist_ok=True)
    settings = build({"paths": {"data": str(folder)}, **sections})
    archive = ArchiveWriter(settings.warc_folder, "f01", info={}, fsync=False)
    log = FetchLog(settings.log_folder, "fetch-f01")
    return Gauges(settings, "f01", archive, DiskRecorder(archive, log, Tally("fetchers")))


def test_a_disk_that_is_low_makes_this_fetcher_wait(tmp_path: Path) -> None:
    """It has a disk of its own; a fetcher whose disk has room goes on."""
    low = gauges(tmp_path / "low", archive={"disk_reserve_bytes": 1 << 60})
    fine = gauges(tmp_path / "fine", archive={"disk_reserve_bytes": 0})
    assert low.room(0, Ready(), has_lanes=True) == (0, Reason.DISK_LOW)  # type: ignore[arg-type]
    assert fine.room(0, Ready(), has_lanes=True)[1] is None  # type: ignore[arg-type]


async def test_a_late_event_loop_leases_fewer_and_nobody_else_does(tmp_path: Path) -> None:
    """Lag is about this process: its own limit sinks, its sibling's does not."""
    late = gauges(tmp_path / "late", archive={"disk_reserve_bytes": 0})
    sibling = gauges(tmp_path / "sibling", archive={"disk_reserve_bytes": 0})
    watching = asyncio.create_task(late.lag.watch())
    for _ in range(3):
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 what starves a loop
        await asyncio.sleep(0.11)
    watching.cancel()
    late.look(800)
    sibling.look(800)
    assert late.limit == 600
    assert late.room(700, Ready(), has_lanes=True) == (0, Reason.BUSY)  # type: ignore[arg-type]
    assert sibling.room(700, Ready(), has_lanes=True)[0] > 0  # type: ignore[arg-type]


def test_redis_at_maxmemory_refuses_links_and_goes_on_leasing(redis_server: RedisServer) -> None:
    """Offers are turned away and counted; what is queued is still leased and settled, which frees memory."""
    world = World(redis_server, settings_for(redis_server))
    try:
        world.offer("x.test", "https://x.test/a", "https://x.test/b")
        world.beat()
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
        turned_away = world.offer("y.test", "https://y.test/")
        (lease,) = world.lease().leases
        assert (turned_away.admitted, turned_away.refused) == (0, 1)
        assert world.ledger("refuse:memory") == 1
        assert world.settle(lease) == "1"
        state = world.record("x.test")
        assert (state.slowed_ms, state.unreachable) == (0, 0)
        assert state.due_ms == world.now_ms + world.frontier.base_delay_ms
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")
        world.close()


# -- our plan with a gateway

KEY = "key"


@dataclass(frozen=True, slots=True)
class OfAGateway:
    """What the gateway says for itself, what that is, and whether everything stops."""

    says: bytes | None
    outcome: Outcome
    stops: bool = False
    key: str = KEY


GATEWAY_ROWS = {
    "429": OfAGateway(reply(429), Outcome.GATEWAY_LIMITED),
    "509": OfAGateway(reply(509), Outcome.GATEWAY_QUOTA, stops=True),
    "401": OfAGateway(reply(401), Outcome.GATEWAY_REFUSED, stops=True),
    "403": OfAGateway(reply(403), Outcome.GATEWAY_REFUSED, stops=True),
    "a wrong key": OfAGateway(None, Outcome.GATEWAY_REFUSED, stops=True, key="another"),
}


@pytest.mark.parametrize("name", GATEWAY_ROWS)
async def test_what_a_gateway_says_of_our_plan_slows_calls_to_it_and_no_domain(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer, name: str
) -> None:
    """Too many calls: one limiter for the node. Quota or key: everything stops. Every URL goes back, and no
    domain's pace changes."""
    row = GATEWAY_ROWS[name]
    allowed = threading.Event()
    allowed.set()
    with StandIn(web, KEY) as standin:
        standin.own = lambda url: None if allowed.is_set() else row.says
        (tmp_path / "key").write_text(KEY)
        gateway = {
            "mode": "api",
            "url": f"http://127.0.0.1:{standin.port}/v1?key={{key}}&url={{url}}",
            "credentials_file": str(tmp_path / "key"),
            "ceiling_per_s": 1_000.0,
            "target_status_header": TARGET_STATUS,
        }
        async with rig(tmp_path, web, redis_server, gateway=gateway, dns={}) as made:
            one = made.one
            rate = float(await one.store.redis.hget(keys.GATEWAY, "rate") or 0)
            allowed.clear()
            if row.key != KEY:
                standin.key = row.key
            made.later(1_000)
            visited = await one.visit(f"https://{BESIDE}/page/1")
            assert (one.outcome(visited), visited.settlement.kind) == (row.outcome, Kind.BACK)
            state = await made.record(BESIDE)
            assert state == replace(made.before, queued=1, admitted=made.before.admitted + 1)
            assert bool(await one.store.redis.hget(keys.CONTROL, "pause")) == row.stops
            if not row.stops:
                assert float(await one.store.redis.hget(keys.GATEWAY, "rate")) < rate


async def test_a_sites_own_429_through_a_gateway_slows_that_site(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """A named header tells it from the gateway's."""
    with StandIn(web, KEY) as standin:
        (tmp_path / "key").write_text(KEY)
        gateway = {
            "mode": "api",
            "url": f"http://127.0.0.1:{standin.port}/v1?key={{key}}&url={{url}}",
            "credentials_file": str(tmp_path / "key"),
            "ceiling_per_s": 1_000.0,
            "target_status_header": TARGET_STATUS,
        }
        async with rig(tmp_path, web, redis_server, gateway=gateway, dns={}) as made:
            visited = await made.one.visit("https://ratelimited.test/retry-after/7")
            assert made.one.outcome(visited) is Outcome.RATE_LIMITED
            assert (await made.record("ratelimited.test")).slowed_ms == 2 * BASE_MS
            assert not await made.one.store.redis.hget(keys.CONTROL, "pause")
            await made.nobody_else_noticed()


def test_every_row_of_the_table_is_walked() -> None:
    """An outcome that slows a domain, or sends a URL back, has its walk here (or is named with another)."""
    walked = {row.outcome for row in SITE_ROWS} | {row.outcome for row in GATEWAY_ROWS.values()}
    walked |= {Outcome.LINE_DOWN}
    elsewhere = {
        Outcome.LINE_LOST: "tests/work/test_line.py",
        Outcome.NO_FILES: "tests/work/test_gauges.py",
        Outcome.WITHHELD: "tests/work/test_visit.py",
        Outcome.GATEWAY_UNREACHABLE: "tests/work/test_gateway.py",
    }
    slows = {o for o, row in TABLE.items() if row.signal in (Signal.THROTTLE, Signal.DEAD) or row.back}
    assert slows <= walked | elsewhere.keys()
    assert all((Path(__file__).parents[2] / where).exists() for where in elsewhere.values())
