"""A node's processes one by one, as systemd runs them: how they end, who may start, what outlives them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from node import cli
from node import settings as settings_of
from node.errors import ExitCode
from node.store import keys
from node.store.connection import ADOPT_MS
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.whole.crawl import STOP_S, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DOMAINS = 12


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    folder = tmp_path_factory.mktemp("web")
    with MiniWeb(folder, domains=DOMAINS, pages_per_domain=60, mean_bytes=4_000, tls_dir=tls_dir) as running:
        yield running


class Node:
    """A Redis and processes that nobody looks after but the test."""

    def __init__(self, folder: Path, redis: RedisServer, web: MiniWeb, delay_s: float) -> None:
        self.redis = redis
        self.data = folder / "node"
        self.config = folder / "node.toml"
        settings = settings_of.build(
            {
                "paths": {"data": str(self.data), "redis_socket": str(redis.socket)},
                "crawl": {"delay_s": delay_s, "hop_gap_s": 0.1},
                "fetcher": {"deadline_s": 60.0},
                "tls": {"ca_file": str(web.ca)},
                "dns": {"connect_to": web.connect_to},
                "watch": {"port": 0},
            }
        )
        self.config.write_text(settings_of.dump(settings))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *words: str) -> None:
        """A process by its role and number, with its talk in a file."""
        name = ".".join(words)
        with self.config.with_name(f"{name}.stderr").open("ab") as talk:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "node", *words, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=talk,
                stderr=talk,
            )
        until(lambda: self.reports(name) == self.running[name].pid, f"{name} reports")

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """Have it ended; its exit code."""
        self.running[name].send_signal(how)
        return self.running.pop(name).wait(STOP_S)

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def reports(self, name: str) -> int:
        """Process id by the last report of a process; 0 if there is none."""
        return int(self.status()["processes"].get(name, {}).get("pid", 0))

    def status(self) -> dict[str, Any]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert cli.main(["status", "--json", "--config", str(self.config)]) == 0
        found: dict[str, Any] = json.loads(said.getvalue())
        return found

    def ledger(self, name: str) -> int:
        with self.redis.client() as client:
            return int(client.hget(keys.LEDGER, name) or 0)

    def command(self, *words: str | Path) -> None:
        done = milliarde(*words, "--config", self.config)
        assert done.returncode == 0, done.stderr

    def log_lines(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for path in sorted((self.data / "log").glob("fetch-*.jsonl"))
            for line in path.read_text().splitlines()
        ]


MakeNode = Callable[..., Node]


@pytest.fixture
def make_node(tmp_path: Path, new_redis: Callable[..., RedisServer], web: MiniWeb) -> Iterator[MakeNode]:
    """Call as ``make_node(*seeds, delay_s=0.5)``: a node with these seeds, and no process yet."""
    made: list[Node] = []

    def make(*seeds: str, delay_s: float = 0.5) -> Node:
        node = Node(tmp_path, new_redis(appendonly="yes"), web, delay_s)
        made.append(node)
        (tmp_path / "seeds").write_text("\n".join(seeds) or web.ordinary_seeds.read_text())
        node.command("seed", tmp_path / "seeds")
        return node

    yield make
    for node in made:
        node.close()


def test_sigterm_finishes_what_ends_soon_and_gives_back_the_rest(make_node: MakeNode) -> None:
    """Within a bound: a page that comes in seconds is stored and settled, one that never ends goes back to
    its queue untried, and no file stays open."""
    node = make_node("https://slow.test/wait/7", "https://drip.test/")
    node.start("fetcher", "1")
    until(lambda: node.status()["processes"]["fetcher.1"].get("in_hand") == 2, "both are being visited")
    began = time.monotonic()
    assert node.end("fetcher.1") == 0
    assert time.monotonic() - began < STOP_S
    assert (node.ledger("leased"), node.ledger("queued"), node.ledger("spooled")) == (0, 1, 1)
    assert node.ledger("retries") == 0
    assert [line["url"] for line in node.log_lines() if line["outcome"] == "page"] == [
        "https://slow.test/wait/7"
    ]
    (file,) = (path.name for path in (node.data / "warc").glob("crawl*"))
    assert file.endswith(".warc.gz")
    node.command("check")
    node.start("parser", "1")
    until(lambda: node.ledger("spooled") == 0, "the page is parsed")
    assert node.end("parser.1") == 0


def test_a_second_one_of_the_same_number_is_refused(make_node: MakeNode) -> None:
    """A fetcher, a parser or a watch that runs already can't be started again; the first is left alone."""
    node = make_node()
    names = (("fetcher", "1"), ("parser", "1"), ("watch",))
    for words in names:
        node.start(*words)
    for words in names:
        done = milliarde(*words, "--config", node.config)
        assert done.returncode == ExitCode.IN_USE
        first = node.running[".".join(words)]
        assert f"{' '.join(words)} is running already (process {first.pid}): stop it first" in done.stderr
        assert first.poll() is None
    node.start("fetcher", "2")


def test_a_pause_outlives_processes_and_redis(make_node: MakeNode, web: MiniWeb) -> None:
    """Until somebody says resume nothing is sent, whatever is killed and started meanwhile."""
    node = make_node(delay_s=0.2)
    node.start("fetcher", "1")
    node.start("parser", "1")
    until(lambda: node.ledger("pages") > 5, "it crawls")
    node.command("pause", "--reason", "lunch")
    until(lambda: node.ledger("leased") == 0, "nothing is under way")
    count = len(web.requests())
    node.end("fetcher.1", signal.SIGKILL)
    node.start("fetcher", "1")
    until(
        lambda: node.status()["processes"]["fetcher.1"].get("waiting") == "paused", "the new one waits, too"
    )
    node.redis.kill()
    node.redis.start()
    # after its unclean start domains wait for that long anyhow
    until(lambda: node.status()["control"]["pause"] == "lunch", "Redis knows it still")
    time.sleep(ADOPT_MS / 1000 + 1)
    assert node.status()["processes"]["fetcher.1"]["waiting"] == "paused"
    assert len(web.requests()) == count
    node.command("resume")
    until(lambda: len(web.requests()) > count + 3, "it goes on")


def test_a_rolling_restart_costs_no_more_than_its_share(make_node: MakeNode, web: MiniWeb) -> None:
    """Processes ended and started one after the other: the lanes of a fetcher that leaves are served by the
    other at once, so the pace of the whole never falls below that of half of the fetchers."""
    node = make_node(delay_s=1.0)
    order = (("fetcher", "1"), ("parser", "1"), ("fetcher", "2"), ("parser", "2"))
    for words in order:
        node.start(*words)
    until(lambda: node.ledger("pages") > 2 * DOMAINS, "it crawls")

    def requests_per_s(since_s: float, count: int) -> float:
        return (len(web.requests()) - count) / (time.monotonic() - since_s)

    since_s, count = time.monotonic(), len(web.requests())
    until(lambda: len(web.requests()) > count + 3 * DOMAINS, "an ordinary time")
    ordinary = requests_per_s(since_s, count)
    since_s, count = time.monotonic(), len(web.requests())
    for words in order:
        assert node.end(".".join(words)) == 0
        if words[0] == "fetcher":
            other = b"2." if words[1] == "1" else b"1."
            until(partial(_has_all_lanes, node, other), "the other has all lanes", within_s=8)
        node.start(*words)
    assert requests_per_s(since_s, count) > 0.5 * ordinary * 0.8
    assert node.status()["ledger_gap"] == 0


def _has_all_lanes(node: Node, fetcher: bytes) -> bool:
    with node.redis.client() as client:
        return {owner[:2] for owner in client.hvals(keys.LANES)} == {fetcher}


def test_data_of_another_layout_is_refused_by_every_command(
    make_node: MakeNode, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whatever opens Redis says which layout it found, which it knows and what to do, and changes nothing."""
    node = make_node()
    with node.redis.client() as client:
        client.hset(keys.META, "schema", "2")
        before = client.hgetall(keys.META)
    config = ("--config", str(node.config))
    wanted = f"holds a crawl of layout 2, this version knows {keys.SCHEMA}: use the version it was begun with"
    for words in (
        ("status",),
        ("status", "--json"),
        ("check",),
        ("pause",),
        ("resume",),
        ("drain",),
        ("seed", str(tmp_path / "seeds")),
        ("exclude", "a.test"),
        ("include", "a.test"),
        ("trim", "a.test", "--keep", "1"),
        ("top",),
        ("inspect", "a.test"),
        ("dead",),
    ):
        assert cli.main([*words, *config]) == ExitCode.OTHER_CRAWL, words
        assert wanted in capsys.readouterr().err
    for words in (("fetcher", "1"), ("parser", "1"), ("watch",), ("snapshot", str(tmp_path / "copy"))):
        done = milliarde(*words, *config)
        assert done.returncode == ExitCode.OTHER_CRAWL, done.stderr
        assert wanted in done.stderr
    assert not (tmp_path / "copy").exists()
    with node.redis.client() as client:
        assert client.hgetall(keys.META) == before
    node.redis.kill()
    shutil.copytree(node.redis.folder / "appendonlydir", tmp_path / "out" / "redis" / "appendonlydir")
    done = milliarde("crawl", "a.test", "--out", tmp_path / "out", "--delay", "0.5")
    assert done.returncode == ExitCode.OTHER_CRAWL, done.stderr
    assert wanted in done.stderr
    assert not (tmp_path / "out" / "node.toml").exists()
