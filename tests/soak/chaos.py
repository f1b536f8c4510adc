"""Everything that can happen to a crawl, for hours: crawl after crawl, each with faults of another seed.

The same engine as in ``tests/whole/test_chaos.py``. Each crawl is of a web large enough to last, is struck as
long as it may, and must then come to its end; then comes the next, by the next seed, until the time is up.
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.chaos import picture, place, proof
from tests.chaos.plan import Kind, Plan
from tests.chaos.run import Run, go, keep, prepared
from tests.soak.verdict import Claim, Verdict

HELP = "all faults at random, for hours; nothing may be lost"

_SECOND_PER_FAULT = 2.0
_REST_S = 120.0
"""What a crawl needs, at most, to come to its end when it is left in peace."""


def options(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--hours", type=float, default=1.0, help="how long in all (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults to a crawl, at most")
    parser.add_argument("--seed", type=int, help="of the first crawl; without one it is drawn")
    parser.add_argument("--plot", type=Path, metavar="FILE", help=f"draw the first ({picture.PICTURE.name})")


def plan_of(seed: int, seconds: float) -> Plan:
    """A crawl of so many seconds of faults, with stops up to a minute long."""
    return Plan(
        seed,
        seconds=seconds,
        faults=max(60, round(seconds / _SECOND_PER_FAULT)),
        # a domain is visited at most once a delay, and half of the time no domain may be visited
        pages_per_domain=max(10, round(seconds * 0.15)),
        longer=6.0,
        long_s=35.0,
    )


def run(args: argparse.Namespace, work: Path, say: Callable[[str], None]) -> Verdict:
    """Crawls until the time is up, and what all of them show."""
    reason = place.why_not()
    if reason is not None:
        raise RuntimeError(f"chaos can't be had here: {reason}")
    if args.plot is not None and find_spec("matplotlib") is None:
        raise RuntimeError("--plot wants matplotlib: run scripts/setup --plots")
    give_up = time.monotonic() + 3_600 * args.hours
    seed = args.seed if args.seed is not None else secrets.randbelow(1_000_000)
    verdicts: list[Verdict] = []
    counts: Counter[Kind] = Counter()
    seconds = 0.0
    while True:
        left_s = give_up - time.monotonic() - (_REST_S if verdicts else 0.0)
        if verdicts and left_s < 60:
            break
        plan = plan_of(seed + len(verdicts), min(60 * args.minutes, max(60.0, left_s)))
        folder = work / f"crawl-{len(verdicts) + 1}"
        with prepared(plan, folder, work / "tls") as ran:
            go(ran, say, patience_s=10 * _REST_S)
            verdicts.append(proof.judge(ran, least_faults=round(plan.faults * 0.9)))
            if not verdicts[-1].holds:
                say(f"what it left is in {keep(ran, folder)}")
        counts += ran.counts()
        seconds += ran.seconds
        if len(verdicts) == 1 and args.plot is not None:
            picture.draw(ran, args.plot)
        if not verdicts[-1].holds:
            break
        place.remove(folder)
    return _together(verdicts, counts, seconds, ran)


def _together(verdicts: list[Verdict], counts: Counter[Kind], seconds: float, last: Run) -> Verdict:
    """All crawls as one verdict: the claims of the one that does not hold, or of the last."""
    claims = [
        Claim(
            f"{len(verdicts)} crawls in a row hold",
            f"{counts.total():,} faults in {seconds:.0f} s",
            all(each.holds for each in verdicts),
        ),
        *verdicts[-1].claims,
    ]
    figures = [(kind.value, f"{counts[kind]:,} times") for kind in Kind if counts[kind]]
    figures += [("seeds", f"up to {last.plan.seed}"), *verdicts[-1].figures]
    return Verdict(tuple(claims), tuple(figures))
