"""What broke other HTTP clients, case by case: where each is tested, and those that are tested nowhere else.

The cases are symptoms that were reported publicly of other crawlers. Each is one of a kind; the tests that
are named here are about the kind.
"""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from node.rules.outcome import Outcome
from node.store.domain_record import unpack
from node.work.http import Client
from tests.conftest import REPO
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.net import Exchange, Script, Server, plays
from tests.work.test_http import HTML, OK, fetch, kept, page
from tests.work.visiting import Visits, visits

HERE = "tests/work/test_http_cases.py"
_HTTP, _DECODE, _HEAD = (
    "tests/work/test_http.py",
    "tests/store/test_decode.py",
    "tests/rules/test_http_head.py",
)

CASES: dict[str, tuple[str, ...]] = {
    # case: what goes wrong elsewhere, as tests that would notice it here
    "N01 a length larger than what came": (
        f"{_HTTP}::test_body_ends_early",
        f"{_DECODE}::test_a_body_that_ends_too_soon_gives_what_it_has",
    ),
    "N02 no last chunk, many times": (
        f"{_HTTP}::test_body_ends_early",
        f"{_HTTP}::test_many_broken_answers_leave_nothing",
    ),
    "N04 a body where none may be": (f"{HERE}::test_a_body_where_none_may_be",),
    "N05 a control character in a header": (f"{_HTTP}::test_control_character_in_a_header",),
    "N07 garbage for a length": (
        f"{_HTTP}::test_garbage_in_content_length",
        f"{_HTTP}::test_garbage_length_is_still_capped",
        f"{_HEAD}::test_lengths",
    ),
    "N08 says gzip and is not": (f"{_DECODE}::test_plain_text_that_claims_a_coding_is_kept",),
    "N10 a coding nobody asked for": (
        f"{_DECODE}::test_codings_we_know",
        f"{_DECODE}::test_an_unknown_coding_is_never_taken_for_a_page",
    ),
    "N11 a bomb": (
        f"{_DECODE}::test_a_bomb_is_cut_at_the_decoded_cap_with_flat_memory",
        f"{_DECODE}::test_each_coding_is_undone_once_per_mention",
    ),
    "N13 a redirect to nowhere": (
        f"{_HTTP}::test_redirects",
        "tests/work/test_visit.py::test_every_redirect_ends",
    ),
    "N14 two Locations": (f"{_HTTP}::test_redirects", f"{_HEAD}::test_location"),
    "N16 a cookie wall": (f"{HERE}::test_a_cookie_wall", f"{HERE}::test_a_new_cookie_each_time"),
    "N17 a redirect to itself": (f"{HERE}::test_a_redirect_to_itself",),
    "N19 a stream without end": (
        f"{_HTTP}::test_cut_at_the_cap",
        f"{_HTTP}::test_unwanted_type",
        f"{_HTTP}::test_endless_over_tls",
    ),
    "N20 a byte a second": (f"{_HTTP}::test_total_deadline", f"{_HTTP}::test_over_tls"),
    "N22 a status line without reason": (f"{_HTTP}::test_status_line_without_reason",),
    "N23 Retry-After in odd forms": (
        "tests/rules/test_retry_after.py::test_forms",
        "tests/work/test_visit.py::test_retry_after_is_passed_on",
    ),
    "N25 fast refusals": (f"{HERE}::test_fast_refusals_slow_a_site_down",),
    "N26 a cookie for another site": (
        f"{HERE}::test_a_cookie_stays_with_its_site",
        "tests/rules/test_cookies.py::test_a_cookie_for_somebody_else_is_refused",
    ),
    "N28 an address beyond its TTL": ("tests/work/test_resolve.py::test_lifetimes",),
    "N29 a dead host with many URLs": (
        f"{_HTTP}::test_connect_timeout",
        "tests/whole/test_silent_host.py::test_its_urls_wait_and_nobody_waits_for_it",
        "tests/work/test_dead_hosts.py::test_a_dead_host_is_parked_longer_each_time_and_given_up",
        "tests/whole/test_misbehaving.py::test_healthy_domains_are_complete",
    ),
}


def names_in(path: Path) -> set[str]:
    """The names of a file's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_tested(case: str) -> None:
    """A test that is renamed or removed must not leave a case behind that nobody looks after."""
    for name in CASES[case]:
        path, _, test = name.partition("::")
        assert test in names_in(REPO / path), name


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_a_body_where_none_may_be(status: bytes) -> None:
    """Bytes after an answer that has no body are no error and no page, and end the connection (N04)."""
    head = b"HTTP/1.1 " + status + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    fetched = fetch(plays(head + b"5\r\nhello\r\n0\r\n\r\n"))
    assert (fetched.outcome, fetched.body) == (Outcome.NO_CONTENT, b"")

    def script(exchange: Exchange) -> None:
        exchange.send(head + b"5\r\nhello\r\n0\r\n\r\n")
        exchange.hold()

    async def do(client: Client) -> None:
        for _ in range(2):
            got = await client.fetch("http://h1.test/", deadline_s=5, max_wire_bytes=1_000)
            assert (got.outcome, got.body) == (Outcome.NO_CONTENT, b"")

    assert kept(do, script).connections == 2


# -- through a visit: what a fetcher does about an answer


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    """For its certificates; the sites are scripts."""
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=1, mean_bytes=3_000) as running:
        yield running


@asynccontextmanager
async def site(
    script: Script, folder: Path, web: MiniWeb, redis: RedisServer
) -> AsyncIterator[tuple[Visits, Server]]:
    """All hosts are one server that plays ``script``; robots.txt allows everything."""

    def with_robots(exchange: Exchange) -> None:
        if b"GET /robots.txt " in exchange.request:
            exchange.send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
        else:
            script(exchange)

    with Server(with_robots) as server:
        dns = {"connect_to": [f"::127.0.0.1:{server.port}"]}
        async with visits(folder, web, redis, dns=dns, crawl={"hop_gap_s": 0.01}) as one:
            yield one, server


def asked(server: Server) -> list[bytes]:
    """The requests for pages."""
    return [each for each in server.requests if b"/robots.txt" not in each]


def moved(location: bytes, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\n" + head + b"Content-Length: 0\r\n\r\n"


async def test_a_cookie_wall(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> None:
    """A page that redirects to itself until its cookie comes back is stored in two requests (N16)."""

    def script(exchange: Exchange) -> None:
        welcome = b"Cookie: k=v\r\n" in exchange.request
        exchange.send(page() if welcome else moved(b"/p", b"Set-Cookie: k=v\r\n"))

    async with site(script, tmp_path, web, redis_server) as (one, server):
        assert one.outcome(await one.visit("http://h.test/p")) is Outcome.PAGE
        assert len(asked(server)) == 2


async def test_a_new_cookie_each_time(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> None:
    """A wall that wants yet another cookie each time ends at the cap of hops (N16)."""
    given: list[int] = []

    def script(exchange: Exchange) -> None:
        given.append(len(given))
        exchange.send(moved(b"/p", b"Set-Cookie: k%d=v\r\n" % len(given)))

    async with site(script, tmp_path, web, redis_server) as (one, server):
        assert one.outcome(await one.visit("http://h.test/p")) is Outcome.REDIRECT_LOOP
        assert len(asked(server)) == 6


async def test_a_redirect_to_itself(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> None:
    """A redirect to itself ends after one request, counted, and the host goes on (N17)."""

    def script(exchange: Exchange) -> None:
        exchange.send(moved(b"/r") if b"GET /r " in exchange.request else page())

    async with site(script, tmp_path, web, redis_server) as (one, server):
        assert one.outcome(await one.visit("http://h.test/r")) is Outcome.REDIRECT_LOOP
        assert len(asked(server)) == 1
        one.store.clock.base_ms += 60_000
        assert one.outcome(await one.visit("http://h.test/p")) is Outcome.PAGE


async def test_fast_refusals_slow_a_site_down(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """A 503 within a millisecond is no sign of a site that has time: each doubles the delay (N25)."""
    async with site(
        plays(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), tmp_path, web, redis_server
    ) as (one, _):
        delays = []
        for number in range(5):
            assert one.outcome(await one.visit(f"http://h.test/{number}")) is Outcome.UNAVAILABLE
            delays.append(unpack(await one.store.redis.get("d:h.test")).slowed_ms)
            one.store.clock.base_ms += 3_600_000
        assert all(2 * before == after for before, after in pairwise(delays)), delays


async def test_a_cookie_stays_with_its_site(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> None:
    """Neither another site, nor one whose name ends alike, nor the next visit is sent a cookie (N26)."""

    def script(exchange: Exchange) -> None:
        if b"Host: a.test" in exchange.request:
            exchange.send(moved(b"http://nota.test/x", b"Set-Cookie: k=v; Domain=a.test\r\n"))
        else:
            exchange.send(OK + HTML + b"Set-Cookie: j=w; Domain=a.test\r\nContent-Length: 2\r\n\r\nhi")

    async with site(script, tmp_path, web, redis_server) as (one, server):
        for url in ("http://a.test/", "http://b.test/", "http://nota.test/x", "http://a.test/again"):
            await one.visit(url)
            one.store.clock.base_ms += 60_000
        assert len(asked(server)) >= 4
        assert not [each for each in server.requests if b"\r\ncookie:" in each.lower()]
