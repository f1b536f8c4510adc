"""What a check saw, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PLACES = ("queued", "leased", "spooled", "done")
"""Counters of where an admitted URL can be, but for the reasons why it was dropped."""
MOST_NAMED = 20
"""Findings that are told in full; all are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be. ``subject``: a domain, a URL's entry, or a counter."""

    invariant: str
    subject: str
    words: str


@dataclass(slots=True)
class Findings:
    """What a check saw. ``broken``: how many findings, of which ``named`` holds the first."""

    domains: int = 0
    queued: int = 0
    leased: int = 0
    spooled: int = 0
    ledger: dict[str, int] = field(default_factory=dict)
    """The counters of I1, as they stood in the end."""
    totals_compared: bool = False
    """Whether nothing moved meanwhile, so that the queues could be held against their counter."""
    at_address: Counter[bytes] = field(default_factory=Counter)
    """Leases by the addresses that they count for."""
    broken: int = 0
    named: list[Finding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return self.broken == 0

    def add(self, invariant: str, subject: str, words: str) -> None:
        self.broken += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(Finding(invariant, subject, words))

    def lines(self) -> Iterator[str]:
        """For a reader at a terminal."""
        yield ledger_line(self.ledger)
        for finding in self.named:
            yield f"{finding.invariant} {finding.subject}: {finding.words}"
        if self.broken > len(self.named):
            yield f"... and {self.broken - len(self.named):,} more"
        seen = f"{self.domains:,} domains, {self.queued:,} queued"
        seen += f", {self.leased:,} leased, {self.spooled:,} spooled"
        if not self.totals_compared:
            seen += " (the node was at work, so the sum of the queues was not compared)"
        yield f"{'sound' if self.sound else f'{self.broken:,} broken'}: {seen}"


def ledger_line(ledger: Mapping[str, int]) -> str:
    """I1 in numbers: what was admitted, and where it is now."""
    dropped = {name[5:]: count for name, count in sorted(ledger.items()) if name[:5] == "drop:" and count}
    parts = [f"{ledger.get(name, 0):,} {name}" for name in PLACES]
    parts.append(f"{sum(dropped.values()):,} dropped")
    if dropped:
        parts[-1] += f" ({', '.join(f'{reason} {count:,}' for reason, count in dropped.items())})"
    admitted, found = ledger.get("admitted", 0), sum(ledger.get(name, 0) for name in PLACES)
    sign = "=" if admitted == found + sum(dropped.values()) else "\N{NOT EQUAL TO}"
    return f"{admitted:,} admitted {sign} {' + '.join(parts)}"
