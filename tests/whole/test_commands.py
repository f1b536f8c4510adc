"""The operator's commands, on a running node and on a stopped one."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node import __version__
from node.errors import ExitCode
from tests.web.log import now_ms
from tests.web.running import MiniWeb
from tests.web.shape import domain_name, traits
from tests.whole import stored
from tests.whole.crawl import Crawl, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DELAY_S = 0.2
DOMAINS = 6
EFFECTIVE_MS = 2_000
"""Exclusion takes effect in so many ms at most."""


@pytest.fixture
def web(tmp_path: Path, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path / "web", domains=DOMAINS, pages_per_domain=30, mean_bytes=4_000, tls_dir=tls_dir
    ) as running:
        yield running


def polite_crawl(tmp_path: Path, web: MiniWeb, *seeds: str | Path) -> Crawl:
    words = ("--delay", str(DELAY_S), "--fetchers", "2", "--parsers", "1")
    return Crawl(tmp_path / "out", web, *words, *seeds, settings=["crawl.hop_gap_s=0.1"])


def quiet(crawl: Crawl, web: MiniWeb) -> int:
    """Wait until nothing is under way, then for four more delays; answers the requests there were."""
    until(lambda: crawl.status()["ledger"].get("leased", 0) == 0, "nothing is leased")
    count = len(web.requests())
    time.sleep(4 * DELAY_S)
    assert len(web.requests()) == count, "nothing is asked for meanwhile"
    return count


def inspect(crawl: Crawl, domain: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crawl.command("inspect", domain, "--json").stdout)
    return found


def test_pause_resume_drain(web: MiniWeb, tmp_path: Path) -> None:
    """A pause holds, over a restart too, until resume; drain returns when nothing is under way."""
    with polite_crawl(tmp_path, web, "--seeds", web.ordinary_seeds) as crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 20, "the crawl runs")
        all_ = {"fetcher.1", "fetcher.2", "parser.1", "watch"}
        until(lambda: crawl.status()["processes"].keys() == all_, "all processes report")
        running = crawl.status()
        assert running["ledger"]["admitted"] > DOMAINS
        assert running["ledger_gap"] == 0
        assert running["version"] == __version__
        assert 0 < running["disk"]["free_bytes"] <= running["disk"]["total_bytes"]
        until(lambda: crawl.status()["pages_per_s"] > 0, "the watch tells how fast it goes")

        crawl.command("pause", "--reason", "window cleaning")
        before = quiet(crawl, web)
        assert "paused: window cleaning" in crawl.command("status").stdout

        assert crawl.interrupt() == 130
        crawl.start()
        # not before: whoever asks a stopped node starts its Redis, and the crawl would have to wait for it
        until(lambda: "fetcher 2" in crawl.children(), "the fetchers are started again")
        until(lambda: "fetcher.2" in crawl.status()["processes"], "the fetchers are back")
        assert quiet(crawl, web) == before
        assert crawl.status()["control"]["pause"] == "window cleaning"

        crawl.command("resume")
        until(lambda: len(web.requests()) > before + 5, "the crawl goes on")

        assert "drained" in crawl.command("drain", "--wait", "30s").stderr
        drained = crawl.status()
        assert drained["ledger"]["leased"] == drained["ledger"]["spooled"] == 0
        assert drained["spool"]["depth"] == 0
        quiet(crawl, web)
        assert crawl.interrupt() == 130


def test_exclude_and_include(web: MiniWeb, tmp_path: Path) -> None:
    """An excluded domain meets no request after two seconds, under any host; include brings all back."""
    homes = {domain_name(i): traits(web.shape, i).home for i in range(DOMAINS)}
    victim = next(domain for domain, home in homes.items() if home.startswith("www."))
    with polite_crawl(tmp_path, web, "--seeds", web.ordinary_seeds) as crawl:
        crawl.start()
        until(lambda: len(web.requests(victim)) > 5, "the victim is being crawled")
        said = crawl.command("exclude", victim, "--reason", "they asked us to").stdout
        after_ms = now_ms() + EFFECTIVE_MS
        taken = crawl.out / "taken" / f"{victim}.excluded.txt"
        purged = taken.read_text().splitlines()
        assert len(purged) >= 3
        assert f"{victim}: {len(purged)} URLs excluded" in said
        assert inspect(crawl, victim)["excluded"]
        assert inspect(crawl, victim)["state"]["queued"] == 0
        audit = [json.loads(line) for line in (crawl.out / "taken" / "audit.jsonl").read_text().splitlines()]
        assert (audit[-1]["exclude"], audit[-1]["reason"]) == ([victim], "they asked us to")

        # All others are crawled to their end; many of their pages link to the victim's.
        assert crawl.wait() == 0
        assert [entry.url for entry in web.requests(victim) if entry.t_ms > after_ms] == []
        summary = crawl.summary
        assert summary["reason"] == "finished"
        assert summary["dropped"]["excluded"] >= len(purged)

        everything = set(taken.read_text().splitlines())  # what a fetcher had in hand, too
        assert everything >= set(purged)
        said = crawl.command("include", victim).stdout
        assert f"{victim}: {len(everything)} URLs included" in said
        assert not taken.exists()
        summary = crawl.run()
    expected = web.expected()
    assert stored.pages(crawl.out) == stored.indexed_pages(crawl.out) == Counter(expected.pages)
    assert crawl.status()["ledger"]["drop:excluded"] == 0
    assert summary["ledger"]["gap"] == 0


def test_a_stopped_node(web: MiniWeb, tmp_path: Path) -> None:
    """Every command works on a stopped node, and the crawl then goes on with what they did."""
    first, second = map(domain_name, (0, 1))
    with polite_crawl(tmp_path, web, first, second) as crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 10, "the crawl runs")
        assert crawl.interrupt() == 130
        summary = crawl.summary

        status = crawl.status()
        assert (status["pages"], status["processes"]) == (summary["pages"], {})
        assert "stopped" in crawl.command("status").stdout
        crawl.command("check")

        top = json.loads(crawl.command("top", "--json").stdout)
        assert {state["domain"] for state in top} == {first, second}
        assert [state["queued"] for state in top] == sorted((s["queued"] for s in top), reverse=True)
        assert sum(state["queued"] for state in top) == summary["queued"]
        longest = top[0]["domain"]
        assert longest in crawl.command("top", "-n", "1").stdout

        found = inspect(crawl, longest)
        assert found["state"]["queued"] == sum(found["per_level"].values()) == top[0]["queued"] > 3
        assert f"https://{traits(web.shape, int(longest[5:10])).home}" in found["robots"]

        dry = crawl.command("trim", longest, "--keep", "2", "--dry-run").stdout
        assert f"{longest}: {top[0]['queued'] - 2} URLs would be trimmed" in dry
        said = crawl.command("trim", longest, "--keep", "2").stdout
        trimmed = (crawl.out / "taken" / f"{longest}.trimmed.txt").read_text().splitlines()
        assert len(trimmed) == top[0]["queued"] - 2
        assert f"{longest}: {len(trimmed)} URLs trimmed" in said
        assert inspect(crawl, longest)["state"]["queued"] == 2
        assert f"{longest}: {len(trimmed)} URLs included" in crawl.command("include", longest).stdout
        assert inspect(crawl, longest)["state"]["queued"] == top[0]["queued"]

        queued = {state["domain"]: state["queued"] for state in top}
        over = min(queued.values()) - 1
        said = crawl.command("trim", "--over", str(over)).stdout
        assert f"{sum(n - over for n in queued.values())} URLs of 2 domains trimmed" in said
        crawl.command("include", *queued)
        said = crawl.command("trim", "--largest", "1", "--keep", "1").stdout
        assert f"{queued[longest] - 1} URLs of 1 domains trimmed" in said
        crawl.command("include", *queued)
        now = json.loads(crawl.command("top", "--json").stdout)
        assert {state["domain"]: state["queued"] for state in now} == queued

        seeds = tmp_path / "more.csv"
        seeds.write_text("".join(f"{i},{domain_name(i)}\n" for i in range(DOMAINS)) + "not a seed\n")
        done = crawl.command("seed", seeds)
        assert f"more.csv, line {DOMAINS + 1}:" in done.stderr
        assert crawl.status()["ledger"]["domains"] == DOMAINS

        summary = crawl.run()
    assert summary["reason"] == "finished"
    assert summary["ledger"]["gap"] == 0
    assert stored.pages(crawl.out) == stored.indexed_pages(crawl.out) == Counter(web.expected().pages)


def test_collected_files_are_verified(web: MiniWeb, tmp_path: Path) -> None:
    """The index made anew is the crawl's own; a flipped byte and a wrong index line are found and named."""
    with polite_crawl(tmp_path, web, domain_name(0)) as crawl:
        crawl.run()
    copy = tmp_path / "copy" / "node-1"
    shutil.copytree(crawl.out, copy, ignore=shutil.ignore_patterns("redis*", "run"))
    (copy / "index.cdxj").unlink()
    assert milliarde("index", copy).returncode == 0
    assert (copy / "index.cdxj").read_bytes() == (crawl.out / "index.cdxj").read_bytes()
    done = milliarde("verify", copy.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert ": whole\n" in done.stdout

    file = next((copy / "warc").glob("*.warc.gz"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    done = milliarde("verify", copy.parent, "--json")
    assert done.returncode == ExitCode.CHECK_FAILED
    assert str(file) in json.loads(done.stdout)["bad"][0]

    file.write_bytes(whole[:-40])
    done = milliarde("verify", copy.parent)
    assert done.returncode == ExitCode.CHECK_FAILED
    assert f"{file.name} ends before its record does" in done.stdout

    assert milliarde("verify", tmp_path / "nowhere").returncode == ExitCode.BAD_INPUT
    assert milliarde("verify", copy / "log").returncode == ExitCode.BAD_INPUT
