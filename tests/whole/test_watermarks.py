"""A whole crawl that runs out of something: it waits or gives way, says why, and goes on without help."""

from __future__ import annotations

import os
import resource
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from node import settings
from tests.web.running import MiniWeb
from tests.whole import stored
from tests.whole.crawl import Crawl, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

MB = 1_000_000


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    folder = tmp_path_factory.mktemp("watermarks-web")
    with MiniWeb(folder, domains=12, pages_per_domain=30, mean_bytes=6_000, tls_dir=tls_dir) as running:
        yield running


def crawl_of(web: MiniWeb, out: Path, delay: str, *set_: str) -> Crawl:
    options = ("--seeds", web.ordinary_seeds, "--delay", delay, "--fetchers", "1", "--parsers", "1")
    return Crawl(out, web, *options, settings=["crawl.hop_gap_s=0.05", *set_])


def is_sound(crawl: Crawl) -> None:
    """Nothing is lost, and nothing died on the way."""
    assert crawl.summary["ledger"]["gap"] == 0
    assert "died" not in crawl.said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MB in memory."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    where = tmp_path / "small"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "milliarde-test", str(where)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_disk_that_fills_and_is_freed(small_disk: Path, web: MiniWeb) -> None:
    """Fetching pauses before the disk is full, says so, and goes on when there is room: not at the first byte
    more, and with every page in the end.
    """
    crawl = crawl_of(
        *(web, small_disk / "out", "0.2"), f"archive.disk_reserve_bytes={30 * MB}", "archive.fsync=false"
    )
    fillers = [small_disk / f"filler-{number}" for number in range(2)]
    with crawl:
        crawl.start()
        until(lambda: crawl.out.is_dir() and len(stored_lines(crawl)) > 20, "the crawl runs", every_s=0.1)

        def waiting() -> str:
            return str(crawl.status()["processes"]["fetcher.1"].get("waiting", ""))

        room = os.statvfs(small_disk)
        fillers[0].write_bytes(bytes(room.f_bavail * room.f_frsize - 29 * MB))
        fillers[1].write_bytes(bytes(3 * MB))
        until(lambda: waiting() == "disk_low", "fetching pauses")
        until(lambda: crawl.status()["ledger"]["leased"] == 0, "what was under way has ended")
        requests = len(stored_lines(crawl))
        fillers[1].unlink()  # 29 MB are free: not the 30 of the reserve
        until(lambda: "the disk is nearly full" in crawl.said, "it is told")
        assert waiting() == "disk_low"
        assert len(stored_lines(crawl)) == requests
        fillers[0].unlink()
        assert crawl.wait() == 0
    is_sound(crawl)
    assert stored.pages(crawl.out) == Counter(web.expected().pages)
    assert crawl.summary["requests"] > requests


def stored_lines(crawl: Crawl) -> list[object]:
    return list(crawl.fetch_log()) if (crawl.out / "log").is_dir() else []


def test_a_redis_that_is_too_small_for_a_while(tmp_path: Path, web: MiniWeb) -> None:
    """Links of the lowest priority (a rule makes it that of all) are shed and counted by it; what is queued
    is served; once there is memory they enter again by themselves.
    """
    crawl = crawl_of(
        *(web, tmp_path / "out", "0.5"),
        'priority.rules=[{pattern="/", level=7}]',
        "redis.shed_queued_after_s=600",
    )
    with crawl:
        crawl.start()
        until(lambda: crawl.out.is_dir() and len(stored_lines(crawl)) > 12, "the crawl runs", every_s=0.05)
        socket = settings.load(crawl.out / "node.toml").paths.redis_socket
        with redis.Redis(unix_socket_path=socket) as client:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] / 0.85))
            until(lambda: crawl.status()["dropped"].get("shed", 0) > 0, "links are shed")
            assert int(crawl.status()["control"]["shed"]) > 0
            before = crawl.status()["pages"]
            until(lambda: crawl.status()["pages"] > before + 5, "what is queued is still served")
            told = crawl.status()
            shed = Counter[str]()
            for counters in (told["ledger"], told["tally"]):
                shed += Counter({name: n for name, n in counters.items() if name.startswith("shed:")})
            assert shed.keys() == {"shed:7"}
            client.config_set("maxmemory", 0)
        until(lambda: crawl.status()["control"]["shed"] == "0", "all enter again")
        assert crawl.wait() == 0
    is_sound(crawl)
    assert crawl.summary["dropped"]["shed"] > 0


def test_a_fetcher_that_may_open_no_more_files(tmp_path: Path, web: MiniWeb) -> None:
    """It waits and says why; no URL is lost, no try is spent, no site is slowed; with files it goes on."""
    crawl = crawl_of(web, tmp_path / "out", "0.2")
    with crawl:
        crawl.start()
        until(lambda: crawl.out.is_dir() and len(stored_lines(crawl)) > 12, "the crawl runs", every_s=0.05)
        pid = crawl.children()["fetcher 1"]
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        open_now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now - 1, before[1]))
        until(lambda: crawl.status()["tally"].get("wait_ms:fetchers:no_files", 0) > 0, "it waits")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert crawl.wait() == 0
    is_sound(crawl)
    assert stored.pages(crawl.out) == Counter(web.expected().pages)
    bad = {"local_error", "unreachable", "dns_failed", "timeout", "no_files"}
    assert not bad & crawl.summary["outcomes"].keys()
    assert crawl.summary["retries"] == 0
