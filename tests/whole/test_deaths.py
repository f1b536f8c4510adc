"""Processes killed one by one in the middle of a crawl: each is started again, nothing is lost."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DELAY_S = 0.4
VICTIMS = ("fetcher 1", "parser 2", "watch", "redis")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path_factory.mktemp("web"), domains=6, pages_per_domain=16, mean_bytes=6_000, tls_dir=tls_dir
    ) as running:
        yield running


def _kill(crawl: Crawl, web: MiniWeb, name: str, how: signal.Signals = signal.SIGKILL) -> None:
    """Kill a child, and wait until another has its place and crawling goes on."""
    victim = until(lambda: crawl.children().get(name), f"{name} runs")
    os.kill(victim, how)
    until(lambda: crawl.children().get(name, victim) != victim, f"{name} is back")
    count = len(web.requests())
    until(lambda: len(web.requests()) > count + 3, f"crawling goes on without the old {name}")


def test_every_child_may_die(web: MiniWeb, tmp_path: Path) -> None:
    """SIGKILL of a fetcher, a parser, the watch and Redis in turn: each returns, the crawl is complete.

    So does a Redis that lives and does nothing (SIGSTOP), which no supervisor sees.
    """
    crawl = Crawl(
        tmp_path / "out",
        web,
        *("--delay", str(DELAY_S), "--fetchers", "2", "--parsers", "2", "--seeds", web.ordinary_seeds),
        settings=["crawl.hop_gap_s=0.1", "redis.stuck_s=3"],
    )
    with crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 20, "the crawl runs")
        for name in VICTIMS:
            _kill(crawl, web, name)
        _kill(crawl, web, "redis", signal.SIGSTOP)
        code = crawl.wait()
        assert code == 0, crawl.said
    for name in VICTIMS:
        assert f"{name} died".lower() in crawl.said.lower()
    assert crawl.said.count(" died") == len(VICTIMS) + 1, "nobody else dies of it"
    summary = crawl.summary
    assert summary["reason"] == "finished"
    assert summary["ledger"]["gap"] == summary["dead_letters"] == 0
    expected = web.expected()
    assert stored.indexed_pages(crawl.out) == Counter(expected.pages)
    asked = Counter(each.url for each in web.requests() if not manners.is_robots(each))
    assert asked.keys() == expected.requested
    # With a delay a domain has one visit under way: two of its URLs, with a hop, for each of three deaths.
    assert asked.total() - len(asked) <= 3 * 2 * 6
    gaps = [gap for gap, _, _ in manners.gaps_ms(web.requests())]
    assert min(gaps) >= 100
