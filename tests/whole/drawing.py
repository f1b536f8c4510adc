"""Draws a bad afternoon (matplotlib, of the extra ``plots``): rates, depths, delay and memory over time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from tests.whole import manners
from tests.whole.afternoon import DOMAINS, FETCHERS, PARSERS, TROUBLED, Afternoon

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "afternoon.svg"

OVER_S = 5
"""Rates are means over so many seconds: a single site is asked once a second."""


def draw(day: Afternoon, path: Path) -> None:
    """One column of four pictures with a common time axis; phases are shaded."""
    mpl.rcParams.update({"svg.hashsalt": "afternoon", "svg.fonttype": "none", "font.size": 9})
    start = day.phases[0].start_ms
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(9, 9), constrained_layout=True)
    figure.suptitle(f"{FETCHERS} fetchers, {PARSERS} parsers, {DOMAINS} sites, and one that goes wrong")
    seconds = [(look.at_ms - start) / 1_000 for look in day.looks]
    rates: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    for entry in day.entries:
        if entry.host is not None and not (entry.path or "").startswith("/-/"):
            rates[manners.domain_of(entry.host) == TROUBLED][int((entry.t_ms - start) // 1_000)] += 1
    last = int((day.phases[-1].end_ms - start) // 1_000)
    for healthy, label in ((True, "healthy sites"), (False, f"the troubled one, x {DOMAINS}")):
        mine, factor = rates[not healthy], 1 if healthy else DOMAINS
        means = [sum(mine[at - k] for k in range(OVER_S)) * factor / OVER_S for at in range(OVER_S - 1, last)]
        axes[0].plot(range(OVER_S, last + 1), means, label=label)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel(f"requests/s, over {OVER_S} s")
    axes[1].plot(seconds, [look.delay_ms / 1_000 for look in day.looks], color="C1", label="its delay")
    axes[1].set_yscale("log", base=2)
    axes[1].set_ylabel("seconds")
    for name in ("leased", "spooled"):
        axes[2].plot(seconds, [look.counts.count(name) for look in day.looks], label=name)
    axes[2].plot(seconds, [look.spool_max for look in day.looks], "--", label="bound of both together")
    axes[2].set_yscale("symlog", linthresh=10)
    axes[2].set_ylabel("pages")
    axes[3].plot(seconds, [look.total_rss_mb for look in day.looks], label="memory of all processes")
    axes[3].set_ylim(bottom=0)
    axes[3].set_ylabel("MB")
    axes[3].set_xlabel("seconds")
    for at, axis in enumerate(axes):
        axis.set_xlim(0, last)
        axis.grid(alpha=0.3)
        axis.legend(loc="lower left", fontsize=8)
        for number, phase in enumerate(day.phases):
            span = (phase.start_ms - start) / 1_000, (phase.end_ms - start) / 1_000
            axis.axvspan(
                *span,
                color="C3" if phase.name in ("giants", "limits") else "C2",
                alpha=0.10 if number % 2 else 0.05,
                linewidth=0,
            )
            if at == 0:
                axis.text(sum(span) / 2, 1.02, phase.name, ha="center", transform=axis.get_xaxis_transform())
    figure.savefig(path, metadata={"Date": None})
