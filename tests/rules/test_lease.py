"""When a lease is extended, and until when."""

from __future__ import annotations

import pytest

from node.rules.lease import AHEAD_MS, MARGIN_MS, extended_until

REQUEST = 30_000
LEASE = REQUEST + MARGIN_MS
LONGEST = 400_000


def until(now_ms: int, expiry_ms: int, leased_ms: int = 0) -> int | None:
    return extended_until(
        now_ms=now_ms,
        leased_ms=leased_ms,
        expiry_ms=expiry_ms,
        request_ms=REQUEST,
        lease_ms=LEASE,
        longest_ms=LONGEST,
    )


@pytest.mark.parametrize(
    ("now", "expiry", "expected"),
    [
        (0, LEASE, None),  # just leased
        (LEASE - REQUEST - AHEAD_MS, LEASE, None),
        (LEASE - REQUEST - AHEAD_MS + 1, LEASE, LEASE - REQUEST - AHEAD_MS + 1 + LEASE),
        (350_000, 380_000, LONGEST),  # the bound
        (390_000, LONGEST, None),  # nothing beyond it
    ],
)
def test_a_lease_is_extended_in_time_and_never_beyond_the_bound(
    now: int, expiry: int, expected: int | None
) -> None:
    """While there is time for one request and for Redis to be away a while; no visit lives for ever."""
    assert until(now, expiry) == expected


def test_looked_at_every_second_it_never_runs_short() -> None:
    """Each request of a visit of any length finds time enough, up to the bound."""
    expiry = LEASE
    for now in range(0, LONGEST - REQUEST, 1_000):
        expiry = until(now, expiry) or expiry
        assert expiry - now > REQUEST
    assert expiry == LONGEST
