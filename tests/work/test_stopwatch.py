"""Waiting for others is told from waiting for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.work.stopwatch import Stopwatch

HOG = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
mine = os.getppid()
while os.getppid() == mine:
    pass
"""


@pytest.fixture
def contended() -> Iterator[None]:
    """This process on one processor, with another that never sleeps."""
    before = os.sched_getaffinity(0)
    processor = min(before)
    with subprocess.Popen([sys.executable, "-c", HOG, str(processor)]) as hog:
        os.sched_setaffinity(0, {processor})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)
            hog.kill()


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="this kernel keeps no schedstat")
def test_waiting_for_a_processor_does_not_count(contended: None) -> None:
    """Work that shares its processor takes twice as long, and none of that is waiting for others."""
    watch = Stopwatch()
    for _ in range(20):
        watch.start()
        began, cpu = time.monotonic(), time.thread_time()
        while time.monotonic() - began < 0.3:
            pass
        counted, cpu, wall = watch.seconds(), time.thread_time() - cpu, time.monotonic() - began
        if wall > 1.3 * cpu:  # the hog has begun
            break
    assert wall > 1.3 * cpu
    assert counted < cpu + 0.2 * (wall - cpu)


def test_sleep_counts() -> None:
    """Who sleeps waits for others."""
    watch = Stopwatch()
    time.sleep(0.1)
    assert watch.seconds() >= 0.09
    watch.start()
    assert watch.seconds() < 0.09
