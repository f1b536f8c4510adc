"""The law of pace: how soon, how wide, how often again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.outcome import Signal
from node.rules.pace import (
    RETRY_CAP,
    RETRY_START,
    WIDTH_CEILING,
    WIDTH_FLOOR,
    Limits,
    Pace,
    after_visit,
    retry_tokens,
    retry_wait_ms,
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
    known: dict[str, int | float | bool] = {
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
    pace = replace(pace, slowed_ms=2_300)
    won_back = []
    for _ in range(3):
        pace = visit(pace, Signal.SUCCESS)
        won_back.append(pace.slowed_ms)
    assert won_back == [2_100, 0, 0]


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


def test_retries_are_a_tenth_of_requests() -> None:
    """Two to begin with, one for every ten first tries, ten at most in stock."""
    tokens, granted = RETRY_START, 0
    for _ in range(100):
        tokens, grant = retry_tokens(tokens, first_try=True, sent=True, wanted=True)
        granted += grant
    assert granted == 12
    for _ in range(1_000):
        tokens, _grant = retry_tokens(tokens, first_try=True, sent=True, wanted=False)
    assert tokens == RETRY_CAP
    assert retry_tokens(9, first_try=False, sent=True, wanted=True) == (9, False)


@pytest.mark.parametrize(("tries", "most"), [(0, 2_000), (1, 4_000), (2, 8_000)])
def test_back_off_doubles_with_full_jitter(tries: int, most: int) -> None:
    """Anywhere from nothing to twice the last one."""
    assert retry_wait_ms(tries, 2_000, 0.0) == 0
    assert retry_wait_ms(tries, 2_000, 1.0) == most
    assert retry_wait_ms(0, 0, 1.0) == 1_000
