"""What a long-lived process keeps of its memory: buffers that were freed, and garbage in cycles.

The C library keeps what was freed, each place resident once it was written to. Python looks for cycles that
nobody holds among all that lives whenever a quarter more has come. Both are made for processes that do one
thing after the other; a fetcher has thousands of visits under way, and stands still meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import time
from collections.abc import Callable

_libc = ctypes.CDLL(None)
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 * 1024

SHARE = 500
"""A look through all takes at most this part of the time, ..."""
EVERY_S = 600.0
"""... but comes at least this often (unless it takes more than 1.2 s), ..."""
GROWTH = 1.5
"""... and as soon as the first allows where there is so much more than after the last."""
LEAST_BLOCKS = 200_000
"""Of which a half, some 10 MB, is not worth a look."""


def give_back() -> None:
    """Let the kernel have each page of memory that the C library keeps in case it is asked for some (glibc).

    Buffers come and go at ever other places, and each place stays resident once it was written to.
    """
    with contextlib.suppress(AttributeError):  # musl has no such call, and keeps less
        _libc.malloc_trim(ctypes.c_size_t(0))


def map_large_buffers() -> None:
    """Have the C library (glibc) take each large buffer from the kernel, and return it there at once.

    By itself it keeps them once the first was freed. uvloop takes 256 KB for each TLS connection
    and writes to little of it: on the heap, each comes to lie where others wrote before it.
    """
    with contextlib.suppress(AttributeError):
        _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


class Garbage:
    """Looks for garbage through all that lives, seldom; Python goes on doing so among what is young.

    Nearly all of ours is young when it comes to be garbage: while 6,500 visits were under way Python looked
    through everything each six seconds, for half a second, and found nothing. So a look is taken where what
    lives has grown by a half, which it does if cycles pile up, and each ten minutes; and never more often
    than a five-hundredth of the time allows.

    ``clock``: monotonic seconds. ``collect``: the look itself. ``blocks``: how much lives, in pieces.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        collect: Callable[[], object] = gc.collect,
        blocks: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        self._clock, self._collect, self._blocks = clock, collect, blocks
        self._looked_s, self._took_s = clock(), 0.0
        self._lived = blocks()

    @staticmethod
    def take_over() -> None:
        """From now on only we look through all: Python does after so many looks at the young, which it never
        reaches."""
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, 2**31 - 1)

    def tend(self) -> None:
        """A look, if it is time for one; ask about once a second."""
        idle_s = self._clock() - self._looked_s
        if idle_s < SHARE * self._took_s:
            return
        if idle_s >= EVERY_S or self._blocks() >= GROWTH * max(self._lived, LEAST_BLOCKS):
            self._look()

    def _look(self) -> None:
        begun_s = self._clock()
        self._collect()
        self._looked_s = self._clock()
        self._took_s = self._looked_s - begun_s
        self._lived = self._blocks()
