"""A hole in Redis's log, which a full disk leaves behind a rewrite (``store/aof.py``), is rewritten away.

A start reads over it; but with it Redis believes its log to be shorter than it is, and the next time that the
disk is full it takes back what it had answered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from node.errors import DiskError
from node.store import aof
from node.store.connection import Store, info_of

_log = logging.getLogger(__name__)

LOOKS: Final = 3
"""A hole is seen so often, as long each time and nothing written meanwhile, before it is taken for one."""
PAUSE_S, MAX_PAUSE_S = 60.0, 3_600.0
"""Between two rewrites, twice as long each time, should one not be enough."""


class Holes:
    """One per node, in its watch. ``up_s``: seconds that only run on."""

    def __init__(self, *, up_s: Callable[[], float] = time.monotonic) -> None:
        self._up_s = up_s
        self._not_before_s = 0.0
        self._pause_s = PAUSE_S
        self._seen_bytes, self._seen = 0, 0
        """How long the hole was that was looked at last, and how often in a row."""
        self._folders: dict[str, Path] = {}
        """By the run of Redis whose it is."""

    def look(self, store: Store) -> bool:
        """Call about once a second; True where a rewrite was begun. Raises one of ``LOST``."""
        if self._up_s() < self._not_before_s:
            return False
        folder = self._folder(store)
        before = _info(store)
        if not _at_rest(before):
            return False
        try:
            there = aof.bytes_in_force(folder)
        except DiskError:  # another file has just taken its place; or it is not ours to read
            return False
        known = int(before["aof_current_size"])
        if _info(store) != before:  # it has written meanwhile: the next time
            return False
        if there <= known:
            self._seen, self._pause_s = 0, PAUSE_S
            return False
        self._seen = self._seen + 1 if there - known == self._seen_bytes else 1
        self._seen_bytes = there - known
        if self._seen < LOOKS:
            return False
        _log.warning("Redis's log is %d bytes longer than it knows: it is rewritten", there - known)
        store.calls([], extra=[("BGREWRITEAOF",)])
        self._seen = 0
        self._not_before_s = self._up_s() + self._pause_s
        self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s)
        return True

    def _folder(self, store: Store) -> Path:
        if store.run_id not in self._folders:
            (told,) = store.calls([], extra=[("CONFIG", "GET", "dir")])
            self._folders = {store.run_id: Path(told[1].decode())}
        return self._folders[store.run_id]


_SEEN = (
    *("aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_last_write_status"),
    *("aof_current_size", "aof_base_size", "loading"),
)


def _info(store: Store) -> dict[str, str]:
    (text,) = store.calls([], extra=[("INFO", "persistence")])
    info = info_of(text)
    return {name: info.get(name, "") for name in _SEEN}


def _at_rest(info: dict[str, str]) -> bool:
    """Nothing goes on that changes files, and it counts all of them (a new Redis not the first until there
    was a rewrite, and before that there is no hole)."""
    return (
        info["aof_enabled"] == "1"
        and info["aof_rewrite_in_progress"] == info["aof_rewrite_scheduled"] == info["loading"] == "0"
        and info["aof_last_write_status"] == "ok"
        and info["aof_base_size"] not in ("", "0")
    )
