"""What the scale measurement says: rows for the table of figures, and a table of its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.figures import Figure, Goal
from tests.bench.report import number, table
from tests.bench.scale import A_CALL, PAGES_AN_OFFER, Point

CALL_MS = 1.0
"""What a lease or a settle of 50 domains may cost Redis."""
GROWTH = 1.15


def figures(points: Sequence[Point]) -> list[Figure]:
    """Lease and settle at the large frontiers, and how much more a page costs there than at the smallest."""
    if len(points) < 2:
        return []
    rows = []
    for point in points[1:]:
        for what, cost in (("lease", point.lease), ("settle", point.settle)):
            words = (
                f"{what} of {A_CALL}, {point.domains:,} domains, {_millions(point.queued)} URLs: Redis, ms"
            )
            rows.append(_row(f"{what}_ms_per_call.{point.domains}", words, cost.cpu_us / 1000, CALL_MS))
    most = max(points[1:], key=lambda point: point.page_us)
    rows.append(
        _row(
            "redis_growth_with_queued",
            f"Redis per page at {_millions(most.queued)} URLs, to that at {points[0].queued:,}",
            most.page_us / points[0].page_us,
            GROWTH,
        )
    )
    return rows


def _row(name: str, words: str, value: float, at_most: float) -> Figure:
    return Figure(name, words, value, value, value, None, Goal(at_most, least=False))


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
