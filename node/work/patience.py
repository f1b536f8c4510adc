"""Steps of the command that need Redis, which may be away for a moment at any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from node.errors import NoRedisError
from node.store.connection import LOST

T = TypeVar("T")

GIVE_UP_S = 60.0
"""A Redis that is away for longer than this does not come back by itself."""
_EVERY_S = 0.25


def patiently(step: Callable[[], T], mend: Callable[[], object], *, give_up_s: float = GIVE_UP_S) -> T:
    """Do ``step``, once more each time Redis went away in the middle; ``mend`` starts it again if it died.

    A step must be one that may be done twice. Raises what it raised last once it has been in vain for
    ``give_up_s``.
    """
    in_vain_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return step()
        except (*LOST, NoRedisError):
            now = time.monotonic()
            if in_vain_since is None or now - began > give_up_s:  # it had got on for a good while
                in_vain_since = now
            elif now - in_vain_since > give_up_s:
                raise
        time.sleep(_EVERY_S)
        mend()
