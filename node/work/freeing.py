"""Removing a fetcher's own WARC files once every page in them was parsed (``archive.keep = "spool"``).

A file may go when it is closed, when all that was fetched into it is settled, and when the spool names it
no more. The first two only its own fetcher knows; so each looks after its own, and what one leaves that does
not come back stays. What a dead letter points to goes, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from node.errors import DiskError
from node.settings import Settings
from node.store import spool
from node.store.archive_names import SUFFIX
from node.store.connection import LOST, AsyncStore
from node.store.tally import Tally

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 10.0
_BATCH = 1_000


class Freeing:
    """Looks now and then at the closed files of one ``prefix``.

    ``settled_at_s(now_s)``: up to when all that was fetched is settled, by the monotonic clock.
    """

    def __init__(
        self,
        settings: Settings,
        prefix: str,
        store: AsyncStore,
        settled_at_s: Callable[[float], float],
        tally: Tally,
    ) -> None:
        self._folder = settings.warc_folder
        self._pattern = f"{prefix}-*{SUFFIX}"
        self._after_s = settings.archive.free_after_s
        self._store = store
        self._settled_at_s = settled_at_s
        self._tally = tally
        self._seen: dict[Path, float] = {}
        """Closed files, and when each was first met here, by the monotonic clock."""

    async def run(self) -> None:
        """Free, for ever."""
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self._after_s))
            try:
                await self.free(time.monotonic())
            except (*LOST, DiskError) as error:
                _log.warning("no WARC file could be freed: %s", error)

    async def free(self, now_s: float) -> int:
        """Remove what may go; answers how many files. ``now_s``: by the monotonic clock.

        Raises what a lost Redis raises, and ``DiskError``.
        """
        there = sorted(self._folder.glob(self._pattern))
        self._seen = {path: self._seen.get(path, now_s) for path in there}
        # a page is handed over a moment after it was written; so a file must have been closed for a while
        before_s = self._settled_at_s(now_s) - self._after_s
        old = [path for path, at in self._seen.items() if at <= before_s]
        if not old:
            return 0
        wanted = await self._on_spool()
        freed = [path for path in old if path.name not in wanted]
        try:
            for path in freed:
                size = path.stat().st_size
                path.unlink()
                self._tally.add("archive_freed_bytes", size)
        except OSError as error:
            raise DiskError(f"{path} can't be removed: {error.strerror}") from None
        self._tally.add("archive_freed_files", len(freed))
        return len(freed)

    async def _on_spool(self) -> set[str]:
        """Names of the files in which pages lie that no parser is done with."""
        files: set[str] = set()
        after = b""
        while True:
            (answer,) = await self._store.calls([], extra=[spool.look(after, _BATCH)])
            pages = spool.pages_seen(answer)
            files.update(page.pointer.position.file for page in pages)
            if len(pages) < _BATCH:
                return files
            after = pages[-1].id
