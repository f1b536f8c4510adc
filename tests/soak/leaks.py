"""Does anything grow? Many pages of few domains, then many domains visited once.

Sampled: the resident memory and the open files of each process, Redis's clients, keys and memory. What is
claimed is the slope of a line after the warm-up.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from node import settings
from node.store import keys
from tests.bench.processes import serving
from tests.soak.growth import Growth, Samples
from tests.soak.verdict import Claim, Verdict
from tests.web.running import MiniWeb
from tests.whole.crawl import Crawl

HELP = "many pages of few domains, many domains visited once: does anything grow?"

_DOMAINS = 100
_SAMPLE_EVERY_S = 2.0
_WARM = 1 / 3
"""Share of a crawl that counts as warming up."""
_SHARE, _FLOOR_MB = 0.03, 4.0
_FILES, _CLIENTS, _KEYS_PER_DOMAIN = 3.0, 1.0, 0.05
_DOMAIN_BYTES, _DOMAIN_KEYS = 4_500.0, 4.0
"""Of which a filter of what was seen, for hundreds of URLs, is 3,700 bytes."""


def options(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--pages", type=int, default=200_000, help=f"of {_DOMAINS} domains")
    parser.add_argument("--domains", type=int, default=100_000, help="that are visited once")


def run(args: argparse.Namespace, work: Path, say: Callable[[str], None]) -> Verdict:
    """Both crawls, and what they show."""
    return soak(args.pages, args.domains, work, say)


@dataclass(slots=True)
class Ran:
    """One crawl. ``ended``: what Redis held last, by ``_redis_now``."""

    memory_mb: Samples = field(default_factory=Samples)
    files: Samples = field(default_factory=Samples)
    redis: Samples = field(default_factory=Samples)
    seconds: float = 0.0
    ended: dict[str, float] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    said: str = ""

    @property
    def warm_s(self) -> float:
        return self.seconds * _WARM


def soak(pages: int, domains: int, work: Path, say: Callable[[str], None]) -> Verdict:
    """``pages`` pages of few domains; then ``domains`` domains of one page each."""
    say(f"{pages:,} pages of {_DOMAINS} domains")
    with MiniWeb(
        work / "web", domains=_DOMAINS, pages_per_domain=pages // _DOMAINS + 100, mean_bytes=4_000
    ) as web:
        words: tuple[str | Path, ...] = ("--seeds", web.ordinary_seeds, "--pages", str(pages))
        many = _crawl(Crawl(work / "pages", web, *words, *_AS_FAST_AS_IT_GOES, settings=_SETTINGS), say)
    say(f"{domains:,} domains, each visited once")
    seeds = work / "domains.txt"
    seeds.write_text("".join(f"http://domain-{number:06d}.test/\n" for number in range(domains)))
    with serving("tests.soak.onepage") as port:
        words = ("--seeds", seeds, "--connect-to", f":80:127.0.0.1:{port}")
        once = _crawl(Crawl(work / "once", None, *words, *_AS_FAST_AS_IT_GOES, settings=_SETTINGS), say)
    return judge(pages, many, domains, once)


_AS_FAST_AS_IT_GOES = ("--delay", "0", "--fetchers", "1", "--parsers", "1")
_SETTINGS = (
    *("crawl.hop_gap_s=0", "crawl.max_urls_per_domain=100000", "archive.keep=spool", "watch.port=0"),
    *("fetcher.known_pages=20000", "fetcher.in_flight=100"),
)
"""What is bounded is full before the warm-up ends: else it would look like a leak for hours."""


def _crawl(crawl: Crawl, say: Callable[[str], None]) -> Ran:
    ran = Ran()
    with crawl:
        crawl.start()
        assert crawl.process is not None
        began = told = time.monotonic()
        while crawl.process.poll() is None:
            time.sleep(_SAMPLE_EVERY_S)
            ran.seconds = time.monotonic() - began
            _sample(crawl, ran)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                say(f"  {ran.seconds:.0f} s: {ran.ended.get('pages', 0):,.0f} pages")
        if crawl.process.returncode:
            raise RuntimeError(f"the crawl ended with {crawl.process.returncode}:\n{crawl.said[-2_000:]}")
    ran.summary, ran.said = crawl.summary, crawl.said
    return ran


def _sample(crawl: Crawl, ran: Ran) -> None:
    """Each process that lives, and Redis, unless it is only just starting or ending."""
    for name, pid in crawl.children().items():
        try:
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            continue
        ran.memory_mb.note(ran.seconds, {name: resident * os.sysconf("SC_PAGESIZE") / 1e6})
        ran.files.note(ran.seconds, {name: files})
    if crawl.config.exists():
        try:
            ran.ended = _redis_now(settings.load(crawl.config).paths.redis_socket)
        except redis.RedisError:
            return
        ran.redis.note(ran.seconds, ran.ended)


def _redis_now(socket: str) -> dict[str, float]:
    with redis.Redis(unix_socket_path=socket) as client:
        info: Mapping[str, Any] = client.info()
        ledger = {name.decode(): int(value) for name, value in client.hgetall(keys.LEDGER).items()}
        domains = max(1, ledger.get("domains", 0))
        return {
            "clients": float(info["connected_clients"]),
            "keys a domain": client.dbsize() / domains,
            "bytes a domain": info["used_memory"] / domains,
            "pages": ledger.get("pages", 0),
        }


def judge(pages: int, many: Ran, domains: int, once: Ran) -> Verdict:
    """What both crawls show."""
    ended = [each.summary for each in (many, once)]
    claims = [
        Claim(
            f"{pages:,} pages, and {domains:,} domains visited once; nothing is lost, no process died",
            f"{ended[0]['pages']:,} pages and {ended[1]['pages']:,}, gaps "
            f"{[each['ledger']['gap'] for each in ended]}, deaths "
            f"{[each.said.count(' died') for each in (many, once)]}",
            ended[0]["pages"] >= pages
            and ended[1]["pages"] == domains
            and not any(each["ledger"]["gap"] or each["dead_letters"] for each in ended)
            and not any(" died" in each.said for each in (many, once)),
        )
    ]
    for ran, what in ((many, "many pages"), (once, "many domains")):
        memory = [row for row in ran.memory_mb.growth(ran.warm_s) if row.name != "redis"]
        claims.append(
            _claim(
                f"{what}: memory of each process of ours is flat",
                memory,
                lambda row: row.flat(_SHARE, _FLOOR_MB),
                lambda row: f"{row.grown:+.1f} MB at most ({row.name}: {row.typical:.0f} MB)",
            )
        )
        claims.append(
            _claim(
                f"{what}: open files are as many at the end",
                ran.files.growth(ran.warm_s),
                _at_most(_FILES),
                lambda row: f"{row.grown:+.1f} at most ({row.name}: {row.typical:.0f})",
            )
        )
        for name, most in (("clients", _CLIENTS), ("keys a domain", _KEYS_PER_DOMAIN)):
            claims.append(
                _claim(
                    f"{what}: Redis's {name} are as many at the end",
                    [row for row in ran.redis.growth(ran.warm_s) if row.name == name],
                    _at_most(most),
                    lambda row: f"{row.grown:+.3f} ({row.typical:.2f})",
                )
            )
    left = once.ended
    claims.append(
        Claim(
            f"a domain that was visited once leaves at most {_DOMAIN_BYTES:.0f} bytes in Redis",
            f"{left['bytes a domain']:.0f} bytes in {left['keys a domain']:.2f} keys",
            left["bytes a domain"] <= _DOMAIN_BYTES and left["keys a domain"] <= _DOMAIN_KEYS,
        )
    )
    figures = [
        (f"{what}, {row.name}", f"{row.typical:.1f} MB, {row.grown:+.1f} after the warm-up")
        for ran, what in ((many, "pages"), (once, "domains"))
        for row in ran.memory_mb.growth(ran.warm_s)
    ]
    figures.append(("seconds", f"{many.seconds:.0f} and {once.seconds:.0f}"))
    return Verdict(tuple(claims), tuple(figures))


def _at_most(most: float) -> Callable[[Growth], bool]:
    return lambda row: row.grown <= most


def _claim(
    what: str, rows: Sequence[Growth], holds: Callable[[Growth], bool], words: Callable[[Growth], str]
) -> Claim:
    """All rows must hold; the one that grew most is told."""
    worst = max(rows, key=lambda row: row.grown, default=None)
    if worst is None:
        return Claim(what, "nothing: it was over too soon", False)
    return Claim(what, words(worst), all(map(holds, rows)))
