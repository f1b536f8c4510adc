"""What sites say about the use of their pages: kept with them, counted, obeyed where we have a purpose."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from node import settings as settings_of
from node.rules.outcome import Outcome
from node.store import fetchlog
from node.store.archive_read import ArchiveReader
from node.store.fetchlog import LogEntry
from node.store.frontier import Kind
from node.store.spool import Pointer
from node.store.tally import Tally
from node.work.explain import Explainer
from node.work.page import PageReader
from node.work.record import SIGNALS_FIELD
from tests.redis_server import RedisServer
from tests.store.responses import response, write
from tests.web.running import MiniWeb
from tests.work.asking import ask, settings
from tests.work.net import Server
from tests.work.visiting import Visits, visits

ROBOTS = (
    b"License: https://h.test/rsl.xml\nUser-agent: *\nDisallow: /no\n"
    b"Content-Signal: search=yes, ai-input=no\nContent-Usage: train-ai=n\nContent-Usage: /open train-ai=y\n"
)
HEAD = "HTTP/1.1 {status} X\r\nContent-Type: {type}\r\n{lines}Content-Length: {size}\r\n\r\n"


def _answer(body: bytes, lines: str = "", status: int = 200, type_: str = "text/html") -> bytes:
    return HEAD.format(status=status, type=type_, lines=lines, size=len(body)).encode() + body


META = b'<!doctype html><head><meta name="tdm-reservation" content="1"></head><body><a href=/b>b</a>'
ANSWERS = {
    "/robots.txt": _answer(ROBOTS, type_="text/plain"),
    "/": _answer(b"<p>hello"),
    "/reserved": _answer(b"<p>hello", "TDM-Reservation: 1\r\nContent-Usage: train-ai=n\r\n"),
    "/meta": _answer(META),
    "/meta.gz": _answer(gzip.compress(META), "Content-Encoding: gzip\r\n"),
    "/paid": _answer(b"<title>Just a moment...</title>pay", "crawler-price: USD 0.01\r\n", status=402),
    "/open/x": _answer(b"<p>open"),
    "/open/to": _answer(b"", "Location: /\r\n", status=302),
}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=1, mean_bytes=2_000) as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[Server]:
    with Server(lambda exchange: exchange.send(ANSWERS[exchange.request.split()[1].decode()])) as server:
        yield server


class Crawl:
    """Visits to the site by a crawl for some purposes."""

    def __init__(self, made: Visits, folder: Path, site: Server) -> None:
        self.made = made
        self.folder = folder
        self._site = site
        self._since = len(site.requests)
        self._counts: Counter[str] = Counter()

    async def visit(self, path: str) -> tuple[Outcome, Kind]:
        visited = await self.made.visit(f"http://h.test{path}")
        return self.made.outcome(visited), visited.settlement.kind

    async def log(self) -> dict[str, LogEntry]:
        """Path -> line of the fetch log, but for robots.txt."""
        await self.made.recorder.commit()
        return {
            entry.url.removeprefix("http://h.test"): entry
            for entry in fetchlog.read(self.folder / "log")
            if entry.outcome != "robots"
        }

    @property
    def paths(self) -> list[str]:
        """What the site was asked for."""
        return [request.split()[1].decode() for request in self._site.requests[self._since :]]

    def counted(self, prefix: str) -> Counter[str]:
        """Counters of the tally whose names begin so."""
        for _, _, name, by in self.made.tally.take():
            self._counts[name] += int(by)
        found = ((name, by) for name, by in self._counts.items() if name.startswith(prefix))
        return Counter({name.removeprefix(prefix): by for name, by in found})


@pytest.fixture
def crawl_for(tmp_path: Path, web: MiniWeb, site: Server, redis_server: RedisServer) -> Any:
    @asynccontextmanager
    async def opened(*purposes: str) -> AsyncIterator[Crawl]:
        sections: dict[str, dict[str, Any]] = {
            "identity": {"purpose": list(purposes)},
            "crawl": {"delay_s": 0.0, "hop_gap_s": 0.0},
            "dns": {"connect_to": [f"h.test:80:127.0.0.1:{site.port}"]},
        }
        async with visits(tmp_path, web, redis_server, **sections) as made:
            yield Crawl(made, tmp_path, site)

    return opened


# -- recorded


async def test_without_a_purpose_signals_are_recorded_only(crawl_for: Any) -> None:
    """Every page is kept; what robots.txt and the headers say stands in the log, and is counted by name."""
    async with crawl_for() as crawl:
        for path in ("/", "/reserved", "/meta", "/open/x"):
            assert await crawl.visit(path) == (Outcome.PAGE, Kind.PAGE)
        log = await crawl.log()
        site_wide = (
            "robots Content-Signal: search=yes, ai-input=no",
            "robots Content-Usage: train-ai=n",
            "robots License: https://h.test/rsl.xml",
        )
        assert log["/"].signals == site_wide
        assert log["/reserved"].signals == (
            *site_wide,
            *("header TDM-Reservation: 1", "header Content-Usage: train-ai=n"),
        )
        assert log["/open/x"].signals == (
            *("robots Content-Usage: /open train-ai=y", site_wide[0]),
            site_wide[2],
        )
        assert crawl.counted("signal:") == {
            "robots:content_signal": 4,
            "robots:content_usage": 4,
            "robots:license": 4,
            "header:tdm": 1,
            "header:content_usage": 1,
        }
        assert not crawl.counted("opted_out:")


async def test_other_tools_read_what_is_stored_with_the_page(crawl_for: Any) -> None:
    """The record of a page has what robots.txt said in a field of its own; two foreign readers find both."""
    async with crawl_for() as crawl:
        await crawl.visit("/reserved")
        await crawl.made.recorder.commit()
    (path,) = (crawl.folder / "warc").glob("*.warc.gz")
    said = "Content-Signal: search=yes, ai-input=no | Content-Usage: train-ai=n | License: https://h.test/rsl.xml"
    with path.open("rb") as stream:
        for page in ArchiveIterator(stream):
            if page.rec_type == "response":
                assert page.rec_headers.get_header(SIGNALS_FIELD) == said
                assert page.http_headers.get_header("tdm-reservation") == "1"
    with path.open("rb") as stream:
        fast = [dict(each.headers.items()) for each in FastIterator(stream)]
    assert [each[SIGNALS_FIELD] for each in fast if each["WARC-Type"] == "response"] == [said]


async def test_a_price_is_recorded_and_never_paid_or_asked_again(crawl_for: Any) -> None:
    """402 with crawler-price: done at once, with its price in the log, whatever its body looks like."""
    async with crawl_for() as crawl:
        assert await crawl.visit("/paid") == (Outcome.PAYMENT_REQUIRED, Kind.DONE)
        entry = (await crawl.log())["/paid"]
        assert (entry.price, entry.status, entry.position is not None) == ("USD 0.01", 402, True)
        assert crawl.counted("signal:")["header:price"] == 1
        assert b"crawler-max-price" not in b"".join(crawl._site.requests).lower()


# -- obeyed


async def test_what_robots_denies_is_not_fetched(crawl_for: Any) -> None:
    """Training is denied by robots.txt but for one path: nothing else is asked for, and it is said why."""
    async with crawl_for("train") as crawl:
        assert await crawl.visit("/") == (Outcome.ROBOTS_OPTED_OUT, Kind.DROP)
        assert await crawl.visit("/no") == (Outcome.ROBOTS_DENIED, Kind.DROP)
        assert await crawl.visit("/open/x") == (Outcome.PAGE, Kind.PAGE)
        assert crawl.paths == ["/robots.txt", "/open/x"]
        assert (await crawl.log())["/"].detail == "Content-Usage: train-ai=n"
        assert crawl.counted("opted_out:") == {"robots:content_usage": 1}


async def test_a_hop_is_asked_about_anew(crawl_for: Any) -> None:
    """A redirect from where we may to where our purpose is denied ends there, and is not followed."""
    async with crawl_for("train") as crawl:
        assert await crawl.visit("/open/to") == (Outcome.ROBOTS_OPTED_OUT, Kind.DROP)
        assert crawl.paths == ["/robots.txt", "/open/to"]


async def test_what_the_answer_denies_is_not_kept(crawl_for: Any) -> None:
    """Mining is reserved by a header, or by a meta, be the page compressed or not: logged and not stored."""
    async with crawl_for("mine", "archive") as crawl:
        for path in ("/reserved", "/meta", "/meta.gz"):
            assert await crawl.visit(path) == (Outcome.OPTED_OUT, Kind.DONE), path
        assert await crawl.visit("/") == (Outcome.PAGE, Kind.PAGE)
        log = await crawl.log()
        assert [log[path].position is not None for path in ("/reserved", "/meta", "/meta.gz", "/")] == [
            *(False, False, False),
            True,
        ]
        assert log["/meta"].signals[-1] == "meta TDM-Reservation: 1"
        assert log["/reserved"].detail == "TDM-Reservation: 1"
        assert crawl.counted("opted_out:") == {"header:tdm": 1, "meta:tdm": 2}


async def test_a_purpose_that_nobody_denies_changes_nothing(crawl_for: Any) -> None:
    """Search is allowed here, so a crawl for a search index keeps what one without a purpose keeps."""
    async with crawl_for("search") as crawl:
        for path in ("/", "/reserved", "/meta"):
            assert await crawl.visit(path) == (Outcome.PAGE, Kind.PAGE)


@pytest.mark.parametrize(("purpose", "links"), [([], 1), (["mine"], 0), (["search"], 1)])
def test_a_late_meta_ends_at_the_parser(tmp_path: Path, purpose: list[str], links: int) -> None:
    """A denial that stands where only a parser looks: counted, and none of the page's links is followed."""
    body = b"<body><a href=/b>b</a><p>" + META.partition(b"<head>")[2].partition(b"</head>")[0]
    (position,) = write(tmp_path / "warc", response(body=body))
    made = settings_of.build({"paths": {"data": str(tmp_path)}, "identity": {"purpose": purpose}})
    tally = Tally("parsers")
    reader = PageReader(made, ArchiveReader(made.warc_folder), tally)
    assert len(reader.links(Pointer(position, 0, "https://h.test/"))) == links
    counts = {name: int(by) for _, _, name, by in tally.take()}
    assert counts["signal:meta:tdm"] == 1
    assert counts.get("opted_out:meta:tdm", 0) == 1 - links


# -- explained


def test_explain_says_so() -> None:
    """Which signals are about a URL, and that they keep it from being fetched, is known without a crawl."""
    robots = ROBOTS.decode()
    asked = [{"url": f"https://h.test{path}", "robots": robots} for path in ("/", "/open/x", "/no")]
    for_all = Explainer(settings())
    answers = ask(*asked, explainer=for_all)
    assert [each["why_not"] for each in answers] == [None, None, "robots_denied"]
    assert answers[0]["signals"] == [
        "Content-Signal: search=yes, ai-input=no",
        "Content-Usage: train-ai=n",
        "License: https://h.test/rsl.xml",
    ]
    answers = ask(*asked, explainer=Explainer(settings(identity={"purpose": "train"})))
    assert [each["why_not"] for each in answers] == ["robots_opted_out", None, "robots_denied"]
    assert "'Content-Usage: train-ai=n'" in answers[0]["why"]
    answers = ask({"url": "https://h.test/"}, explainer=for_all)
    assert answers[0]["signals"] is None
