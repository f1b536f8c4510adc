"""What one run says, and how runs are held against each other. Pure.

A ratio to Scrapy is taken for each Scrapy run, against the mean of our runs next to it in time (before and
after): the machine's speed drifts, and what drifts together cancels out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from tests.bench.crawls import Run, Side
from tests.bench.frontier import Weights
from tests.bench.laps import Staged

BASELINE: Side = "scrapy-lxml"
"""What ``ratio_to_scrapy`` is taken to."""
ROLES = {"fetcher": "fetchers", "parser": "parsers", "redis": "redis", "watch": "watch"}
"""Our names of the processes -> those in summary.json."""


@dataclass(frozen=True, slots=True)
class Raw:
    """All that was measured. ``runs`` stand in the order they were made; ``starts`` are of one page each."""

    runs: Sequence[Run]
    starts: Sequence[Run]
    weights: Weights
    staged: Staged


def cpu_ms_by_role(run: Run) -> dict[str, float]:
    """CPU per page of one of our runs, ms; the parts add up to all that the kernel counted.

    ``crawl`` is the command that supervises, and all that no other process accounts for (the index, the end).
    """
    parts = {ours: run.told["cpu_seconds"].get(theirs, 0.0) for ours, theirs in ROLES.items()}
    parts["crawl"] = run.usage.cpu_s - sum(parts.values())
    return {role: 1000 * seconds / run.pages for role, seconds in parts.items()}


def less_start(run: Run, start: Run, role: str) -> float:
    """CPU per page of one role, ms, less what a start costs it."""
    taken = cpu_ms_by_role(run)[role] * run.pages - cpu_ms_by_role(start)[role] * start.pages
    return taken / (run.pages - start.pages)


def cpu_s(run: Run, start: Run | None = None) -> float:
    """CPU time of a run, less that of a start."""
    return run.usage.cpu_s - (start.usage.cpu_s if start else 0.0)


def per_cpu_second(run: Run, start: Run | None = None) -> float:
    """Pages per CPU-second of all processes together. A start has dealt with one page, too."""
    return (run.pages - (start.pages if start else 0)) / cpu_s(run, start)


def resumed_share(run: Run) -> float:
    """TLS sessions resumed, of the requests that came to a host after its first."""
    seen = run.seen
    return seen.resumed / max(1, seen.pages + seen.robots + seen.other - seen.hosts)


def server_cores(run: Run) -> float:
    """How much of a core the server took while the run lasted."""
    return run.seen.cpu_s / run.usage.wall_s


def other_cores(run: Run) -> float:
    """What neither the run nor its server took of the machine: other people's work."""
    machine = run.usage.machine
    return max(0.0, machine.busy_s - run.usage.cpu_s - run.seen.cpu_s) / run.usage.wall_s


def idle_share(run: Run) -> float:
    """Share of the machine's time in which no core had anything to do."""
    machine = run.usage.machine
    return machine.idle_s / max(machine.busy_s + machine.idle_s + machine.steal_s, 1e-9)


def neighbours(runs: Sequence[Run], at: int) -> list[Run]:
    """Our runs next to run ``at`` in time, before and after it."""
    before = next((run for run in reversed(runs[:at]) if run.side == "ours"), None)
    after = next((run for run in runs[at + 1 :] if run.side == "ours"), None)
    return [run for run in (before, after) if run is not None]


def ratios(raw: Raw, side: Side, *, without_start: bool = False) -> list[float]:
    """For each run of ``side``: its CPU per page over ours next to it."""
    start_of = starts_of(raw) if without_start else {}

    def cost(run: Run) -> float:
        return 1 / per_cpu_second(run, start_of.get(run.side))

    return [
        cost(run) / mean(map(cost, neighbours(raw.runs, at)))
        for at, run in enumerate(raw.runs)
        if run.side == side and neighbours(raw.runs, at)
    ]


def starts_of(raw: Raw) -> dict[str, Run]:
    """Per side the median start. Scrapy starts alike whatever it does then."""
    by_side: dict[str, list[Run]] = {}
    for run in raw.starts:
        by_side.setdefault(run.side, []).append(run)
    starts = {
        side: sorted(runs, key=lambda run: run.usage.cpu_s)[len(runs) // 2] for side, runs in by_side.items()
    }
    if BASELINE in starts:
        for side in {run.side for run in raw.runs} - starts.keys() - {"ours"}:
            starts[side] = starts[BASELINE]
    return starts
