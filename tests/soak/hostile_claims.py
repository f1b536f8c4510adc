"""What the hostile soak claims, and by which figures: from the web's logs and the node's own books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from node.rules.outcome import Outcome
from tests.soak.growth import Growth, Samples
from tests.soak.hostile_seeds import MISBEHAVING
from tests.soak.verdict import Claim, Verdict
from tests.web.log import Entry
from tests.web.shape import domain_name
from tests.whole import manners

RATE_HELD = 0.95
"""Share of their rate that the healthy domains must keep."""
_GROWTH_SHARE = 0.1
_GROWTH_FLOOR_MB = 10.0
"""Growth after the warm-up that counts as none: caches that have bounds fill up slowly."""
_WARM_SHARE = 0.4
"""This much of a run is its warm-up."""
_RAMP_S = 10.0
"""The start of a crawl, which no rate is taken from."""
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
    memory: Samples


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


def unmet(log: Iterable[dict[str, Any]]) -> set[str]:
    """Misbehaving domains that no line of the fetch log is about."""
    return {row.name for row in MISBEHAVING} - {_domain(line) for line in log}


def _size(plan: Plan, beside: Ran) -> Claim:
    asked = {manners.domain_of(each.host or "") for each in beside.requests}
    misbehaving = len(MISBEHAVING) - len(unmet(beside.logged))
    count = len(beside.requests)
    return Claim(
        f"at least {plan.requests:,} requests, half of the domains misbehaving",
        f"{count:,} requests; {misbehaving} domains misbehave, "
        f"{sum(name.startswith('site-') for name in asked)} are healthy",
        count >= plan.requests and misbehaving == len(MISBEHAVING),
    )


def _flat(grown: list[Growth]) -> Claim:
    worst = max(grown, key=lambda each: each.grown, default=None)
    said = "never sampled"
    if worst is not None:
        said = f"{worst.grown:+.1f} MB after the warm-up at most ({worst.name}: {worst.typical:.0f} MB)"
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


def _gap_s(run: Ran) -> float:
    """The median of the seconds between two requests to a healthy domain."""
    gaps = [gap for gap, _, _ in manners.gaps_ms(each for each in run.requests if _is_healthy(each))]
    return median(gaps) / 1_000 if gaps else 0.0


def _figures(alone: tuple[Ran, Ran], beside: Ran, grown: list[Growth]) -> Iterator[tuple[str, str]]:
    yield "seconds", f"{sum(each.seconds for each in alone):.0f} alone, {beside.seconds:.0f} beside"
    yield (
        "seconds between requests to a healthy domain, median",
        f"{' and '.join(f'{_gap_s(each):.2f}' for each in alone)} alone, {_gap_s(beside):.2f} beside",
    )
    outcomes = Counter(str(line["outcome"]) for line in beside.logged)
    yield "outcomes", ", ".join(f"{name} {n:,}" for name, n in outcomes.most_common())
    dropped = sorted(beside.summary["dropped"].items())
    yield "URLs dropped", ", ".join(f"{name} {n:,}" for name, n in dropped if n)
    for each in grown:
        yield f"memory of {each.name}", f"{each.typical:.0f} MB, {each.grown:+.1f} after the warm-up"
    redis = beside.memory.samples.get("redis", [])
    if redis:
        yield "memory of Redis (what waits is in it)", f"{redis[0][1]:.1f} to {redis[-1][1]:.1f} MB"


def _domain(line: dict[str, Any]) -> str:
    return manners.domain_of(line["url"].split("/")[2].partition(":")[0])
