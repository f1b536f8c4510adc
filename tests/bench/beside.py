"""What else is asked of a frontier while its calls are measured: is it fair, and what does it cost to rewrite
its append-only file?
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LOOK_EVERY_S = 0.05
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long domains that were due waited for their visit; ms, by the driven clock."""

    visits: int
    mean_ms: float
    longest_ms: float


class Fairness:
    """Notes when each domain is due, and how long it waited then. Times in ms."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self.forget()

    def forget(self) -> None:
        """What was noted of waits so far was warming up."""
        self._visits, self._sum, self._longest = 0, 0.0, 0.0

    def due(self, domain: str, at_ms: float) -> None:
        """It may be visited from then on."""
        self._due[domain] = at_ms

    def visited(self, domain: str, at_ms: float) -> None:
        """Its visit begins. Raises ``KeyError`` where it was not due for all that is known."""
        waited = at_ms - self._due.pop(domain)
        self._visits += 1
        self._sum += waited
        self._longest = max(self._longest, waited)

    def waits(self) -> Waits:
        """Of all visits since it was told to forget."""
        return Waits(self._visits, self._sum / max(1, self._visits), self._longest)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of the append-only file, with calls going on. ``copied``: what the copy that wrote it did not
    share with Redis at its end, the most that was needed besides. ``fork_ms``: Redis stood still so long.
    """

    seconds: float
    fork_ms: float
    copied_bytes: int
    used_bytes: int
    file_bytes: int


def rewritten(look: Any, meanwhile: Callable[[], object]) -> Rewrite:
    """Have it rewritten, doing ``meanwhile`` all the time. Raises ``TimeoutError`` where it does not end."""
    begun = time.monotonic()
    look.bgrewriteaof()
    while True:
        meanwhile()
        state = look.info("persistence")
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
            break
        if time.monotonic() - begun > _PATIENCE_S:
            raise TimeoutError(f"the append-only file was not rewritten within {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
    return Rewrite(
        time.monotonic() - begun,
        int(look.info("stats")["latest_fork_usec"]) / 1000,
        int(state["aof_last_cow_size"]),
        int(look.info("memory")["used_memory"]),
        int(state["aof_base_size"]),
    )
