"""All misbehaving domains of the miniature web at once, beside ordinary ones: nothing gets stuck or lost.

The crawl has no end of its own (some sites are endless), so it is stopped once every domain has come to
some end and the healthy ones are complete. What each domain does and what a good crawler does about it is
told in docs/miniature-web.md; ``hostile`` says what that means for us by outcome, the table here by request.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from node.rules.outcome import Outcome
from tests.web.behaviours.gates import ORDINARY
from tests.web.behaviours.table import BY_NAME
from tests.web.log import Entry
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl, until
from tests.whole.hostile import CAUSES, NO_ROBOTS, OUTCOMES, TRUNCATED
from tests.whole.stored import Stored

pytestmark = [pytest.mark.whole, pytest.mark.timeout(300)]

DEADLINE_S = 4
MAX_WIRE_BYTES = 300_000
MAX_RSS_MB = 300
FORTY = {"/", *(f"/page/{number}" for number in range(1, 41))}

REQUESTS: dict[str, set[str]] = {
    # domain: exactly these paths, robots.txt aside
    "other.test": FORTY,
    "moody.test": FORTY,
    "robots-403.test": FORTY,
    "robots-html.test": FORTY,
    "robots-challenge.test": FORTY,
    "httponly.test": {"/"},
    "giant.test": {"/", "/early"},
    "endless.test": {"/", "/other"},
    "endless-audio.test": {"/", "/live.mp3"},
    "notfound.test": {"/", "/nothing"},
    "challenge.test": {"/", "/cloudflare", "/imperva"},
    "nochallenge.test": {"/", *(f"/{name}" for name in ORDINARY)},
    "robots-503.test": set(),
    "robots-429.test": set(),
    "robots-timeout.test": set(),
    "robots-reset.test": set(),
    "robots-late.test": set(),
    "robots-deny.test": set(),
    "robots-away.test": set(),
    "robots-huge.test": {"/", "/late/page", "/page"},
    "trap-escape.test": {"/", "/v?&amp;p=2"},
    "trap-path.test": {"/", *("/" + step * "www.other.test/p/" for step in (1, 2, 3))},
    "notgzip.test": {"/", "/cut", "/kept"},
    "nofollow.test": {"/", "/open"},
    "meta-robots.test": {"/", "/nofollow", "/none", "/header-nofollow", "/noindex", "/header-noindex",
                         "/other-bot", "/after/noindex", "/after/header-noindex", "/after/other-bot"},
    "base.test": {"/", "/deep/folder/page.html", "/deep/up.html", "/root.html"},
    "sitemaps.test": {"/", "/linked"},
    "sjis.test": {"/", "/%E6%9D%B1%E4%BA%AC%E3%81%AE%E5%A4%A9%E6%B0%97/1.html",
                  "/find?q=%93%8C%8B%9E%82%CC%93V%8BC"},
    "euckr.test": {"/", "/%EC%84%9C%EC%9A%B8%20%EB%82%A0%EC%94%A8/1.html",
                   "/find?q=%BC%AD%BF%EF%20%B3%AF%BE%BE"},
    "windows1251.test": {"/", "/%D0%9F%D0%BE%D0%B3%D0%BE%D0%B4%D0%B0/1.html", "/find?q=%CF%EE%E3%EE%E4%E0"},
    "gbk.test": {"/", "/%E5%8C%97%E4%BA%AC%E5%A4%A9%E6%B0%94/1.html", "/find?q=%B1%B1%BE%A9%CC%EC%C6%F8"},
}  # fmt: skip
"""Domains whose whole site is known and small enough to be done by the time the crawl is stopped."""


def host_of(line: dict[str, Any]) -> str:
    return manners.domain_of(urlsplit(line["url"]).hostname or "")


@dataclass(frozen=True, slots=True)
class Crawled:
    web: MiniWeb
    crawl: Crawl
    running: dict[str, Any]
    """What ``milliarde status --json`` said shortly before the stop."""
    log: list[dict[str, Any]]
    requests: list[Entry]
    responses: list[Stored]


def _every_domain_has_come_to_an_end(web: MiniWeb, crawl: Crawl) -> bool:
    lines = list(crawl.fetch_log())
    asked = {
        (host_of(line), urlsplit(line["url"])._replace(scheme="", netloc="", fragment="").geturl())
        for line in lines
    }
    met: dict[str, set[str]] = {domain: set() for domain, _ in asked}
    for line in lines:
        met[host_of(line)].add(line["outcome"])
    pages = {line["url"] for line in lines if line["outcome"] == "page"}
    return (
        all(domain in met and met[domain] >= OUTCOMES[domain][0] for domain in BY_NAME)
        and pages >= web.expected().pages
        and all(asked >= {(domain, path) for path in paths} for domain, paths in REQUESTS.items())
    )


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[Crawled]:
    """One crawl of everything, stopped when all there is to see has been seen."""
    folder = tmp_path_factory.mktemp("misbehaving")
    with MiniWeb(folder / "web", domains=4, pages_per_domain=6, mean_bytes=8_000, tls_dir=tls_dir) as web:
        crawl = Crawl(
            folder / "out",
            web,
            *("--seeds", web.seeds, "--delay", "0.2", "--fetchers", "2", "--parsers", "2"),
            settings=[
                "crawl.hop_gap_s=0.1",
                "crawl.max_urls_per_domain=100",
                f"fetcher.deadline_s={DEADLINE_S}",
                f"fetcher.max_wire_bytes={MAX_WIRE_BYTES}",
            ],
        )
        with crawl:
            crawl.start()
            until(
                lambda: _every_domain_has_come_to_an_end(web, crawl),
                "all domains end",
                within_s=200,
                every_s=0.5,
            )
            running = crawl.status()
            assert crawl.interrupt() == 130, crawl.said
        yield Crawled(
            web,
            crawl,
            running,
            list(crawl.fetch_log()),
            [each for each in web.requests() if not manners.is_robots(each)],
            list(stored.responses(crawl.out)),
        )


@pytest.mark.parametrize("domain", BY_NAME)
def test_it_ends_under_the_right_name(crawled: Crawled, domain: str) -> None:
    """Each domain's requests end as docs/miniature-web.md says of it."""
    met = {line["outcome"] for line in crawled.log if host_of(line) == domain}
    must, may = OUTCOMES[domain]
    # many of these domains have one page at several URLs
    assert must <= met <= must | may | {"duplicate"}


@pytest.mark.parametrize("domain", REQUESTS)
def test_only_the_right_requests_are_sent(crawled: Crawled, domain: str) -> None:
    """By the web's log: denied, hidden, repeated and made-up addresses are not asked for."""
    assert {each.path for each in manners.by_domain(crawled.requests).get(domain, [])} == REQUESTS[domain]


def test_every_request_is_in_the_log(crawled: Crawled) -> None:
    """The fetch log has a line under a named outcome for every request that the web saw, and no more."""
    assert {line["outcome"] for line in crawled.log} <= {*Outcome} - {Outcome.LOCAL_ERROR}
    logged = Counter(line["url"] for line in crawled.log if line.get("total_ms") is not None)
    # A redirected robots.txt is no page's request, whatever its path; and who gets no answer to the
    # handshake sends none.
    robots = ("robots-redirect-5.test", "robots-redirect-6.test", "robots-away.test")
    seen = Counter(each.url for each in crawled.requests if not str(each.path).startswith("/robots/"))
    assert {url: n for url, n in (logged - seen).items() if host_of({"url": url}) not in robots} == {}
    assert seen - logged == Counter()


def test_nothing_dies_and_nothing_is_lost(crawled: Crawled) -> None:
    """No process had to be started again, the ledger has no gap, no page was given up by the parsers."""
    assert "died" not in crawled.crawl.said
    summary = crawled.crawl.summary
    assert summary["ledger"]["gap"] == summary["ledger"]["leased"] == summary["dead_letters"] == 0
    assert crawled.running["ledger_gap"] == 0


def test_healthy_domains_are_complete(crawled: Crawled) -> None:
    """The ordinary domains beside them were crawled whole: each page once."""
    pages = Counter(each.url for each in crawled.responses if each.status == 200)
    ordinary = Counter({url: n for url, n in pages.items() if "/site-" in url or ".site-" in url})
    assert ordinary == Counter(crawled.web.expected().pages)


def test_what_is_not_whole_is_marked(crawled: Crawled) -> None:
    """Bodies cut at the cap, by the deadline or by a disconnect are kept and say so; none is too large."""
    truncated = {each.url: each.truncated for each in crawled.responses}
    assert {url: truncated.get(url) for url in TRUNCATED} == TRUNCATED
    assert max(line["bytes"] for line in crawled.log if "bytes" in line) <= MAX_WIRE_BYTES


def test_memory_stays_bounded(crawled: Crawled) -> None:
    """A bomb, an endless page and a giant one are no matter to the processes' memory."""
    sizes = {name: process.get("rss_mb", 0) for name, process in crawled.running["processes"].items()}
    assert {"fetcher.1", "fetcher.2", "parser.1", "parser.2"} <= sizes.keys()
    assert max(sizes.values()) < MAX_RSS_MB, sizes


def test_many_links_are_capped_and_counted(crawled: Crawled) -> None:
    """Of 5,000 links 500 are taken and the rest counted; a full queue counts what it refuses."""
    dropped = crawled.crawl.summary["dropped"]
    assert dropped["links_cap"] == 4_500
    assert dropped["full"] > 300
    assert dropped["trap"] >= 1
    assert dropped["nofollow"] >= 2


def test_a_cookie_stays_within_its_chain(crawled: Crawled) -> None:
    """A cookie wall is passed with its own cookie; no other request carries one."""
    with_cookie = [each for each in crawled.requests if each.cookie]
    paths = {(each.host, each.path) for each in with_cookie}
    assert paths == {("redirects.test", "/cookiewall"), ("redirects.test", "/newcookie")}


def test_a_slow_site_slows_itself_only(crawled: Crawled) -> None:
    """What limits, refuses or drips is visited less often; a healthy site keeps its delay."""

    def delay_ms(domain: str) -> int:
        found = json.loads(crawled.crawl.command("inspect", domain, "--json").stdout)
        return int(found["state"]["delay_ms"])

    for domain in ("drip.test", "unavailable.test", "blackhole.test", "challenge.test"):
        assert delay_ms(domain) > 200, domain
    assert delay_ms("robots-delay.test") == 3_000
    assert delay_ms("other.test") == 200


def test_the_cause_is_counted_where_robots_txt_cannot_be_had(crawled: Crawled) -> None:
    """A host that is dead, silent or shows a bad certificate is told from one that is overloaded."""
    causes = {
        name.removeprefix("robots_unavailable:")
        for name in crawled.running["tally"]
        if name.startswith("robots_unavailable:")
    }
    assert causes >= {"refused", "timeout", "tls_failed", "unavailable", "rate_limited", "disconnected"}
    assert causes <= {*Outcome, "remembered"}


@pytest.mark.parametrize("domain", CAUSES)
def test_the_cause_is_the_right_one(crawled: Crawled, domain: str) -> None:
    """Why a robots.txt can't be had is told of each domain; in between the answer is remembered."""
    lines = [line for line in crawled.log if host_of(line) == domain]
    told = {line["detail"] for line in lines if line["outcome"] == "robots_unavailable"}
    assert CAUSES[domain] in told <= {CAUSES[domain], "remembered"}


def test_the_only_way_round_the_address_guard_is_announced(crawled: Crawled) -> None:
    """Who is connected to unchecked stands at the head of what a crawl says."""
    (line,) = [each for each in crawled.crawl.said.splitlines() if "addresses there are not checked" in each]
    assert all(rule in line for rule in crawled.web.connect_to)


def test_crawl_delay_is_kept(crawled: Crawled) -> None:
    """A site that asks for three seconds between requests gets them, robots.txt included."""
    gaps = [
        gap
        for gap, before, _ in manners.gaps_ms(crawled.web.requests("robots-delay.test"))
        if before.status is not None
    ]
    assert len(gaps) >= 2
    assert min(gaps) >= 3_000


def test_every_domain_keeps_its_delay(crawled: Crawled) -> None:
    """Whatever a site does, two visits to it are a delay apart; requests within one a hop gap."""
    for gap, before, after in manners.gaps_ms(crawled.web.requests()):
        assert gap >= 100, f"{before.url} -> {after.url}: {gap:.0f} ms"


def test_the_tables_are_complete() -> None:
    """A domain that is added to the miniature web must be judged here, too."""
    assert OUTCOMES.keys() == BY_NAME.keys()
    assert REQUESTS.keys() <= BY_NAME.keys()
    assert CAUSES.keys() == {name for name, (must, _) in OUTCOMES.items() if must == NO_ROBOTS}
