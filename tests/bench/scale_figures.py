"""What the scale measurement says: rows for the table of figures, and a table of its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tests.bench.calls import outer_tenths
from tests.bench.figures import Figure, Goal
from tests.bench.report import number, table
from tests.bench.scale import A_CALL, PAGES_AN_OFFER, Point

CALL_MS = 1.0
"""What a lease or a settle of 50 domains may cost Redis."""
GROWTH = 1.15


def figures(points: Sequence[Point]) -> list[Figure]:
    """Lease and settle at the largest frontiers; how much more a page costs there than at the smallest."""
    if len(points) < 2:
        return []
    rows = []
    most_queued = max(point.queued for point in points)
    largest = [point for point in points[1:] if point.queued > 0.5 * most_queued]
    for point in largest:
        for what, cost in (("lease", point.lease), ("settle", point.settle)):
            words = (
                f"{what} of {A_CALL}, {point.domains:,} domains, {_millions(point.queued)} URLs: Redis, ms"
            )
            ms = [us / 1000 for us in (cost.cpu_us, cost.cpu_low_us, cost.cpu_high_us)]
            rows.append(_row(f"{what}_ms_per_call.{point.domains}", words, ms, CALL_MS))
    smallest, most = points[0], max(largest, key=lambda point: point.page_us)
    # round by round: those of one turn met the machine at the same speed
    growth = [large / small for large, small in zip(most.pages_us, smallest.pages_us, strict=False)]
    rows.append(
        _row(
            "redis_growth_with_queued",
            f"Redis per page at {_millions(most.queued)} URLs, to that at {smallest.queued:,}",
            [median(growth), *outer_tenths(growth)],
            GROWTH,
        )
    )
    return rows


def _row(name: str, words: str, values: Sequence[float], at_most: float) -> Figure:
    """``values``: the median, and what the lowest and the highest tenth of the rounds end and begin with."""
    value, low, high = values
    return Figure(name, words, value, low, high, None, Goal(at_most, least=False))


def _millions(urls: int) -> str:
    return f"{urls / 1e6:.3g} million"


def scale_table(points: Sequence[Point]) -> str:
    """All that was measured at each size; ms of Redis's CPU time, scripts' and callers' wall time."""
    rows = []
    for point in points:
        made = [f"{point.domains:,} / {point.queued:,}", f"{point.redis_bytes / 1e6:,.0f}"]
        for cost in (point.lease, point.settle, point.offer):
            made.append(" / ".join(number(us / 1000) for us in (cost.cpu_us, cost.script_us, cost.wall_us)))
        rows.append([*made, number(point.page_us / 1000)])
    head = (
        "domains / URLs queued",
        "MB",
        f"lease of {A_CALL}",
        f"settle of {A_CALL}",
        f"offer of {PAGES_AN_OFFER} pages",
        "a page in all",
    )
    return table(head, rows)


def beside_table(points: Sequence[Point]) -> str:
    """Calls a second, how long domains waited, and what a rewrite of the append-only file takes."""
    rows = []
    for point in points:
        waits, rewrite = point.waits, point.rewrite
        made = [f"{point.domains:,} / {point.queued:,}"]
        made.append(
            " / ".join(f"{1e6 / cost.cpu_us:,.0f}" for cost in (point.lease, point.settle, point.offer))
        )
        made.append(f"{number(waits.mean_ms)} / {number(waits.longest_ms)}")
        made.append(f"{number(rewrite.seconds)} / {number(rewrite.fork_ms)}")
        sizes = rewrite.file_bytes, rewrite.used_bytes, rewrite.used_bytes + rewrite.copied_bytes
        made.append(" / ".join(f"{size / 1e6:,.0f}" for size in sizes))
        rows.append(made)
    head = (
        "domains / URLs queued",
        "leases / settles / offers a CPU-second",
        "wait beyond due, ms: mean / longest",
        "rewrite, s / stands still, ms",
        "MB: file / Redis / with the copy",
    )
    return table(head, rows)
