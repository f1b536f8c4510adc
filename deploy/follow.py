"""``collect --follow``: bring and free what nodes close, again and again, while they crawl.

A node's disk then holds what is being written and what came since the last round, however large the
crawl is. What goes wrong in a round (a host is away, there is no room here) is told, and tried again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from deploy import collect
from deploy.errors import DiskError, ExitCode, InterruptedRunError
from deploy.inventory import Fleet


def follow(
    fleet: Fleet, into: Path, *, every_s: float, sleep: Callable[[float], None] = time.sleep
) -> ExitCode:
    """Collect and free every ``every_s`` seconds until no node is at work any more.

    Answers how the last round went. Raises ``FleetError`` where the first can't even begin, and
    ``InterruptedRunError`` at Ctrl-C: what was brought is whole, and the next run goes on.
    """
    rounds = 0
    while True:
        began = time.monotonic()
        try:
            came = collect.collect(fleet, into, final=False, free=True)
        except DiskError as error:
            if not rounds:
                raise
            sys.stderr.write(f"{error}; it is tried again\n")
        else:
            if came.complete:
                sys.stderr.write("no node is at work any more: that was all\n")
                return came.code
        rounds += 1
        wait_s = max(0.0, every_s - (time.monotonic() - began))
        sys.stderr.write(f"the next round is in {wait_s:.0f} s (Ctrl-C ends it)\n")
        try:
            sleep(wait_s)
        except KeyboardInterrupt:
            raise InterruptedRunError("ended; what came is whole, and the next run goes on") from None
