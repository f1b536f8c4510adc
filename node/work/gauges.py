"""What a fetcher measures of itself and its machine, and what follows: how many visits more it may begin,
and if none, why.

Reasons, their order and whose fault each is stand in ``rules/pressure.py``. All marks have hysteresis
(``rules/watermark.py``), and each thing is measured on while it holds up the work, so it goes on by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from node.rules.pressure import Reason, foremost
from node.rules.watermark import Latency, Watermark, files_for, visits_within
from node.settings import Settings
from node.store.archive import ArchiveWriter
from node.work.http import Fetching
from node.work.process import Lag
from node.work.record import DiskRecorder

_log = logging.getLogger(__name__)

LAG_MS = Watermark(high=100.0, low=30.0)
"""Median lateness of the event loop over a second: above, less is leased; below, more."""
QUEUE = Watermark(high=0.75, low=0.25)
"""Of the bytes that may wait to be written."""
FILES = Watermark(high=0.95, low=0.85)
"""Of the files that may be open."""
LEAST_IN_FLIGHT = 32
PROBE_BYTES = 4_096
_OPEN_FILES = Path("/dev/fd")


class Gauges:
    """Asked before every lease (``room``), and once a second to look around (``look``).

    ``name`` tells this fetcher's files from its siblings'. ``clock``: monotonic seconds.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        archive: ArchiveWriter,
        recorder: DiskRecorder,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.lag = Lag()
        self.worst_lag_ms = 0.0
        self._clock = clock
        self._archive = archive
        self._recorder = recorder
        self._disk, self._store = Latency(), Latency()
        self._lag_s = 0.0
        self._held: set[Reason] = set()
        """Why nothing may be begun now."""
        reserve, resume = settings.archive.disk_reserve_bytes, settings.archive.resume_bytes
        self._disk_free = Watermark(high=resume, low=reserve)
        self._disk_s = _half(settings.archive.slow_s)
        self._store_s = _half(settings.redis.slow_s)
        self._probe_file = settings.data / "run" / f"probe-{name}"
        self._probing: asyncio.Task[None] | None = None
        # an idle connection that is kept has its file, too
        self._files_per_visit = 2 if settings.fetcher.keep_alive else 1
        self.ceiling = self.limit = settings.fetcher.in_flight
        """Most visits at once as far as open files go, and with the event loop's lateness."""
        self._raise_files()
        self._see_ceiling()
        self.limit = self.ceiling

    # -- the question

    def room(self, in_hand: int, client: Fetching, *, has_lanes: bool) -> tuple[int, Reason | None]:
        """How many visits may be begun beside those ``in_hand``; 0 and why.

        ``client``: who does the fetching, with a room of its own. ``has_lanes``: is there any to lease from?
        """
        self._judge()
        fetcher = self.settings.fetcher
        own, theirs = min(self.limit - in_hand, fetcher.lease_batch), client.room(in_hand)
        holding = set(self._held)
        if own <= 0:
            short = self.limit == self.ceiling < fetcher.in_flight
            holding.add(Reason.NO_FILES if short else Reason.BUSY)
        if theirs <= 0:
            holding.add(client.short_of)
        if not has_lanes:
            holding.add(Reason.NO_LANES)
        return (0, foremost(holding)) if holding else (min(own, theirs), None)

    def _set(self, reason: Reason, holds: bool) -> None:
        if holds:
            self._held.add(reason)
        else:
            self._held.discard(reason)

    def _judge(self) -> None:
        """What costs next to nothing to look at."""
        now = self._clock()
        free = shutil.disk_usage(self.settings.data).free
        low = self._disk_free.under(Reason.DISK_LOW in self._held, free)
        self._set(Reason.DISK_LOW, low or self._recorder.disk_full)
        was = Reason.DISK_SLOW in self._held
        slow = self._disk_s.over(was, self._disk.seconds(now)) or QUEUE.over(was, self._archive.fill)
        self._set(Reason.DISK_SLOW, slow)
        # what our own loop is late is not Redis's doing
        late = self._store.seconds(now) - self._lag_s
        self._set(Reason.STORE_SLOW, self._store_s.over(Reason.STORE_SLOW in self._held, late))
        if self._recorder.out_of_files:
            self._held.add(Reason.NO_FILES)  # until the next look

    def on_time(self) -> bool:
        """Is our event loop: does what a site took to answer say something about the site?"""
        return self._lag_s * 1000 < LAG_MS.low

    # -- measuring

    @contextlib.contextmanager
    def disk_call(self) -> Iterator[None]:
        """Time what brings pages to disk."""
        yield from _timed(self._disk, self._clock)

    @contextlib.contextmanager
    def store_call(self) -> Iterator[None]:
        """Time a call to Redis."""
        yield from _timed(self._store, self._clock)

    def look(self, in_hand: int) -> None:
        """Once a second: the event loop, open files, and the disk, where nothing else measures it."""
        lag_ms, self.worst_lag_ms = self.lag.take_ms()
        self._lag_s = lag_ms / 1000
        self._see_ceiling()
        self._see_files(in_hand)
        # a starved loop looks like the sites' fault
        if lag_ms > LAG_MS.high:
            self.limit = max(LEAST_IN_FLIGHT, in_hand * 3 // 4)
        elif lag_ms < LAG_MS.low:
            self.limit += max(1, self.limit // 20)
        self.limit = min(self.limit, self.ceiling)
        if Reason.DISK_SLOW in self._held and self._disk.idle and self._probing is None:
            self._probing = asyncio.create_task(self._probe())
            self._probing.add_done_callback(self._probed)

    async def _probe(self) -> None:
        """While nothing is fetched there is nothing to write either; so ask the disk how it does."""
        with self.disk_call():
            await asyncio.to_thread(self._write_probe)

    def _probed(self, probing: asyncio.Task[None]) -> None:
        self._probing = None
        if not probing.cancelled():
            probing.result()

    def _write_probe(self) -> None:
        # whether there is room is another question, which is asked elsewhere
        with contextlib.suppress(OSError):
            fd = os.open(self._probe_file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                os.pwrite(fd, bytes(PROBE_BYTES), 0)
                if self.settings.archive.fsync:
                    os.fdatasync(fd)
            finally:
                os.close(fd)
                self._probe_file.unlink()

    # -- open files

    def _raise_files(self) -> None:
        """Ask for as many open files as the settings need; where that is refused, say so."""
        wanted = self.settings.fetcher.in_flight
        soft, hard = _files_allowed()
        needed = files_for(wanted, self._files_per_visit)
        if soft < needed and soft < hard:
            soft = min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        possible = visits_within(soft, self._files_per_visit)
        if possible < wanted:
            _log.warning(
                "at most %d visits at once, not the %d of fetcher.in_flight: this process may have %d files "
                "open (raise ulimit -n, or LimitNOFILE of its unit)",
                possible,
                wanted,
                soft,
            )

    def _see_ceiling(self) -> None:
        """The limit of open files may be changed from outside, too."""
        self._files, _hard = _files_allowed()
        self.ceiling = min(self.settings.fetcher.in_flight, visits_within(self._files, self._files_per_visit))

    def _see_files(self, in_hand: int) -> None:
        met, self._recorder.out_of_files = self._recorder.out_of_files, False
        try:
            share = sum(1 for _ in _OPEN_FILES.iterdir()) / self._files
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            share, met = 1.0, True
        if met:
            self.limit = max(1, min(self.limit, in_hand * 3 // 4))
        self._set(Reason.NO_FILES, FILES.over(Reason.NO_FILES in self._held, share))


def _files_allowed() -> tuple[int, int]:
    """How many files this process may have open, and how many it may ask for."""
    soft, hard = (
        sys.maxsize if each == resource.RLIM_INFINITY else each
        for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return soft, hard


def _half(high: float) -> Watermark:
    """Trouble begins at ``high`` and ends at half of it."""
    return Watermark(high, high / 2)


def _timed(latency: Latency, clock: Callable[[], float]) -> Iterator[None]:
    call = latency.begin(clock())
    try:
        yield
    finally:
        latency.end(call, clock())
