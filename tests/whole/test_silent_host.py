"""A host that answers nothing, with many URLs, among others that are well (N29)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole import manners
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

SILENT, URLS = "silent.test", 500
HEALTHY, PAGES = 4, 12
DELAY_S, DEADLINE_S = 1.0, 1.5


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that drops what wants to connect: the queue of those who wait for its owner is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


def test_its_urls_wait_and_nobody_waits_for_it(tmp_path: Path, tls_dir: Path, silent_port: int) -> None:
    """500 URLs cost a few timeouts, not 500: the host is parked, longer each time, its URLs wait; the others
    are visited at nine tenths of the rate that their delay allows, or more."""
    seeds = tmp_path / "seeds.txt"
    urls = [f"https://{SILENT}/{number}" for number in range(URLS)]
    seeds.write_text("\n".join([*(domain_name(index) for index in range(HEALTHY)), *urls]))
    with MiniWeb(
        tmp_path / "web", domains=HEALTHY, pages_per_domain=200, mean_bytes=2_000, tls_dir=tls_dir
    ) as web:
        crawl = Crawl(
            tmp_path / "out",
            web,
            *("--seeds", seeds, "--delay", str(DELAY_S), "--fetchers", "1", "--parsers", "1"),
            *("--connect-to", f"{SILENT}:443:127.0.0.1:{silent_port}"),
            settings=[f"fetcher.deadline_s={DEADLINE_S}", "crawl.hop_gap_s=0.1"],
        )
        with crawl:
            crawl.start()
            until(lambda: len(web.requests()) >= HEALTHY * PAGES, "the healthy ones are crawled", every_s=0.3)
            tries = [each for each in crawl.fetch_log(robots=True) if SILENT in each["url"]]
            state = json.loads(crawl.command("inspect", SILENT, "--json").stdout)["state"]
            assert crawl.interrupt() == 130
        # 1.5 s for the first, then parked for 2 s, 4 s, 8 s ...
        assert 1 <= len(tries) <= 5
        assert state["queued"] + state["later"] + state["leased"] == URLS
        pages = [each for each in web.requests() if not manners.is_robots(each)]
        hops = {each["url"]: each.get("hop") for each in crawl.fetch_log()}
        firsts = [each for each in pages if not hops.get(each.url)]
        gap_s = median(gap for gap, _, _ in manners.gaps_ms(firsts)) / 1_000
        assert DELAY_S <= gap_s <= DELAY_S / 0.9
