"""Real input: documentation trees of Debian, crawled over TLS, against a walk that owes us nothing.

The walk (``walk.py``) and the crawl agree on the scope: ``a[href]``, ``area[href]``, ``meta`` refresh, the
hosts of the seeds, no ``rel=nofollow``. The caps on a page's size and on its links are raised here, since
a walk has none; so no difference remains that would have to be explained away, and none is allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.web.certs import Authority
from tests.web.nginx import Nginx, find_nginx
from tests.whole import documentation, stored
from tests.whole.crawl import Crawl, until
from tests.whole.walk import Walk, walk

pytestmark = [pytest.mark.whole, pytest.mark.timeout(300)]

UNCAPPED = (
    "parser.max_links_per_page=100000",
    "parser.max_page_bytes=20000000",
    "fetcher.max_wire_bytes=20000000",
)
MOST_IN_FLIGHT = 32
"""The widest a domain is served (DESIGN section 6): so many of its requests can be cut off."""


@dataclass(frozen=True, slots=True)
class Sites:
    """The trees behind an nginx with a log of its own."""

    server: Nginx
    seeds: list[str]

    def crawl(self, out: Path, *settings: str) -> Crawl:
        """With the defaults of ``milliarde crawl`` (error rate of the filters 1e-6), and no delay."""
        words = ("--delay", "0", "--fetchers", "2", "--parsers", "2")
        return Crawl(out, self.server, *words, *self.seeds, settings=(*UNCAPPED, *settings))

    def asked(self) -> Counter[str]:
        """URL -> how often the crawler asked for it; robots.txt aside."""
        urls = Counter(e.url for e in self.server.log_entries() if "Milliarde" in (e.user_agent or ""))
        robots = {url: count for url, count in urls.items() if url.endswith("/robots.txt")}
        assert set(robots.values()) == {1}, f"robots.txt is asked for once per origin: {robots}"
        return urls - Counter(robots)

    def requests_so_far(self) -> int:
        return self.server.log.read_bytes().count(b"\n")


@pytest.fixture(scope="module")
def new_sites(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[Callable[[], Sites]]:
    """Starts an nginx in front of the trees; each call another one."""
    if find_nginx() is None:
        missing("nginx is not installed")
    trees = documentation.trees()
    authority = Authority(tls_dir, "mixed")
    running: list[Nginx] = []

    def start() -> Sites:
        folder = tmp_path_factory.mktemp("nginx")
        server = Nginx(folder, trees, authority=authority, access_log=True)
        running.append(server)
        return Sites(server.__enter__(), documentation.seeds(trees))

    yield start
    for server in running:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def walked(new_sites: Callable[[], Sites]) -> Walk:
    """What there is on these sites, by the independent walk."""
    sites = new_sites()
    found = walk(sites.seeds, sites.server.https_port, sites.server.ca)
    # What the trees are here for; a smaller walk would prove little.
    assert len(found.pages) > 800
    assert len(found.missing) > 20
    assert found.frames == 0
    return found


@dataclass(frozen=True, slots=True)
class Crawled:
    sites: Sites
    crawl: Crawl


@pytest.fixture(scope="module")
def crawled(new_sites: Callable[[], Sites], tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """One whole crawl of the trees, undisturbed."""
    sites = new_sites()
    with sites.crawl(tmp_path_factory.mktemp("crawl") / "out") as crawl:
        crawl.run()
    return Crawled(sites, crawl)


def test_every_page_is_stored_once(crawled: Crawled, walked: Walk) -> None:
    """The archive holds every page that links lead to, each once, and no other."""
    assert stored.pages(crawled.crawl.out) == Counter(walked.pages)
    summary = crawled.crawl.summary
    assert summary["reason"] == "finished"
    # each tree's / is its /index.html; where both are linked the second is a duplicate
    again = summary["outcomes"]["duplicate"]
    assert summary["pages"] == summary["pages_parsed"] == len(walked.pages) - again
    assert summary["ledger"]["gap"] == summary["queued"] == summary["dead_letters"] == 0


def test_nothing_else_is_asked_for(crawled: Crawled, walked: Walk) -> None:
    """By the server's log the crawl asked for what links lead to, each once, and for nothing more."""
    assert crawled.sites.asked() == Counter(walked.requested)


def test_every_dead_link_is_recorded(crawled: Crawled, walked: Walk) -> None:
    """Each 404 stands in the fetch log, once, and is counted."""
    lines = [line for line in crawled.crawl.fetch_log() if line["outcome"] == "not_found"]
    assert Counter(line["url"] for line in lines) == Counter(walked.missing)
    assert {line["status"] for line in lines} == {404}
    assert crawled.crawl.summary["outcomes"]["not_found"] == len(walked.missing)


def test_the_index_leads_to_every_page(crawled: Crawled, walked: Walk) -> None:
    """index.cdxj has one entry per page, and each leads to its record."""
    assert stored.indexed_pages(crawled.crawl.out) == Counter(walked.pages)


def test_bodies_are_stored_as_they_were_served(crawled: Crawled) -> None:
    """What is read back from the archive is, byte for byte, the file that nginx served."""
    trees = documentation.trees()
    compared = 0
    for each in stored.responses(crawled.crawl.out):
        host, _, path = each.url.removeprefix("https://").partition("/")
        if each.status == 200:
            file = trees[host] / (path.partition("?")[0] or "index.html")
            assert each.body == (file / "index.html" if file.is_dir() else file).read_bytes(), each.url
            compared += 1
    assert compared > 800


def test_a_stopped_crawl_goes_on_where_it_was(
    new_sites: Callable[[], Sites], walked: Walk, tmp_path: Path
) -> None:
    """Ctrl-C in the middle and the same command again: everything is there, nothing was asked for twice."""
    sites = new_sites()
    # so often that the stop comes in the middle of it
    with sites.crawl(tmp_path / "out", "fetcher.settle_every_ms=1") as crawl:
        crawl.start()
        until(lambda: sites.requests_so_far() > 250, "250 requests")
        assert crawl.interrupt() == 130
        stopped = crawl.summary
        assert stopped["reason"] == "interrupted"
        assert stopped["ledger"]["gap"] == stopped["ledger"]["leased"] == 0
        assert 200 < stopped["pages"] < len(walked.pages), "it was to be stopped in the middle"
        assert stored.pages(crawl.out).total() == stopped["pages"] + stopped["outcomes"].get("duplicate", 0)
        crawl.run()
        assert "going on with the crawl" in crawl.said
    assert sites.asked() == Counter(walked.requested)
    assert stored.pages(crawl.out) == Counter(walked.pages)
    assert stored.indexed_pages(crawl.out) == Counter(walked.pages)


def test_a_killed_crawl_loses_nothing(new_sites: Callable[[], Sites], walked: Walk, tmp_path: Path) -> None:
    """SIGKILL of all processes in the middle and the same command again: one entry each in the index."""
    sites = new_sites()
    with sites.crawl(tmp_path / "out") as crawl:
        crawl.start()
        until(lambda: sites.requests_so_far() > 250, "250 requests")
        assert set(crawl.children()) == {"redis", "fetcher 1", "fetcher 2", "parser 1", "parser 2", "watch"}
        crawl.kill_everything()
        assert sites.requests_so_far() < len(walked.requested), "it was to be killed in the middle"
        assert not (crawl.out / "summary.json").exists()
        crawl.run()
        assert "was cut off" in crawl.said
    assert stored.indexed_pages(crawl.out) == Counter(walked.pages)
    assert set(stored.pages(crawl.out)) == walked.pages
    assert crawl.summary["ledger"]["gap"] == 0
    asked = sites.asked()
    assert set(asked) == walked.requested
    twice = [url for url, count in asked.items() if count > 1]
    assert len(twice) <= MOST_IN_FLIGHT * len(documentation.trees()), "only what was in flight is repeated"
