"""How long a URL stays leased: a short time at once, more while its visit lives, and never beyond a bound.

A dead fetcher's URLs so come back soon, and a slow site's are not given out twice. Times in ms of the
crawl's clock.
"""

from __future__ import annotations

AHEAD_MS = 15_000
"""A lease is extended once it leaves less than this beside the time one request can take. So a process that
can't tell Redis for so long has lost nothing yet."""
MARGIN_MS = 30_000
"""What a lease leaves beside the time of one request when it is new or extended."""


def extended_until(
    *, now_ms: int, leased_ms: int, expiry_ms: int, request_ms: int, lease_ms: int, longest_ms: int
) -> int | None:
    """Until when a lease whose visit lives should hold; None where it is good as it is.

    ``request_ms``: the longest that one request can take; no request is sent on a lease that might run out
    before it ends. Never later than ``longest_ms`` after ``leased_ms``.
    """
    if expiry_ms - now_ms >= request_ms + AHEAD_MS:
        return None
    until_ms = min(now_ms + lease_ms, leased_ms + longest_ms)
    return until_ms if until_ms > expiry_ms else None
