"""Retry-After in all the forms it is met in (case N23)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.retry_after import retry_after_s

NOW = 784_111_777.0
"""Sun, 06 Nov 1994 08:49:37 GMT"""
CAP = 3_600.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 120\t", 120),
        ("0", 0),
        ("0000000000000000000000120", 120),
        ("20200101", CAP),
        ("99999999999", CAP),
        ("9" * 5_000, CAP),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("sun, 06 nov 1994 08:50:37 gmt", 60),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
        ("Sun Nov  6 08:50:37 1994", 60),
        ("Sun, 06 Nov 1994 08:49:60 GMT", 22),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", CAP),
        ("Tuesday, 06-Nov-45 08:50:37 GMT", 0),  # 1945: 51 years ahead is read as a century back
        ("Sunday, 06-Nov-44 08:50:37 GMT", CAP),
        ("-5", None),
        ("+3", None),
        ("1.5", None),
        ("1e3", None),
        ("", None),
        ("soon", None),
        ("٣", None),
        ("Wed, 32 Foo", None),
        ("Wed, 32 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 25:49:37 GMT", None),
        ("Sun, 06 Nov 0000 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 PST", None),
        ("120, 240", None),
    ],
)
def test_forms(value: str, seconds: float | None) -> None:
    """Seconds and the three dates are understood, the rest is ignored, nothing is negative or endless."""
    assert retry_after_s([value], NOW, CAP) == seconds


def test_several() -> None:
    """The first value that means something counts."""
    assert retry_after_s([], NOW, CAP) is None
    assert retry_after_s(["x", "7", "9"], NOW, CAP) == 7


@given(st.text(), st.floats(min_value=0, max_value=4e9), st.floats(min_value=0, max_value=1e6))
def test_any_text(value: str, now: float, cap: float) -> None:
    """Whatever a server writes, the answer is none or between zero and the cap."""
    seconds = retry_after_s([value], now, cap)
    assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= cap)
