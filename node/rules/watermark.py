"""Watermarks: when a measured thing is too much, with room between the mark where trouble begins and the one
where it ends, so that nothing flaps.
"""

from __future__ import annotations

from dataclasses import dataclass

FILES_RESERVE = 64
"""Open files that are not for visits: Redis, archive, logs, name servers, what the libraries hold."""
SMOOTHING = 0.2
"""Weight of the latest call in a smoothed time."""
MOST_S = 5.0
"""A single call counts as no longer than this, so that one that hung is soon forgotten."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Two marks, ``low`` under ``high``. Which one counts depends on whether there ``was`` trouble before."""

    high: float
    low: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"the low mark {self.low:g} is not under the high mark {self.high:g}")

    def over(self, was: bool, value: float) -> bool:
        """Too much of something: begins at ``high`` and ends under ``low``."""
        return value >= (self.low if was else self.high)

    def under(self, was: bool, value: float) -> bool:
        """Too little of something: begins under ``low`` and ends at ``high``."""
        return value < (self.high if was else self.low)


class Latency:
    """How long calls take, smoothed. One that is under way counts as soon as it takes longer than that.

    All times in seconds, of any clock that only goes forward.
    """

    __slots__ = ("_began", "_next", "_smoothed")

    def __init__(self) -> None:
        self._smoothed = 0.0
        self._began: dict[int, float] = {}  # oldest first
        self._next = 0

    def begin(self, now: float) -> int:
        """A call begins; answers the number by which it ends."""
        self._next += 1
        self._began[self._next] = now
        return self._next

    def end(self, call: int, now: float) -> None:
        """A call has ended, well or not."""
        took = min(now - self._began.pop(call), MOST_S)
        self._smoothed += SMOOTHING * (took - self._smoothed)

    @property
    def idle(self) -> bool:
        """Is no call under way?"""
        return not self._began

    def seconds(self, now: float) -> float:
        """What a call takes, as far as is known now."""
        oldest = next(iter(self._began.values()), now)
        return max(self._smoothed, now - oldest)


def visits_within(files: int, files_per_visit: int) -> int:
    """How many visits may be under way where a process may have ``files`` files open. At least one."""
    return max(1, (files - FILES_RESERVE) // files_per_visit)


def files_for(visits: int, files_per_visit: int) -> int:
    """How many files a process must be allowed to have open for so many visits: the inverse."""
    return visits * files_per_visit + FILES_RESERVE
