"""How a domain fares, in one word, one number and one line: what an operator looks at first.

The score is the share of its ordinary pace at which a domain can be served now, 0 to 100: the product of
what slows it down, each a number from 0 to 1 (``_factors``). The line names the one that weighs most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from node.rules import retry
from node.rules.pace import DEAD_BASE_MS, WIDTH_FLOOR, WIDTH_START

STRUGGLING_BELOW = 60
"""Twice the delay or half the width is too much to be called healthy; a little over is adapting."""
LONGEST_VISIT_DELAYS = 6
"""A page and its five hops are paid for with so many delays: due later than that is not its pace any more."""
PARKED_LEAST_MS = 10_000
"""A shorter wait is not worth a word."""


class State(StrEnum):
    """A domain's health."""

    HEALTHY = "healthy"
    STRUGGLING = "struggling"
    """Visited, but at much less than its ordinary pace."""
    PARKED = "parked"
    """Left alone for a while: nothing answered, or it asked for that."""
    RETIRED = "retired"
    """Given up for the rest of the crawl."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of a domain. Times in ms.

    ``ordinary_delay_ms``: that of the crawl or of the site's own Crawl-delay; 0 = its width adapts instead.
    ``width`` in thousandths, ``retry_tokens`` in tenths, ``unreachable``: times in a row that nothing
    answered. ``due_in_ms`` below zero = overdue.
    """

    ordinary_delay_ms: int
    delay_ms: int
    width: int
    unreachable: int
    due_in_ms: int
    retry_tokens: int
    retired: bool


@dataclass(frozen=True, slots=True)
class Health:
    """``score`` 0 to 100; ``why`` is one line, empty where there is nothing to say."""

    state: State
    score: int
    why: str


def judge(signs: Signs) -> Health:
    """Condense what is known of a domain."""
    if signs.retired:
        return Health(State.RETIRED, 0, f"given up: nothing answered {_times(signs.unreachable)} in a row")
    factors = [(value, why) for value, why in _factors(signs) if value < 1.0]
    product = 1.0
    for value, _ in factors:
        product *= value
    score = round(100 * product)
    why = min(factors)[1] if factors else ""
    if is_parked(signs):
        return Health(State.PARKED, score, why)
    return Health(State.STRUGGLING if score < STRUGGLING_BELOW else State.HEALTHY, score, why)


def is_parked(signs: Signs) -> bool:
    """Is it left alone for longer than its pace accounts for?"""
    if signs.unreachable and signs.due_in_ms > 0:
        return True
    return signs.due_in_ms > max(PARKED_LEAST_MS, LONGEST_VISIT_DELAYS * signs.delay_ms)


def _factors(signs: Signs) -> Iterator[tuple[float, str]]:
    """What slows it down: (share of the ordinary pace that is left, why)."""
    if signs.unreachable:
        again = "is tried again"
        if signs.due_in_ms > 0:
            again = f"is left alone for {_seconds(signs.due_in_ms)}"
        yield 0.5**signs.unreachable, f"nothing answered {_times(signs.unreachable)} in a row: it {again}"
    elif is_parked(signs):
        left = max(signs.delay_ms, DEAD_BASE_MS) / signs.due_in_ms
        yield left, f"it asked to be left alone: {_seconds(signs.due_in_ms)} to go"
    if signs.ordinary_delay_ms > 0:
        yield (
            signs.ordinary_delay_ms / max(signs.delay_ms, 1),
            f"slowed to a visit every {_seconds(signs.delay_ms)}, its ordinary pace is "
            f"{_seconds(signs.ordinary_delay_ms)}",
        )
    elif signs.delay_ms > 0:
        yield (
            DEAD_BASE_MS / (DEAD_BASE_MS + signs.delay_ms),
            f"slowed to a visit every {_seconds(signs.delay_ms)}",
        )
    else:
        width = max(signs.width, WIDTH_FLOOR)
        yield (
            width / WIDTH_START,
            f"slowed to {width / 1000:.1f} visits at once, where others begin with {WIDTH_START // 1000}",
        )
    if signs.retry_tokens < retry.COST:
        yield (
            (retry.COST + signs.retry_tokens) / (retry.COST + retry.DOMAIN_START),
            "so much failed that its retries are used up",
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3g} s" if ms < 600_000 else f"{ms / 60_000:.0f} min"
