"""The health of a domain: one word, one number, one line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.health import Signs, State, judge

WELL = Signs(
    ordinary_delay_ms=2_000,
    delay_ms=2_000,
    width=4_000,
    unreachable=0,
    due_in_ms=1_500,
    retry_tokens=20,
    retired=False,
)
WIDE = replace(WELL, ordinary_delay_ms=0, delay_ms=0, due_in_ms=-100)


@pytest.mark.parametrize(
    ("signs", "state", "score", "says"),
    [
        (WELL, State.HEALTHY, 100, ""),
        (WIDE, State.HEALTHY, 100, ""),
        (replace(WIDE, width=32_000), State.HEALTHY, 100, ""),
        (replace(WELL, due_in_ms=6 * 2_000), State.HEALTHY, 100, ""),
        (replace(WELL, delay_ms=2_600), State.HEALTHY, 77, "every 2.6 s, its ordinary pace is 2 s"),
        (replace(WELL, delay_ms=4_000), State.STRUGGLING, 50, "every 4 s, its ordinary pace is 2 s"),
        (replace(WELL, delay_ms=3_600_000), State.STRUGGLING, 0, "every 60 min, its ordinary pace is 2 s"),
        (replace(WIDE, width=1_000), State.STRUGGLING, 25, "1.0 visits at once, where others begin with 4"),
        (replace(WIDE, width=3_500), State.HEALTHY, 88, "3.5 visits at once"),
        (replace(WELL, retry_tokens=4), State.STRUGGLING, 47, "its retries are used up"),
        (replace(WELL, unreachable=1, due_in_ms=-5), State.STRUGGLING, 50, "nothing answered once in a row"),
        (replace(WELL, unreachable=3, due_in_ms=8_000), State.PARKED, 12, "3 times in a row: it is left"),
        (replace(WELL, due_in_ms=90_000), State.PARKED, 2, "it asked to be left alone: 90 s to go"),
        (replace(WIDE, due_in_ms=20_000), State.PARKED, 5, "it asked to be left alone: 20 s to go"),
        (replace(WELL, unreachable=10, retired=True), State.RETIRED, 0, "nothing answered 10 times in a row"),
    ],
)
def test_each_sign_has_its_state_and_its_words(signs: Signs, state: State, score: int, says: str) -> None:
    """What slows a domain is named; what is within its ordinary pace is healthy."""
    health = judge(signs)
    assert (health.state, health.score) == (state, score)
    assert says in health.why
    assert bool(says) == bool(health.why)


def test_a_crawl_delay_is_no_illness() -> None:
    """A site that asks for a long delay and gets it is at its ordinary pace."""
    assert judge(replace(WELL, ordinary_delay_ms=60_000, delay_ms=60_000)).score == 100


def test_the_line_names_what_weighs_most() -> None:
    """Of several causes the worst is told."""
    health = judge(replace(WELL, delay_ms=3_000, unreachable=4, due_in_ms=9_000, retry_tokens=0))
    assert "4 times in a row" in health.why


@given(
    st.builds(
        Signs,
        ordinary_delay_ms=st.integers(0, 86_400_000),
        delay_ms=st.integers(0, 86_400_000),
        width=st.integers(0, 32_000),
        unreachable=st.integers(0, 30_000),
        due_in_ms=st.integers(-(10**12), 10**12),
        retry_tokens=st.integers(0, 100),
        retired=st.booleans(),
    )
)
def test_any_signs_have_a_health(signs: Signs) -> None:
    """Whatever stands in a record, the score is 0 to 100, and a bad one is explained in one line."""
    health = judge(signs)
    assert 0 <= health.score <= 100
    assert "\n" not in health.why
    if health.state is not State.HEALTHY:
        assert health.why


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_the_slower_the_worse(one: int, other: int) -> None:
    """More delay is never more health."""
    fast, slow = sorted((one, other))
    assert judge(replace(WELL, delay_ms=slow)).score <= judge(replace(WELL, delay_ms=fast)).score
