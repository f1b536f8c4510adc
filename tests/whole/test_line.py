"""A whole node whose link goes down in the middle of a crawl."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.web.cables import Cables
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]


def test_a_link_that_goes_down_costs_no_site_anything(tmp_path: Path, tls_dir: Path) -> None:
    """Fetching pauses and says why, no URL is lost or tried again, no domain slows down, and it goes on by
    itself; though it is quiet for longer than a crawl may be idle, it does not end."""
    with MiniWeb(tmp_path / "web", domains=14, pages_per_domain=16, mean_bytes=4_000, tls_dir=tls_dir) as web:
        expected = web.expected().pages
        hosts = {urlsplit(url).hostname or "" for url in expected}
        domains = sorted({manners.domain_of(host) for host in hosts})
        with Cables(web, hosts | {*domains}) as cables:
            crawl = Crawl(
                tmp_path / "out",
                cables,
                *("--seeds", web.ordinary_seeds, "--delay", "0.3", "--fetchers", "1", "--parsers", "1"),
                *("--idle", "3s"),
                settings=["crawl.hop_gap_s=0.05", "fetcher.deadline_s=5"],
            )
            with crawl:
                crawl.start()
                until(lambda: crawl.out.exists() and len(list(crawl.fetch_log())) > 60, "it is under way")
                cables.cut()
                until(
                    lambda: crawl.status()["processes"].get("fetcher.1", {}).get("waiting") == "line_down",
                    "the link is found to be down",
                )
                before = crawl.status()
                time.sleep(5)  # longer than it may be idle
                during = crawl.status()
                assert during["processes"]["fetcher.1"].get("waiting") == "line_down"
                # probes: a handful, fewer and fewer
                probed = (
                    during["tally"]["requests"] - before["tally"]["requests"] + during["ledger"]["leased"]
                )
                assert 0 < probed <= 5 * 4
                for domain in domains[:3]:
                    state = json.loads(crawl.command("inspect", domain, "--json").stdout)["state"]
                    assert (state["unreachable"], state["delay_ms"]) == (0, 300), domain
                cables.mend()
                assert crawl.wait() == 0, crawl.said
    summary = crawl.summary
    assert summary["reason"] == "finished"
    assert stored.pages(crawl.out).keys() == expected
    assert stored.pages(crawl.out).total() == len(expected)
    assert summary["retries"] == 0
    assert not {"refused", "disconnected", "robots_unavailable"} & summary["outcomes"].keys()
    assert "dead_host" not in summary["dropped"]
    outcomes = [line["outcome"] for line in crawl.fetch_log()]
    assert "line_down" in outcomes
