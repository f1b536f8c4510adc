"""Half of the domains misbehave, each in another way: the other half must not notice, nor the memory.

Three crawls: of the healthy domains alone, of all of them, and of the healthy ones alone once more, since
a machine is not the same from one minute to the next. What bounds the rate of a healthy domain is its delay,
so that the second crawl can fall behind the others only by what the misbehaving half does to it. That half
has a web server of its own: what it does to a server is not our matter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.growth import Samples
from tests.soak.hostile_claims import Plan, Ran, healthy_rate, judge, unmet
from tests.soak.hostile_seeds import MISBEHAVING, seed_lines
from tests.soak.verdict import Verdict
from tests.web.log import Entry, now_ms
from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole.crawl import Crawl, until

HELP = "half of the domains misbehave, each in another way"

_DEADLINE_S = 4.0
_MAX_WIRE_BYTES = 300_000
_PAGES_PER_DOMAIN = 1_000
"""More than a domain is asked for meanwhile: none may run out of pages."""
_SAMPLE_EVERY_S = 2.0
_LAST_DOMAIN_S = 60.0
"""With as many requests as are wanted, a misbehaving domain that nobody met yet is waited for so long."""


def options(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--requests", type=int, default=20_000, help="with the misbehaving half beside")
    parser.add_argument("--alone", type=float, default=60.0, metavar="S", help="seconds without it, twice")
    parser.add_argument("--delay", type=float, default=3.0, metavar="S", help="between visits to a domain")


def run(args: argparse.Namespace, work: Path, say: Callable[[str], None]) -> Verdict:
    """All three crawls, and what they show."""
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
    memory = Samples()
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
    began_ms = now_ms()
    with crawl:
        crawl.start()
        until(lambda: webs.count() > before, "the crawl begins", every_s=0.2)
        began, rate_from_ms = time.monotonic(), now_ms()
        give_up_s = float("inf")
        while True:
            time.sleep(_SAMPLE_EVERY_S)
            at_s = time.monotonic() - began
            seen = webs.count() - before
            _sample(crawl, memory, at_s)
            if until_requests is None and at_s >= plan.alone_s:
                break
            if until_requests is not None and seen >= until_requests and at_s > plan.warm_s * 2:
                give_up_s = min(give_up_s, at_s + _LAST_DOMAIN_S)
                if at_s >= give_up_s or not unmet(crawl.fetch_log()):
                    break
            assert crawl.process is not None
            if crawl.process.poll() is not None:
                raise RuntimeError(f"the crawl ended early:\n{crawl.said[-2_000:]}")
            if int(at_s / _SAMPLE_EVERY_S) % 10 == 0:
                say(f"  {at_s:.0f} s: {seen:,} requests")
        code = crawl.interrupt()
        if code != 130:
            raise RuntimeError(f"the crawl stopped with {code}:\n{crawl.said[-2_000:]}")
    requests = webs.requests(began_ms)
    return Ran(
        seconds=at_s,
        healthy_rate=healthy_rate(requests, plan.warm_s, rate_from_ms + 1_000 * at_s),
        requests=requests,
        logged=list(crawl.fetch_log()),
        summary=crawl.summary,
        said=crawl.said,
        memory=memory,
    )


def _sample(crawl: Crawl, memory: Samples, at_s: float) -> None:
    """Samples of all processes that have reported, unless the node is only just starting."""
    if not crawl.config.exists() or not (crawl.out / "log").exists():
        return
    try:
        status = crawl.status()
    except AssertionError:  # Redis does not answer yet
        return
    sizes = {name: float(each["rss_mb"]) for name, each in status["processes"].items() if each.get("rss_mb")}
    memory.note(at_s, sizes | {"redis": status["redis"]["used_memory"] / 1e6})
