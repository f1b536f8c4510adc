"""From a robots.txt to the pages that a sitemap names: what fetchers and parsers do about sitemaps."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Thread

import pytest

from node import settings as settings_of
from node.rules import url as urls
from node.rules.domain import registrable
from node.rules.entry import NESTED, SITEMAP, Entry
from node.rules.outcome import Outcome
from node.rules.robots import ALLOW_ALL, Rules
from node.rules.shard import lane_of
from node.rules.sitemap import Named
from node.rules.url import dedup_key
from node.settings import Settings
from node.store import keys
from node.store.archive_read import ArchiveReader
from node.store.connection import AsyncStore
from node.store.frontier import Group, Kind
from node.store.spool import Pointer, unpack
from node.store.tally import Tally
from node.store.warc import Position
from node.work.page import PageReader
from node.work.parser import OFFER_URLS, Parser
from node.work.process import StopFlag
from node.work.sitemaps import Sitemaps
from node.work.visit import Visited
from tests.redis_server import RedisServer
from tests.store.responses import Headers, response, write
from tests.web.running import MiniWeb
from tests.whole.crawl import until
from tests.work.visiting import Visits, visits

SITE = "https://h.test"
XML: Headers = ((b"Content-Type", b"application/xml"),)


def _settings(folder: Path = Path("d"), **crawl: object) -> Settings:
    return settings_of.build({"paths": {"data": str(folder)}, "crawl": {"sitemaps": True} | crawl})


# -- the spool


@pytest.mark.parametrize("kind", [0, SITEMAP, NESTED])
def test_the_spool_tells_sitemaps_from_pages(kind: int) -> None:
    """A pointer says what was fetched, so that nobody has to guess from the bytes."""
    pointer = Pointer(Position("a.warc.gz", 7, 9), 3, "https://h.test/a%20b", kind)
    assert unpack(pointer.pack()) == pointer


# -- of an origin


async def test_an_origins_sitemaps_are_told_once() -> None:
    """Those that robots.txt names, joined and each once, and the one by the usual name."""
    settings = _settings()
    known = Sitemaps(settings, AsyncStore(settings))
    rules = Rules(sitemaps=("https://h.test/a.xml", "/b.xml", "https://h.test/a.xml#x", "mailto:x"))
    assert known.of(SITE, rules, 2) == [
        Named(SITE + path, 2, SITEMAP) for path in ("/a.xml", "/b.xml", "/sitemap.xml")
    ]
    assert known.of(SITE, rules, 0) == []
    assert known.of("http://h.test:81", ALLOW_ALL, 0) == [Named("http://h.test:81/sitemap.xml", 0, SITEMAP)]


async def test_none_are_told_in_vain() -> None:
    """Not where the setting is off, and not where what they name would be too deep."""
    off, shallow = _settings(sitemaps=False), _settings(max_depth=3)
    assert Sitemaps(off, AsyncStore(off)).of(SITE, ALLOW_ALL, 0) == []
    known = Sitemaps(shallow, AsyncStore(shallow))
    assert known.of(SITE, ALLOW_ALL, 3) == []
    assert len(known.of(SITE, ALLOW_ALL, 2)) == 1


# -- visits


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=1, mean_bytes=5_000) as running:
        yield running


@pytest.fixture
async def one(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> AsyncIterator[Visits]:
    crawl = {"delay_s": 0.0, "sitemaps": True, "max_sitemaps_per_domain": 2}
    async with visits(tmp_path, web, redis_server, crawl=crawl) as made:
        yield made


async def visit(visits: Visits, url: str, kind: int = SITEMAP) -> Visited:
    """Offer a sitemap, lease and visit it; settle."""
    domain = registrable(urls.host(url))
    group = Group(domain, lane_of(domain), visits.store.now_ms() - 1)
    group.entries.append(Entry(url, 1, 4, sitemap=kind).pack())
    group.slots += visits.frontier.slots(dedup_key(url))
    await visits.store.call(visits.frontier.offer(visits.store.now_ms(), [group]))
    (lease,) = await visits.lease(1)
    visited = await visits.visitor.visit(lease)
    await visits.settle([visited])
    return visited


async def test_a_visit_tells_of_the_sitemaps_of_its_origin(one: Visits) -> None:
    """With the first visit to an origin that gets a robots.txt, and with no other."""
    first = await one.visit("https://sitemaps.test/")
    paths = ("/index.xml", "/denied.xml", "/sitemap.xml")
    assert first.sitemaps == [Named("https://sitemaps.test" + path, 0, SITEMAP) for path in paths]
    assert (await one.visit("https://sitemaps.test/linked")).sitemaps == []
    assert (await one.visit("https://robots-503.test/")).sitemaps == []


async def test_a_sitemap_is_kept_but_no_page(one: Visits) -> None:
    """Its type is accepted, it goes to archive and spool under its kind, and is no page in the counters."""
    visited = await visit(one, "https://sitemaps.test/pages.xml.gz", NESTED)
    assert (visited.settlement.kind, one.outcome(visited)) == (Kind.PAGE, Outcome.SITEMAP)
    pointer = unpack(visited.settlement.pointer)
    assert (pointer.depth, pointer.sitemap) == (4, NESTED)
    ledger = await one.store.redis.hgetall("ledger")
    counts = dict(zip(ledger[::2], map(int, ledger[1::2]), strict=True))
    assert (counts[b"spooled"], counts.get(b"pages", 0)) == (1, 0)
    # as a page the same file is none
    assert one.outcome(await one.visit("https://sitemaps.test/list.txt")) is Outcome.UNWANTED_TYPE


async def test_a_redirected_sitemap_is_one_still(one: Visits) -> None:
    """Within the domain the hop is a sitemap; elsewhere it is left to who serves that, as a sitemap."""
    moved = await visit(one, "https://sitemaps.test/moved.xml", NESTED)
    assert one.outcome(moved) is Outcome.SITEMAP
    assert moved.settlement.lease.entry == Entry("https://sitemaps.test/moved-here.xml", 1, 4, sitemap=NESTED)
    away = await visit(one, "https://redirects.test/to/other.test")
    assert one.outcome(away) is Outcome.REDIRECTED_AWAY
    assert Named("https://other.test/", 4, SITEMAP) in away.sitemaps
    assert away.found == []


async def test_a_domain_has_so_many_sitemaps(one: Visits, web: MiniWeb) -> None:
    """The third of two is dropped by name and without a request; a denied one counts for nothing."""
    since = len(web.requests("sitemaps.test"))
    denied = await visit(one, "https://sitemaps.test/denied.xml")
    assert one.outcome(denied) is Outcome.ROBOTS_DENIED
    for path in ("/list.txt", "/missing.xml"):
        assert (await visit(one, "https://sitemaps.test" + path)).settlement.sent
    third = await visit(one, "https://sitemaps.test/cut.xml")
    assert (third.settlement.kind, third.settlement.outcome) == (Kind.DROP, "sitemap_cap")
    assert not third.settlement.sent
    other = await visit(one, "https://other.test/sitemap.xml")
    assert one.outcome(other) is Outcome.NOT_FOUND
    asked = {entry.path for entry in web.requests("sitemaps.test")[since:]}
    assert asked <= {"/robots.txt", "/list.txt", "/missing.xml"}


# -- reading


def read(
    folder: Path, body: bytes, *, headers: Headers = XML, kind: int = SITEMAP, truncated: str | None = None
) -> tuple[list[tuple[str, int]], list[Named], dict[str, int]]:
    """What a parser finds in a sitemap of depth 4, and what it counts."""
    url = SITE + "/map.xml"
    (position,) = write(folder, response(url, body, headers=headers, truncated=truncated))
    tally = Tally("parsers")
    reader = PageReader(
        _settings(folder, max_sitemaps_per_domain=2, max_sitemap_bytes=2_000), ArchiveReader(folder), tally
    )
    pages, sitemaps = reader.sitemap(Pointer(position, 4, url, kind))
    counts = {name: int(by) for _verb, _key, name, by in tally.take() if not name.startswith("cpu_ms")}
    return pages, sitemaps, counts


URLSET = b"<urlset><url><loc>https://h.test/1</loc></url><url><loc>/2</loc></url></urlset>"
PAGES = [("https://h.test/1", 5), ("https://h.test/2", 5)]


@pytest.mark.parametrize("headers", [XML, (*XML, (b"X-Robots-Tag", b"none")), ()])
def test_pages_of_a_sitemap_are_one_deeper(tmp_path: Path, headers: Headers) -> None:
    """Relative to its address; what a site asks of its sitemap's place in an index is no matter here."""
    assert read(tmp_path, URLSET, headers=headers) == (PAGES, [], {})


def test_gzip_is_undone_by_its_bytes(tmp_path: Path) -> None:
    """As a file, as a coding, as both; and no bomb of it grows beyond the cap."""
    packed = gzip.compress(URLSET)
    coded = (*XML, (b"Content-Encoding", b"gzip"))
    for number, (body, headers) in enumerate(
        ((packed, XML), (packed, coded), (gzip.compress(packed), coded))
    ):
        assert read(tmp_path / str(number), body, headers=headers) == (PAGES, [], {})
    bomb = gzip.compress(URLSET[:-9] + b" " * 5_000_000 + b"<url><loc>/3</loc></url>")
    assert read(tmp_path / "bomb", bomb) == (PAGES, [], {})


def test_a_torn_address_is_not_believed(tmp_path: Path) -> None:
    """Whoever cut the file: the site, the line, a cap of ours."""
    lines = b"https://h.test/1\nhttps://h.test/2"
    plain = ((b"Content-Type", b"text/plain"),)
    assert read(tmp_path / "whole", lines, headers=plain)[0] == PAGES
    assert read(tmp_path / "line", lines, headers=plain, truncated="disconnect")[0] == PAGES[:1]
    assert read(tmp_path / "gz", gzip.compress(lines)[:-9], headers=plain)[0] == PAGES[:1]
    long = b"https://h.test/1\nhttps://h.test/" + b"2" * 5_000
    assert read(tmp_path / "cap", long, headers=plain)[0] == PAGES[:1]


def test_an_index_is_followed_one_level(tmp_path: Path) -> None:
    """Up to the bound, as sitemaps of their own kind; one that an index named may name none."""
    index = (
        b"".join(b"<sitemap><loc>%d.xml</loc></sitemap>" % n for n in (1, 2, 3)) + b"<sitemap><loc>mailto:x"
    )
    body = b"<sitemapindex>" + index + b"</loc></sitemap></sitemapindex>"
    first = [Named(f"https://h.test/{n}.xml", 4, NESTED) for n in (1, 2)]
    assert read(tmp_path / "index", body) == ([], first, {"drop:sitemap_cap": 2})
    assert read(tmp_path / "nested", body + URLSET, kind=NESTED) == (PAGES, [], {"drop:sitemap_cap": 4})
    refused = b"<url><loc>mailto:x</loc></url><url><loc>https://h.test/1</loc></url>"
    assert read(tmp_path / "refused", refused) == (PAGES[:1], [], {"drop:scheme": 1})


# -- a parser


def test_a_long_sitemap_is_offered_in_parts(tmp_path: Path, redis_server: RedisServer) -> None:
    """No offer holds up Redis for long; a page given out again, be it in the middle, admits nothing twice."""
    urls_named = [f"{SITE}/{number}" for number in range(2 * OFFER_URLS + 7)]
    lines = "\n".join([*urls_named, *urls_named[:3]]).encode()
    (position,) = write(tmp_path / "warc", response(SITE + "/list.txt", lines, headers=()))
    pointer = Pointer(position, 0, SITE + "/list.txt", SITEMAP).pack()
    stop = StopFlag()
    with redis_server.client() as client:
        client.flushall()
        client.config_resetstat()
        paths = {"data": str(tmp_path), "redis_socket": str(redis_server.socket)}
        parser = Parser(settings_of.build({"paths": paths, "crawl": {"scope": "open"}}), 1, stop)
        thread = Thread(target=parser.run)
        thread.start()
        try:
            for offers in (3, 6):
                until(lambda: client.exists(keys.SPOOL), "the parser is there")
                client.xadd(keys.SPOOL, {"p": pointer})
                until(lambda: client.xlen(keys.SPOOL) == 0, "the sitemap is read")
                assert int(client.hget(keys.LEDGER, "admitted") or 0) == len(urls_named)
                assert client.info("commandstats")["cmdstat_evalsha"]["calls"] >= offers
        finally:
            stop.requested = True
            thread.join()
        queued = client.lrange(keys.queue(1, "h.test"), 0, -1)
    assert [entry.decode()[3:] for entry in queued] == urls_named
