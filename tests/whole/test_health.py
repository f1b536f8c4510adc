"""What an operator is told of domains in trouble, on a node that runs: by name, in words, as metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

BUSY, AWAY, DEAD = "unavailable.test", "ratelimited.test", "dead.test"
WELL = domain_name(0)


def metrics(crawl: Crawl) -> dict[str, dict[tuple[str, ...], float]]:
    """A scrape: name -> label values -> value."""
    port = crawl.status()["control"]["metrics_port"]
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        sample.name: {tuple(each.labels.values()): each.value for each in family.samples}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_domains_in_trouble_are_told(tmp_path: Path, tls_dir: Path) -> None:
    """One that answers 503 struggles, one that asked for ten minutes is parked, so is one that never answers;
    status, top, inspect and the metrics say so, and say why. A domain that is well is named nowhere.
    """
    seeds = tmp_path / "seeds.txt"
    urls = [f"https://{BUSY}/{number}" for number in range(40)]
    seeds.write_text("\n".join([WELL, f"https://{AWAY}/retry-after/600", f"https://{AWAY}/", DEAD, *urls]))
    with MiniWeb(tmp_path / "web", domains=2, pages_per_domain=400, mean_bytes=2_000, tls_dir=tls_dir) as web:
        words = ("--seeds", seeds, "--delay", "0.2", "--fetchers", "1", "--parsers", "1")
        with Crawl(tmp_path / "out", web, *words) as crawl:
            crawl.start()
            until(lambda: len(web.requests()) > 5, "the crawl runs")

            def worst() -> dict[str, dict[str, Any]]:
                return {told["domain"]: told for told in crawl.status()["worst_domains"]}

            def states() -> dict[str, str]:
                return {name: told["health"]["state"] for name, told in worst().items()}

            wanted = {BUSY: "struggling", AWAY: "parked", DEAD: "parked"}
            until(lambda: states() == wanted, "all three are told", every_s=0.3)
            told = worst()
            assert told[BUSY]["slowdowns"] >= 1
            assert told[BUSY]["delay_ms"] > 200
            assert "asked to be left alone" in told[AWAY]["health"]["why"]
            assert "nothing answered" in told[DEAD]["health"]["why"]

            said = crawl.command("status").stdout
            lines = [line for line in said.splitlines() if line.startswith("in trouble")]
            assert {line.split()[2].rstrip(":") for line in lines} == set(wanted)
            assert " s behind" in said
            assert "of all tries" in said

            found = json.loads(crawl.command("inspect", AWAY, "--json").stdout)["state"]["health"]
            assert found["state"] == "parked"
            assert "parked" in crawl.command("inspect", AWAY).stdout
            top = {each["domain"]: each for each in json.loads(crawl.command("top", "--json").stdout)}
            assert top[WELL]["health"] == {"state": "healthy", "score": 100, "why": ""}
            assert top[BUSY]["health"]["state"] == "struggling"

            served = metrics(crawl)
            assert set(served["milliarde_domain_delay_seconds"]) == {(name,) for name in wanted}
            assert served["milliarde_slowdowns_total"][()] >= 2
            assert ("frontier",) in served["milliarde_oldest_seconds"]
            assert crawl.interrupt() == 130
