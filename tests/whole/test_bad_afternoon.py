"""A bad afternoon: one site goes wrong in every way, a parser is slow, memory and disk run out; and nothing
else suffers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from node import settings
from tests.whole.afternoon import (
    BACK,
    BACK_S,
    Afternoon,
    afternoon,
    describe,
    healthy,
    median_rss,
    run,
    troubled,
)
from tests.whole.crawl import until

pytestmark = [pytest.mark.whole, pytest.mark.alone, pytest.mark.timeout(600)]

MB = 1_000_000
MEMORY_MB, BESIDE_MB = 6, 4


def check_bounds(day: Afternoon) -> None:
    """Whatever happened: no queue beyond its bound, no process lost, nothing lost."""
    assert " died" not in day.crawl.said, day.crawl.said
    chosen = settings.load(day.crawl.config)
    for look in day.looks:
        counts = look.counts
        assert counts.ledger_gap == 0
        if look.spool_max:
            assert counts.count("leased") + counts.count("spooled") <= look.spool_max
        assert counts.count("queued") <= chosen.crawl.max_urls_per_domain * counts.count("domains")
        for name, report in counts.procs.items():
            if name.startswith("fetcher."):
                # fewer may be allowed than are in hand already
                assert report.in_hand <= chosen.fetcher.in_flight
            elif name.startswith("parser."):
                assert report.in_hand <= chosen.parser.in_hand


def check_memory(day: Afternoon) -> None:
    """Flat after the warm-up: ± 10 % of what it was when all was calm."""
    calm = median_rss(day.during("calm"))
    for look in day.looks:
        if look.at_ms >= day.phase("calm").start_ms:
            assert 0.9 * calm <= look.total_rss_mb <= 1.1 * calm


def keep(day: Afternoon, name: str, part: float, *, last_s: float | None = None) -> None:
    """Healthy sites are visited as often as when all was calm, at least this part of it.

    As far as we are the limit: where the machine has nothing left to give in one of the two phases, others
    on it decide how much that is, and half of it is all that can be asked for.
    """
    if min(day.idle_share("calm"), day.idle_share(name)) < 0.1:
        part = 0.5
    calm = day.rate("calm", healthy)
    assert day.rate(name, healthy, last_s=last_s) >= part * calm, f"healthy sites during {name}"


def test_one_site_in_trouble_and_a_slow_parser_are_nobody_else_s_trouble(
    tmp_path: Path, tls_dir: Path
) -> None:
    """Giant pages, then 429: the troubled site gets less, the others what they had; and it comes back."""
    with afternoon(tmp_path, tls_dir) as day:
        run(day)
    print(describe(day))
    check_bounds(day)
    check_memory(day)
    keep(day, "giants", 0.9)
    keep(day, "limits", 0.9)
    keep(day, "after", BACK, last_s=BACK_S)
    assert day.rate("limits", troubled) < 0.5 * day.rate("calm", troubled)
    assert max(look.delay_ms for look in day.during("limits")) >= 4_000
    assert day.during("after")[-1].delay_ms <= 1_100, "within a tenth of where it was"
    statuses = {entry.status for entry in day.web.requests("moody.test")}
    assert {200, 429} <= statuses


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk of its own needs root")
def test_the_same_with_too_little_memory_and_a_disk_that_fills(tmp_path: Path, tls_dir: Path) -> None:
    """Redis has a few megabytes from early on, and in the middle the disk is full: links are turned away,
    fetching pauses and goes on by itself, and nothing dies or is lost."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", disk], check=True)

    @contextmanager
    def full_disk() -> Iterator[None]:
        ballast = disk / "ballast"
        free = shutil.disk_usage(disk).free
        with ballast.open("wb") as file:
            file.truncate(0)
            os.posix_fallocate(file.fileno(), 0, free - 20 * MB)
        until(lambda: waiting(day, "disk_low"), "fetchers see that the disk is nearly full")
        pages = day.looks[-1].counts.pages
        try:
            yield
        finally:
            paused_at = day.looks[-1].counts.pages
            ballast.unlink()
        # what was in flight may still end
        assert paused_at - pages < 300
        until(lambda: not waiting(day, "disk_low"), "fetchers see that there is room")

    try:
        reserve = f"archive.disk_reserve_bytes={60 * MB}"
        with afternoon(tmp_path, tls_dir, reserve, out=disk / "out") as day:
            run(day, begun=lambda: little_memory(day), fault=full_disk)
            print(describe(day))
            check_bounds(day)
            keep(day, "after", BACK, last_s=BACK_S)
            dropped = day.looks[-1].counts.dropped
            assert dropped.get("shed", 0) + dropped.get("memory", 0) > 0, dropped
            used = [int(look.counts.redis["used_memory"]) for look in day.looks]
            # what takes URLs out of the frontier always has room, and Redis its buffers
            assert max(used) <= (MEMORY_MB + BESIDE_MB) * 1024 * 1024
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def little_memory(day: Afternoon) -> None:
    """From now on. Not before something waits: the buffers of a hundred connections may fill it for a moment
    where the machine is busy, and if then all links of the seeds are turned away, the crawl is over."""
    until(lambda: day.looks[-1].counts.count("queued") > 2_000, "URLs wait")
    socket = settings.load(day.crawl.config).paths.redis_socket
    with redis.Redis(unix_socket_path=socket) as client:
        client.config_set("maxmemory", f"{MEMORY_MB}mb")


def waiting(day: Afternoon, reason: str) -> bool:
    """Does any fetcher say that it waits for this?"""
    procs = day.looks[-1].counts.procs
    return any(each.waiting == reason for name, each in procs.items() if name.startswith("fetcher."))
