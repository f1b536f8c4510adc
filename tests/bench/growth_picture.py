"""What a page costs Redis, by how much is queued (matplotlib, of the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.bench.calls import outer_tenths
from tests.bench.scale import A_CALL, Point


def draw(points: Sequence[Point], path: Path) -> None:
    """One picture: ms of Redis's CPU time. Raises ``RuntimeError`` without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise RuntimeError("a picture wants matplotlib: run scripts/setup --plots") from None
    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9})
    figure, axis = plt.subplots(figsize=(9, 5), constrained_layout=True)
    ordered = sorted(points, key=lambda point: (point.queued, point.domains))
    # two frontiers may hold as many URLs: they stand beside each other, not upon each other
    places = list(range(len(ordered)))
    pages = [median(point.pages_us) / 1000 for point in ordered]
    tenths = [outer_tenths(point.pages_us) for point in ordered]
    low = [page - tenth[0] / 1000 for page, tenth in zip(pages, tenths, strict=True)]
    high = [tenth[1] / 1000 - page for page, tenth in zip(pages, tenths, strict=True)]
    axis.errorbar(places, pages, yerr=(low, high), marker="o", capsize=4, label="a page in all")
    for name in ("lease", "settle"):
        costs = [getattr(point, name).cpu_us / 1000 / A_CALL for point in ordered]
        axis.plot(places, costs, marker=".", label=f"{name}, of one page")
    axis.set_xticks(places, [f"{point.queued:,} URLs\n{point.domains:,} domains" for point in ordered])
    axis.set_ylabel("CPU time of Redis, ms")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
