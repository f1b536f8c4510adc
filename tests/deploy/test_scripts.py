"""The operator's scripts on a real node, where there is no Ansible, and over a fleet."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deploy.errors import ExitCode
from node.rules.shard import node_of
from tests.conftest import REPO
from tests.deploy.crawls import Crawls
from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole.crawl import PATIENCE_S, Crawl, until

pytestmark = pytest.mark.timeout(600)

VERBS = (
    "exclude-domain",
    "include-domain",
    "trim-frontier",
    "frontier-top",
    "drain-node",
    "restart-node",
    "fleet-status",
)


def script(
    name: str, *words: str | Path, code: int = 0, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; it must end with ``code``."""
    dropped = ("MILLIARDE_CONFIG", "MILLIARDE_INVENTORY")
    done = subprocess.run(
        [REPO / "scripts" / name, *map(str, words)],
        cwd="/",  # they need not be called from the checkout
        env={k: v for k, v in os.environ.items() if k not in dropped}
        | {"COLUMNS": "200", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == code, f"{name} {words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.parametrize("name", VERBS)
def test_a_script_says_whom_it_acts_on(name: str, tmp_path: Path) -> None:
    """By what was said, else by what is there; with neither it does nothing and says what is missing."""
    words = {"trim-frontier": ["a.test", "--keep", "1"], "frontier-top": [], "fleet-status": []}
    given = words.get(name, ["a.test"] if name.endswith("domain") else [])
    nobody = script(name, *given, code=ExitCode.USAGE)
    assert "give --inventory FILE or --config FILE" in nobody.stderr
    config, inventory = tmp_path / "node.toml", tmp_path / "fleet.yml"
    if name == "trim-frontier":  # asks its command, which has nobody to ask here
        return
    by_option = script(name, *given, "--dry-run", "--inventory", inventory, "--limit", "a,b")
    by_variable = script(
        name, *given, "--dry-run", "--limit", "a,b", environment={"MILLIARDE_INVENTORY": str(inventory)}
    )
    assert by_option.stdout == by_variable.stdout
    assert f"on the fleet of {inventory}, a,b alone" in by_option.stderr
    assert "milliarde-fleet' " in by_option.stdout
    on_node = script(name, *given, "--dry-run", "--config", config)
    both = {"MILLIARDE_CONFIG": str(config), "MILLIARDE_INVENTORY": str(inventory)}
    assert on_node.stdout == script(name, *given, "--dry-run", environment=both).stdout
    assert f"on this node ({config})" in on_node.stderr
    assert "would call: " in on_node.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exclude-domain", ["--config"]),
        ("exclude-domain", ["a.test", "--reason"]),
        ("exclude-domain", ["--config", "x"]),
        ("include-domain", ["--what", "--config", "x"]),
        ("trim-frontier", ["a.test", "--keep", "few", "--config", "x"]),
        ("drain-node", ["node1", "--config", "x"]),
        ("restart-node", ["--what", "--config", "x"]),
        ("fleet-status", ["word", "--config", "x"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_wrong_words_are_one_sentence(name: str, words: list[str]) -> None:
    """What can't be meant is told in one line, and nothing is called."""
    done = script(name, *words, code=ExitCode.USAGE)
    assert done.stderr.splitlines()[-1].startswith(f"{name}: ")
    assert len([line for line in done.stderr.splitlines() if "on this node" not in line]) == 1
    assert done.stdout == ""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path / "web", domains=4, pages_per_domain=200, mean_bytes=3_000) as running:
        yield running


def queues(*words: str | Path) -> dict[str, int]:
    return {
        each["domain"]: each["queued"] for each in json.loads(script("frontier-top", "--json", *words).stdout)
    }


@pytest.mark.whole
def test_scripts_on_a_node_alone(web: MiniWeb, tmp_path: Path) -> None:
    """Each does on a node what it says; what can't be undone is asked for; a dry run changes nothing."""
    words = ("--delay", "0.5", "--fetchers", "1", "--parsers", "1", "--seeds", web.ordinary_seeds)
    with Crawl(tmp_path / "out", web, *words, settings=["crawl.hop_gap_s=0.1"]) as crawl:
        crawl.start()
        until(lambda: len(web.requests()) > 12, "it crawls")
        here = ("--config", crawl.config)
        assert "state" in script("fleet-status", *here).stdout
        assert json.loads(script("fleet-status", "--json", *here).stdout)["pages"] > 0
        assert "drained" in script("drain-node", "--wait", "60s", *here).stderr

        before = queues(*here)
        longest, second = list(before)[:2]
        dry = script("trim-frontier", longest, "--keep", "1", "--dry-run", *here)
        assert f"{before[longest] - 1} URLs of 1 domains would be trimmed" in dry.stdout
        refused = script("trim-frontier", longest, "--keep", "1", *here, code=ExitCode.REFUSED)
        assert "--yes" in refused.stderr
        script("exclude-domain", second, "--dry-run", *here)
        assert queues(*here) == before

        script("trim-frontier", longest, "--keep", "1", "--yes", *here)
        script("exclude-domain", second, "--reason", "two words", *here)
        assert queues(*here) == {**before, longest: 1, second: 0}
        audit = (crawl.out / "taken" / "audit.jsonl").read_text()
        assert json.loads(audit)["reason"] == "two words"
        script("include-domain", second, longest, *here)
        script("trim-frontier", "--over", "2", "--yes", *here)
        assert max(queues(*here).values()) == 2
        assert "systemd runs no node here" in script("restart-node", *here, code=ExitCode.USAGE).stderr


@pytest.mark.whole
def test_scripts_over_a_fleet(web: MiniWeb, tmp_path: Path) -> None:
    """The same from the operator's machine: all nodes, those named, and the list beside the inventory."""
    with Crawls(tmp_path, web, 2) as crawls:
        until(lambda: len(web.requests()) > 12, "both nodes crawl")
        environment = {"MILLIARDE_INVENTORY": str(crawls.inventory), "MILLIARDE_RUNS": str(tmp_path / "runs")}
        status = json.loads(script("fleet-status", "--json", environment=environment).stdout)
        assert status["totals"]["crawling"] == 2
        script("drain-node", "node1", environment=environment)
        status = json.loads(script("fleet-status", "--json", environment=environment).stdout)["nodes"]
        assert [status[name]["state"] for name in ("node1", "node2")] == ["paused: draining", "crawling"]

        victim = domain_name(0)
        owner = crawls.nodes[f"node{node_of(victim, 2) + 1}"]
        script("exclude-domain", victim, environment=environment)
        assert (tmp_path / "excluded.txt").read_text().startswith(victim)
        assert (owner.out / "taken" / f"{victim}.excluded.txt").exists()
        script("include-domain", victim, environment=environment)
        assert not (owner.out / "taken" / f"{victim}.excluded.txt").exists()
        script(
            "trim-frontier", "--largest", "1", "--keep", "0", code=ExitCode.REFUSED, environment=environment
        )
        script("trim-frontier", "--largest", "1", "--keep", "0", "--yes", environment=environment)
        assert len(list(tmp_path.glob("node*/taken/*.trimmed.txt"))) == 1
