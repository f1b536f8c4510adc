"""The frontier gives way while Redis is short of memory: the watch measures, decides by ``rules/shed.py``,
and tells the offer script by one field of ``control``. Where it lasts, what waits is dropped, too, a little
at a time.
"""

from __future__ import annotations

import logging

from node.rules.priority import LEVELS
from node.rules.shard import LANES
from node.rules.shed import Marks, Shedding, dropped_from, words
from node.settings import Settings
from node.store.connection import Store
from node.store.frontier import Frontier
from node.store.snapshot import Snapshot
from node.work.machine import memory_bytes

_log = logging.getLogger(__name__)

FIELD = "shed"
"""Of ``control``: the grade."""
SWEEP_CALLS, SWEEP_DOMAINS, SWEEP_URLS = 64, 100, 1_000
"""A sweep makes so many calls at most, each of which looks at so many domains and drops so many URLs at most:
about a millisecond of Redis's time a call, and others have their turn in between."""
SWEEP_MOST, SWEEP_LEAST = 20_000, 100
"""URLs dropped by one sweep, at most and at least where there are any."""
URL_BYTES = 100
"""What one takes, roughly: so that not much more goes than must."""


def memory_limit(settings: Settings, maxmemory: int) -> int:
    """How many bytes Redis may use: its own limit, else that of the settings, else half the machine's."""
    return maxmemory or (settings.redis.maxmemory_mb or 0) * (1 << 20) or memory_bytes() // 2


def memory_share(settings: Settings, info: dict[str, str]) -> float:
    """The share of its memory that Redis uses, by its INFO memory; buffers that it doesn't count are not."""
    used = int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0))
    return used / memory_limit(settings, int(info.get("maxmemory", 0)))


class Shedder:
    """One per node, in its watch."""

    def __init__(self, settings: Settings, frontier: Frontier) -> None:
        self._settings = settings
        self._frontier = frontier
        self._marks = Marks(settings.redis.shed_to, settings.redis.shed_from)
        self._level, self._lane, self._next = LEVELS - 1, 0, 0
        """Where the sweep is: all domains' URLs of one priority, then all of the next better one."""
        self._excess_bytes = 0.0
        self.state: Shedding | None = None

    def judge(self, look: Snapshot, now_s: float) -> dict[str, str]:
        """Fields of ``control`` for the scripts, by a look at the node. ``now_s``: monotonic."""
        share = memory_share(self._settings, dict(look.redis))
        # a watch that is started again goes on where the last one was
        state = self.state or Shedding(int(look.control.get(FIELD, 0)), stepped_s=now_s)
        self.state = state.next(self._marks, share, now_s)
        limit = memory_limit(self._settings, int(look.redis.get("maxmemory", 0)))
        self._excess_bytes = (share - self._marks.high) * limit
        if self.state.grade != state.grade:
            effect = words(self.state.grade) or "all URLs enter again"
            _log.warning("Redis uses %.0f %% of its memory: %s", 100 * share, effect)
        return {FIELD: str(self.state.grade)}

    def sweep(self, store: Store, now_s: float) -> int:
        """Where pressure has lasted, drop some of what waits; answers how many URLs."""
        state, after_s = self.state, self._settings.redis.shed_queued_after_s
        if state is None or state.since_s is None:
            self._level, self._lane, self._next = LEVELS - 1, 0, 0
            return 0
        if not state.pressing or state.lasts_s(now_s) < after_s:
            return 0
        dropped, enough = 0, max(SWEEP_LEAST, min(SWEEP_MOST, int(self._excess_bytes / URL_BYTES)))
        for _ in range(SWEEP_CALLS):
            if dropped >= enough:
                break
            if self._level < dropped_from(state.grade):
                self._level = LEVELS - 1
            shed = store.call(
                self._frontier.shed(
                    store.now_ms(),
                    self._lane,
                    self._next,
                    domains=SWEEP_DOMAINS,
                    urls=min(SWEEP_URLS, enough - dropped),
                    level=self._level,
                )
            )
            dropped += shed.dropped
            self._next = shed.next
            if shed.next < 0:
                self._lane, self._next = self._lane + 1, 0
            if self._lane == LANES:
                self._level, self._lane = self._level - 1, 0
        return dropped
