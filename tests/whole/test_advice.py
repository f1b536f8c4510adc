"""``milliarde status`` names the stage that sets the pace: each is starved in turn on a node that runs."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from node import cli, settings
from node.rules.advice import WORDS
from node.rules.pressure import Stage
from node.store import keys
from tests.web.running import MiniWeb
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(300)]

RESERVE = "disk_reserve_bytes = 1000000000"


def pace_set_by(crawl: Crawl) -> str:
    """What the command tells people (run within this process, since it is asked often)."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert cli.main(["status", "--config", str(crawl.config)]) == 0
    lines = [line for line in said.getvalue().splitlines() if line.startswith("pace set by")]
    return lines[0].removeprefix("pace set by").strip() if lines else ""


def names(crawl: Crawl, stage: Stage, advice: str = "") -> str:
    """Wait until status names a stage, and gives some advice; answers the whole line."""

    def told() -> str:
        said = pace_set_by(crawl)
        return said if said.startswith(WORDS[stage]) and advice in said else ""

    line: str = until(told, f"status names {stage}: {advice}", every_s=0.3)
    return line


@contextlib.contextmanager
def again_and_again(what: Callable[[threading.Event], object]) -> Iterator[None]:
    """Do something over and over while the block lasts; ``what`` may wait for the event, set at the end."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            what(over)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def hold_at_work(pid: int, over: threading.Event) -> None:
    """Stop a process for a while as soon as it is seen computing, not waiting: so its work is slow."""
    while not over.wait(0.0005):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("R"):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.1)
            os.kill(pid, signal.SIGCONT)
            return


@contextlib.contextmanager
def other_reserve(crawl: Crawl, line: str) -> Iterator[None]:
    """Fetchers that want more free than the disk has: killed, they start with these settings."""
    before = crawl.config.read_text()
    assert RESERVE in before
    crawl.config.write_text(before.replace(RESERVE, line))
    try:
        kill_fetchers(crawl)
        yield
    finally:
        crawl.config.write_text(before)
        kill_fetchers(crawl)


def kill_fetchers(crawl: Crawl) -> None:
    for role, pid in crawl.children().items():
        if role.startswith("fetcher"):
            os.kill(pid, signal.SIGKILL)


def test_each_stage_is_named_when_it_sets_the_pace(tmp_path: Path, tls_dir: Path) -> None:
    """Fetchers without a place to spare, a limit, a slow parser, a slow Redis, a full disk, an operator: each
    is named while it lasts, and a better split of the processes where there is one.
    """
    with MiniWeb(
        tmp_path / "web", domains=200, pages_per_domain=300, mean_bytes=2_000, tls_dir=tls_dir
    ) as web:
        crawl = Crawl(
            tmp_path / "out",
            web,
            *("--seeds", web.ordinary_seeds, "--delay", "0", "--fetchers", "2", "--parsers", "1"),
            settings=["fetcher.in_flight=3", "spool.floor=30", "spool.seconds=0.3", "redis.slow_s=0.2"],
        )
        with crawl:
            crawl.start()
            until(lambda: len(web.requests()) > 20, "the crawl runs")
            names(crawl, Stage.FETCHERS)
            socket = settings.load(crawl.config).paths.redis_socket
            with redis.Redis(unix_socket_path=socket) as client:
                client.hset(keys.CONTROL, "pages_max", crawl.status()["pages"])
                names(crawl, Stage.LIMIT)
                client.hdel(keys.CONTROL, "pages_max")

                with again_and_again(lambda _: client.execute_command("CLIENT", "PAUSE", "400")):
                    names(crawl, Stage.STORE)

            with other_reserve(crawl, RESERVE + "000000000"):
                names(crawl, Stage.DISK)

            parser = crawl.children()["parser 1"]
            with again_and_again(lambda over: hold_at_work(parser, over)):
                names(crawl, Stage.PARSERS, "1 fetchers and 2 parsers would fit better than 2 and 1")

            crawl.command("pause")
            names(crawl, Stage.OPERATOR)
            before = crawl.status()["pages"]
            crawl.command("resume")
            until(lambda: crawl.status()["pages"] > before, "it goes on")
            assert crawl.interrupt() == 130
        assert crawl.summary["ledger"]["gap"] == 0


def test_politeness_is_named_where_all_domains_wait_for_their_delay(tmp_path: Path, tls_dir: Path) -> None:
    """Few domains and a long delay: more processes would not help, and status doesn't say they would."""
    with MiniWeb(tmp_path / "web", domains=3, pages_per_domain=20, mean_bytes=2_000, tls_dir=tls_dir) as web:
        seeds = ("--seeds", web.ordinary_seeds, "--delay", "20", "--fetchers", "2", "--parsers", "1")
        with Crawl(tmp_path / "out", web, *seeds) as crawl:
            crawl.start()
            until(lambda: len(web.requests()) > 1, "the crawl runs")
            said = names(crawl, Stage.POLITENESS)
            assert "would fit better" not in said
            assert crawl.interrupt() == 130
