"""The memory of a crawl's processes over time, and whether it grows once they are warm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression, median


@dataclass(frozen=True, slots=True)
class Growth:
    """What a straight line through the samples after the warm-up says of one process, in MB."""

    name: str
    typical_mb: float
    """The median."""
    grown_mb: float
    """By how much the line rises from the first of those samples to the last."""

    def flat(self, share: float, floor_mb: float) -> bool:
        """Whether it grew by no more than ``share`` of its size, or by ``floor_mb`` where that is more."""
        return self.grown_mb <= max(share * self.typical_mb, floor_mb)


@dataclass(slots=True)
class Memory:
    """Samples of memory by process: (seconds since the start, MB)."""

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def note(self, at_s: float, sizes_mb: Mapping[str, float]) -> None:
        """One sample of each process."""
        for name, size in sizes_mb.items():
            self.samples.setdefault(name, []).append((at_s, size))

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
