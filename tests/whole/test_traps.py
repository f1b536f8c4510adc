"""Endless sites: each page of a trap is small and healthy, and a crawl comes to an end all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.web.running import MiniWeb
from tests.whole.crawl import Crawl

pytestmark = [pytest.mark.whole, pytest.mark.timeout(180)]

TRAPS = ("calendar", "path", "subdomains", "session")
QUEUE_CAP = 8
LIFE_CAP = 4 * QUEUE_CAP
"""As ``rules/budget.py`` has it."""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[tuple[Crawl, Counter[str]]]:
    """One crawl of all traps with small budgets, to its own end; requests by domain, robots.txt aside."""
    folder = tmp_path_factory.mktemp("traps")
    with MiniWeb(folder / "web", domains=1, pages_per_domain=2, mean_bytes=2_000, tls_dir=tls_dir) as web:
        crawl = Crawl(
            folder / "out",
            web,
            *(f"https://trap-{name}.test/" for name in TRAPS),
            *("--delay", "0", "--fetchers", "1", "--parsers", "1"),
            settings=[f"crawl.max_urls_per_domain={QUEUE_CAP}"],
        )
        with crawl:
            crawl.run()
        requests = Counter(
            (urlsplit(each.url).hostname or "").rpartition("trap-")[2].removesuffix(".test")
            for each in web.requests()
            if each.path != "/robots.txt"
        )
        yield crawl, requests


def test_the_crawl_ends_by_itself(crawled: tuple[Crawl, Counter[str]]) -> None:
    """None of the traps keeps it going, and what was left out is counted by its reason."""
    summary: dict[str, Any] = crawled[0].summary
    assert summary["reason"] == "finished"
    assert summary["ledger"]["gap"] == 0
    assert {"trap", "budget", "full"} <= summary["dropped"].keys()


def test_a_calendar_ends_at_the_domains_budget(crawled: tuple[Crawl, Counter[str]]) -> None:
    """Months without end: as many as a domain may ever have admitted, and no more."""
    assert QUEUE_CAP < crawled[1]["calendar"] <= LIFE_CAP


def test_subdomains_share_the_budget_of_their_domain(crawled: tuple[Crawl, Counter[str]]) -> None:
    """Hosts without end are one registrable domain: one queue, one budget."""
    assert 1 < crawled[1]["subdomains"] <= LIFE_CAP


def test_a_growing_path_ends_at_its_repetition(crawled: tuple[Crawl, Counter[str]]) -> None:
    """A link that makes its page's path longer is followed while no segment comes more than three times."""
    assert crawled[1]["path"] == 4


def test_a_new_session_id_is_no_new_page(crawled: tuple[Crawl, Counter[str]]) -> None:
    """Three articles under ever new session ids: the home page, and each of them once."""
    assert crawled[1]["session"] == 4
