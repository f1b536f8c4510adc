"""The law of pace: how soon, how wide, how often again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.outcome import Signal
from node.rules.pace import (
    LONE_DELAY_MS,
    PATIENCE_MS,
    PATIENCE_VISITS,
    WIDTH_CEILING,
    WIDTH_FLOOR,
    Limits,
    Pace,
    after_robots,
    after_visit,
)

DELAYED, WIDE = Limits(2_000, 3_600_000), Limits(0, 3_600_000)
paces = st.builds(
    Pace,
    slowed_ms=st.sampled_from([0, 2_500, 4_000, 3_600_000]),
    crawl_delay_ms=st.sampled_from([-1, 0, 500, 9_000, 86_400_000]),
    width=st.integers(WIDTH_FLOOR, WIDTH_CEILING),
    unreachable=st.integers(0, 40),
    due_ms=st.integers(0, 2_000),
)


def visit(pace: Pace, signal: Signal, limits: Limits = DELAYED, **changes: int | float | bool) -> Pace:
    """A visit alone: its lease is the newest."""
    known: dict[str, int | float | bool] = {
        "serial": pace.mark + 1,
        "last_serial": pace.mark + 1,
        "now_ms": 1_000,
        "sent": True,
        "hops": 0,
        "pause_ms": 0,
        "jitter": 0.0,
    }
    return after_visit(pace, limits, signal=signal, **(known | changes))  # type: ignore[arg-type]


def test_a_visit_is_paid_for_with_a_delay_and_each_hop_with_another() -> None:
    """The base delay, the site's Crawl-delay or the adapted one, whichever is longest."""
    assert visit(Pace(), Signal.SUCCESS).due_ms == 3_000
    assert visit(Pace(crawl_delay_ms=5_000), Signal.SUCCESS, hops=2).due_ms == 16_000
    assert visit(Pace(slowed_ms=8_000), Signal.NONE).due_ms == 9_000


def test_what_was_not_sent_costs_nothing() -> None:
    """Denied by robots.txt, excluded, given back."""
    assert visit(Pace(due_ms=700), Signal.NONE, sent=False).due_ms == 700


def test_throttle_doubles_the_delay_up_to_an_hour_and_success_wins_back_a_tenth() -> None:
    """From 2 s: 4, 8 ...; then down by 0.2 s a success until it is the base again, which is 0: not slowed."""
    pace = Pace()
    delays = []
    for _ in range(12):
        pace = visit(pace, Signal.THROTTLE)
        delays.append(pace.slowed_ms)
    assert delays[:3] == [4_000, 8_000, 16_000]
    assert delays[-1] == 3_600_000
    pace = Pace(slowed_ms=2_300)
    won_back = []
    for _ in range(3):
        pace = visit(pace, Signal.SUCCESS)
        won_back.append(pace.slowed_ms)
    assert won_back == [2_100, 0, 0]


def test_a_delay_far_beyond_what_failed_comes_down_by_halves() -> None:
    """A site that was away for a while is not paid for it for hours; close to what failed it goes slowly."""
    pace = replace(Pace(), run=1)
    for _ in range(5):
        pace = visit(pace, Signal.THROTTLE)
    delays = [(pace := visit(pace, Signal.SUCCESS)).slowed_ms for _ in range(6)]
    assert delays == [32_000, 16_000, 8_000, 4_000, 3_800, 3_600]


def test_a_limit_that_failed_is_held_just_short_of_and_tried_again_after_patience() -> None:
    """By delay (a 32nd above it) and by width (a visit below it); four times the patience the second time."""
    for limits, short in ((DELAYED, 2_063), (WIDE, 4_000)):
        pace, now = replace(Pace(width=5_000), run=PATIENCE_VISITS), 1_000
        waited = []
        for _ in range(2):
            pace = visit(pace, Signal.THROTTLE, limits, now_ms=now)
            begun, visits, last = now, 0, pace
            while (pace.slowed_ms != 0) if limits is DELAYED else (pace.width < 5_000):
                last, now, visits = pace, now + 100, visits + 1
                pace = visit(pace, Signal.SUCCESS, limits, now_ms=now)
            held = last.slowed_ms if limits is DELAYED else last.width // 1000 * 1000
            assert held == short
            waited.append((visits, now - begun))
        assert PATIENCE_VISITS < waited[0][0] < waited[1][0] / 3
        assert waited[0][1] >= PATIENCE_MS
        assert waited[1][1] >= PATIENCE_MS * 4


def test_a_failure_once_in_a_long_while_does_not_lower_what_is_remembered() -> None:
    """One timeout in a hundred is noise: the width goes on swinging below the limit that failed."""
    pace, now, widths = Pace(width=20_000, run=1), 0, []
    for step in range(20_000):
        now += 100
        pace = visit(pace, Signal.THROTTLE if step % 100 == 0 else Signal.SUCCESS, WIDE, now_ms=now)
        widths.append(pace.width)
    assert min(widths[10_000:]) >= 5_000


def test_a_site_without_a_delay_that_fails_one_by_one_gets_one() -> None:
    """Floor 1, then 1 s, 2 s, 4 s ... and by halves back to none; only then the width grows again."""
    pace = Pace(width=WIDTH_FLOOR)
    delays = [(pace := visit(pace, Signal.THROTTLE, WIDE)).slowed_ms for _ in range(4)]
    assert delays == [LONE_DELAY_MS, 2_000, 4_000, 8_000]
    assert pace.due_ms == 1_000 + 8_000
    back = [(pace := visit(pace, Signal.SUCCESS, WIDE)) for _ in range(5)]
    assert [each.slowed_ms for each in back] == [4_000, 2_000, 1_000, 0, 0]
    assert [each.width for each in back] == [1_000, 1_000, 1_000, 1_000, 2_000]


def test_of_visits_under_way_at_once_only_the_first_failure_counts() -> None:
    """Those leased before the site was slowed had begun before, and say nothing new."""
    pace = visit(Pace(width=8_000), Signal.THROTTLE, WIDE, serial=5, last_serial=12)
    assert pace.width == 4_000
    assert visit(pace, Signal.THROTTLE, WIDE, serial=12, last_serial=14).width == 4_000
    assert visit(pace, Signal.THROTTLE, WIDE, serial=13, last_serial=14).width == 2_000


@pytest.mark.parametrize("limits", [DELAYED, WIDE])
def test_answers_that_come_twice_as_late_as_usual_count_as_a_throttle(limits: Limits) -> None:
    """Smoothed, so not a single one; once, not for each answer; and what stays so becomes usual."""
    pace = Pace(width=8_000)
    for i in range(200):
        pace = visit(pace, Signal.SUCCESS, limits, ttfb_ms=150 + 100 * (i % 3))
    assert pace.slowdowns == 0
    pace = visit(pace, Signal.SUCCESS, limits, ttfb_ms=30_000)
    assert pace.slowdowns == 0
    for _ in range(40):
        pace = visit(pace, Signal.SUCCESS, limits, ttfb_ms=900)
    assert 1 <= pace.slowdowns <= 2
    for _ in range(2_000):
        pace = visit(pace, Signal.SUCCESS, limits, ttfb_ms=900)
    assert pace.slowdowns <= 3
    assert pace.slowed_ms <= 4 * limits.base_delay_ms


def test_a_few_milliseconds_are_nobody_s_load() -> None:
    """From 2 ms to 40 ms is twenty times as much, and nothing."""
    pace = Pace()
    for ttfb_ms in [2] * 100 + [40] * 100:
        pace = visit(pace, Signal.SUCCESS, WIDE, ttfb_ms=ttfb_ms)
    assert pace.slowdowns == 0


def test_a_crawl_delay_that_comes_or_goes_forgets_the_limit_of_the_other_kind() -> None:
    """A width in visits is no delay in milliseconds."""
    pace = Pace(failed=7, grade=2)
    assert after_robots(pace, WIDE, 5_000).failed == 0
    assert after_robots(pace, WIDE, 0).failed == 7
    assert after_robots(pace, DELAYED, 5_000).failed == 7


def test_a_crawl_delay_beyond_our_hour_is_honoured() -> None:
    """The hour caps only our own back-off."""
    pace = visit(Pace(crawl_delay_ms=86_400_000), Signal.THROTTLE)
    assert pace.delay_ms(DELAYED) == 86_400_000
    assert pace.due_ms == 86_401_000


def test_width_grows_by_one_over_itself_and_halves() -> None:
    """Start 4, ceiling 32, floor 1, in thousandths."""
    pace = Pace(crawl_delay_ms=0)
    assert pace.visits_at_once(WIDE) == 4
    assert visit(pace, Signal.SUCCESS, WIDE).width == 4_250
    for _ in range(1_000):
        pace = visit(pace, Signal.SUCCESS, WIDE)
    assert pace.width == WIDTH_CEILING
    widths = [(pace := visit(pace, Signal.THROTTLE, WIDE)).width for _ in range(6)]
    assert widths == [16_000, 8_000, 4_000, 2_000, 1_000, 1_000]


def test_any_delay_makes_the_width_one() -> None:
    """Ours, or the site's."""
    assert Pace(width=9_000).visits_at_once(DELAYED) == 1
    assert Pace(width=9_000, crawl_delay_ms=1).visits_at_once(WIDE) == 1
    assert Pace(width=9_999).visits_at_once(WIDE) == 9


def test_a_dead_host_is_parked_twice_as_long_each_time() -> None:
    """Up to an hour, jittered by up to a tenth; a success forgets it."""
    pace = Pace()
    waits = []
    for _ in range(13):
        now = max(1_000, pace.due_ms)
        pace = visit(pace, Signal.DEAD, now_ms=now)
        waits.append(pace.due_ms - now)
    assert waits[:3] == [2_000, 4_000, 8_000]
    assert waits[-1] == 3_600_000
    assert visit(Pace(), Signal.DEAD, jitter=1.0).due_ms == 3_200
    assert visit(pace, Signal.SUCCESS).unreachable == 0


def test_visits_that_fail_together_count_once() -> None:
    """Those that had begun before the host was parked say nothing new."""
    pace = visit(Pace(), Signal.DEAD, WIDE)
    again = visit(pace, Signal.DEAD, WIDE, now_ms=1_050)
    assert (again.unreachable, again.due_ms) == (1, pace.due_ms)


def test_retry_after_is_a_floor() -> None:
    """It lengthens a wait, never shortens one."""
    assert visit(Pace(), Signal.THROTTLE, pause_ms=60_000).due_ms == 61_000
    assert visit(Pace(), Signal.THROTTLE, pause_ms=10).due_ms == 5_000


@given(
    paces,
    st.sampled_from(Signal),
    st.booleans(),
    st.integers(0, 5),
    st.floats(0, 1),
    st.sampled_from([0, 2_000]),
)
def test_bounds_hold_whatever_happens(
    pace: Pace, signal: Signal, sent: bool, hops: int, jitter: float, base_ms: int
) -> None:
    """Never sooner than before or than the delay in force; width and delay within their bounds."""
    limits = Limits(base_ms, 3_600_000)
    after = after_visit(
        pace, limits, now_ms=1_000, signal=signal, sent=sent, hops=hops, pause_ms=0, jitter=jitter
    )
    assert after.due_ms >= pace.due_ms
    if sent:
        assert after.due_ms >= 1_000 + after.delay_ms(limits) * (1 + hops) or signal is Signal.SUCCESS
        assert after.due_ms >= 1_000 + max(base_ms, pace.crawl_delay_ms)
    assert WIDTH_FLOOR <= after.width <= WIDTH_CEILING
    assert after.slowed_ms <= max(3_600_000, pace.crawl_delay_ms)
    assert all(isinstance(value, int) for value in (after.due_ms, after.slowed_ms, after.width))
