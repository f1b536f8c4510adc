"""How many visits can be under way in one fetcher: its memory, and whether its event loop is in time.

As many domains as visits, and some more, behind TLS, each with a chain of its own; a page takes its time, so
that nearly all domains are being visited at any moment while pages come in without pause. Looked at once a
second, from when the fetcher is full.
"""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec
import redis

from node.store import keys
from node.store.snapshot import Report
from tests.bench.figures import Figure, Goal
from tests.bench.looking import redis_of
from tests.bench.processes import RunError, cpu_seconds, serving
from tests.web.certs import Authority
from tests.whole.crawl import Crawl

VISITS = 6_500
SPARE = 1.08
"""Domains, as a multiple of the visits: some wait for their delay."""
URLS_A_DOMAIN = 20
HOLD_S = 20.0
DELAY_S = 0.5
LOOKS = 90
"""Seconds looked at."""
_FULL = 0.97
_PATIENCE_S = 300.0
_EVERY_S = 1.0

MEMORY_MB, LAG_MS = 600.0, 50.0


@dataclass(frozen=True, slots=True)
class Look:
    """A fetcher at one moment. ``lag_ms``: the worst since the look before."""

    at_s: float
    visits: int
    rss_mb: float
    cpu_s: float
    lag_ms: float
    pages: int


def measure(work: Path, say: Callable[[str], None], visits: int = VISITS) -> list[Look]:
    """Fill one fetcher with so many visits, then look. Raises ``RunError`` where it does not get full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * visits:
        raise RunError(f"{visits:,} visits take {2 * visits:,} open files, and {hard:,} are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    out = work / "in-flight"
    shutil.rmtree(out, ignore_errors=True)
    names = [f"in-flight-{number:04d}.test" for number in range(int(SPARE * visits))]
    tls = work / "tls"
    authority = Authority(tls, "mixed")
    for name in names:
        authority.leaf(name)
    seeds = work / "in-flight-seeds.txt"
    seeds.write_text("".join(f"https://{name}/{path}\n" for path in range(URLS_A_DOMAIN) for name in names))
    words = ("--seeds", seeds, "--ca-file", authority.root, "--delay", DELAY_S)
    few = ("--fetchers", "1", "--parsers", "1")
    try:
        with serving("tests.bench.waiting", tls, HOLD_S) as port:
            rule = f":443:127.0.0.1:{port}"
            crawl = Crawl(
                out,
                None,
                *map(str, (*words, *few, "--connect-to", rule)),
                settings=(*_SETTINGS, f"fetcher.in_flight={visits}"),
            )
            with crawl:
                crawl.start()
                looks = list(_looks(crawl, visits, say))
                crawl.interrupt()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        shutil.rmtree(out, ignore_errors=True)
    return looks


_SETTINGS = (
    "fetcher.deadline_s=120",
    "watch.port=0",
)


def _looks(crawl: Crawl, visits: int, say: Callable[[str], None]) -> Iterator[Look]:
    begun = told = time.monotonic()
    full = False
    left = LOOKS
    while left:
        time.sleep(_EVERY_S)
        now = time.monotonic()
        look = _look(crawl, now - begun)
        if look is None:
            if crawl.process is None or crawl.process.poll() is not None:
                raise RunError(f"the crawl ended: {crawl.said[-1_000:]}")
            continue
        if now - told > 10:
            told = now
            say(f"{look.visits:,} visits under way, {look.pages:,} pages, {look.rss_mb:.0f} MB")
        full = full or (look.visits >= _FULL * visits and look.pages >= visits)
        if full:
            left -= 1
            yield look
        elif now - begun > _PATIENCE_S:
            raise RunError(f"{look.visits:,} visits were under way after {now - begun:.0f} s at most")


def _look(crawl: Crawl, at_s: float) -> Look | None:
    try:
        with redis_of(crawl) as client:
            told = client.hget(keys.PROCS, "fetcher.1")
            pages = int(client.hget(keys.LEDGER, "pages") or 0)
    except redis.RedisError:
        return None
    if told is None:
        return None
    report = msgspec.json.decode(told, type=Report)
    pages_held = int(Path(f"/proc/{report.pid}/statm").read_text().split()[1])
    rss_mb = pages_held * os.sysconf("SC_PAGESIZE") / 1e6
    return Look(at_s, report.in_hand, rss_mb, cpu_seconds(report.pid), report.lag_ms, pages)


def figures(looks: Sequence[Look], wanted: int = VISITS) -> list[Figure]:
    """What they say."""
    visits = [look.visits for look in looks]
    lags = sorted(look.lag_ms for look in looks)
    memory = [look.rss_mb for look in looks]
    first, last = looks[0], looks[-1]
    pages, seconds = last.pages - first.pages, last.at_s - first.at_s
    if pages <= 0 or min(visits) < 0.9 * wanted:
        raise RunError(
            f"{pages:,} pages in {seconds:.0f} s, between {min(visits):,} and {max(visits):,} visits"
        )
    late = lags[min(len(lags) - 1, int(0.99 * len(lags)))]

    def row(name: str, words: str, value: float, low: float, high: float, goal: Goal | None = None) -> Figure:
        return Figure(name, words, value, low, high, None, goal)

    rate, cpu = pages / seconds, 1000 * (last.cpu_s - first.cpu_s) / pages
    return [
        row("visits", "visits under way in one fetcher, TLS", median(visits), min(visits), max(visits)),
        row("rate", "pages stored meanwhile, a second", rate, rate, rate),
        row("cpu", "CPU per page, fetcher, ms", cpu, cpu, cpu),
        row("rss", "memory of the fetcher, MB", max(memory), min(memory), max(memory), _at_most(MEMORY_MB)),
        row(
            "lag_p99",
            "worst lateness of its event loop in a second, 99th of 100 seconds, ms",
            late,
            lags[0],
            lags[-1],
            _at_most(LAG_MS),
        ),
        row("lag", "the same, median", median(lags), lags[0], lags[-1]),
    ]


def _at_most(value: float) -> Goal:
    return Goal(value, least=False)
