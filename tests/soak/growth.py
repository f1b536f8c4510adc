"""Something of each of a crawl's processes over time, and whether it grows once they are warm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression, median


@dataclass(frozen=True, slots=True)
class Growth:
    """What a straight line through the samples after the warm-up says of one process, in their unit."""

    name: str
    typical: float
    """The median."""
    grown: float
    """By how much the line rises from the first of those samples to the last."""

    def flat(self, share: float, floor: float) -> bool:
        """Whether it grew by no more than ``share`` of its size, or by ``floor`` where that is more."""
        return self.grown <= max(share * self.typical, floor)


@dataclass(slots=True)
class Samples:
    """Samples by process: (seconds since the start, what was found)."""

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def note(self, at_s: float, found: Mapping[str, float]) -> None:
        """One sample of each process."""
        for name, value in found.items():
            self.samples.setdefault(name, []).append((at_s, value))

    def growth(self, warm_after_s: float) -> list[Growth]:
        """How each process grew after ``warm_after_s``, sorted by name."""
        found = []
        for name, samples in sorted(self.samples.items()):
            warm = [each for each in samples if each[0] >= warm_after_s]
            if len(warm) >= 3:
                found.append(_growth(name, warm))
        return found


def _growth(name: str, warm: Sequence[tuple[float, float]]) -> Growth:
    times, sizes = zip(*warm, strict=True)
    slope = linear_regression(times, sizes).slope
    return Growth(name, median(sizes), slope * (times[-1] - times[0]))
