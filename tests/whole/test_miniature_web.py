"""Ordinary domains of the miniature web, crawled whole: against its oracle and by its access log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.web.log import Entry
from tests.web.oracle import Expected
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DELAY_S = 0.3
HOP_GAP_S = 0.1
FETCHERS = 2


@dataclass(frozen=True, slots=True)
class Crawled:
    crawl: Crawl
    expected: Expected
    requests: list[Entry]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[Crawled]:
    """One crawl of twenty domains to its end."""
    folder = tmp_path_factory.mktemp("miniature")
    with MiniWeb(folder / "web", domains=20, pages_per_domain=8, mean_bytes=15_000, tls_dir=tls_dir) as web:
        crawl = Crawl(
            folder / "out",
            web,
            *("--seeds", web.ordinary_seeds, "--delay", str(DELAY_S), "--contact", "https://us.test/bot"),
            *("--fetchers", str(FETCHERS), "--parsers", "2"),
            settings=[f"crawl.hop_gap_s={HOP_GAP_S}"],
        )
        with crawl:
            crawl.run()
        yield Crawled(crawl, web.expected(), web.requests())


def asked(crawled: Crawled) -> Counter[str]:
    """URL -> how often it was asked for; robots.txt aside."""
    return Counter(each.url for each in crawled.requests if not manners.is_robots(each))


def test_every_page_is_stored_once(crawled: Crawled) -> None:
    """The archive and the index hold the pages that the oracle names, each once, and no other."""
    pages = Counter(crawled.expected.pages)
    assert len(pages) > 150
    assert stored.pages(crawled.crawl.out) == pages
    assert stored.indexed_pages(crawled.crawl.out) == pages
    assert crawled.crawl.summary["pages"] == len(pages)
    assert crawled.crawl.summary["reason"] == "finished"


def test_nothing_is_asked_for_twice_or_without_need(crawled: Crawled) -> None:
    """What is requested is what a complete crawl must request, each once."""
    assert asked(crawled) == Counter(crawled.expected.requested)


def test_denied_pages_are_left_alone(crawled: Crawled) -> None:
    """No URL that robots.txt denies was asked for, though all of them are linked; each is counted."""
    denied = crawled.expected.denied
    assert len(denied) > 5
    assert not denied & asked(crawled).keys()
    noted = {each["url"] for each in crawled.crawl.fetch_log() if each["outcome"] == "robots_denied"}
    assert noted == denied
    assert crawled.crawl.summary["dropped"]["robots_denied"] == len(denied)


def test_every_outcome_is_recorded(crawled: Crawled) -> None:
    """404s, files and redirects stand in the fetch log under their names, once each."""
    log: dict[str, Counter[str]] = {}
    for line in crawled.crawl.fetch_log():
        log.setdefault(line["outcome"], Counter())[line["url"]] += 1
    expected = crawled.expected
    assert log["not_found"] == Counter(expected.missing)
    assert log["unwanted_type"] == Counter(expected.files)
    # Where another page's links bring the target in while a redirect is on its way to the disk, the log has
    # the request, and then a note without a status of what the frontier said.
    notes = {
        each["url"]
        for each in crawled.crawl.fetch_log()
        if each["outcome"] == "redirect_to_seen" and "status" not in each
    }
    redirected = log.get("redirected", Counter())
    assert notes <= redirected.keys()
    redirects = redirected + log["redirect_to_seen"] - Counter(notes)
    assert redirects == Counter(expected.redirects.keys())
    assert set(log) == {
        "page",
        "not_found",
        "unwanted_type",
        "redirected",
        "redirect_to_seen",
        "robots_denied",
    }


def test_requests_for_robots_are_in_the_log(crawled: Crawled) -> None:
    """One line per request holds for robots.txt, too, and the summary counts them."""
    asked_for = Counter(entry.url for entry in crawled.requests if manners.is_robots(entry))
    assert Counter(line["url"] for line in crawled.crawl.fetch_log(robots=True)) == asked_for
    assert crawled.crawl.summary["requests"] == len(crawled.requests)


def test_robots_comes_first(crawled: Crawled) -> None:
    """The first request to every origin is for its robots.txt."""
    first: dict[str, Entry] = {}
    for entry in crawled.requests:
        first.setdefault(manners.origin(entry), entry)
    assert len(first) > 20
    assert [entry.url for entry in first.values() if not manners.is_robots(entry)] == []


def test_the_delay_is_kept(crawled: Crawled) -> None:
    """Visits to a domain are a delay apart, and one more for each hop; their requests a hop gap.

    From arrival to arrival, which is less than from the end of one to the beginning of the next.
    """
    hops = {line["url"]: line.get("hop", 0) for line in crawled.crawl.fetch_log()}
    assert any(hops.values())
    for requests in manners.by_domain(crawled.requests).values():
        visits = manners.visits(requests, hops)
        for visit in visits:
            for before, after in pairwise(visit):
                gap = after.t_ms - before.t_ms
                assert gap >= 1000 * HOP_GAP_S, f"{before.url} -> {after.url}: {gap:.0f} ms"
        for before_visit, after_visit in pairwise(visits):
            gap = after_visit[0].t_ms - before_visit[-1].t_ms
            owed = 1000 * DELAY_S * (1 + manners.hops(before_visit))
            assert gap >= owed, f"{before_visit[-1].url} -> {after_visit[0].url}: {gap:.0f} ms"


def test_sessions_are_resumed(crawled: Crawled) -> None:
    """A host meets at most one full handshake from each fetcher; all later visits resume a session."""
    full = manners.full_handshakes(crawled.requests)
    assert max(full.values()) <= FETCHERS
    resumed = sum(entry.resumed is True for entry in crawled.requests)
    assert resumed > len(crawled.requests) / 2


def test_the_crawler_says_who_it_is(crawled: Crawled) -> None:
    """Each request has a User-Agent with the product token and the contact."""
    agents = {entry.user_agent or "" for entry in crawled.requests}
    assert len(agents) == 1
    assert agents.pop().startswith("Milliarde/")
    assert all("https://us.test/bot" in (entry.user_agent or "") for entry in crawled.requests)


def test_the_ledger_adds_up(crawled: Crawled) -> None:
    """Every URL admitted is done or dropped with a reason, and no process died on the way."""
    summary = crawled.crawl.summary
    ledger = summary["ledger"]
    assert ledger["admitted"] == ledger["done"] + ledger["dropped"]
    assert ledger["gap"] == ledger["queued"] == ledger["leased"] == ledger["spooled"] == 0
    assert "died" not in crawled.crawl.said
