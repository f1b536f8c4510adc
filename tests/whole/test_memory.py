"""A node whose Redis has no memory left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from node import settings
from node.rules.shed import PATIENCE_S
from node.store import keys
from tests.web.running import MiniWeb
from tests.whole.crawl import Crawl, until

pytestmark = pytest.mark.whole

SHORT_S = 2.0
assert SHORT_S < PATIENCE_S / 2


@pytest.fixture
def web(tmp_path: Path, tls_dir: Path) -> Iterator[MiniWeb]:
    folder = tmp_path / "web"
    with MiniWeb(folder, domains=12, pages_per_domain=40, mean_bytes=6_000, tls_dir=tls_dir) as running:
        yield running


@pytest.fixture
def crawl(tmp_path: Path, web: MiniWeb) -> Crawl:
    """One fetcher and one parser on all of it."""
    few = ("--fetchers", "1", "--parsers", "1")
    return Crawl(tmp_path / "out", web, "--seeds", web.ordinary_seeds, "--delay", "0.05", *few)


@contextmanager
def no_memory(crawl: Crawl) -> Iterator[redis.Redis]:
    socket = settings.load(crawl.out / "node.toml").paths.redis_socket
    with redis.Redis(unix_socket_path=socket) as client:
        client.config_set("maxmemory", 1)
        try:
            yield client
        finally:
            client.config_set("maxmemory", 0)


def test_a_full_redis_sheds_links_and_nothing_else(web: MiniWeb, crawl: Crawl) -> None:
    """At maxmemory no link is admitted, counted; what is queued is served, and no process dies (F07)."""
    with crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 60, "the crawl runs")
        with no_memory(crawl):
            before = crawl.status()["pages"]
            until(lambda: crawl.status()["dropped"].get("memory", 0) > 0, "links are shed")
            until(lambda: crawl.status()["pages"] > before + 10, "what is queued is still served")
            assert set(crawl.status()["processes"]) == {"fetcher.1", "parser.1", "watch"}
        assert crawl.wait() == 0
    assert crawl.summary["ledger"]["gap"] == 0
    assert "died" not in crawl.said


def test_a_shortage_of_a_moment_turns_nothing_away(web: MiniWeb, crawl: Crawl) -> None:
    """What fills Redis for a moment is waited for by the parser, which says so: no link is lost to it."""
    with crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 24, "the crawl runs")
        with no_memory(crawl) as client:
            until(lambda: client.xlen(keys.SPOOL) > 0, "pages wait for the parser", within_s=SHORT_S)
            time.sleep(SHORT_S)
        until(lambda: crawl.status()["tally"].get("refused:parsers:no_memory", 0), "the parser tells it")
        assert crawl.wait() == 0
    assert crawl.summary["dropped"].get("memory", 0) == crawl.summary["dropped"].get("shed", 0) == 0
    assert crawl.summary["pages"] == len(web.expected().pages)
    assert "died" not in crawl.said


def test_a_parser_that_is_stopped_in_a_shortage_leaves_its_pages(web: MiniWeb, crawl: Crawl) -> None:
    """At once, and the next one has their links."""
    with crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 24, "the crawl runs")
        with no_memory(crawl) as client:
            until(lambda: client.xlen(keys.SPOOL) > 0, "pages wait for the parser", within_s=SHORT_S)
            pid = crawl.children()["parser 1"]
            os.kill(pid, signal.SIGTERM)
            until(lambda: crawl.children().get("parser 1") != pid, "it has gone", within_s=SHORT_S)
            assert client.xlen(keys.SPOOL) > 0
        assert crawl.wait() == 0
    assert crawl.summary["dropped"].get("memory", 0) == crawl.summary["dropped"].get("shed", 0) == 0
    assert crawl.summary["pages"] == len(web.expected().pages)
