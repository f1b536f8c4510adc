"""Batched counters: metrics gathered in a process and added to Redis now and then.

They are for people to look at. What must add up (I1) is counted by the verbs themselves.
"""

from __future__ import annotations

import resource
from collections import Counter

from node.store import keys


class Tally:
    """Counts by name until they are taken away as commands.

    ``role`` (``fetchers``, ``parsers``, ...) is whom this process's CPU time is booked to.
    """

    def __init__(self, role: str) -> None:
        self._counts: Counter[str] = Counter()
        self._role = role
        self._cpu_ms_booked = 0

    def add(self, name: str, by: int = 1) -> None:
        self._counts[name] += by

    def take(self) -> list[tuple[str, ...]]:
        """The commands that add what was gathered, CPU time included; forgets it."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
        if cpu_ms > self._cpu_ms_booked:
            self._counts[f"cpu_ms:{self._role}"] += cpu_ms - self._cpu_ms_booked
            self._cpu_ms_booked = cpu_ms
        commands: list[tuple[str, ...]] = [
            ("HINCRBY", keys.TALLY, name, str(by)) for name, by in self._counts.items() if by
        ]
        self._counts.clear()
        return commands

    def put_back(self, commands: list[tuple[str, ...]]) -> None:
        """Take commands back that could not be sent."""
        for _verb, _key, name, by in commands:
            self._counts[name] += int(by)


def rss_bytes() -> int:
    """Peak resident memory of this process, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
