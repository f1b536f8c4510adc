"""Sitemaps of every kind and a whole node: what they name is crawled, nothing else; by default none is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.behaviours.sitemaps import INDEXED, PAGES
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl

pytestmark = [pytest.mark.whole, pytest.mark.timeout(120), pytest.mark.xdist_group("sitemaps")]

DELAY_S = 0.1
HOME = ("/", "/linked")
READ = ("/index.xml", "/sitemap.xml", "/moved-here.xml", *INDEXED)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("sitemaps"), domains=1, tls_dir=tls_dir) as running:
        yield running


def crawled(web: MiniWeb, out: Path, *settings: str, words: tuple[str, ...] = ()) -> tuple[Crawl, list[str]]:
    """A crawl of sitemaps.test to its end; what it asked for, in order."""
    since = len(web.requests("sitemaps.test"))
    arguments = ("sitemaps.test", "--delay", str(DELAY_S), "--fetchers", "1", "--parsers", "2", *words)
    with Crawl(out, web, *arguments, settings=["crawl.hop_gap_s=0.1", *settings]) as crawl:
        crawl.run()
    requests = web.requests("sitemaps.test")[since:]
    assert min((gap for gap, _, _ in manners.gaps_ms(requests)), default=100) >= 1000 * DELAY_S
    return crawl, [str(each.path) for each in requests]


def test_what_sitemaps_name_is_crawled(web: MiniWeb, tmp_path: Path) -> None:
    """All kinds are read and their pages stored, each once, by the same gates, pace and counters as links."""
    crawl, asked = crawled(web, tmp_path / "out", "crawl.sitemaps=true")
    assert Counter(asked) == Counter(["/robots.txt", *HOME, *READ, *PAGES])
    # the seed comes first, then sitemaps before what they name
    assert asked[:2] == ["/robots.txt", "/"]
    assert asked.index("/index.xml") < asked.index("/pages.xml.gz") < asked.index("/gz/1")
    summary = crawl.summary
    assert (summary["pages"], summary["outcomes"]["sitemap"]) == (len(HOME) + len(PAGES), 8)
    assert summary["ledger"]["gap"] == 0
    # /denied.xml and /private/1; the index within the index
    assert (summary["dropped"]["robots_denied"], summary["dropped"]["sitemap_cap"]) == (2, 1)
    kept = {each.url.removeprefix("https://sitemaps.test") for each in stored.responses(crawl.out)}
    assert kept >= {*HOME, *READ, *PAGES}


def test_by_default_no_sitemap_is_asked_for(web: MiniWeb, tmp_path: Path) -> None:
    """A crawl that doesn't ask for sitemaps requests none and finds links only."""
    crawl, asked = crawled(web, tmp_path / "out")
    assert sorted(asked) == sorted(["/robots.txt", *HOME])
    assert "sitemap" not in crawl.summary["outcomes"]


def test_a_domains_sitemaps_are_bounded(web: MiniWeb, tmp_path: Path) -> None:
    """No more files are asked for than the setting says; the others are dropped under a name, at no cost."""
    bounds = ("crawl.sitemaps=true", "crawl.max_sitemaps_per_domain=3")
    crawl, asked = crawled(web, tmp_path / "out", *bounds)
    assert [path for path in asked if path in READ] == ["/index.xml", "/sitemap.xml", "/pages.xml.gz"]
    # of the seven in the index four are not taken, and two that were are not visited
    assert crawl.summary["dropped"]["sitemap_cap"] == 6
    assert crawl.summary["ledger"]["gap"] == 0


def test_no_sitemap_is_read_in_vain(web: MiniWeb, tmp_path: Path) -> None:
    """What one names is a link away; where a link may not be followed, none is asked for."""
    seeds_only = ("--max-depth", "0")
    _crawl, asked = crawled(web, tmp_path / "out", "crawl.sitemaps=true", words=seeds_only)
    assert asked == ["/robots.txt", "/"]
