"""How a crawl ends: by its limits, because all is done, or because nothing can be done for now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.log import Entry
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

FAST = ("--delay", "0", "--fetchers", "2", "--parsers", "1")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path_factory.mktemp("web"), domains=8, pages_per_domain=12, mean_bytes=6_000, tls_dir=tls_dir
    ) as running:
        yield running


def test_the_number_of_pages_is_exact(web: MiniWeb, tmp_path: Path) -> None:
    """--pages stores exactly so many, over all resumes."""
    with Crawl(tmp_path / "out", web, *FAST, "--seeds", web.ordinary_seeds, "--pages", "31") as crawl:
        summary = crawl.run()
        assert (summary["reason"], summary["pages"], summary["pages_parsed"]) == ("pages", 31, 31)
        assert summary["queued"] > 0
        assert stored.pages(crawl.out).total() == stored.indexed_pages(crawl.out).total() == 31
    with Crawl(tmp_path / "out", web, *FAST, "--seeds", web.ordinary_seeds, "--pages", "50") as crawl:
        summary = crawl.run()
        assert (summary["reason"], summary["pages"]) == ("pages", 50)
        pages = stored.pages(crawl.out)
        assert (len(pages), pages.total()) == (50, 50)
        assert pages.keys() <= web.expected().pages


def test_a_stop_before_the_first_seed(web: MiniWeb, tmp_path: Path) -> None:
    """Ctrl-C while a long list is read is a stop like any other, whatever was found in the list so far."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("#\n" * 1_500_000 + web.ordinary_seeds.read_text())
    with Crawl(tmp_path / "out", web, *FAST, "--seeds", seeds) as crawl:
        crawl.start()
        until(lambda: "parser 1" in crawl.children(), "its processes are there")
        assert crawl.interrupt() == 130
        assert crawl.summary["reason"] == "interrupted"


def test_time_is_up(web: MiniWeb, tmp_path: Path) -> None:
    """--for ends a crawl after so much crawling time; what is under way is finished and kept."""
    words = ("--delay", "0.4", "--fetchers", "1", "--parsers", "1", "--for", "2s")
    with Crawl(tmp_path / "out", web, *words, "--seeds", web.ordinary_seeds) as crawl:
        summary = crawl.run()
    assert summary["reason"] == "time"
    assert summary["seconds"] >= 2
    assert summary["ledger"]["leased"] == summary["ledger"]["spooled"] == 0
    assert summary["queued"] > 0
    assert "the time is up" in crawl.said
    assert stored.pages(crawl.out).total() == summary["pages"]


def test_nothing_can_be_visited_for_now(web: MiniWeb, tmp_path: Path) -> None:
    """Where only parked domains are left, a crawl ends as idle and says how many URLs remain."""
    words = ("--delay", "0.1", "--fetchers", "1", "--parsers", "1", "--idle", "5s")
    with Crawl(tmp_path / "out", web, *words, "robots-503.test", "httponly.test") as crawl:
        summary = crawl.run()
    assert summary["reason"] == "idle"
    assert (summary["pages"], summary["queued"]) == (1, 1)
    assert "still queued" in crawl.said


def test_strict_politeness(web: MiniWeb, tmp_path: Path) -> None:
    """In strict mode every request to a domain, robots.txt and redirects too, waits the full delay."""
    seeds = ("redirects.test", "https://redirects.test/chain/2", "robots-redirect-5.test", "site-00001.test")
    since = len(web.log_entries())

    def requests() -> list[Entry]:
        return [entry for entry in web.log_entries()[since:] if entry.method is not None]

    with Crawl(
        tmp_path / "out",
        web,
        *("--delay", "0.4", "--fetchers", "2", "--parsers", "1", *seeds),
        settings=["crawl.strict_politeness=true", "crawl.hop_gap_s=0.1"],
    ) as crawl:
        crawl.start()
        until(
            lambda: (
                len(requests()) > 20 and {"/chain/2/1", "/robots/5"} <= {each.path for each in requests()}
            ),
            "a hop and a redirected robots.txt",
        )
        assert crawl.interrupt() == 130
    gaps = list(manners.gaps_ms(requests()))
    assert len(gaps) > 15
    for gap, before, after in gaps:
        assert gap >= 400, f"{before.url} -> {after.url}: {gap:.0f} ms"


def test_private_addresses_are_left_alone(web: MiniWeb, tmp_path: Path) -> None:
    """Links and redirects to private addresses are followed nowhere, even where any domain is in scope."""
    crawl = Crawl(
        tmp_path / "out",
        None,
        *("--delay", "0.05", "--fetchers", "1", "--parsers", "1", "--scope", "open", "--idle", "3s"),
        *("--ca-file", web.ca, "lures.test"),
        # one door for one host; for all other names there is a name server that isn't there
        *("--connect-to", f"lures.test:443:127.0.0.1:{web.https_port}"),
        settings=['dns.servers=["127.0.0.1:1"]', "dns.timeout_s=0.5"],
    )
    since = len(web.log_entries())
    with crawl:
        crawl.run()
    assert {entry.host for entry in web.log_entries()[since:]} == {"lures.test"}
    outcomes = {line["url"]: (line["outcome"], line.get("detail")) for line in crawl.fetch_log()}
    assert outcomes["https://lures.test/"][0] == "page"
    refused = [url for url, (outcome, _) in outcomes.items() if outcome == "private_address"]
    assert len(refused) >= 6, outcomes
    assert crawl.summary["reason"] == "finished", "they are not kept for later"


def test_two_nodes_share_the_domains(web: MiniWeb, tmp_path: Path) -> None:
    """Two nodes with one list of seeds visit domains that have nothing in common and are all of them."""
    visited = []
    pages: Counter[str] = Counter()
    for me in (0, 1):
        since = len(web.log_entries())
        crawl = Crawl(
            tmp_path / f"node-{me}",
            web,
            *(*FAST, "--seeds", web.ordinary_seeds),
            settings=["crawl.nodes=2", f"crawl.me={me}", "identity.contact=https://us.test/bot"],
        )
        with crawl:
            summary = crawl.run()
        assert summary["dropped"]["other_shard"] > 0
        visited.append({manners.domain_of(entry.host or "") for entry in web.log_entries()[since:]})
        pages += stored.pages(crawl.out)
    assert visited[0].isdisjoint(visited[1])
    assert all(visited)
    assert visited[0] | visited[1] == set(web.ordinary_seeds.read_text().split())
    assert pages == Counter(web.expected().pages)
