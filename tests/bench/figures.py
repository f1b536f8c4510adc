"""From raw measurements to figures. Pure: no clock, no files, no processes.

Every figure of a crawl is taken per run (``per_run``), and then the median over the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.crawls import Run, Side
from tests.bench.frontier import Weights
from tests.bench.per_run import (
    BASELINE,
    ROLES,
    Raw,
    cpu_ms_by_role,
    idle_share,
    less_start,
    other_cores,
    per_cpu_second,
    ratios,
    resumed_share,
    server_cores,
    starts_of,
)

SERVER_LIMIT_CORES = 0.9
"""nginx has one worker: near one core it would set the pace."""
GOALS_SCRAPY = 103.0
"""Pages per CPU-second of Scrapy (fetch + lxml) on the machine on which the goals were set."""
QUIET_CORES = 0.2
"""More than this taken by others, and the machine was not ours alone."""


@dataclass(frozen=True, slots=True)
class Goal:
    """``least``: the figure must be at least ``value``; else at most."""

    value: float
    least: bool

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.least else figure <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. ``without_start``: the same less what starting and stopping cost."""

    name: str
    words: str
    value: float
    lowest: float
    highest: float
    without_start: float | None = None
    goal: Goal | None = None


def _at_least(value: float) -> Goal:
    return Goal(value, least=True)


def _at_most(value: float) -> Goal:
    return Goal(value, least=False)


# -- figures


def figures(raw: Raw) -> list[Figure]:
    """All rows of the table, in its order."""
    ours = [run for run in raw.runs if run.side == "ours"]
    start = starts_of(raw).get("ours")
    rows = [_ratio(raw, side) for side in _sides(raw)]
    rows.append(
        _row(
            "pages_per_cpu_second",
            "pages per CPU-second, all processes of the node",
            [per_cpu_second(run) for run in ours],
            _at_least(500),
            [per_cpu_second(run, start) for run in ours] if start else None,
        )
    )
    rows += [
        _row(f"{_underscored(side)}_pages_per_cpu_second", f"the same of {WORDS[side]}", *_rates(raw, side))
        for side in _sides(raw)
    ]
    rows += _costs(ours, start)
    rows += _parser(ours, start)
    rows.append(
        _row(
            "redis_commands_per_page",
            "Redis commands per page, from fetchers and parsers",
            [run.told["redis_commands_per_page"] for run in ours],
            _at_most(0.5),
        )
    )
    rows.append(
        _row(
            "tls_resumed_share",
            "TLS sessions resumed, of requests to a host after its first",
            [resumed_share(run) for run in ours],
            _at_least(0.95),
        )
    )
    rows += _weights(raw.weights)
    rows += [
        _row(
            f"peak_rss_mb.{role}",
            f"largest {role} process, MB",
            [run.usage.peak_rss_mb[role] for run in ours],
        )
        for role in ("fetcher", "parser", "redis", "watch", "crawl")
        if all(role in run.usage.peak_rss_mb for run in ours)
    ]
    return rows


WORDS: Mapping[str, str] = {
    "scrapy-lxml": "Scrapy, fetch + its LinkExtractor (lxml)",
    "scrapy-selectolax": "Scrapy, fetch + links by selectolax",
    "scrapy-lxml-crawl": "Scrapy, crawling: links followed, deduplicated, scheduled",
}


def _underscored(side: str) -> str:
    return "scrapy" if side == BASELINE else side.replace("-", "_")


def _sides(raw: Raw) -> list[Side]:
    """The Scrapy sides that were run, in the order of ``WORDS``."""
    there = {run.side for run in raw.runs}
    return [side for side in WORDS if side in there]


def _row(
    name: str,
    words: str,
    values: Iterable[float],
    goal: Goal | None = None,
    without_start: Iterable[float] | None = None,
) -> Figure:
    values = list(values)
    less = None if without_start is None else median(without_start)
    return Figure(name, words, median(values), min(values), max(values), less, goal)


def _ratio(raw: Raw, side: Side) -> Figure:
    name = "ratio_to_scrapy" if side == BASELINE else f"ratio_to_{side.replace('-', '_')}"
    goal = _at_least(5) if side == BASELINE else None
    less = ratios(raw, side, without_start=True) if starts_of(raw) else None
    return _row(name, f"ratio to {WORDS[side]}", ratios(raw, side), goal, less)


def _rates(raw: Raw, side: Side) -> tuple[list[float], None, list[float] | None]:
    runs = [run for run in raw.runs if run.side == side]
    start = starts_of(raw).get(side)
    less = [per_cpu_second(run, start) for run in runs] if start else None
    return [per_cpu_second(run) for run in runs], None, less


_COST_GOALS = {"fetcher": 0.90, "parser": 0.88, "redis": 0.15}


def _costs(ours: Sequence[Run], start: Run | None) -> list[Figure]:
    rows = []
    for role in (*ROLES, "crawl"):
        goal = _COST_GOALS.get(role)
        rows.append(
            _row(
                f"cpu_ms_per_page.{role}",
                f"CPU per page, {role}, ms",
                [cpu_ms_by_role(run)[role] for run in ours],
                None if goal is None else _at_most(goal),
                [less_start(run, start, role) for run in ours] if start else None,
            )
        )
    return rows


def _parser(ours: Sequence[Run], start: Run | None) -> list[Figure]:
    def rate(ms_per_page: Callable[[Run], float]) -> list[float]:
        return [1000 / ms_per_page(run) for run in ours]

    less = None if start is None else rate(lambda run: less_start(run, start, "parser"))
    return [
        _row(
            "parser_pages_per_second",
            "pages per CPU-second of one parser process",
            rate(lambda run: cpu_ms_by_role(run)["parser"]),
            _at_least(900),
            less,
        )
    ]


def _weights(weights: Weights) -> list[Figure]:
    def one(name: str, words: str, value: float, goal: Goal) -> Figure:
        return Figure(name, words, value, value, value, None, goal)

    return [
        one(
            "bytes_per_queued_url",
            "Redis memory per queued URL of 64 characters, full queues, bytes",
            weights.bytes_per_queued_url,
            _at_most(80),
        ),
        one(
            "bits_per_seen_url",
            "seen filter per URL at its budget, bits",
            weights.bits_per_seen_url,
            _at_most(24),
        ),
        one(
            "seen_false_positive_rate",
            "false positives of a filter at its budget",
            weights.false_positive_rate,
            _at_most(0.001),
        ),
    ]


# -- what a reader must know to believe them


def remarks(raw: Raw) -> list[str]:
    """Sentences about this very measurement: what was the limit, and was the machine quiet?"""
    said = []
    ours = [run for run in raw.runs if run.side == "ours"]
    share, idle = max(map(server_cores, ours)), median(map(idle_share, ours))
    judged = "not the limit" if share < SERVER_LIMIT_CORES else "NEAR ITS LIMIT: distrust this"
    said.append(
        f"The server (one nginx worker) took at most {share:.2f} of a core during our runs: {judged}. "
        f"Of the machine's time {idle:.0%} was idle."
    )
    noise = max(map(other_cores, raw.runs))
    if noise > QUIET_CORES:
        said.append(
            f"The machine was not quiet: other processes took up to {noise:.2f} cores during a run. "
            f"CPU times are inflated; ratios within this run are what counts."
        )
    said.append(_at_the_goals_speed(raw, ours))
    spread = [per_cpu_second(run) for run in ours]
    if len(spread) > 1 and max(spread) > 1.15 * min(spread):
        said.append(f"Our own runs differ by {max(spread) / min(spread) - 1:.0%}.")
    said.append(f"Over {raw.weights.probes:,} probes {raw.weights.false_positives} false positives were met.")
    return said


def _at_the_goals_speed(raw: Raw, ours: Sequence[Run]) -> str:
    """The goals are of one machine and this is another: what they compare to, by what Scrapy does on both."""
    here = median(per_cpu_second(run) for run in raw.runs if run.side == BASELINE)
    faster = GOALS_SCRAPY / here
    ms = {role: median(cpu_ms_by_role(run)[role] for run in ours) / faster for role in _COST_GOALS}
    costs = ", ".join(f"{role} {cost:.2g} (goal {_COST_GOALS[role]:g})" for role, cost in ms.items())
    rate = faster * median(map(per_cpu_second, ours))
    return (
        f"Goals that are no ratios were set where Scrapy (lxml) does {GOALS_SCRAPY:.0f} pages per "
        f"CPU-second, {faster:.2f} times what it does here. At that speed ours would be {rate:.0f} pages per "
        f"CPU-second (goal 500), CPU per page in ms: {costs}, and {1000 / ms['parser']:.0f} pages per "
        f"CPU-second of one parser process (goal 900)."
    )


def flat(rows: Iterable[Figure]) -> dict[str, Any]:
    """Figures by name, dotted names as objects: the head of bench.json."""
    made: dict[str, Any] = {}
    for row in rows:
        group, dot, name = row.name.partition(".")
        if dot:
            made.setdefault(group, {})[name] = round(row.value, 4)
        else:
            made[group] = round(row.value, 6)
    return made
