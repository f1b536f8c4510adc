"""A node whose Redis has no memory left."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from node import settings
from tests.web.running import MiniWeb
from tests.whole.crawl import Crawl, until

pytestmark = pytest.mark.whole


def test_a_full_redis_sheds_links_and_nothing_else(tmp_path: Path, tls_dir: Path) -> None:
    """At maxmemory no link is admitted, counted; what is queued is served, and no process dies (F07)."""
    with MiniWeb(tmp_path / "web", domains=12, pages_per_domain=40, mean_bytes=6_000, tls_dir=tls_dir) as web:
        crawl = Crawl(
            tmp_path / "out",
            web,
            *("--seeds", web.ordinary_seeds, "--delay", "0.05", "--fetchers", "1", "--parsers", "1"),
        )
        with crawl:
            crawl.start()
            until(lambda: len(web.requests()) > 60, "the crawl runs")
            socket = settings.load(crawl.out / "node.toml").paths.redis_socket
            with redis.Redis(unix_socket_path=socket) as client:
                client.config_set("maxmemory", 1)
                before = crawl.status()["pages"]
                until(lambda: crawl.status()["dropped"].get("memory", 0) > 0, "links are shed")
                until(lambda: crawl.status()["pages"] > before + 10, "what is queued is still served")
                assert set(crawl.status()["processes"]) == {"fetcher.1", "parser.1", "watch"}
                client.config_set("maxmemory", 0)
            assert crawl.wait() == 0
        assert crawl.summary["ledger"]["gap"] == 0
        assert "died" not in crawl.said
