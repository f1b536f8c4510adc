"""Draws a run of chaos (matplotlib, of the extra ``plots``): rate, queue, memory, and what struck when."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from textwrap import fill

from tests.chaos.plan import TABLE
from tests.chaos.run import Run

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "chaos.svg"
_ROLES = ("fetcher", "parser", "watch", "redis")
_LABEL_WIDTH = 38
_RATE_POINTS = 120
"""Stretches that the run is cut into for its rate."""


def draw(run: Run, path: Path) -> None:
    """One column of four pictures with a common time axis. Raises ``RuntimeError`` without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise RuntimeError("a picture wants matplotlib: run scripts/setup --plots") from None
    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "chaos", "svg.fonttype": "none", "font.size": 9})
    heights = {"height_ratios": [2, 2, 2, 3]}
    figure, axes = plt.subplots(
        4, 1, sharex=True, figsize=(9, 11), constrained_layout=True, gridspec_kw=heights
    )
    figure.suptitle(
        f"{len(run.struck)} faults in {run.plan.seconds:.0f} s: {run.plan.fetchers} fetchers, "
        f"{run.plan.parsers} parsers, {run.plan.domains} sites (seed {run.plan.seed})"
    )
    seen = [(look.at_s, look.counts) for look in run.looks if look.counts is not None]
    step = max(1, len(seen) // _RATE_POINTS)
    rates = [
        (after[0], (after[1].pages - before[1].pages) / (after[0] - before[0]))
        for before, after in pairwise(seen[::step])
    ]
    axes[0].plot([at for at, _ in rates], [max(0.0, rate) for _, rate in rates])
    axes[0].set_ylabel("pages/s")
    times = [at for at, _ in seen]
    for name in ("queued", "leased", "spooled"):
        axes[1].plot(times, [counts.count(name) for _, counts in seen], label=name)
    axes[1].set_yscale("symlog", linthresh=10)
    axes[1].set_ylabel("URLs")
    for role in _ROLES:
        sizes = [
            (look.at_s, max(mb for name, mb in look.rss_mb.items() if name.startswith(role)))
            for look in run.looks
            if any(name.startswith(role) for name in look.rss_mb)
        ]
        axes[2].plot([at for at, _ in sizes], [mb for _, mb in sizes], label=f"{role}, the largest")
    axes[2].set_ylabel("MB")
    kinds = [kind for kind in TABLE if kind in run.counts()]
    for place, kind in enumerate(reversed(kinds)):
        spans = [
            (each.at_s, max(each.until_s - each.at_s, run.seconds / 400))
            for each in run.struck
            if each.fault.kind is kind
        ]
        axes[3].broken_barh(spans, (place - 0.35, 0.7), facecolors="C3")
    labels = [fill(kind.value, _LABEL_WIDTH) for kind in reversed(kinds)]
    axes[3].set_yticks(range(len(kinds)), labels, fontsize=6)
    axes[3].set_xlabel("seconds")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_xlim(0, run.seconds)
    for axis in axes[:1]:
        axis.set_ylim(bottom=0)
    for axis in axes[1:3]:
        axis.legend(loc="lower right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
