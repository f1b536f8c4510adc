"""A crawl that has nothing left to do, started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.running import MiniWeb
from tests.whole import stored
from tests.whole.crawl import Crawl

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]


def test_a_finished_crawl_starts_again_and_ends(tmp_path: Path, tls_dir: Path) -> None:
    """F16: its queues are empty, its domains done: it starts, asks nobody for anything, and ends."""
    with MiniWeb(tmp_path / "web", domains=2, pages_per_domain=3, mean_bytes=3_000, tls_dir=tls_dir) as web:
        words = ("--seeds", web.ordinary_seeds, "--delay", "0", "--fetchers", "1", "--parsers", "1")
        with Crawl(tmp_path / "out", web, *words) as crawl:
            first = crawl.run()
            pages, requests = stored.indexed_pages(crawl.out), len(web.requests())
            again = crawl.run()
        assert "going on with the crawl" in crawl.said
        assert (first["reason"], again["reason"]) == ("finished", "finished")
        assert again["pages"] == first["pages"] == pages.total() > 2
        assert stored.indexed_pages(crawl.out) == pages
        assert len(web.requests()) == requests
