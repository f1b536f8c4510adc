"""Bounds that come from arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules import budget


@pytest.mark.parametrize(
    ("max_urls", "delay_s", "left_s", "cap"),
    [
        (100_000, 70.0, 86_400.0, 1543),
        (1_000, 70.0, 86_400.0, 1_000),
        (100_000, 70.0, 43_200.0, 772),
        (100_000, 0.0, 86_400.0, 100_000),
        (100_000, 70.0, None, 100_000),
        (100_000, 70.0, 0.0, 1),
        (100_000, 70.0, -5.0, 1),
        (1, 70.0, 86_400.0, 1),
        (100_000, 0.001, 1e12, 100_000),
    ],
)
def test_a_queue_holds_what_its_domain_can_use(
    max_urls: int, delay_s: float, left_s: float | None, cap: int
) -> None:
    """The cap follows from delay and time left, shrinks as time goes by, and never is nothing."""
    assert budget.queue_cap(max_urls, delay_s, left_s) == cap


@settings(deadline=None)
@given(st.integers(1, 10**7), st.floats(0, 1e5), st.none() | st.floats(-1e6, 1e9))
def test_a_cap_is_never_out_of_bounds(max_urls: int, delay_s: float, left_s: float | None) -> None:
    """Whatever the settings, at least one URL and at most the maximum."""
    assert 1 <= budget.queue_cap(max_urls, delay_s, left_s) <= max_urls


def test_a_domain_must_be_allowed_a_url() -> None:
    """A maximum of none is an error in the settings, not a crawl of nothing."""
    with pytest.raises(ValueError, match="at least one"):
        budget.queue_cap(0, 70.0, None)


def test_a_life_is_four_caps() -> None:
    """What may ever be marked in a filter follows from the cap at the start."""
    assert budget.life_cap(1543) == 6172


def test_what_a_full_frontier_weighs() -> None:
    """The figures of the capacity plan: a million domains for a day on 12 nodes and on 4."""
    assert budget.frontier_bytes(83_000, 1543, 67) == pytest.approx(8.6e9, rel=0.01)
    assert budget.frontier_bytes(250_000, 1543, 67) == pytest.approx(26e9, rel=0.01)
