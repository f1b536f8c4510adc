"""Redis loses its last two seconds, as in a power cut: nothing that was stored is fetched or stored again."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.store import aof
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DELAY_S = 0.3
LOST_REQUESTS = 12
"""About two seconds of what comes."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path_factory.mktemp("web"), domains=5, pages_per_domain=9, mean_bytes=4_000, tls_dir=tls_dir
    ) as running:
        yield running


def _log(crawl: Crawl) -> Path:
    path = aof.newest(crawl.out / "redis")
    assert path is not None
    return path


def _redis_dies(crawl: Crawl) -> None:
    """Redis alone, while those who would start it again look away."""
    assert crawl.process is not None
    os.kill(crawl.process.pid, signal.SIGSTOP)
    redis = crawl.children()["redis"]
    os.kill(redis, signal.SIGKILL)
    until(lambda: "redis" not in crawl.children(), "Redis is gone")


def _goes_on(crawl: Crawl) -> None:
    assert crawl.process is not None
    os.kill(crawl.process.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("dies", "goes_on", "tail"),
    [
        (_redis_dies, _goes_on, b"*3\r\n$5\r\nHMSET\r\n$6"),
        (Crawl.kill_everything, Crawl.start, b"\0" * 4_096),
    ],
    ids=["redis alone, half a command behind", "everything, zeros behind"],
)
def test_what_redis_lost_is_not_lost(
    dies: Callable[[Crawl], None],
    goes_on: Callable[[Crawl], object],
    tail: bytes,
    web: MiniWeb,
    tmp_path: Path,
) -> None:
    """Its log is cut back by two seconds in the middle of a crawl: all pages are there in the end, each is
    stored once, the gap was kept, and the books are in order."""
    before = len(web.requests())
    crawl = Crawl(
        tmp_path / "out",
        web,
        *("--delay", str(DELAY_S), "--fetchers", "2", "--parsers", "2", "--seeds", web.ordinary_seeds),
        settings=["crawl.hop_gap_s=0.1"],
    )
    with crawl:
        crawl.start()
        until(lambda: len(web.requests()) > before + 25, "the crawl runs")
        size = _log(crawl).stat().st_size
        count = len(web.requests())
        until(lambda: len(web.requests()) > count + LOST_REQUESTS, "and goes on")
        dies(crawl)
        log = _log(crawl)
        data = log.read_bytes()
        log.write_bytes(data[: aof.whole_bytes(data[:size])] + tail)
        goes_on(crawl)
        assert crawl.wait() == 0, crawl.said
    assert "cut off" in crawl.said
    summary = crawl.summary
    assert summary["reason"] == "finished"
    assert summary["ledger"]["gap"] == summary["dead_letters"] == 0
    expected = web.expected()
    assert stored.indexed_pages(crawl.out) == Counter(expected.pages)
    pages = Counter(line["url"] for line in crawl.fetch_log() if line["outcome"] == "page")
    assert pages.total() == len(pages), [url for url, times in pages.items() if times > 1]
    requests = web.requests()[before:]
    assert {each.url for each in requests if not manners.is_robots(each)} == expected.requested
    assert min(gap for gap, _, _ in manners.gaps_ms(requests)) >= 100
    assert "sound" in crawl.command("check").stdout
    told = json.loads(crawl.command("status", "--json").stdout)
    assert told["ledger"]["found"] > 0, "nothing had to be settled from the archive"
