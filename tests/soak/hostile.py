"""Half of the domains misbehave, each in another way: the other half must not notice, nor the memory.

Three crawls: of the healthy domains alone, of all of them, and of the healthy ones alone once more, since
a machine is not the same from one minute to the next. What bounds the rate of a healthy domain is its delay,
so that the second crawl can fall behind the others only by what the misbehaving half does to it. That half
has a web server of its own: what it does to a server is not our matter.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from node.rules.outcome import Outcome
from tests.soak.hostile_seeds import HEALTHY, MISBEHAVING, seed_lines
from tests.soak.memory import Growth, Memory
from tests.soak.verdict import Claim, Verdict
from tests.web.log import Entry, now_ms
from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole import manners
from tests.whole.crawl import Crawl

HELP = "half of the domains misbehave, each in another way"

RATE_HELD = 0.95
"""Share of their rate that the healthy domains must keep."""
_GROWTH_SHARE = 0.1
_GROWTH_FLOOR_MB = 10.0
"""Growth after the warm-up that counts as none: caches that have bounds fill up slowly."""
_WARM_SHARE = 0.4
"""This much of a run is its warm-up."""
_DEADLINE_S = 4.0
_MAX_WIRE_BYTES = 300_000
_PAGES_PER_DOMAIN = 1_000
"""More than a domain is asked for meanwhile: none may run out of pages."""
_RAMP_S = 10.0
"""The start of a crawl, which no rate is taken from."""
_SAMPLE_EVERY_S = 2.0
_ROLES = ("fetcher", "parser", "watch")
"""Whose memory must be flat. Redis holds what waits, so it has its bound elsewhere (docs/bounds.md)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large: ``requests`` with the misbehaving half beside, twice ``alone_s`` seconds without it."""

    requests: int
    alone_s: float
    delay_s: float
    warm_s: float = _RAMP_S


@dataclass(frozen=True, slots=True)
class Ran:
    """One crawl as the web's log and the node's own books have it."""

    seconds: float
    healthy_rate: float
    """Requests a second that the healthy domains saw after the ramp."""
    requests: list[Entry]
    logged: list[dict[str, Any]]
    summary: dict[str, Any]
    said: str
    memory: Memory


def options(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--requests", type=int, default=20_000, help="with the misbehaving half beside")
    parser.add_argument("--alone", type=float, default=60.0, metavar="S", help="seconds without it, twice")
    parser.add_argument("--delay", type=float, default=1.0, metavar="S", help="between visits to a domain")


def run(args: argparse.Namespace, work: Path, say: Callable[[str], None]) -> Verdict:
    """Both crawls, and what they show."""
    return soak(Plan(args.requests, args.alone, args.delay), work, say)


def soak(plan: Plan, work: Path, say: Callable[[str], None]) -> Verdict:
    """The soak by ``plan``; as many healthy domains as misbehaving ones."""
    with (
        MiniWeb(
            work / "healthy", domains=len(MISBEHAVING), pages_per_domain=_PAGES_PER_DOMAIN, mean_bytes=6_000
        ) as healthy,
        MiniWeb(work / "misbehaving", domains=1, tls_dir=work / "healthy" / "tls") as misbehaving,
    ):
        webs = _Webs(healthy, misbehaving)
        say(f"{len(MISBEHAVING)} healthy domains alone, {plan.alone_s:.0f} s")
        before = _crawl(work / "before", webs, healthy.ordinary_seeds, plan, say, until_requests=None)
        seeds = work / "all-seeds.txt"
        each = max(20, plan.requests // len(MISBEHAVING))
        others = "".join(f"{line}\n" for line in seed_lines(each))
        seeds.write_text(healthy.ordinary_seeds.read_text() + others)
        say(f"and {len(MISBEHAVING)} misbehaving ones beside them, {plan.requests:,} requests")
        beside = _crawl(work / "beside", webs, seeds, plan, say, until_requests=plan.requests)
        say(f"the healthy ones alone again, {plan.alone_s:.0f} s")
        after = _crawl(work / "after", webs, healthy.ordinary_seeds, plan, say, until_requests=None)
    return judge(plan, (before, after), beside)


class _Webs:
    """The healthy half at one server, the other half at another, as a crawl is told of them."""

    def __init__(self, healthy: MiniWeb, misbehaving: MiniWeb) -> None:
        self._parts = (healthy, misbehaving)
        self.ca = healthy.ca
        ports = ((443, healthy.https_port), (80, healthy.http_port))
        self.connect_to = [
            f"{prefix}{domain_name(index)}:{port}:127.0.0.1:{real}"
            for index in range(healthy.shape.domains)
            for prefix in ("", "www.", "blog.")
            for port, real in ports
        ] + misbehaving.connect_to

    def count(self) -> int:
        """How many requests there were. Parsing the logs each time would cost more than the crawl."""
        return sum(web.log.read_bytes().count(b'"method":"GET"') for web in self._parts)

    def requests(self, since_ms: float) -> list[Entry]:
        """All requests from a moment on, in their order."""
        found = [each for web in self._parts for each in web.requests() if each.t_ms >= since_ms]
        return sorted(found, key=lambda each: each.t_ms)


def _crawl(
    out: Path, webs: _Webs, seeds: Path, plan: Plan, say: Callable[[str], None], until_requests: int | None
) -> Ran:
    before = webs.count()
    memory = Memory()
    crawl = Crawl(
        out,
        webs,
        *("--seeds", seeds, "--delay", str(plan.delay_s), "--fetchers", "2", "--parsers", "2"),
        settings=[
            "crawl.hop_gap_s=0.1",
            f"fetcher.deadline_s={_DEADLINE_S}",
            f"fetcher.max_wire_bytes={_MAX_WIRE_BYTES}",
        ],
    )
    began, began_ms = time.monotonic(), now_ms()
    with crawl:
        crawl.start()
        while True:
            time.sleep(_SAMPLE_EVERY_S)
            at_s = time.monotonic() - began
            seen = webs.count() - before
            _sample(crawl, memory, at_s)
            if until_requests is None and at_s >= plan.alone_s:
                break
            if until_requests is not None and seen >= until_requests and at_s > plan.warm_s * 2:
                break
            assert crawl.process is not None
            if crawl.process.poll() is not None:
                raise RuntimeError(f"the crawl ended early:\n{crawl.said}")
            if int(at_s / _SAMPLE_EVERY_S) % 10 == 0:
                say(f"  {at_s:.0f} s: {seen:,} requests")
        code = crawl.interrupt()
        if code != 130:
            raise RuntimeError(f"the crawl stopped with {code}:\n{crawl.said}")
    requests = webs.requests(began_ms)
    return Ran(
        seconds=at_s,
        healthy_rate=healthy_rate(requests, plan.warm_s, began_ms + 1_000 * at_s),
        requests=requests,
        logged=list(crawl.fetch_log()),
        summary=crawl.summary,
        said=crawl.said,
        memory=memory,
    )


def _sample(crawl: Crawl, memory: Memory, at_s: float) -> None:
    """Memory of all processes that have reported, unless the node is only just starting."""
    if not crawl.config.exists() or not (crawl.out / "log").exists():
        return
    try:
        status = crawl.status()
    except AssertionError:  # Redis does not answer yet
        return
    sizes = {name: float(each["rss_mb"]) for name, each in status["processes"].items() if each.get("rss_mb")}
    memory.note(at_s, sizes | {"redis": status["redis"]["used_memory"] / 1e6})


def healthy_rate(requests: list[Entry], warm_s: float, end_ms: float) -> float:
    """Requests a second to the healthy domains, from ``warm_s`` after the first until ``end_ms``."""
    times = [each.t_ms for each in requests if _is_healthy(each)]
    if not times:
        return 0.0
    start_ms = times[0] + 1_000 * warm_s
    return 1_000 * sum(start_ms <= at < end_ms for at in times) / max(end_ms - start_ms, 1)


def _is_healthy(entry: Entry) -> bool:
    return manners.domain_of(entry.host or "").startswith(domain_name(0)[:5])


def judge(plan: Plan, alone: tuple[Ran, Ran], beside: Ran) -> Verdict:
    """The claims, and the figures behind them."""
    growth = beside.memory.growth(_WARM_SHARE * beside.seconds)
    grown = [each for each in growth if each.name.partition(".")[0] in _ROLES]
    return Verdict(
        claims=(
            _size(plan, beside),
            _flat(grown),
            _undisturbed(alone, beside),
            _named(beside),
            _ledger(beside),
        ),
        figures=tuple(_figures(alone, beside, grown)),
    )


def _size(plan: Plan, beside: Ran) -> Claim:
    asked = {manners.domain_of(each.host or "") for each in beside.requests}
    misbehaving = {row.name for row in MISBEHAVING} & {_domain(line) for line in beside.logged}
    count = len(beside.requests)
    return Claim(
        f"at least {plan.requests:,} requests, half of the domains misbehaving",
        f"{count:,} requests; {len(misbehaving)} domains misbehave, "
        f"{sum(name.startswith('site-') for name in asked)} are healthy",
        count >= plan.requests and len(misbehaving) == len(MISBEHAVING),
    )


def _flat(grown: list[Growth]) -> Claim:
    worst = max(grown, key=lambda each: each.grown_mb, default=None)
    said = "never sampled"
    if worst is not None:
        said = f"{worst.grown_mb:+.1f} MB after the warm-up at most ({worst.name}: {worst.typical_mb:.0f} MB)"
    flat = worst is not None and all(each.flat(_GROWTH_SHARE, _GROWTH_FLOOR_MB) for each in grown)
    return Claim("memory is flat", said, flat)


def _undisturbed(alone: tuple[Ran, Ran], beside: Ran) -> Claim:
    rates = [each.healthy_rate for each in alone]
    kept = beside.healthy_rate / mean(rates) if all(rates) else 0.0
    return Claim(
        f"healthy domains keep {RATE_HELD:.0%} of their rate",
        f"{beside.healthy_rate:.1f} requests/s beside the others, alone {rates[0]:.1f} before and "
        f"{rates[1]:.1f} after: {kept:.1%}",
        kept >= RATE_HELD,
    )


def _named(beside: Ran) -> Claim:
    """Every request that the web saw has a line, under a name that is no fault of ours."""
    seen = Counter(each.url for each in beside.requests if not _for_robots(each))
    logged = Counter(line["url"] for line in beside.logged if line.get("total_ms") is not None)
    missing = sum((seen - logged).values())
    names = {str(line["outcome"]) for line in beside.logged}
    strange = names - {*Outcome} | names & {Outcome.LOCAL_ERROR}
    return Claim(
        "every request ends under a named outcome",
        f"{len(names)} outcomes, {missing} requests without a line"
        + (f", unforeseen: {', '.join(sorted(strange))}" if strange else ""),
        not missing and not strange,
    )


def _for_robots(entry: Entry) -> bool:
    return manners.is_robots(entry) or str(entry.path).startswith("/robots/")


def _ledger(beside: Ran) -> Claim:
    ledger = beside.summary["ledger"]
    dead, died = beside.summary["dead_letters"], beside.said.count("died")
    return Claim(
        "the ledger has no gap, no process died",
        f"gap {ledger['gap']}, still leased {ledger['leased']}, dead letters {dead}, deaths {died}",
        not (ledger["gap"] or ledger["leased"] or dead or died),
    )


def _figures(alone: tuple[Ran, Ran], beside: Ran, grown: list[Growth]) -> Iterator[tuple[str, str]]:
    yield "seconds", f"{sum(each.seconds for each in alone):.0f} alone, {beside.seconds:.0f} beside"
    outcomes = Counter(str(line["outcome"]) for line in beside.logged)
    yield "outcomes", ", ".join(f"{name} {n:,}" for name, n in outcomes.most_common())
    dropped = sorted(beside.summary["dropped"].items())
    yield "URLs dropped", ", ".join(f"{name} {n:,}" for name, n in dropped if n)
    for each in grown:
        yield f"memory of {each.name}", f"{each.typical_mb:.0f} MB, {each.grown_mb:+.1f} after the warm-up"
    redis = beside.memory.samples.get("redis", [])
    if redis:
        yield "memory of Redis (what waits is in it)", f"{redis[0][1]:.1f} to {redis[-1][1]:.1f} MB"


def _domain(line: dict[str, Any]) -> str:
    return manners.domain_of(line["url"].split("/")[2].partition(":")[0])


assert not HEALTHY & {row.name for row in MISBEHAVING}
