"""The law of pace against sites that stand so much and no more, with driven time.

A site answers as long as it is asked no more often than it stands: so many visits at once where it has no
delay, or one visit in so many milliseconds where it has. What is more is answered with a throttle. Work is
always waiting, so the law alone decides. ``python -m tests.rules.pace_simulation`` prints the table for
docs/performance.md.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from node.rules.outcome import Signal
from node.rules.pace import WIDTH_CEILING, WIDTH_FLOOR, Limits, Pace, after_visit

MAX_DELAY_MS = 3_600_000
LATE_MS = 600_000
"""What happens after the first ten minutes is counted apart, too."""

Law = Callable[[Pace, Limits, int, Signal, int, int], Pace]


def chosen(pace: Pace, limits: Limits, now_ms: int, signal: Signal, serial: int, last_serial: int) -> Pace:
    """The law of rules/pace.py."""
    return after_visit(
        pace,
        limits,
        now_ms=now_ms,
        signal=signal,
        sent=True,
        hops=0,
        pause_ms=0,
        jitter=0.5,
        serial=serial,
        last_serial=last_serial,
    )


def plain(pace: Pace, limits: Limits, now_ms: int, signal: Signal, serial: int, last_serial: int) -> Pace:
    """AIMD without a memory, for comparison."""
    width, slowed, base = pace.width, pace.slowed_ms, limits.base_delay_ms
    if signal is Signal.SUCCESS:
        width = min(WIDTH_CEILING, width + (1_000_000 + width // 2) // width)
        slowed = slowed - base // 10 if slowed - base // 10 > base else 0
    else:
        width = max(WIDTH_FLOOR, width // 2)
        slowed = min(limits.max_delay_ms, max(base, slowed) * 2)
    return replace(pace, width=width, slowed_ms=slowed, due_ms=now_ms + max(base, slowed))


@dataclass
class Site:
    """``base_ms`` 0: it stands ``tolerance`` visits at once; else one in ``tolerance`` ms."""

    base_ms: int
    tolerance: int
    latency_ms: int
    trouble_ms: tuple[int, int] = (0, 0)
    """From when to when it answers nothing but throttles."""
    requests: int = 0
    overloads: int = 0
    late_requests: int = 0
    late_overloads: int = 0
    good_at_ms: list[int] | None = None

    def run(self, law: Law, rng: random.Random, until_ms: int) -> Pace:
        """Visit it until ``until_ms``; the state then."""
        limits = Limits(self.base_ms, MAX_DELAY_MS)
        pace, now, serial, last_start = Pace(), 0, 0, -(10**9)
        out: list[tuple[int, int, bool]] = []
        while now < until_ms:
            while len(out) < pace.visits_at_once(limits) and pace.due_ms <= now:
                good = now - last_start >= self.tolerance if self.base_ms else len(out) < self.tolerance
                good = good and not self.trouble_ms[0] <= now < self.trouble_ms[1]
                serial, last_start = serial + 1, now
                took = self.latency_ms * rng.uniform(0.5, 1.5) * (1.0 if good else 0.3)
                heapq.heappush(out, (now + max(1, int(took)), serial, good))
                self._count(now, good)
            if out:
                now, ended, good = heapq.heappop(out)
                if good and self.good_at_ms is not None:
                    self.good_at_ms.append(now)
                pace = law(pace, limits, now, Signal.SUCCESS if good else Signal.THROTTLE, ended, serial)
            if not out:
                now = max(now, pace.due_ms)
        return pace

    def _count(self, now_ms: int, good: bool) -> None:
        self.requests += 1
        self.overloads += not good
        if now_ms >= LATE_MS:
            self.late_requests += 1
            self.late_overloads += not good


@dataclass
class Sum:
    """Requests of many sites."""

    requests: int = 0
    overloads: int = 0
    late_requests: int = 0
    late_overloads: int = 0

    def add(self, site: Site) -> None:
        self.requests += site.requests
        self.overloads += site.overloads
        self.late_requests += site.late_requests
        self.late_overloads += site.late_overloads

    @property
    def share(self) -> float:
        return self.overloads / max(1, self.requests)

    @property
    def late_share(self) -> float:
        return self.late_overloads / max(1, self.late_requests)


def sites(rng: random.Random, many: int, *, delayed: bool) -> list[Site]:
    """Random sites: visits at once from 1 to 40 (more than our ceiling), or a gap of a tenth of the base
    delay to thirty times it."""
    if delayed:
        bases = [rng.choice([1_000, 5_000]) for _ in range(many)]
        return [Site(base, int(base * 10 ** rng.uniform(-1, 1.48)), rng.randint(50, 500)) for base in bases]
    return [Site(0, rng.randint(1, 40), rng.randint(10_000, 40_000)) for _ in range(many)]


def simulate(law: Law, every: Iterable[Site], rng: random.Random, until_ms: int) -> dict[int, Sum]:
    """Tolerance (in visits at once, or in tenths of the base delay, rounded up to a power of two) -> sum."""
    sums: dict[int, Sum] = defaultdict(Sum)
    for site in every:
        site.run(law, rng, until_ms)
        key = site.tolerance
        if site.base_ms:
            key = 1 << max(0, (10 * site.tolerance // site.base_ms - 1).bit_length())
        sums[key].add(site)
    return dict(sorted(sums.items()))


def total(sums: dict[int, Sum]) -> Sum:
    """All of them."""
    return Sum(*(sum(getattr(each, name) for each in sums.values()) for name in Sum.__dataclass_fields__))


def main() -> None:
    """Print both laws, by tolerance."""
    for delayed, minutes in ((False, 20), (True, 60)):
        print("delay adapts" if delayed else "width adapts")
        for name, law in (("plain AIMD", plain), ("with memory", chosen)):
            rng = random.Random(1)
            sums = simulate(law, sites(rng, 1_000, delayed=delayed), rng, minutes * 60_000)
            for key, each in [*sums.items(), (0, total(sums))]:
                print(
                    f"{name:12} {key:4} requests {each.requests:8}  overload {each.share:7.2%}  "
                    f"after ten minutes {each.late_share:7.2%}"
                )


if __name__ == "__main__":
    main()
