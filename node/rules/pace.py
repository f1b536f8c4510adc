"""How soon and how wide a domain may be visited again (AIMD), and how long a retry waits.

The settle script does this arithmetic where it must be exact, inside Redis; this is the same law in
plain form, and a test ties the two. All whole numbers: times in milliseconds, widths in thousandths,
retry tokens in tenths. Where there is a delay, ours or the site's, the delay adapts and the width is
1; where there is none the width adapts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from node.rules.outcome import Signal

WIDTH_START = 4_000
WIDTH_FLOOR = 1_000
WIDTH_CEILING = 32_000
DEAD_BASE_MS = 1_000
"""The first park of a host that can't be reached, where no delay is longer."""
RETRY_START = 20
"""Retries a domain has to begin with: two ..."""
RETRY_SHARE = 1
"""... and what each first try adds: a tenth, so retries are at most a tenth of requests."""
RETRY_COST = 10
RETRY_CAP = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """What does not change during a crawl."""

    base_delay_ms: int
    max_delay_ms: int


@dataclass(frozen=True, slots=True)
class Pace:
    """A domain's state. ``slowed_ms`` 0 = not slowed; ``crawl_delay_ms`` is the site's wish, -1 until
    its robots.txt was read."""

    slowed_ms: int = 0
    crawl_delay_ms: int = -1
    width: int = WIDTH_START
    unreachable: int = 0
    due_ms: int = 0

    def delay_ms(self, limits: Limits) -> int:
        """The delay in force."""
        return max(limits.base_delay_ms, self.crawl_delay_ms, self.slowed_ms)

    def visits_at_once(self, limits: Limits) -> int:
        """How many leases may be out: one where there is a delay, ours or the site's."""
        if limits.base_delay_ms > 0 or self.crawl_delay_ms > 0:
            return 1
        return self.width // 1000


def after_visit(
    pace: Pace,
    limits: Limits,
    *,
    now_ms: int,
    signal: Signal,
    sent: bool,
    hops: int,
    pause_ms: int,
    jitter: float,
) -> Pace:
    """The state after a visit that ended at ``now_ms``.

    ``hops``: redirect hops it made, each paid for with another delay. ``pause_ms``: Retry-After, 0
    if none. ``jitter`` in 0..1 spreads the back-off of hosts that can't be reached. A visit in which
    nothing was sent costs nothing.

    Of visits to a dead host that were under way at once only the first to fail parks it; the
    others had begun before, and say nothing new.
    """
    base = max(limits.base_delay_ms, pace.crawl_delay_ms)
    slowed, width, unreachable, due = pace.slowed_ms, pace.width, pace.unreachable, pace.due_ms
    if signal is Signal.SUCCESS:
        unreachable = 0
        if slowed > 0:
            slowed -= ceil(base / 10)
            slowed = slowed if slowed > base else 0
        width = min(WIDTH_CEILING, width + (1_000_000 + width // 2) // width)
    elif signal is Signal.THROTTLE:
        unreachable = 0
        slowed = min(max(limits.max_delay_ms, base), max(base, slowed) * 2)
        width = max(WIDTH_FLOOR, width // 2)
    elif signal is Signal.DEAD and due <= now_ms:
        unreachable += 1
        back_off = max(base, DEAD_BASE_MS) * 2 ** min(unreachable - 1, 20)
        due = now_ms + ceil(min(max(limits.max_delay_ms, base), back_off) * (1 + jitter / 10))
    if sent:
        due = max(due, now_ms + max(base, slowed) * (1 + hops))
    if pause_ms > 0:
        due = max(due, now_ms + pause_ms)
    return replace(pace, slowed_ms=slowed, width=width, unreachable=unreachable, due_ms=due)


def retry_tokens(tokens: int, *, first_try: bool, sent: bool, wanted: bool) -> tuple[int, bool]:
    """The retry budget after a visit, and whether the retry that is ``wanted`` is granted."""
    if first_try and sent:
        tokens = min(RETRY_CAP, tokens + RETRY_SHARE)
    if wanted and tokens >= RETRY_COST:
        return tokens - RETRY_COST, True
    return tokens, False


def retry_wait_ms(tries: int, base_delay_ms: float, jitter: float) -> int:
    """Exponential back-off with full jitter: up to base, 2 × base, 4 × base ...

    ``jitter`` in 0..1. The domain's own delay comes on top: a retry is admitted like a first try.
    """
    return int(max(1_000.0, base_delay_ms) * 2.0**tries * jitter)
