"""Redis syncs its log once a second of the wall clock. Where that is set back by an hour, it (7.0) would sync
nothing for an hour, and a power cut would take all of that.

So the watch looks whether the wall clock was set back, and has Redis sync each command for a moment: from
then on it counts by what the clock shows now.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from node.store import keys
from node.store.connection import Store

_log = logging.getLogger(__name__)

FIELD = "syncing_anew"
"""Of ``control``, meanwhile: should the watch be killed, the next one goes on with it."""
SET_BACK_S = 0.5
"""Less than that is no setting, but a clock that is led to the right time."""


class Syncing:
    """One per node, in its watch. ``wall_s``, ``up_s``: the wall clock, and one that only runs on."""

    def __init__(
        self, *, wall_s: Callable[[], float] = time.time, up_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_s, self._up_s = wall_s, up_s
        self._ahead_s = wall_s() - up_s()
        self._due = True
        """What happened before, nobody knows."""

    def look(self, store: Store) -> bool:
        """Call about once a second; True where it had to see to it. Raises one of ``LOST``."""
        ahead_s = self._wall_s() - self._up_s()
        if ahead_s < self._ahead_s - SET_BACK_S:
            _log.warning("the wall clock was set back by %.0f s", self._ahead_s - ahead_s)
            self._due = True
        self._ahead_s = ahead_s
        if not self._due or not self._is_ours_to_change(store):
            return False
        (marked,) = store.calls([], extra=[("HSET", keys.CONTROL, FIELD, "1")], spare=True)
        if marked is None:  # no memory: the next time
            return False
        # what is answered after a command was synced with it; only the next call goes back
        store.calls(
            [],
            extra=[("CONFIG", "SET", "appendfsync", "always"), ("HSET", keys.CONTROL, FIELD, "1")],
            spare=True,
        )
        store.calls([], extra=[("CONFIG", "SET", "appendfsync", "everysec"), ("HDEL", keys.CONTROL, FIELD)])
        self._due = False
        return True

    def _is_ours_to_change(self, store: Store) -> bool:
        """Does it sync once a second, and can it write? Where it can't, syncing each command would end it."""
        told, marked, info = store.calls(
            [],
            extra=[
                ("CONFIG", "GET", "appendfsync"),
                ("HEXISTS", keys.CONTROL, FIELD),
                ("INFO", "persistence"),
            ],
        )
        every_second = b"everysec" in told or bool(marked)
        if not every_second:
            self._due = False
        return every_second and b"aof_last_write_status:ok" in info
