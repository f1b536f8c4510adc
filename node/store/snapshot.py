"""One look at a node: every counter, in one round trip, whatever the size of the frontier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from node.store import deaths, keys
from node.store.connection import Store, info_of
from node.store.deaths import Deaths

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("HGETALL", keys.LEDGER),
    ("HGETALL", keys.OUTCOMES),
    ("HGETALL", keys.TALLY),
    ("HGETALL", keys.PROCS),
    ("HGETALL", keys.CONTROL),
    ("XINFO", "GROUPS", keys.SPOOL),
    ("XRANGE", keys.SPOOL, "-", "+", "COUNT", "1"),
    ("XLEN", keys.DEAD),
    ("INFO", "memory"),
    ("HGETALL", keys.GATEWAY),
    ("HGETALL", keys.DEATHS),
)


TOLD_DOMAINS = 20
"""Most domains told by name: by a fetcher in its report, and in the metrics."""


class Troubled(msgspec.Struct, frozen=True):
    """A domain that gives its fetcher trouble, counted since it first did."""

    domain: str
    visits: int
    """Those in which something was sent."""
    throttled: int
    """Visits that told us to slow down: 429, 503, timeouts, challenges."""
    unanswered: int
    """Visits in which nothing answered."""
    retries: int
    """Visits that were second or third tries."""
    last: str
    """The latest outcome that was trouble."""


class Report(msgspec.Struct, omit_defaults=True):
    """What a process says of itself once a second (field of the hash ``procs``)."""

    pid: int
    at_ms: int
    in_hand: int = 0
    """Visits in flight, or pages in hand."""
    limit: int = 0
    """Most it would take now."""
    lag_ms: float = 0.0
    """Worst lateness of its event loop since the last report."""
    waiting: str = ""
    """Why it takes no (more) work: spool_full, paused, disk_low, no_work, ..."""
    rss_mb: int = 0
    oldest_ms: int = 0
    """Age of the oldest visit in flight, or not settled yet."""
    in_trouble: int = 0
    """Its domains that were in trouble of late."""
    worst: list[Troubled] = []
    """The domains that give it the most trouble, at most ``TOLD_DOMAINS``, worst first."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters as they stood at one moment. ``dropped`` holds refused links too, by reason."""

    ledger: Mapping[str, int]
    outcomes: Mapping[str, int]
    tally: Mapping[str, int]
    procs: Mapping[str, Report]
    control: Mapping[str, str]
    spool_pending: int
    """Pages in parsers' hands."""
    spool_oldest_ms: int
    """Unix time (ms) of the oldest page not parsed yet; 0 if there is none."""
    dead_letters: int
    redis: Mapping[str, str]
    """The fields of INFO memory."""
    gateway: Mapping[str, str]
    """State and counters of the limiter on calls to a gateway; empty where there is none."""
    deaths: Mapping[str, Deaths] = field(default_factory=dict)
    """Processes that died since the crawl was started, as far as ``milliarde crawl`` starts them."""

    def count(self, name: str) -> int:
        return self.ledger.get(name, 0)

    @property
    def pages(self) -> int:
        return self.count("pages")

    @property
    def shed(self) -> dict[int, int]:
        """Priority -> URLs turned away or dropped since Redis was short of memory (``rules/shed.py``)."""
        found: dict[int, int] = {}
        for source in (self.ledger, self.tally):
            for name, value in source.items():
                if name.startswith("shed:") and value:
                    level = int(name.removeprefix("shed:"))
                    found[level] = found.get(level, 0) + value
        return dict(sorted(found.items()))

    @property
    def shed_grade(self) -> int:
        """How much is turned away now."""
        return int(self.control.get("shed", 0))

    @property
    def retry_share(self) -> float:
        """Retries, as a share of all tries."""
        retries = self.count("retries")
        return retries / max(1, retries + self.count("first_tries"))

    @property
    def retries_refused(self) -> dict[str, int]:
        """Budget -> retries that it did not grant (``rules/retry.py``)."""
        prefix = "no_retry:"
        return {name.removeprefix(prefix): n for name, n in self.ledger.items() if name.startswith(prefix)}

    @property
    def in_trouble(self) -> int:
        """Domains that were in trouble of late, as far as fetchers keep account of them."""
        return sum(report.in_trouble for report in self.procs.values())

    @property
    def dropped(self) -> dict[str, int]:
        """Reason -> URLs that were not visited: taken out, refused at the door, or not taken up."""
        out: dict[str, int] = {}
        for source, prefixes in ((self.ledger, ("drop:", "refuse:")), (self.tally, ("drop:",))):
            for name, value in source.items():
                for prefix in prefixes:
                    if name.startswith(prefix) and value:
                        reason = name[len(prefix) :]
                        out[reason] = out.get(reason, 0) + value
        return dict(sorted(out.items()))

    @property
    def signals(self) -> dict[str, int]:
        """What sites say about the use of their pages (place:kind) -> requests that it was said of."""
        return self._tallied("signal:")

    @property
    def opted_out(self) -> dict[str, int]:
        """What of it denies our purpose -> pages that were not used for that."""
        return self._tallied("opted_out:")

    def _tallied(self, prefix: str) -> dict[str, int]:
        return {name[len(prefix) :]: n for name, n in sorted(self.tally.items()) if name.startswith(prefix)}

    @property
    def robots_unavailable(self) -> dict[str, int]:
        """Why robots.txt could not be had -> URLs that were put off for that."""
        return self._tallied("robots_unavailable:")

    @property
    def open_urls(self) -> int:
        """URLs still to be dealt with: queued, leased or spooled."""
        return self.count("queued") + self.count("leased") + self.count("spooled")

    @property
    def ledger_gap(self) -> int:
        """I1: admitted minus all places an admitted URL can be in; 0 unless something is lost."""
        dropped = sum(value for name, value in self.ledger.items() if name.startswith("drop:"))
        return self.count("admitted") - self.open_urls - self.count("done") - dropped


def _pairs(answer: Any) -> dict[str, Any]:
    return {answer[i].decode(): answer[i + 1] for i in range(0, len(answer), 2)}


def _numbers(answer: Any) -> dict[str, int]:
    return {name: int(value) for name, value in _pairs(answer).items()}


def take(store: Store) -> Snapshot:
    """Read all counters of a node."""
    return decode(store.calls([], extra=COMMANDS))


def decode(answers: list[Any]) -> Snapshot:
    """Make a snapshot of the answers to ``COMMANDS``."""
    ledger, outcomes, tally, procs, control, groups, oldest, dead, info, gateway, died = answers
    group = _pairs(groups[0]) if groups else {}
    return Snapshot(
        ledger=_numbers(ledger),
        outcomes=_numbers(outcomes),
        tally=_numbers(tally),
        procs={
            name: msgspec.json.decode(value, type=Report) for name, value in sorted(_pairs(procs).items())
        },
        control={name: value.decode() for name, value in _pairs(control).items()},
        spool_pending=int(group.get("pending", 0)),
        spool_oldest_ms=int(oldest[0][0].partition(b"-")[0]) if oldest else 0,
        dead_letters=int(dead),
        redis=info_of(info),
        gateway={name: value.decode() for name, value in _pairs(gateway).items()},
        deaths=deaths.decode(_pairs(died)),
    )
