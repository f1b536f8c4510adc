"""The commands of a fleet on real nodes that crawl a miniature web, and on a host where nobody answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.collect import FREE_AFTER_S, RECEIPT, _folder
from deploy.errors import ExitCode
from deploy.follow import follow
from deploy.inventory import find
from node.rules.shard import node_of
from tests.conftest import missing
from tests.deploy.crawls import Crawls, fleet_at_work
from tests.web.log import now_ms
from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole import stored
from tests.whole.crawl import until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(600)]

DOMAINS = 10
EFFECTIVE_MS = 2_000
GHOST = "ghost"
AWAY = ExitCode.HOST_UNREACHABLE


@pytest.fixture
def crawls(tmp_path: Path) -> Iterator[Crawls]:
    with (
        MiniWeb(tmp_path / "web", domains=DOMAINS, pages_per_domain=300, mean_bytes=3_000) as web,
        Crawls(tmp_path, web, 2, strange_hosts=[GHOST]) as running,
    ):
        yield running


def rows(crawls: Crawls, *words: str, code: int = AWAY) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(crawls.command("status", "--json", *words, code=code).stdout)
    return told


def test_a_fleet_is_operated_as_one(crawls: Crawls) -> None:
    """Status, pause, exclude, trim, seed and drain reach every node that is there, and say who is not."""
    until(lambda: len(crawls.web.requests()) > 3 * DOMAINS, "both nodes crawl")
    told = rows(crawls)
    assert told["totals"]["crawling"] == told["totals"]["nodes"] == 2
    assert told["totals"]["pages"] == sum(told["nodes"][name]["pages"] for name in crawls.nodes) > 0
    assert told["totals"]["lost"] == 0
    assert told["nodes"][GHOST]["state"] == "unreachable"
    done = crawls.command("status", code=AWAY)
    assert re.search(r"(?m)^ghost +unreachable", done.stdout)
    assert re.search(r"(?m)^2 of 3 +2 crawling", done.stdout)
    assert done.stderr.startswith("ghost unreachable: ")

    # again and again, until Ctrl-C, which is how it ends well
    watching = ("status", "--watch", "1", "--json", "--limit", "node1,node2")
    with fleet_at_work(*watching, inventory=crawls.inventory, runs=crawls.folder / "runs") as running:
        assert running.stdout is not None
        looks = [json.loads(running.stdout.readline())["totals"]["pages"] for _ in range(2)]
        assert 0 < looks[0] <= looks[1]
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait() == ExitCode.OK

    # one node alone, by name
    crawls.command("pause", "--reason", "window {{cleaning}}", "--limit", "node1")
    told = rows(crawls, "--limit", "node1,node2", code=0)["nodes"]
    assert (told["node1"]["state"], told["node2"]["state"]) == ("paused: window {{cleaning}}", "crawling")
    crawls.command("resume", "--limit", "node1")

    # exclude: wherever the domain lives; noted in the inventory though one host is away
    victim = domain_name(0)
    owner = f"node{node_of(victim, 2) + 1}"
    done = crawls.command("exclude", victim, "--reason", "a mail, $HOME", code=AWAY)
    after_ms = now_ms() + EFFECTIVE_MS
    taken_out = crawls.nodes[owner].out / "taken" / f"{victim}.excluded.txt"
    assert re.search(rf"(?m)^{owner}: {victim}: [1-9]\d* URLs excluded", done.stdout)
    assert f"{GHOST}: it is excluded there by the next" in done.stderr
    excluded = crawls.folder / "excluded.txt"
    assert re.fullmatch(rf"{victim}  # \d{{4}}-\d\d-\d\d a mail, \$HOME\n", excluded.read_text())

    # the longest queues of both nodes together, and those alone are cut
    top = json.loads(crawls.command("top", "-n", "3", "--json", code=AWAY).stdout)
    assert len(top) == 3
    assert all(each["node"] == f"node{node_of(each['domain'], 2) + 1}" for each in top)
    crawls.command("pause", code=AWAY)
    until(lambda: not any(crawl.status()["ledger"].get("leased") for crawl in crawls), "nothing is leased")
    dry = crawls.command("trim", "--largest", "3", "--keep", "2", "--dry-run", code=AWAY).stdout
    assert "would be trimmed" in dry
    done = crawls.command("trim", "--largest", "3", "--keep", "2", code=ExitCode.REFUSED)
    assert "--yes" in done.stderr
    done = crawls.command("trim", "--largest", "3", "--keep", "2", "--yes", code=AWAY)
    taken = [path for crawl in crawls for path in (crawl.out / "taken").glob("*.trimmed.txt")]
    assert len(taken) == 3
    assert sum(int(n) for n in re.findall(r"(?m): (\d+) URLs of \d domains trimmed", done.stdout)) == sum(
        len(path.read_text().splitlines()) for path in taken
    )

    excluded_there = set(taken_out.read_text().splitlines())  # with what a fetcher had in hand
    done = crawls.command("include", victim, code=AWAY)
    assert f"{owner}: {victim}: {len(excluded_there)} URLs included" in done.stdout
    assert excluded.read_text() == ""
    late = [entry.url for entry in crawls.web.requests(victim) if entry.t_ms > after_ms]
    assert late == []

    # a further list: each keeps its own, and a copy stays for a node that is begun anew
    more = crawls.folder / "more.txt"
    more.write_text("".join(f"https://www.{domain_name(i)}/further-{i}\n" for i in range(DOMAINS)))
    before = {name: crawl.status()["ledger"]["admitted"] for name, crawl in crawls.nodes.items()}
    crawls.command("seed", more, code=AWAY)
    new = {name: crawl.status()["ledger"]["admitted"] - before[name] for name, crawl in crawls.nodes.items()}
    owners = [f"node{node_of(domain_name(i), 2) + 1}" for i in range(DOMAINS)]
    assert new == {name: owners.count(name) for name in crawls.nodes}
    (kept,) = (crawls.folder / ".seeds" / "fleet").iterdir()
    assert kept.read_text() == more.read_text()

    crawls.command("resume", code=AWAY)
    done = crawls.command("drain", "--wait", "60s", code=AWAY)
    assert "node1, node2: drained" in done.stdout
    assert crawls.command("check", code=AWAY).stdout.count(": sound: ") == 2
    assert rows(crawls)["totals"]["under_way"] == 0


def test_what_was_crawled_is_collected(
    crawls: Crawls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files come whole and once, in rounds till the nodes have ended; a broken transfer goes on, damage is
    found; what is open stays there."""
    if shutil.which("rsync") is None:
        missing("rsync is not installed (scripts/test installs it)")
    there = ("--limit", "node1,node2")
    into = crawls.folder / "collected"
    until(lambda: len(crawls.web.requests()) > 8 * DOMAINS, "both nodes crawl")
    monkeypatch.setenv("MILLIARDE_RUNS", str(crawls.folder / "runs"))

    def between_rounds(_wait_s: float) -> None:
        assert capsys.readouterr().out.count("1 still being written") == 2
        marks = [crawl.out / "collected" for crawl in crawls]
        assert not any(mark.exists() for mark in marks), "what is not complete has no mark"
        assert [crawl.interrupt() for crawl in crawls] == [130, 130]
        file = next((crawls.nodes["node1"].out / "warc").glob("*.warc.gz"))
        partial = into / "node1" / "warc" / ".partial" / file.name
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(file.read_bytes()[:1_000])

    fleet = find(crawls.inventory, ("node1", "node2"))
    assert follow(fleet, into, every_s=1.0, sleep=between_rounds) == ExitCode.OK
    said = capsys.readouterr()
    assert said.out.count("1 new WARC files, whole\n") == 2
    assert said.err.endswith("no node is at work any more: that was all\n")
    file = next((crawls.nodes["node1"].out / "warc").glob("*.warc.gz"))
    here = into / "node1" / "warc" / file.name
    for name, crawl in crawls.nodes.items():
        assert stored.pages(into / name) == stored.pages(crawl.out)
        assert (into / name / "index.cdxj").read_bytes() == (crawl.out / "index.cdxj").read_bytes()
        assert (crawl.out / "collected").exists()
    assert crawls.command("collect", into, *there).stdout.count("0 new WARC files, whole\n") == 2

    # what is here and whole, and nothing there asks for any more, may go from there
    crawls.command("collect", into, *there, "--free")
    assert file.exists(), "it was closed a moment ago"
    os.utime(file, (time.time() - 2 * FREE_AFTER_S,) * 2)
    done = crawls.command("collect", into, *there, "--free")
    assert "node1: 1 WARC files freed" in done.stdout
    assert not file.exists()
    whole = here.read_bytes()
    assert crawls.command("collect", into, *there).stdout.count("0 new WARC files, whole\n") == 2
    assert here.read_bytes() == whole, "what was freed stays here"

    damaged = file.with_name(f"other-{file.name}")
    damaged.write_bytes(whole[:-60] + bytes([whole[-60] ^ 1]) + whole[-59:])
    (crawls.nodes["node1"].out / "collected").unlink()
    done = crawls.command("collect", into, *there, code=ExitCode.CHECK_FAILED)
    assert re.search(r"(?m)^node1: .* NOT WHOLE$", done.stdout)
    assert damaged.name in done.stderr
    assert not (crawls.nodes["node1"].out / "collected").exists()


def test_what_was_lost_and_begun_anew_overwrites_nothing(tmp_path: Path) -> None:
    """A node that is begun anew has files of the same names: they come into a folder of their own."""
    host, anew = tmp_path / "node1", tmp_path / "node1-2"
    assert _folder(tmp_path, "node1", "100") == host
    host.mkdir()
    (host / RECEIPT).write_text(json.dumps({"born": "100"}))
    assert _folder(tmp_path, "node1", "100") == host
    assert _folder(tmp_path, "node1", "200") == anew
    anew.mkdir()
    (anew / RECEIPT).write_text(json.dumps({"born": "200"}))
    assert [_folder(tmp_path, "node1", born) for born in ("100", "200")] == [host, anew]
    assert _folder(tmp_path, "node1", "300") == tmp_path / "node1-3"
