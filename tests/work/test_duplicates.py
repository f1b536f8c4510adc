"""Pages that a domain gives more than once: stored once, read for links once, whatever their URLs."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from node.rules.outcome import TABLE, Outcome, Signal
from node.store import fetchlog, keys
from node.store.archive_check import verify
from node.store.fetchlog import FetchLog, LogEntry
from node.store.frontier import Kind
from node.work.duplicates import MIN_BYTES, KnownPages
from node.work.recovery import recover_archive
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.net import Exchange, Server
from tests.work.visiting import Visits, visits

PAGE = b"<!doctype html><title>Not found</title><p>We looked everywhere. <a href='a/'>Deeper</a>"
OTHER = PAGE.replace(b"everywhere", b"in vain")
SMALL = b"<p>hello"
BODIES = {"/other": OTHER, "/small/1": SMALL, "/small/2": SMALL, "/gz/1": gzip.compress(PAGE, mtime=0)}


def _answer(exchange: Exchange) -> None:
    path = exchange.request.split()[1].decode()
    if path == "/robots.txt":
        exchange.send(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")
        return
    body = BODIES.get(path, BODIES["/gz/1"] if path.startswith("/gz") else PAGE)
    lines = b"Content-Encoding: gzip\r\n" if path.startswith("/gz") else b""
    size = len(body) + (100 if path.startswith("/cut") else 0)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%bContent-Length: %d\r\n\r\n" % (lines, size)
    exchange.send(head + body)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=1, mean_bytes=2_000) as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[Server]:
    with Server(_answer) as server:
        yield server


@pytest.fixture
def crawl(tmp_path: Path, web: MiniWeb, site: Server, redis_server: RedisServer) -> Any:
    @asynccontextmanager
    async def opened(**fetcher: Any) -> AsyncIterator[Visits]:
        sections: dict[str, dict[str, Any]] = {
            "crawl": {"delay_s": 0.0, "hop_gap_s": 0.0},
            "fetcher": fetcher,
            "dns": {"connect_to": [f"{host}:80:127.0.0.1:{site.port}" for host in ("", "h.test")]},
        }
        async with visits(tmp_path, web, redis_server, **sections) as made:
            yield made

    return opened


async def outcomes(made: Visits, *urls: str) -> list[str]:
    return [made.outcome(await made.visit(url)).value for url in urls]


async def log_of(made: Visits, folder: Path) -> dict[str, LogEntry]:
    """URL -> its line, but for robots.txt."""
    await made.recorder.commit()
    return {each.url: each for each in fetchlog.read(folder / "log") if each.outcome != "robots"}


async def test_a_page_that_comes_again_is_a_duplicate(crawl: Any, tmp_path: Path) -> None:
    """A trap that gives one page under ever longer paths ends there: done, counted, not spooled, and a
    record that refers to the first."""
    async with crawl() as made:
        first, again = "http://h.test/a/", "http://h.test/a/a/"
        assert (await made.visit(first)).settlement.kind is Kind.PAGE
        visited = await made.visit(again)
        assert (visited.settlement.outcome, visited.settlement.kind) == ("duplicate", Kind.DONE)
        assert (visited.settlement.signal, visited.settlement.sent) == (Signal.SUCCESS, True)
        assert await outcomes(made, "http://www.h.test/a/", "http://h.test/other") == ["duplicate", "page"]
        log = await log_of(made, tmp_path)
        spooled, counted = await made.store.calls(
            [], extra=[("XLEN", keys.SPOOL), ("HGET", keys.OUTCOMES, "duplicate")]
        )
    assert (int(spooled), int(counted)) == (2, 2)
    assert log[again].detail == f"the same as {first}"
    at_first, at_again = log[first].position, log[again].position
    assert at_first is not None
    assert at_again is not None
    assert at_first.digest == at_again.digest
    (path,) = (tmp_path / "warc").glob("*.warc.gz")
    verdict = verify(path)
    assert (verdict.ok, verdict.responses, verdict.revisits) == (True, 2, 2)


async def test_a_compressed_page_is_compared_as_it_came(crawl: Any) -> None:
    """The digest is the one in the record, of the body in its content coding."""
    async with crawl() as made:
        urls = ("http://h.test/gz/1", "http://h.test/gz/2", "http://h.test/plain")
        assert await outcomes(made, *urls) == ["page", "duplicate", "page"]


async def test_what_is_small_or_cut_off_is_not_compared(crawl: Any) -> None:
    """Two pages that were cut may go on differently; a tiny one is not worth a reference."""
    assert len(SMALL) < MIN_BYTES <= len(PAGE)
    async with crawl() as made:
        paths = ("small/1", "small/2", "cut/1", "cut/2")
        assert await outcomes(made, *(f"http://h.test/{path}" for path in paths)) == ["page"] * 4


async def test_another_domain_may_give_the_same_page(crawl: Any) -> None:
    """A parked or default page is each domain's own: its links lead elsewhere."""
    async with crawl() as made:
        assert await outcomes(made, "http://h.test/x", "http://g.test/x") == ["page", "page"]


async def test_nothing_is_compared_where_that_is_switched_off(crawl: Any) -> None:
    """``fetcher.known_pages = 0``: every page is stored and read."""
    async with crawl(known_pages=0) as made:
        assert await outcomes(made, "http://h.test/a/", "http://h.test/b/") == ["page", "page"]


async def test_without_room_on_the_disk_it_is_visited_again(crawl: Any) -> None:
    """A duplicate that got no record is no more settled than a page would be, and nothing is known of a page
    that got none."""
    async with crawl() as made:
        await made.visit("http://h.test/a/")
        made.recorder._archive._buffer_bytes = 0
        visited = await made.visit("http://h.test/b/")
        assert (visited.settlement.kind, visited.settlement.outcome) == (Kind.BACK, "not_sent")
        visited = await made.visit("http://h.test/other")
        assert visited.settlement.kind is Kind.BACK
        made.recorder._archive._buffer_bytes = 1 << 20
        leases = await made.lease()
        results = [await made.visitor.visit(lease) for lease in leases]
        assert {each.settlement.outcome for each in results} == {"page", "duplicate"}
        assert len(results) == 2


async def test_a_duplicate_that_was_not_settled_is_settled_from_the_archive(
    crawl: Any, tmp_path: Path
) -> None:
    """After a crash it is done, as it would have been: no parser is sent to a record without a body."""
    async with crawl() as made:
        await made.offer("http://h.test/a/", "http://h.test/b/")
        for lease in await made.lease():
            await made.visitor.visit(lease)
        await made.recorder.commit()
        (left,) = (tmp_path / "warc").glob("*.open")
        shutil.copyfile(left, left.with_name("dead-f01-000001.warc.gz.open"))
        log = FetchLog(tmp_path / "log", "fetch-recovered")
        assert await recover_archive(made.store, made.frontier, log, "dead-f01", 1) == 2
        log.close()
        spooled, leased, found = await made.store.calls(
            [],
            extra=[("XLEN", keys.SPOOL), ("HGET", keys.LEDGER, "leased"), ("HGETALL", keys.OUTCOMES)],
        )
    assert (int(spooled), int(leased)) == (1, 0)
    assert dict(zip(found[::2], found[1::2], strict=True)) == {b"page": b"1", b"duplicate": b"1"}
    lines = [each for each in fetchlog.read(tmp_path / "log") if "after a crash" in each.detail]
    assert sorted((each.url, each.outcome) for each in lines) == [
        ("http://h.test/a/", "page"),
        ("http://h.test/b/", "duplicate"),
    ]


def test_a_page_is_no_duplicate_of_itself() -> None:
    """What is fetched again, since its lease was lost before it was settled, must be read for links."""
    known = KnownPages(10)
    known.add("h.test", "http://h.test/a", 1, "sha1:A", 1.0)
    assert known.original("h.test", "http://h.test/a", 1, "sha1:A") is None
    assert known.original("h.test", "http://h.test/b", 1, "sha1:A") is not None


def test_a_page_found_nearer_to_a_seed_is_read_again() -> None:
    """Its links may be within ``max_depth`` where those of the known one were not."""
    known = KnownPages(10)
    known.add("h.test", "http://h.test/a", 5, "sha1:A", 1.0)
    assert known.original("h.test", "http://h.test/b", 2, "sha1:A") is None
    known.add("h.test", "http://h.test/b", 2, "sha1:A", 2.0)
    original = known.original("h.test", "http://h.test/c", 2, "sha1:A")
    assert original is not None
    assert original.url == "http://h.test/b"


def test_as_many_pages_are_known_as_the_setting_says() -> None:
    """The one not met for longest is forgotten; a page met again and again stays."""
    known = KnownPages(3)
    for name in "abc":
        known.add("h.test", f"http://h.test/{name}", 0, name, 1.0)
    assert known.original("h.test", "http://h.test/x", 0, "a") is not None
    known.add("h.test", "http://h.test/d", 0, "d", 1.0)
    assert len(known) == 3
    found = [known.original("h.test", "http://h.test/x", 0, name) is not None for name in "abcd"]
    assert found == [True, False, True, True]


def test_a_duplicate_is_a_good_answer() -> None:
    """The site did as it should: its pace is that of a page."""
    assert TABLE[Outcome.DUPLICATE] == TABLE[Outcome.PAGE]
