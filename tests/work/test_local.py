"""A node under one command: children that die again and again, or hang, and what is told of it."""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from node import cli
from node import settings as settings_of
from node.store import snapshot
from node.work import process
from node.work.local import LocalNode
from node.work.systemd import read
from node.work.watchdog import AWAY_S, START_S, Watchdog
from tests.whole.crawl import until

pytestmark = pytest.mark.timeout(180)

LIMIT_S = 8.0
BUSY = """
import signal
def compute_for_ever(*_):
    while True:
        pass
signal.signal(signal.SIGUSR2, compute_for_ever)
"""
MakeNode = Callable[..., LocalNode]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """Call as ``make_node(port, fetchers=1, watch=True)``: a node whose Redis runs."""
    with ExitStack() as stack:

        def make(port: int = 0, *, fetchers: int = 0, parsers: int = 0, watch: bool = False) -> LocalNode:
            config = tmp_path / "node.toml"
            config.write_text(
                '[paths]\ndata = "out"\nredis_socket = "redis.sock"\n'
                f"[crawl]\ndelay_s = 5.0\n[watch]\nport = {port}\n"
            )
            node = LocalNode(
                settings_of.load(config),
                config,
                fetchers=fetchers,
                parsers=parsers,
                watch=watch,
                watchdog_s=LIMIT_S,
            )
            stack.callback(node.close)
            stack.callback(node.kill_children)
            node.start()
            node.tell(pages=None)
            node.start_children()
            return node

        yield make


def test_a_crash_loop_backs_off_and_is_told(make_node: MakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    """Who dies as soon as it has started is started later each time; status and metrics name it, and why;
    once it lives it is told no more."""
    news: list[str] = []

    def looked_after(node: LocalNode) -> int:
        news.extend(node.look_after())
        return len(news)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = make_node(port, watch=True)
        (child,) = node.children
        until(lambda: looked_after(node) >= 3, "it has died three times")
        told = snapshot.take(node.store).deaths["watch"]
        assert told.loops
        assert told.again_ms > node.store.now_ms(), "it waits"
        assert f"127.0.0.1:{port}" in told.why
        assert ["again in" in each for each in news] == [False, True, True]
        for words, wanted in (
            ([], "watch dies as soon as it has started, 3 times in a row, again in"),
            (["--json"], '"crash_loop": true'),
        ):
            assert cli.main(["status", *words, "--config", str(node.config)]) == 0
            assert wanted in " ".join(capsys.readouterr().out.split())
    child.again_at = 0.0
    until(lambda: looked_after(node) and "watch" in snapshot.take(node.store).procs, "it lives")
    child.started -= 100.0
    node.look_after()
    told = snapshot.take(node.store).deaths["watch"]
    assert (told.count, told.in_a_row, told.loops) == (3, 0, False)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as served:
        text = served.read().decode()
    assert 'milliarde_process_deaths_total{process="watch"} 3.0' in text


def test_who_hangs_is_ended_and_started_again(
    make_node: MakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetcher that is stopped and a watch that computes for ever are replaced; the others left alone."""
    (tmp_path / "sitecustomize.py").write_text(BUSY)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    node = make_node(fetchers=2, parsers=1, watch=True)
    first, second, parser, watch = node.children
    news: list[str] = []

    def at_work() -> int:
        news.extend(node.look_after())
        return node.watchdog.ready

    until(lambda: at_work() == 4, "all are at work")
    pids = {child.name: child.process.pid for child in node.children if child.process}
    os.kill(pids[first.name], signal.SIGSTOP)
    os.kill(pids[watch.name], signal.SIGUSR2)
    until(lambda: at_work() and first.restarts and watch.restarts, "both are started again", every_s=0.1)
    assert sorted(news) == ["fetcher 1 died (it hung)", "watch died (it hung)"]
    until(lambda: at_work() and _pid(node, "fetcher.1") != pids[first.name], "the new one reports")
    assert (second.restarts, parser.restarts) == (0, 0)


def _pid(node: LocalNode, name: str) -> int:
    report = snapshot.take(node.store).procs.get(name)
    return report.pid if report else 0


def test_the_watchdog_is_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence counts only of who was ready, and only while somebody listened."""
    now = [1_000.0]
    watchdog = Watchdog(30.0, lambda: now[0])
    monkeypatch.setenv("NOTIFY_SOCKET", watchdog.address)
    me = os.getpid()

    def wait(seconds: float) -> bool:
        for _ in range(int(seconds)):
            now[0] += 1
            watchdog.listen()
        return watchdog.hangs(me)

    watchdog.begin(me)
    process.notify("WATCHDOG=1")
    assert not wait(START_S - 10), "it is still starting"
    assert wait(20)
    process.notify("READY=1")
    assert not wait(30)
    assert wait(2)
    process.notify("WATCHDOG=1")
    assert not wait(1)
    now[0] += 10 * AWAY_S
    watchdog.listen()
    assert not watchdog.hangs(me), "nobody listened"
    assert wait(31)
    watchdog.forget(me)
    assert not watchdog.hangs(me)
    watchdog.close()


def test_nobody_waits_for_a_supervisor_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life that can't be given is not waited with."""
    watchdog = Watchdog()
    monkeypatch.setenv("NOTIFY_SOCKET", watchdog.address)
    for _ in range(5_000):
        process.notify("WATCHDOG=1")
    watchdog.close()
    process.notify("WATCHDOG=1")


def test_what_systemd_shows_is_read() -> None:
    """Units that were started again, that loop and that were given up are told apart."""
    shown = """\
Id=milliarde-fetcher@1.service
NRestarts=7
ActiveState=activating
SubState=auto-restart
Result=signal
ExecMainStatus=11
ActiveEnterTimestampMonotonic=99000000

Id=milliarde-fetcher@2.service
NRestarts=4
ActiveState=active
SubState=running
Result=success
ActiveEnterTimestampMonotonic=50000000

Id=milliarde-parser@1.service
NRestarts=0
ActiveState=failed
SubState=failed
Result=exit-code
ExecMainStatus=6
ActiveEnterTimestampMonotonic=0

Id=milliarde-watch.service
NRestarts=0
ActiveState=active
SubState=running
Result=success
ActiveEnterTimestampMonotonic=50000000
"""
    found = read(shown, now_s=100.0)
    assert {name: (each.count, each.loops, each.given_up) for name, each in found.items()} == {
        "fetcher.1": (7, True, False),
        "fetcher.2": (4, False, False),
        "parser.1": (0, True, True),
    }
    assert found["parser.1"].why == "exit-code, exit code 6"
