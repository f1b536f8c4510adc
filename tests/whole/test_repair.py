"""``milliarde check --repair`` as an operator uses it: on a crawl that was stopped, and that then goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from node import settings as settings_of
from node.errors import ExitCode
from node.rules.shard import lane_of
from node.store import keys
from node.work.opened import opened
from tests.web.running import MiniWeb
from tests.whole import stored
from tests.whole.crawl import Crawl, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path_factory.mktemp("web"), domains=9, pages_per_domain=6, mean_bytes=4_000, tls_dir=tls_dir
    ) as running:
        yield running


def _damage(crawl: Crawl) -> None:
    """Of each domain with a queue something else is broken, and a counter."""
    with opened(settings_of.load(crawl.config)) as node:
        redis = node.store.redis.execute_command
        names = sorted(key[2:].decode() for key in redis("KEYS", "d:*"))
        names = [name for name in names if redis("ZSCORE", keys.ready(lane_of(name)), name)]
        assert len(names) >= 4
        redis("SET", keys.domain(names[0]), "short")
        redis("ZREM", keys.ready(lane_of(names[1])), names[1])
        redis("DEL", keys.seen(1, names[2]))
        redis("ZADD", keys.ready(lane_of(names[3])), 1, names[3])
        redis("HINCRBY", keys.LEDGER, "queued", 7)


def test_a_damaged_crawl_is_repaired_and_goes_on(web: MiniWeb, tmp_path: Path) -> None:
    """While it runs a repair is refused in words; when it is stopped, check names what is broken, the repair
    says what it did, and the crawl comes to its end with every page."""
    crawl = Crawl(
        tmp_path / "out",
        web,
        *("--delay", "0.6", "--fetchers", "2", "--parsers", "1", "--seeds", web.ordinary_seeds),
        settings=["crawl.hop_gap_s=0.1"],
    )
    with crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 15, "the crawl runs")
        crawl.command("pause")
        refused = milliarde("check", "--repair", "--config", crawl.config)
        assert refused.returncode == ExitCode.IN_USE
        assert "stop it first" in refused.stderr
        assert "sound" in crawl.command("check").stdout
        assert crawl.interrupt() == ExitCode.INTERRUPTED
        _damage(crawl)
        broken = milliarde("check", "--config", crawl.config)
        assert broken.returncode == ExitCode.CHECK_FAILED
        assert "bytes" in broken.stdout
        assert "is not in ready" in broken.stdout
        assert "its filter of URLs seen is not whole" in broken.stdout
        assert " admitted \N{NOT EQUAL TO} " in broken.stdout
        said = crawl.command("check", "--repair").stdout
        assert "repaired: 1 domains' states were made anew" in said
        assert "repaired: 1 filters of URLs seen were made anew" in said
        assert "repaired: 1 counters were set to what is there: queued" in said
        assert said.splitlines()[-1].startswith("sound")
        again = json.loads(crawl.command("check", "--repair", "--json").stdout)
        assert again["repaired"] == {}
        assert again["after"]["broken"] == 0
        crawl.command("resume")
        assert crawl.start().wait() == 0, crawl.said
    summary = crawl.summary
    assert (summary["reason"], summary["ledger"]["gap"]) == ("finished", 0)
    assert stored.indexed_pages(crawl.out) == Counter(web.expected().pages)
