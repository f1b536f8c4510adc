"""Which stage sets the pace of a node now, and how its processes should be split.

Judged by where time was spent waiting, and for whom, not by CPU alone: a stage that waits is not the one
that holds the others up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from node.rules.pressure import TABLE, Reason, Stage

LAG_HIGH_MS = 100.0
"""A fetcher that waits for work while its event loop runs this late is not held up by politeness."""

WORDS = {
    Stage.OPERATOR: "the operator: the crawl is paused",
    Stage.LIMIT: "the number of pages asked for: no more are handed out",
    Stage.POLITENESS: (
        "politeness: every domain with work waits for its delay or its address, or has all the visits it may"
    ),
    Stage.FETCHERS: "the fetchers: they have work all the time, and nobody makes them wait",
    Stage.PARSERS: "the parsers: fetching waits for them",
    Stage.DISK: "the disk: fetching waits for room or for writes",
    Stage.STORE: "Redis: the processes wait for its answers",
    Stage.GATEWAY: "the gateway: calls to it are limited",
    Stage.LINE: "our own line or resolver: nobody can be reached; it is tried again now and then",
    Stage.FILES: "open files: a fetcher may have no more of them (ulimit -n, LimitNOFILE)",
    Stage.STARTING: "nothing yet: too little has happened to tell",
}


@dataclass(frozen=True, slots=True)
class Window:
    """What happened in a stretch of time, all processes of a kind together. Times in ms.

    ``waited`` of fetchers is by reason (``spool_full``, ``no_work``, ``busy``, ...); of parsers ``idle`` is
    waiting for pages. ``up`` is the time the processes were there.
    """

    pages: int
    fetchers: int
    parsers: int
    fetchers_up_ms: int
    fetchers_waited_ms: Mapping[str, int]
    parsers_up_ms: int
    parsers_idle_ms: int
    parsers_store_ms: int
    worst_lag_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """The stage that sets the pace; ``fetchers`` and ``parsers`` as they would fit, of as many in all."""

    stage: Stage
    fetchers: int
    parsers: int

    def words(self, window: Window) -> str:
        """One sentence for the operator."""
        text = WORDS[self.stage]
        if self.stage in (Stage.FETCHERS, Stage.PARSERS) and self.fetchers != window.fetchers:
            text += (
                f"; {self.fetchers} fetchers and {self.parsers} parsers would fit better than "
                f"{window.fetchers} and {window.parsers}"
            )
        return text


def advise(window: Window) -> Advice:
    """Name the stage that sets the pace, and the split that would even the stages out."""
    stage = _stage(window)
    fetchers, parsers = window.fetchers, window.parsers
    known = window.pages > 0 and window.parsers_up_ms > 0
    if stage in (Stage.FETCHERS, Stage.PARSERS) and known and fetchers + parsers > 2:
        fetchers = _fitting_fetchers(window)
        parsers = window.fetchers + window.parsers - fetchers
    return Advice(stage, fetchers, parsers)


def _stage(window: Window) -> Stage:
    if window.fetchers_up_ms <= 0:
        return Stage.STARTING
    waited: dict[tuple[Stage, float], float] = {}  # in the table's order
    for reason, row in TABLE.items():
        under = row.by, row.share
        waited[under] = waited.get(under, 0.0) + _share(window, reason)
    for (stage, enough), share in waited.items():
        late = stage is Stage.POLITENESS and window.worst_lag_ms >= LAG_HIGH_MS
        if share > enough and not late:
            return stage
    return Stage.FETCHERS


def _share(window: Window, reason: Reason) -> float:
    """The share of their time that those who wait for ``reason`` spent so; the longer one, where both do."""
    fetchers = window.fetchers_waited_ms.get(reason, 0) / window.fetchers_up_ms
    waited = {Reason.STORE: window.parsers_store_ms, Reason.NO_PAGES: window.parsers_idle_ms}
    return max(fetchers, waited.get(reason, 0) / max(1, window.parsers_up_ms))


def _fitting_fetchers(window: Window) -> int:
    """Fetchers out of the same number of processes, so that neither kind waits for the other.

    A process's capacity is what it did per time it was not waiting.
    """
    waited = sum(window.fetchers_waited_ms.get(reason, 0) for reason in (Reason.SPOOL_FULL, Reason.NO_WORK))
    fetching_ms = max(1, window.fetchers_up_ms - waited)
    parsing_ms = max(1, window.parsers_up_ms - window.parsers_idle_ms)
    total = window.fetchers + window.parsers
    return min(total - 1, max(1, round(total * fetching_ms / (fetching_ms + parsing_ms))))
