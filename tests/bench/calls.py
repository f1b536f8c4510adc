"""What one kind of call costs: CPU time of Redis, time of its scripts, time of who asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from node.store.connection import Store
from node.store.scripts import Verb


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one kind of call, microseconds, medians over rounds of calls; ``wall_us`` over single calls."""

    calls: int
    cpu_us: float
    """CPU time of Redis."""
    cpu_low_us: float
    cpu_high_us: float
    """The same of the quickest and of the slowest tenth of the rounds: the machine has other work too."""
    script_us: float
    """Time of the script, by Redis's own statistics."""
    wall_us: float
    """Of the caller, from question to answer."""


def outer_tenths(values: Sequence[float]) -> tuple[float, float]:
    """The values that bound the lowest and the highest tenth."""
    ranked = sorted(values)
    tenth = len(ranked) // 10
    return ranked[tenth], ranked[-1 - tenth]


class Calls:
    """What calls of one kind took: wall time of each, Redis's time of each round of them."""

    def __init__(self, look: Any) -> None:
        self._look = look
        self._walls: list[float] = []
        self._rounds: list[tuple[int, float, float]] = []

    def timed(self, store: Store, verb: Verb[Any]) -> Any:
        """One call."""
        begun = time.perf_counter()
        answer = store.call(verb)
        self._walls.append(1e6 * (time.perf_counter() - begun))
        return answer

    def round(self, work: Callable[[], int]) -> float:
        """Do a round's work, which answers how many calls it made; answers what it took Redis (CPU)."""
        cpu, script = _redis_us(self._look)
        calls = work()
        cpu_now, script_now = _redis_us(self._look)
        if calls:
            self._rounds.append((calls, cpu_now - cpu, script_now - script))
        return cpu_now - cpu

    def cost(self) -> Cost:
        cpus = [cpu / calls for calls, cpu, _ in self._rounds]
        return Cost(
            self.calls,
            median(cpus),
            *outer_tenths(cpus),
            median(script / calls for calls, _, script in self._rounds),
            median(self._walls) if self._walls else 0.0,
        )

    @property
    def calls(self) -> int:
        return sum(calls for calls, _, _ in self._rounds)


def _redis_us(look: Any) -> tuple[float, float]:
    """CPU time of Redis's main thread so far, and its time in scripts, microseconds."""
    cpu, scripts = look.info("cpu"), look.info("commandstats")
    user, system = (
        cpu.get(f"used_cpu_{kind}_main_thread", cpu[f"used_cpu_{kind}"]) for kind in ("user", "sys")
    )
    return 1e6 * (user + system), float(scripts.get("cmdstat_evalsha", {"usec": 0})["usec"])
