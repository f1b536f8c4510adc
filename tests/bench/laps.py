"""Noting the CPU time of stages: ours, and that of Redis meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VISIT = "visit: robots.txt, TLS, page, WARC record, log line"

_REST_S = 0.2


@dataclass(slots=True)
class Stage:
    """CPU time of one stage, ns: of the process it belongs to, and of Redis's thread."""

    where: str
    what: str
    part_of: str = ""
    """The stage (``what``) that this is a piece of, timed apart on the same pages; its Redis is not."""
    pages: int = 0
    own_ns: int = 0
    redis_ns: int = 0

    @property
    def own_ms(self) -> float:
        """Per page."""
        return self.own_ns / 1e6 / self.pages if self.pages else 0.0

    @property
    def redis_ms(self) -> float:
        return self.redis_ns / 1e6 / self.pages if self.pages else 0.0


class Laps:
    """Collects stages in the order they first come up."""

    def __init__(self, redis_pid: int) -> None:
        self._stat, self._schedstat = (Path(f"/proc/{redis_pid}/{name}") for name in ("stat", "schedstat"))
        self.stages: dict[tuple[str, str], Stage] = {}

    @contextmanager
    def lap(self, where: str, what: str, pages: int, *, part_of: str = "") -> Iterator[None]:
        """Note the CPU time of a block that deals with so many pages."""
        stage = self.stages.setdefault((where, what), Stage(where, what, part_of))
        redis_ns = 0 if part_of else self._redis_ns()
        own_ns = time.process_time_ns()
        yield
        stage.own_ns += time.process_time_ns() - own_ns
        stage.redis_ns += 0 if part_of else self._redis_ns() - redis_ns
        stage.pages += pages

    def _redis_ns(self) -> int:
        """CPU time of Redis's thread so far. Its answer comes before it has done all: it is let come to rest,
        and at rest the kernel's account is complete.
        """
        give_up = time.monotonic() + _REST_S
        while self._stat.read_text().rpartition(") ")[2][0] != "S" and time.monotonic() < give_up:
            time.sleep(0.0002)
        return int(self._schedstat.read_text().split()[0])


@dataclass(frozen=True, slots=True)
class Staged:
    """All stages, and what the pages were like."""

    stages: list[Stage]
    pages: int
    page_bytes: float
    """Mean size of a page, decoded (cut at the parser's limit)."""
    links: float
    """Mean number of different links a page."""
    resumed_share: float
    """Of the second round of visits in the handshake stages, by the server's log."""
