"""Marks with hysteresis, smoothed times, and what open files allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.watermark import FILES_RESERVE, MOST_S, Latency, Watermark, files_for, visits_within

MARK = Watermark(high=10.0, low=5.0)


def test_too_much_begins_at_the_high_mark_and_ends_under_the_low_one() -> None:
    """In between it stays as it was, so a value that trembles about one mark changes nothing."""
    states, was = [], False
    for value in (9.9, 10.0, 9.9, 5.0, 4.9, 5.0, 9.9):
        was = MARK.over(was, value)
        states.append(was)
    assert states == [False, True, True, True, False, False, False]


def test_too_little_begins_under_the_low_mark_and_ends_at_the_high_one() -> None:
    """The same the other way round, as for room on a disk."""
    states, was = [], False
    for value in (5.0, 4.9, 5.0, 9.9, 10.0, 5.0):
        was = MARK.under(was, value)
        states.append(was)
    assert states == [False, True, True, True, False, False]


@given(st.lists(st.floats(7.0, 12.0)), st.booleans())
def test_a_value_that_stays_above_the_low_mark_ends_nothing(values: list[float], was: bool) -> None:
    """Over such values a state changes once at most, and then to trouble: nothing flaps."""
    changes = 0
    for value in values:
        now = MARK.over(was, value)
        changes += now != was
        assert not (was and not now)
        was = now
    assert changes <= 1


def test_marks_in_the_wrong_order_are_refused() -> None:
    """They would let a state flap at every look."""
    with pytest.raises(ValueError, match="not under"):
        Watermark(high=1.0, low=1.0)


def test_a_call_that_hangs_counts_while_it_hangs() -> None:
    """Else a disk that stopped altogether would look as fast as it was before."""
    times = Latency()
    assert times.idle
    call = times.begin(100.0)
    assert times.seconds(103.0) == 3.0
    times.end(call, 103.0)
    assert times.seconds(200.0) == pytest.approx(0.6)


def test_slow_calls_add_up_and_are_forgotten() -> None:
    """One slow call is no slow disk, many are; quick ones bring it down again. Calls may overlap."""
    times = Latency()
    now = 0.0
    seen = []
    for took in [2.0] * 8 + [0.0] * 8:
        first, second = times.begin(now), times.begin(now)
        now += took
        times.end(second, now)
        times.end(first, now)
        seen.append(times.seconds(now))
    assert seen[0] < 1.0 < seen[7]
    assert seen[15] < 0.1


def test_a_call_that_hung_for_an_hour_is_soon_forgotten() -> None:
    """It counts as five seconds, so some quick ones outweigh it."""
    times = Latency()
    times.end(times.begin(0.0), 3_600.0)
    assert times.seconds(3_600.0) <= MOST_S
    for _ in range(10):
        times.end(times.begin(3_600.0), 3_600.0)
    assert times.seconds(3_600.0) < 0.25


@pytest.mark.parametrize(
    ("files", "per_visit", "visits"),
    [(1_024, 1, 1_024 - FILES_RESERVE), (1_024, 2, (1_024 - FILES_RESERVE) // 2), (10, 1, 1), (0, 2, 1)],
)
def test_open_files_bound_the_visits(files: int, per_visit: int, visits: int) -> None:
    """Some are kept back for all else; one visit is always possible."""
    assert visits_within(files, per_visit) == visits


@given(st.integers(1, 10_000), st.integers(1, 2))
def test_as_many_files_as_are_asked_for_suffice(visits: int, per_visit: int) -> None:
    """What is asked of the system is what the rule then allows."""
    assert visits_within(files_for(visits, per_visit), per_visit) == visits
