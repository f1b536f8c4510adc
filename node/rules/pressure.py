"""When a stage tells the one before it to wait."""

from __future__ import annotations


def spool_bound(pages_per_busy_s: float, parsers: int, tolerated_s: float, floor: int) -> int:
    """Most pages that may wait for the parsers: what they can do in the delay we tolerate.

    ``pages_per_busy_s`` is measured over the time a parser works, not over the wall's, else slow
    visits would spiral the bound down. 0 = not measured yet.
    """
    return max(floor, int(pages_per_busy_s * parsers * tolerated_s))
