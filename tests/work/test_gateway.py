"""Fetching through a gateway: whose signal an answer is, and that its key is seen nowhere."""

from __future__ import annotations

import asyncio
import base64
import gzip
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis

from node.errors import SettingsError
from node.rules.outcome import Outcome, Signal
from node.rules.pace import Pace
from node.store import keys
from node.store.domain_record import unpack
from node.store.frontier import Kind
from node.work.secret import Secret, read_secret
from node.work.visit import Visited
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.net import Authority, Exchange, dead_port
from tests.work.standin import TARGET_STATUS, StandIn, reply
from tests.work.visiting import Visits, visits

KEY = "s3cret/KEY+0815"
LOGIN = "operator:pa55word!"
FAST = 1_000.0
"""Calls per second, where the limiter is not what a test is about."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=2, mean_bytes=5_000) as running:
        yield running


@pytest.fixture
def api(web: MiniWeb) -> Iterator[StandIn]:
    with StandIn(web, KEY) as standin:
        yield standin


@pytest.fixture
def proxy(web: MiniWeb) -> Iterator[StandIn]:
    with StandIn(web, LOGIN) as standin:
        yield standin


class Through:
    """Visits through a gateway. ``key_file`` may be changed meanwhile."""

    def __init__(self, folder: Path, web: MiniWeb, redis_server: RedisServer) -> None:
        self.key_file = folder / "key"
        self._folder, self._web, self._redis = folder, web, redis_server

    @asynccontextmanager
    async def api(self, standin: StandIn, **changes: Any) -> AsyncIterator[Visits]:
        self.key_file.write_text(standin.key + "\n")
        gateway = {
            "mode": "api",
            "url": f"http://127.0.0.1:{standin.port}/v1?key={{key}}&url={{url}}",
            "credentials_file": str(self.key_file),
            "ceiling_per_s": FAST,
            "target_status_header": TARGET_STATUS,
        }
        # nothing leads to the sites but the gateway
        async with self._visits(gateway | changes) as made:
            yield made

    @asynccontextmanager
    async def proxy(self, standin: StandIn, **changes: Any) -> AsyncIterator[Visits]:
        self.key_file.write_text(standin.key)
        gateway = {
            "mode": "proxy",
            "proxy": f"http://127.0.0.1:{standin.port}",
            "credentials_file": str(self.key_file),
            "ceiling_per_s": FAST,
        }
        async with self._visits(gateway | changes) as made:
            yield made

    @asynccontextmanager
    async def _visits(self, gateway: dict[str, Any]) -> AsyncIterator[Visits]:
        sections = {"dns": {"connect_to": gateway.pop("connect_to", [])}, "tls": gateway.pop("tls", {})}
        async with visits(self._folder, self._web, self._redis, gateway=gateway, **sections) as made:
            yield made


@pytest.fixture
def through(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> Through:
    return Through(tmp_path, web, redis_server)


async def calls(made: Visits) -> dict[str, int | str]:
    """State and counters of the limiter."""
    await made.client.tend()
    flat = await made.store.redis.hgetall("gateway")
    texts = dict(zip((k.decode() for k in flat[::2]), (v.decode() for v in flat[1::2]), strict=True))
    return {name: int(text) if text.lstrip("-").isdigit() else text for name, text in texts.items()}


async def until(made: Visits, holds: Callable[[dict[str, int | str]], bool]) -> None:
    """Tend the gateway until its state is as wished for."""
    for _ in range(1_000):
        if holds(await calls(made)):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"waited in vain: {await calls(made)}")


async def paused(made: Visits) -> str | None:
    value = await made.store.redis.hget("control", "pause")
    return None if value is None else value.decode()


async def pace(made: Visits, domain: str) -> Pace:
    """What the frontier knows of a domain's pace: delay, width, failures, and when it is due."""
    return unpack(await made.store.redis.get(keys.domain(domain))).pace


def went_back(made: Visits, visited: Visited) -> bool:
    """As if the URL had not been taken?"""
    settlement = visited.settlement
    return (settlement.kind, settlement.signal, settlement.sent) == (Kind.BACK, Signal.NONE, False)


async def known(made: Visits, api: StandIn, host: str) -> None:
    """Have robots.txt of a host read, so that the next call is for a page."""
    await made.visit(f"https://{host}/robots-first")
    await asyncio.sleep(0.06)
    api.calls.clear()


# -- what gets through


async def test_pages_and_robots_come_through_the_api(through: Through, api: StandIn, web: MiniWeb) -> None:
    """robots.txt and the page are calls to the API; the page is the site's own, headers and all."""
    async with through.api(api) as made:
        visited = await made.visit("https://other.test/")
        assert made.outcome(visited) is Outcome.PAGE
        assert api.urls == ["https://other.test/robots.txt", "https://other.test/"]
        denied = await made.visit("https://robots-deny.test/x")
        assert made.outcome(denied) is Outcome.ROBOTS_DENIED
        assert api.urls[2:] == ["https://robots-deny.test/robots.txt"]
        direct = await made.client.fetch(
            "https://notfound.test/", deadline_s=5, max_wire_bytes=100_000, cookies="a=b"
        )
    assert (direct.outcome, direct.status, direct.ip) == (Outcome.NOT_FOUND, 404, None)
    assert TARGET_STATUS.encode() not in dict(direct.headers)
    assert dict(direct.headers)[b"Server"] == b"miniature"
    assert direct.request.startswith(b"GET / HTTP/1.1\r\nHost: notfound.test\r\nCookie: a=b\r\n")
    assert b"User-Agent: Milliarde/" in api.heads[-1]
    assert b"Cookie: a=b" in api.heads[-1]


async def test_redirects_are_ours_to_follow(through: Through, api: StandIn) -> None:
    """A redirect that the gateway passes on is a hop like any other: registered, gap kept, within robots."""
    async with through.api(api) as made:
        visited = await made.visit("https://redirects.test/chain/2")
    assert made.outcome(visited) is Outcome.PAGE
    assert visited.settlement.lease.hops == 2
    assert len(api.urls) == 4


async def test_https_to_the_api_is_verified(
    through: Through, web: MiniWeb, tmp_path: Path, redis_server: RedisServer
) -> None:
    """An API with a certificate that is believed is used; with another one everything stops in words."""
    authority = Authority(tmp_path)
    trusted = tmp_path / "both.pem"
    trusted.write_bytes(web.ca.read_bytes() + authority.ca_file.read_bytes())
    for hosts, outcome in (("gw.test", Outcome.PAGE), ("other-name.test", Outcome.NOT_SENT)):
        with StandIn(web, KEY, authority.server(hosts)) as standin:
            changes = {
                "url": "https://gw.test/v1?key={key}&url={url}",
                "connect_to": [f"gw.test:443:127.0.0.1:{standin.port}"],
                "tls": {"ca_file": str(trusted)},
            }
            async with through.api(standin, **changes) as made:
                visited = await made.visit("https://other.test/")
                assert made.outcome(visited) is outcome
                if outcome is not Outcome.PAGE:
                    assert went_back(made, visited)
                    assert "certificate" in (await paused(made) or "")


async def test_a_key_in_a_header(through: Through, api: StandIn) -> None:
    """An API may want its key in a header."""
    changes = {"url": f"http://127.0.0.1:{api.port}/v1?url={{url}}", "headers": ["X-Key: {key}"]}
    async with through.api(api, **changes) as made:
        assert made.outcome(await made.visit("https://other.test/")) is Outcome.PAGE


async def test_headers_with_a_prefix(through: Through, api: StandIn) -> None:
    """An API that gives the site's headers under a prefix: these count, its own are dropped."""

    def mangle(raw: bytes, x: Exchange) -> bytes:
        head, _, body = raw.partition(b"\r\n\r\n")
        line, *headers = head.split(b"\r\n")
        ours = [h if h[:9] == b"X-Target-" or h[:8] == b"Content-" else b"Spb-" + h for h in headers]
        return b"\r\n".join([line, b"Server: the-api", b"X-Plan: gold", *ours]) + b"\r\n\r\n" + body

    api.mangle = mangle
    async with through.api(api, target_header_prefix="Spb-") as made:
        visited = await made.visit("https://redirects.test/chain/1")
        assert made.outcome(visited) is Outcome.PAGE
        fetched = await made.client.fetch("https://other.test/", deadline_s=5, max_wire_bytes=100_000)
    names = {name.lower() for name, _ in fetched.headers}
    assert dict(fetched.headers)[b"Server"] == b"miniature"
    assert not names & {b"x-plan", b"x-target-status"}


async def test_a_proxy_for_http_and_a_tunnel_for_https(through: Through, proxy: StandIn) -> None:
    """http in absolute form; https through CONNECT, verified end to end, as many tunnels as requests."""
    async with through.proxy(proxy) as made:
        plain = await made.visit("http://httponly.test/")
        secure = await made.visit("https://other.test/")
        assert made.outcome(plain) is Outcome.PAGE
        assert made.outcome(secure) is Outcome.PAGE
        bad = await made.visit("https://badcert.test/")
        assert bad.settlement.kind is Kind.LATER  # no robots.txt to be had
        assert await paused(made) is None
    assert proxy.urls == [
        "http://httponly.test/robots.txt",
        "http://httponly.test/",
        "other.test:443",
        "other.test:443",
        "badcert.test:443",
    ]


async def test_tls_sessions_are_resumed_in_tunnels(through: Through, proxy: StandIn, web: MiniWeb) -> None:
    """The site's session serves the next tunnel to it."""
    async with through.proxy(proxy) as made:
        await made.visit("https://other.test/")
    resumed = [entry.resumed for entry in web.requests("other.test")][-2:]
    assert resumed == [False, True]


# -- whose signal?


async def test_the_gateways_429_is_about_our_plan(through: Through, api: StandIn) -> None:
    """The URL goes back, no domain is slower for it, and the node calls half as often."""
    async with through.api(api) as made:
        await known(made, api, "other.test")
        before, rate = await pace(made, "other.test"), (await calls(made))["rate"]
        api.own = lambda url: reply(429)
        visited = await made.visit("https://other.test/")
        assert went_back(made, visited)
        assert visited.settlement.outcome == Outcome.GATEWAY_LIMITED
        assert await pace(made, "other.test") == before
        assert float((await calls(made))["rate"]) == pytest.approx(float(rate) / 2)
        api.own = lambda url: None
        (lease,) = await made.lease(1)
        assert lease.entry.tries == 0
        assert made.outcome(await made.visitor.visit(lease)) is Outcome.PAGE


async def test_the_gateways_429_on_robots_is_no_verdict(through: Through, api: StandIn) -> None:
    """A robots.txt that was never asked for is not taken for one that can't be had."""
    api.own = lambda url: reply(429)
    async with through.api(api) as made:
        assert went_back(made, await made.visit("https://other.test/"))
        assert await made.store.redis.exists("robots:other.test") == 0


async def test_a_sites_429_is_the_sites(through: Through, api: StandIn) -> None:
    """Passed on under its header, it slows that site by what it asks for, and nobody else."""
    async with through.api(api) as made:
        visited = await made.visit("https://ratelimited.test/retry-after/7")
        assert made.outcome(visited) is Outcome.RATE_LIMITED
        assert (visited.settlement.signal, visited.settlement.pause_ms) == (Signal.THROTTLE, 7_000)
        state = await calls(made)
        assert (state.get("limited"), state["stop"]) == (None, "")


async def test_an_error_header_tells_them_apart(through: Through, api: StandIn) -> None:
    """Where the gateway marks its own errors instead, a 429 without the mark is the site's."""
    async with through.api(api, target_status_header="", error_header="X-Gateway-Error") as made:
        visited = await made.visit("https://ratelimited.test/retry-after/7")
        assert made.outcome(visited) is Outcome.RATE_LIMITED
        api.own = lambda url: reply(429, X_Gateway_Error="too many")
        assert went_back(made, await made.visit("https://other.test/"))
        assert (await calls(made))["limited"] == 1


async def test_retry_after_of_the_gateway_holds_the_node(through: Through, api: StandIn) -> None:
    """No call of any domain goes out before the time the gateway asks for."""
    async with through.api(api) as made:
        await known(made, api, "other.test")
        api.own = lambda url: reply(429, Retry_After="1")
        await made.visit("https://other.test/")
        api.own = lambda url: None
        (lease,) = await made.lease(1)
        await made.visitor.visit(lease)
    (first, _), (second, _) = api.calls
    assert second - first >= 0.99


async def test_a_long_retry_after_pauses_the_node(through: Through, api: StandIn) -> None:
    """Nothing is leased for turns that are far away, and an operator sees why."""
    api.own = lambda url: reply(429, Retry_After="300")
    async with through.api(api) as made:
        assert went_back(made, await made.visit("https://other.test/"))
        assert await paused(made) == (
            "gateway: it asks for 300 s of quiet (429); 'milliarde resume' goes on before that"
        )
        assert made.client.room(0) == 0


async def test_a_new_key_is_taken_without_a_stop(through: Through, api: StandIn) -> None:
    """A call under way with the old key, refused when the file has the new one, stops nobody."""
    async with through.api(api) as made:
        api.key = "another-KEY-4711"
        through.key_file.write_text(api.key)
        assert went_back(made, await made.visit("https://other.test/"))
        assert await paused(made) is None
        (lease,) = await made.lease(1)
        assert made.outcome(await made.visitor.visit(lease)) is Outcome.PAGE


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_stops_in_words(through: Through, api: StandIn, status: int) -> None:
    """Everything pauses and says why, the URL goes back; with the right key in the file it is resumed."""
    api.own = lambda url: reply(status) if api.key == KEY else None
    async with through.api(api) as made:
        visited = await made.visit("https://other.test/")
        assert went_back(made, visited)
        words = await paused(made) or ""
        assert words.startswith(f"gateway: it refuses our calls ({status})")
        assert "milliarde resume" in words
        assert await made.lease(1) == []
        before = len(api.calls)
        fetched = await made.client.fetch("https://moody.test/", deadline_s=5, max_wire_bytes=1_000)
        assert (fetched.outcome, len(api.calls)) == (Outcome.GATEWAY_REFUSED, before)
        assert made.client.room(0) == 0
        api.key = "another-KEY-4711"
        through.key_file.write_text(api.key)
        await made.store.redis.hdel("control", "pause")  # what `milliarde resume` does
        await made.client.tend()
        (lease,) = await made.lease(1)
        assert made.outcome(await made.visitor.visit(lease)) is Outcome.PAGE


async def test_a_key_file_that_is_gone_stops_again(through: Through, api: StandIn) -> None:
    """Resumed without a readable key, the node says so instead of calling without one."""
    api.own = lambda url: reply(401)
    async with through.api(api) as made:
        await made.visit("https://other.test/")
        through.key_file.unlink()
        await made.store.redis.hdel("control", "pause")
        await made.client.tend()
        assert "can't be read" in (await paused(made) or "")


@pytest.mark.parametrize("path", ["/nowhere?key={key}&url={url}", "/v1?key={key}&url={url}"])
async def test_a_wrong_address_stops_in_words(through: Through, api: StandIn, path: str) -> None:
    """An API that is not there (404), or has moved (redirect), is a configuration to mend."""
    moved = reply(301, Location="https://elsewhere.test/")
    api.own = lambda url: reply(404) if "nowhere" in path else moved
    async with through.api(api, url=f"http://127.0.0.1:{api.port}{path}") as made:
        assert went_back(made, await made.visit("https://other.test/"))
        assert "refuses our calls" in (await paused(made) or "")


async def test_a_spent_quota_waits_for_its_reset(through: Through, api: StandIn) -> None:
    """509 stops everything until the time its header names; then it goes on by itself."""
    api.own = lambda url: reply(509, X_Reset=str(int(time.time()) + 2))
    async with through.api(api, reset_header="X-Reset", reset_format="unix") as made:
        assert went_back(made, await made.visit("https://other.test/"))
        assert (await paused(made) or "").startswith("gateway: the quota is used up (509) until 20")
        assert await made.lease(1) == []
        api.own = lambda url: None
        await until(made, lambda state: state["stop"] == "")
        assert await paused(made) is None
        (lease,) = await made.lease(1)
        assert made.outcome(await made.visitor.visit(lease)) is Outcome.PAGE


async def test_a_spent_quota_without_a_reset_waits_for_an_operator(through: Through, api: StandIn) -> None:
    """A status of our choice, and nothing that tells when: `milliarde resume` goes on."""
    api.own = lambda url: reply(402)
    async with through.api(api, quota_statuses=[402]) as made:
        assert went_back(made, await made.visit("https://other.test/"))
        state = await calls(made)
        assert (state["stop"], state["until"]) == ("quota", 0)


async def test_the_last_page_of_a_quota_is_kept(through: Through, api: StandIn) -> None:
    """A header that comes with a good answer stops what follows, not that page."""
    api.mangle = lambda raw, _: raw.replace(b"\r\n", b"\r\nX-Left: 0\r\n", 1)
    async with through.api(api, quota_header="X-Left: 0") as made:
        visited = await made.visit("https://other.test/")
        assert visited.settlement.kind is Kind.BACK  # robots.txt was the last call
        assert "quota is used up" in (await paused(made) or "")
        assert await made.store.redis.exists("robots:other.test") == 1


@pytest.mark.parametrize(("retry", "kind"), [(False, Kind.DONE), (True, Kind.RETRY)])
async def test_no_retry_on_top_of_the_gateways_own(
    through: Through, api: StandIn, retry: bool, kind: Kind
) -> None:
    """What the gateway could not do, or a site refuses, is not asked again, unless the settings say so."""
    async with through.api(api, retry=retry) as made:
        visited = await made.visit("https://unavailable.test/")
        assert (made.outcome(visited), visited.settlement.kind) == (Outcome.UNAVAILABLE, kind)
        assert visited.settlement.signal is Signal.THROTTLE
        await known(made, api, "other.test")
        api.own = lambda url: reply(500)
        failed = await made.visit("https://other.test/")
        assert (made.outcome(failed), failed.settlement.kind) == (Outcome.GATEWAY_FAILED, kind)
        assert failed.settlement.signal is Signal.NONE


async def test_a_gateway_that_is_not_there(through: Through, api: StandIn) -> None:
    """URLs go back, no site is to blame, and after a few calls the node waits and says so."""
    with dead_port() as port:
        url = f"http://127.0.0.1:{port}/v1?key={{key}}&url={{url}}"
        async with through.api(api, url=url) as made:
            for number in range(5):
                assert await paused(made) is None
                visited = await made.visit(f"https://h{number}.test/")
                assert went_back(made, visited)
            assert "connection refused" in (await paused(made) or "")


@pytest.mark.parametrize(
    ("own", "outcome", "words"),
    [
        (reply(407), Outcome.GATEWAY_REFUSED, "refuses our calls (407)"),
        (reply(405), Outcome.GATEWAY_REFUSED, "refuses our calls (405)"),
        (reply(429), Outcome.GATEWAY_LIMITED, None),
        (reply(509), Outcome.GATEWAY_QUOTA, "quota is used up (509)"),
        (reply(502), Outcome.GATEWAY_FAILED, None),
        (b"", Outcome.GATEWAY_FAILED, None),
        (b"\x00\x01 no proxy\r\n\r\n", Outcome.GATEWAY_FAILED, None),
    ],
)
async def test_what_a_proxy_says_instead_of_a_tunnel(
    through: Through, proxy: StandIn, own: bytes, outcome: Outcome, words: str | None
) -> None:
    """An answer to CONNECT is the proxy's own, whatever it is."""
    proxy.own = lambda url: own
    async with through.proxy(proxy) as made:
        fetched = await made.client.fetch("https://other.test/", deadline_s=5, max_wire_bytes=1_000)
        assert (fetched.outcome, fetched.status, fetched.body) == (outcome, None, b"")
        said = await paused(made)
        assert said is None if words is None else words in (said or "")


async def test_a_silent_proxy_is_given_up(through: Through, proxy: StandIn) -> None:
    """A proxy that says nothing costs the deadline, and no site anything; nothing is left open."""
    hold = asyncio.Event()

    def silent(url: str) -> bytes | None:
        asyncio.run(asyncio.wait_for(hold.wait(), 1.0))
        return None

    proxy.own = silent
    async with through.proxy(proxy) as made:
        fetched = await made.client.fetch("https://other.test/", deadline_s=0.3, max_wire_bytes=1_000)
        assert fetched.outcome in (Outcome.GATEWAY_FAILED, Outcome.GATEWAY_UNREACHABLE)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/", "http://10.1.2.3/", "http://localhost/"]
)
async def test_private_addresses_are_not_asked_for(through: Through, api: StandIn, url: str) -> None:
    """The gateway's own address is exempt from the guard, those that a page spells out are not (I7)."""
    async with through.api(api) as made:
        visited = await made.visit(url)
        assert (made.outcome(visited), visited.settlement.sent) == (Outcome.PRIVATE_ADDRESS, False)
    assert api.calls == []


async def test_calls_keep_to_the_rate(through: Through, api: StandIn) -> None:
    """Many visits at once call one after the other; what can't call soon is not leased."""
    async with through.api(api, ceiling_per_s=2.0) as made:
        assert made.client.room(0) == 1  # nothing is known yet
        await made.client.tend()
        assert made.client.room(0) == 2  # two seconds' worth at half the ceiling, where it begins
        assert made.client.room(2) == 0  # two are in hand and may call any moment
        fetch = made.client.fetch
        urls = [f"https://site-0000{n % 2}.test/{n}" for n in range(3)]
        fetching = [asyncio.ensure_future(fetch(u, deadline_s=5, max_wire_bytes=9)) for u in urls]
        await until(made, lambda state: state.get("turns") == 3)
        assert made.client.room(3) == 0  # turns are taken for three seconds already
        await asyncio.gather(*fetching)
    moments = [at for at, _ in api.calls]
    assert moments[-1] - moments[0] >= 1.9


# -- the key


def forms(secret: str) -> list[bytes]:
    """The ways in which a secret could be written somewhere."""
    password = secret.partition(":")[2] or secret
    texts = [secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode(), password]
    return [text.encode() for text in texts]


def leaks(secret: str, *places: bytes) -> list[bytes]:
    return [form for form in forms(secret) for place in places if form in place]


def contents(folder: Path, *, but: Path) -> list[bytes]:
    """All files below a folder, unpacked."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and path != but:
            data = path.read_bytes()
            found.append(gzip.decompress(data) if path.name.endswith(".gz") else data)
    return found


def everything_in_redis(client: redis.Redis) -> list[bytes]:
    return [part for key in client.scan_iter() for part in (key, client.dump(key) or b"")]


def telltale(raw: bytes, x: Exchange) -> bytes:
    """An answer with the call repeated in its headers and its body, under whatever coding that has."""
    head, _, body = raw.partition(b"\r\n\r\n")
    line = x.request.partition(b"\r\n")[0]
    auth = b"".join(h for h in x.request.split(b"\r\n") if h[:6] == b"Proxy-")
    keep = [h for h in head.split(b"\r\n") if not h.lower().startswith((b"content-length", b"transfer-"))]
    if any(b"gzip" in h for h in keep):
        body = gzip.compress(gzip.decompress(body) + line + auth)
    else:
        body += line + auth
    echo = [b"X-Call: " + line + auth, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*keep, *echo]) + b"\r\n\r\n" + body


@pytest.mark.parametrize("mode", ["api", "proxy"])
@pytest.mark.parametrize("own", [None, 401, 429, 509, 500])
async def test_the_key_is_seen_nowhere(
    through: Through,
    web: MiniWeb,
    tmp_path: Path,
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    own: int | None,
) -> None:
    """Not in the crawl's folder, in Redis, in logs or in what is printed of it, whatever a gateway echoes."""
    caplog.set_level(logging.DEBUG)
    secret = KEY if mode == "api" else LOGIN
    with StandIn(web, secret) as standin:
        standin.mangle = telltale
        if own is not None:
            standin.own = lambda url: reply(own, f"no: {forms(secret)}", X_Call=secret)
        async with through.api(standin) if mode == "api" else through.proxy(standin) as made:
            for url in ("http://httponly.test/", "http://site-00000.test/", "https://redirects.test/chain/1"):
                await made.visit(url)
                await made.store.redis.hdel("control", "pause")
            fetched = await made.client.fetch(
                "http://httponly.test/page/1", deadline_s=5, max_wire_bytes=100_000
            )
            await made.recorder.commit()
            shown = repr(fetched) + repr(made.client) + repr(vars(made.client)) + caplog.text
        assert standin.calls
        with redis_server.client() as client:
            places = contents(tmp_path, but=through.key_file) + everything_in_redis(client)
    assert leaks(secret, shown.encode(), *places) == []
    if own is None:
        assert b"*" * len(quote(secret, safe="")) in b"".join(places) + fetched.body


def test_a_secret_shows_nothing(tmp_path: Path) -> None:
    """It prints as asterisks, and a file that can't be used is named without what is in it."""
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    secret = read_secret(str(path))
    assert secret.reveal() == KEY
    assert leaks(KEY, repr(secret).encode(), str(secret).encode()) == []
    for wrong in ("", " \n", f"{KEY} {KEY}", f"{KEY}\n{KEY}", "schlüssel-0815"):
        path.write_text(wrong)
        with pytest.raises(SettingsError) as error:
            read_secret(str(path))
        assert leaks(KEY, str(error.value).encode()) == []
    with pytest.raises(SettingsError, match="can't be read"):
        read_secret(str(tmp_path / "missing"))


def test_short_words_are_not_cut_out() -> None:
    """A password that is an ordinary short word does not blacken pages; the login as a whole is cut out."""
    secret = Secret("me:open")
    assert secret.cut_out(b"open the door, me:open") == b"open the door, *******"
    assert secret.cut_out(base64.b64encode(b"me:open")) == b"*" * 12
