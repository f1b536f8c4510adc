"""A list of excluded names on a running node, and one given before the first request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.errors import ExitCode
from node.store.exclusions import LIST_NAME
from tests.web.log import now_ms
from tests.web.running import MiniWeb
from tests.web.shape import domain_name, traits
from tests.whole import stored
from tests.whole.crawl import Crawl, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DOMAINS = 5
EFFECTIVE_MS = 2_000
STRANGERS = [f"stranger-{number:05d}.example" for number in range(20_000)]


@pytest.fixture
def web(tmp_path: Path, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path / "web", domains=DOMAINS, pages_per_domain=30, mean_bytes=4_000, tls_dir=tls_dir
    ) as running:
        yield running


def the_list(tmp_path: Path, *names: str) -> Path:
    path = tmp_path / "never.txt"
    path.write_text("\n".join(["# never visited", *STRANGERS, *names, "not a name"]), encoding="utf-8")
    return path


def victim_of(web: MiniWeb) -> str:
    """A domain whose pages are under ``www.``, if there is one."""
    homes = {domain_name(i): traits(web.shape, i).home for i in range(DOMAINS)}
    return next((domain for domain, home in homes.items() if home.startswith("www.")), domain_name(1))


def new_crawl(tmp_path: Path, web: MiniWeb, *words: str | Path) -> Crawl:
    speed = ("--delay", "0.4", "--fetchers", "2", "--parsers", "1")
    return Crawl(
        tmp_path / "out", web, *speed, "--seeds", web.ordinary_seeds, *words, settings=["crawl.hop_gap_s=0.1"]
    )


def test_a_list_takes_effect_on_a_running_node(web: MiniWeb, tmp_path: Path) -> None:
    """Who is on it meets no request after two seconds, under any host, over a restart too; taking the list
    away brings back what was queued."""
    victim = victim_of(web)
    with new_crawl(tmp_path, web) as crawl:
        crawl.start()
        until(lambda: len(web.requests(victim)) > 4, "the victim is being crawled")
        said = crawl.command("exclude", "--list", str(the_list(tmp_path, victim)), "--reason", "asked")
        after_ms = now_ms() + EFFECTIVE_MS
        assert f"the list names {len(STRANGERS) + 1:,} hosts and domains (0 before)" in said.stdout
        assert f"{victim}: " in said.stdout
        assert "never.txt, line 20003: neither" in said.stderr
        taken = crawl.out / "taken" / f"{victim}.excluded.txt"
        purged = set(taken.read_text().splitlines())
        assert purged
        assert json.loads(crawl.command("inspect", victim, "--json").stdout)["excluded"]
        audit = (crawl.out / "taken" / "audit.jsonl").read_text().splitlines()
        assert json.loads(audit[-1])["names"] == len(STRANGERS) + 1
        assert crawl.wait() == 0
        assert crawl.run()["reason"] == "finished"
        assert [entry.url for entry in web.requests(victim) if entry.t_ms > after_ms] == []
        purged |= set(taken.read_text().splitlines())  # what a fetcher had in hand, too
        assert crawl.summary["dropped"]["excluded"] >= len(purged)

        said = crawl.command("include", "--list")
        assert f"{victim}: {len(purged)} URLs included" in said.stdout
        before = len(web.requests(victim))
        summary = crawl.run()
        assert len(web.requests(victim)) >= before + len(purged)
    assert summary["ledger"]["gap"] == 0


def test_a_list_that_is_taken_away_leaves_nothing_behind(web: MiniWeb, tmp_path: Path) -> None:
    """Put in force while nothing is under way, so that no page's links are refused: the crawl then has every
    page, once."""
    victim = victim_of(web)
    with new_crawl(tmp_path, web) as crawl:
        crawl.start()
        until(lambda: len(web.requests(victim)) > 4, "the victim is being crawled")
        assert crawl.command("drain").returncode == 0
        crawl.command("exclude", "--list", str(the_list(tmp_path, victim)))
        asked = len(web.requests(victim))
        crawl.command("resume")
        assert crawl.wait() == 0
        assert len(web.requests(victim)) == asked
        crawl.command("include", "--list")
        summary = crawl.run()
    assert stored.pages(crawl.out) == Counter(web.expected().pages)
    assert summary["ledger"]["gap"] == 0


def test_a_list_given_to_crawl_holds_from_the_first_request(web: MiniWeb, tmp_path: Path) -> None:
    """Not even robots.txt is asked for; the seeds are counted as excluded."""
    victims = [domain_name(0), domain_name(3)]
    with new_crawl(tmp_path, web, "--exclude-list", the_list(tmp_path, *victims)) as crawl:
        summary = crawl.run()
    assert summary["reason"] == "finished"
    assert not [entry for victim in victims for entry in web.requests(victim)]
    assert summary["dropped"]["excluded"] >= len(victims)
    assert summary["pages"] > 0
    assert summary["ledger"]["gap"] == 0


def test_a_list_that_can_not_be_used_stops_the_crawl_in_words(web: MiniWeb, tmp_path: Path) -> None:
    """A node whose list is broken visits nobody."""
    with new_crawl(tmp_path, web) as crawl:
        crawl.out.mkdir()
        (crawl.out / LIST_NAME).write_text("broken")
        assert crawl.start().wait() == ExitCode.BAD_INPUT
        assert "make it anew with 'milliarde exclude --list'" in crawl.said
        assert "Traceback" not in crawl.said
    assert web.requests() == []


def test_what_to_exclude_must_be_said() -> None:
    """Names or a list, and not both."""
    for words in (
        ["exclude"],
        ["exclude", "a.test", "--list", "x"],
        ["include"],
        ["include", "a.test", "--list"],
    ):
        ended = milliarde(*words)
        assert (ended.returncode, "name domains, or give --list" in ended.stderr) == (
            ExitCode.BAD_INPUT,
            True,
        )
