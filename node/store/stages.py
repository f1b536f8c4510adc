"""The stages of the pipeline side by side: depth and age of each, who waited, what was turned away.

Read from the counters that the processes keep anyway. A reason or a stage that is new in them shows here
without being named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from node.store.closeup import Closeup
from node.store.snapshot import Snapshot


@dataclass(slots=True)
class Stage:
    """One stage. ``oldest_s`` is the age of its oldest entry; of the frontier it is how late the domain is
    that has been due for longest.

    ``waited_s``: reason -> how long its processes waited in all, s. ``refused``: reason -> how often
    something was turned away: of the frontier URLs that were offered, of the fetchers leases they asked
    for, of the parsers offers they made.
    """

    depth: int = 0
    oldest_s: float = 0.0
    waited_s: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


def stages(look: Snapshot, closeup: Closeup, wall_ms: float) -> Mapping[str, Stage]:
    """Name -> stage, in the order of the pipeline. ``wall_ms``: Unix time now."""
    spool_s = max(0.0, wall_ms - look.spool_oldest_ms) / 1000 if look.spool_oldest_ms else 0.0
    visits_ms = max((report.oldest_ms for report in look.procs.values()), default=0)
    found = {
        "frontier": Stage(look.count("queued"), closeup.frontier_age_ms / 1000),
        "fetchers": Stage(look.count("leased"), visits_ms / 1000),
        "spool": Stage(look.count("spooled") - look.spool_pending, spool_s),
        "parsers": Stage(look.spool_pending),
    }
    for name, count in look.ledger.items():
        if name.startswith("refuse:"):
            found["frontier"].refused[name.removeprefix("refuse:")] = count
    for name, count in look.tally.items():
        what, _, rest = name.partition(":")
        stage, _, reason = rest.partition(":")
        if what == "wait_ms":
            found.setdefault(stage, Stage()).waited_s[reason] = count / 1000
        elif what == "refused":
            found.setdefault(stage, Stage()).refused[reason] = count
    return found
