"""How soon and how wide a domain may be visited again.

Where there is a delay, ours or the site's, the delay adapts and the width is 1; where there is none the
width adapts, and only a site that is not content with one visit at a time gets a delay. Both are AIMD with
a memory: a limit that failed is approached slowly, held just short of, and tried again after a patience
that grows with each time it failed (docs/decisions/0015).

The settle script does this arithmetic where it must be exact, inside Redis; this is the same law in
plain form, and a test ties the two. All whole numbers: times in milliseconds, widths in thousandths,
times to first byte in 256ths of a millisecond.
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
LONE_DELAY_MS = 1_000
"""The first delay of a site without one that is not content with one visit at a time."""

PATIENCE_VISITS = 64
PATIENCE_MS = 30_000
PATIENCE_GROWTH = 4
"""A limit that failed is tried again after so many good visits and so much quiet, both four times as
much for each time that it failed again ..."""
GRADE_MAX = 4
"""... up to 64 times: about half an hour, and 4,096 visits. Twice as much, and it is forgotten."""
RUN_MAX = 1_000_000
SLOWDOWNS_MAX = 65_535

LATENCY_WARM_UP = 32
"""Times to first byte of a domain before they are judged."""
LATENCY_LEAST_MS = 50
"""Differences below this are not a site's load."""
LATENCY_MAX_MS = 60_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What does not change during a crawl."""

    base_delay_ms: int
    max_delay_ms: int


@dataclass(frozen=True, slots=True)
class Pace:
    """A domain's state.

    ``slowed_ms``: our own back-off, 0 = none. ``crawl_delay_ms``: the site's wish, -1 until its robots.txt
    was read. ``failed``: the limit that failed, as a delay in ms or as a width in whole visits; 0 = none.
    ``grade``: how often it failed. ``run``: good visits since the last slow-down, which was at
    ``slowed_at_s``; leases up to ``mark`` were out by then. ``ttfb``, ``usual_ttfb``: smoothed quickly and
    slowly, of ``ttfb_count`` answers (which saturates).
    """

    slowed_ms: int = 0
    crawl_delay_ms: int = -1
    width: int = WIDTH_START
    unreachable: int = 0
    due_ms: int = 0
    failed: int = 0
    grade: int = 0
    run: int = 0
    slowed_at_s: int = 0
    mark: int = 0
    ttfb: int = 0
    usual_ttfb: int = 0
    ttfb_count: int = 0
    slowdowns: int = 0

    def base_ms(self, limits: Limits) -> int:
        """The least delay: ours, or the site's where it is longer."""
        return max(limits.base_delay_ms, self.crawl_delay_ms)

    def delay_ms(self, limits: Limits) -> int:
        """The delay in force."""
        return max(self.base_ms(limits), self.slowed_ms)

    def visits_at_once(self, limits: Limits) -> int:
        """How many leases may be out: one where there is a delay, ours or the site's."""
        return 1 if self.base_ms(limits) > 0 else self.width // 1000


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
    serial: int = 1,
    last_serial: int = 1,
    ttfb_ms: int = 0,
) -> Pace:
    """The state after a visit that ended at ``now_ms``.

    ``hops``: redirect hops it made, each paid for with another delay. ``pause_ms``: Retry-After, 0
    if none. ``jitter`` in 0..1 lengthens each back-off by up to a tenth. ``serial``: of its lease;
    ``last_serial``: of the newest lease handed out. ``ttfb_ms``: time to first byte, 0 where it was not
    measured or our own loop was late. A visit in which nothing was sent costs nothing.

    Of visits that were under way at once only the first that fails says something about the limit: the
    others had begun before anything was slowed.
    """
    base, due, delay_factor = pace.base_ms(limits), pace.due_ms, 1.0
    if signal is Signal.SUCCESS:
        pace = replace(pace, unreachable=0)
        if ttfb_ms > 0:
            pace = _with_latency(pace, ttfb_ms)
        if _is_late(pace) and serial > pace.mark:
            pace = _slower(pace, limits, now_ms, last_serial, gently=True)
            settled = (pace.usual_ttfb + pace.ttfb) // 2
            pace = replace(pace, usual_ttfb=settled, ttfb=settled)
        elif serial > pace.mark:
            pace = _faster(pace, limits, now_ms)
    elif signal is Signal.THROTTLE:
        pace = replace(pace, unreachable=0)
        if serial > pace.mark:
            pace = _slower(pace, limits, now_ms, last_serial, gently=False)
        delay_factor += jitter / 10
    elif signal is Signal.DEAD and due <= now_ms:
        back_off = max(base, DEAD_BASE_MS) * 2 ** min(pace.unreachable, 20)
        due = now_ms + ceil(min(max(limits.max_delay_ms, base), back_off) * (1 + jitter / 10))
        pace = replace(pace, unreachable=pace.unreachable + 1)
    if sent:
        due = max(due, now_ms + ceil(max(base, pace.slowed_ms) * (1 + hops) * delay_factor))
    if pause_ms > 0:
        due = max(due, now_ms + pause_ms)
    return replace(pace, due_ms=due)


def after_robots(pace: Pace, limits: Limits, crawl_delay_ms: int) -> Pace:
    """The state once robots.txt was read; a limit that failed means nothing in the other mode."""
    after = replace(pace, crawl_delay_ms=crawl_delay_ms)
    if (after.base_ms(limits) > 0) != (pace.base_ms(limits) > 0):
        after = replace(after, failed=0)
    return after


def _slower(pace: Pace, limits: Limits, now_ms: int, last_serial: int, *, gently: bool) -> Pace:
    """Half the width, or twice the delay. ``gently``, for latency alone: to four times the base at most."""
    base = pace.base_ms(limits)
    longest = max(limits.max_delay_ms, base)
    failed, grade, slowed, width = pace.failed, pace.grade, pace.slowed_ms, pace.width
    if pace.run > 0:  # else it goes on failing, whatever the limit
        here = max(base, slowed) if base > 0 else max(2, width // 1000)
        milder = failed > 0 and (here > failed if base > 0 else here < failed)
        if not milder:
            failed, grade = here, min(GRADE_MAX, grade + 1)
        elif pace.run < PATIENCE_VISITS:  # else it is noise: once in a long while
            far = here * 3 > failed * 4 if base > 0 else here * 4 < failed * 3
            failed, grade = here, 1 if far else grade  # far from what was known: nothing is known here
    if base > 0:
        doubled = min(longest, max(base, slowed) * 2)
        slowed = max(slowed, min(doubled, 4 * base)) if gently else doubled
    elif width > WIDTH_FLOOR:
        width = max(WIDTH_FLOOR, width // 2)
    elif not gently:
        slowed = min(longest, slowed * 2) if slowed > 0 else min(longest, LONE_DELAY_MS)
    return replace(
        pace,
        failed=failed,
        grade=grade,
        slowed_ms=slowed,
        width=width,
        run=0,
        slowed_at_s=now_ms // 1000,
        mark=last_serial,
        slowdowns=min(SLOWDOWNS_MAX, pace.slowdowns + 1),
    )


def _faster(pace: Pace, limits: Limits, now_ms: int) -> Pace:
    """One good visit more."""
    base, run = pace.base_ms(limits), min(RUN_MAX, pace.run + 1)
    failed, grade, slowed, width = pace.failed, pace.grade, pace.slowed_ms, pace.width
    patient = True
    if grade > 0:
        visits = PATIENCE_VISITS + (0 if base > 0 else failed * failed // 2)  # and those that grow it again
        growth = PATIENCE_GROWTH ** (grade - 1)
        quiet_ms = now_ms - pace.slowed_at_s * 1000
        patient = run >= visits * growth and quiet_ms >= PATIENCE_MS * growth
        if run >= visits * growth * 2 and quiet_ms >= PATIENCE_MS * growth * 2:
            failed = grade = 0
    least = 0 if patient else failed
    if base > 0:
        if slowed > 0:
            far = max(base, failed) * 2
            lower = slowed // 2 if slowed // 2 >= far else slowed - ceil(base / 10)
            slowed = min(slowed, max(lower, least + ceil(least / 32)))
            slowed = slowed if slowed > base else 0
    elif slowed > 0:
        slowed = slowed // 2 if slowed // 2 >= LONE_DELAY_MS else 0
    else:
        wider = min(WIDTH_CEILING, width + (1_000_000 + width // 2) // width)
        width = wider if least == 0 or wider < least * 1000 else width
    return replace(pace, failed=failed, grade=grade, run=run, slowed_ms=slowed, width=width)


def _with_latency(pace: Pace, ttfb_ms: int) -> Pace:
    """One time to first byte more: a sixteenth of it counts now, a 128th for what is usual here.

    A single answer counts as four times the usual at most, so that it takes several to be late.
    """
    count, new = pace.ttfb_count, min(ttfb_ms, LATENCY_MAX_MS) * 256
    if count >= LATENCY_WARM_UP:
        new = min(new, 4 * pace.usual_ttfb)
    count = min(128, count + 1)
    return replace(
        pace,
        ttfb=pace.ttfb + (new - pace.ttfb) // min(16, count),
        usual_ttfb=pace.usual_ttfb + (new - pace.usual_ttfb) // count,
        ttfb_count=count,
    )


def _is_late(pace: Pace) -> bool:
    """Is the smoothed time to first byte above twice what is usual for this domain?"""
    late_by = pace.ttfb - pace.usual_ttfb
    return (
        pace.ttfb_count >= LATENCY_WARM_UP and late_by > pace.usual_ttfb and late_by > LATENCY_LEAST_MS * 256
    )
