"""Steps of the command that need Redis, which may be away for a moment at any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import ResponseError

from node.errors import NoRedisError, StoreError
from node.store.connection import LOST
from node.store.refusals import is_out_of_memory

T = TypeVar("T")

GIVE_UP_S = 60.0
"""A Redis that is away for longer than this does not come back by itself."""
NO_MEMORY = "Redis has no memory left: raise redis.maxmemory_mb, or crawl less"
_EVERY_S = 0.25


def patiently(step: Callable[[], T], mend: Callable[[], object], *, give_up_s: float = GIVE_UP_S) -> T:
    """Do ``step``, once more each time Redis went away in the middle, or has no memory for it; ``mend``
    starts it again if it died.

    A step must be one that may be done twice. Raises what it raised last once it has been in vain for
    ``give_up_s``; ``StoreError`` where memory is what it lacks.
    """
    in_vain_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return step()
        except (*LOST, NoRedisError, ResponseError) as error:
            full = isinstance(error, ResponseError)
            if full and not is_out_of_memory(error):
                raise
            now = time.monotonic()
            if in_vain_since is None or now - began > give_up_s:  # it had got on for a good while
                in_vain_since = now
            elif now - in_vain_since > give_up_s:
                if full:
                    raise StoreError(NO_MEMORY) from None
                raise
        time.sleep(_EVERY_S)
        mend()
