"""How soon and how wide a domain may be visited again (AIMD), and how long a retry waits.

The settle script does this arithmetic where it must be exact, inside Redis; this is the same law in
plain form, and a test ties the two. Times in milliseconds. With a delay the delay adapts and the
width is 1; with none the width adapts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from node.rules.outcome import Signal

WIDTH_START = 4.0
WIDTH_FLOOR = 1.0
WIDTH_CEILING = 32.0
DEAD_BASE_MS = 1_000
RETRY_START = 2.0
"""Retries a domain has to begin with ..."""
RETRY_SHARE = 0.1
"""... and what each first try adds: retries are at most a tenth of requests."""
RETRY_CAP = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What does not change during a crawl."""

    base_delay_ms: float
    max_delay_ms: float


@dataclass(frozen=True, slots=True)
class Pace:
    """A domain's state. ``adapted_ms`` 0 = never slowed; ``crawl_delay_ms`` is the site's wish."""

    adapted_ms: float = 0.0
    crawl_delay_ms: float = 0.0
    width: float = WIDTH_START
    unreachable: int = 0
    due_ms: float = 0.0

    def delay_ms(self, limits: Limits) -> float:
        """The delay in force."""
        return max(limits.base_delay_ms, self.crawl_delay_ms, self.adapted_ms)


def after_visit(
    pace: Pace,
    limits: Limits,
    *,
    now_ms: float,
    signal: Signal,
    sent: bool,
    hops: int,
    pause_ms: float,
    jitter: float,
) -> Pace:
    """The state after a visit that ended at ``now_ms``.

    ``hops``: redirect hops it made, each paid for with another delay. ``pause_ms``: Retry-After, 0
    if none. ``jitter`` in 0..1 spreads the back-off of hosts that can't be reached. A visit in which
    nothing was sent costs nothing.
    """
    base = max(limits.base_delay_ms, pace.crawl_delay_ms)
    adapted, width, unreachable, due = pace.adapted_ms, pace.width, pace.unreachable, pace.due_ms
    if signal is Signal.SUCCESS:
        unreachable = 0
        adapted = max(base, adapted - base / 10)
        width = min(WIDTH_CEILING, width + 1 / width)
    elif signal is Signal.THROTTLE:
        unreachable = 0
        adapted = min(max(limits.max_delay_ms, base), max(base, adapted) * 2)
        width = max(WIDTH_FLOOR, width / 2)
    elif signal is Signal.DEAD:
        unreachable += 1
    if sent:
        due = max(due, now_ms + max(base, adapted) * (1 + hops))
    if signal is Signal.DEAD:
        back_off = max(base, DEAD_BASE_MS) * 2.0 ** min(unreachable - 1, 20)
        due = max(due, now_ms + min(limits.max_delay_ms, back_off) * (1 + jitter / 10))
    if pause_ms > 0:
        due = max(due, now_ms + pause_ms)
    return replace(pace, adapted_ms=adapted, width=width, unreachable=unreachable, due_ms=due)


def retry_wait_ms(tries: int, base_delay_ms: float, jitter: float) -> int:
    """Exponential back-off with full jitter: up to base, 2 × base, 4 × base ...

    ``jitter`` in 0..1. The domain's own delay comes on top: a retry is admitted like a first try.
    """
    return int(max(1_000.0, base_delay_ms) * 2.0**tries * jitter)
