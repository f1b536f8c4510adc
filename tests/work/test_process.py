"""What all processes of a node share."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from node.work import process


async def test_a_cancellation_that_gets_lost_is_said_again() -> None:
    """``end`` ends a task that swallows its first cancellation, as ``asyncio.wait_for`` may do."""
    heard = 0

    async def hard_of_hearing() -> None:
        nonlocal heard
        while heard < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard += 1

    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("on the way out")

    tasks = [asyncio.create_task(each) for each in (hard_of_hearing(), fails())]
    await asyncio.sleep(0)
    await asyncio.wait_for(process.end(tasks), 10)
    assert heard == 2
    assert all(task.done() for task in tasks)


async def test_nothing_to_end() -> None:
    """A fetcher without visits ends as well."""
    await process.end([])


def test_signs_of_life_are_given_but_not_with_every_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """systemd hears of a parser that is busy with one page after another, without being flooded."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        rare, ever = process.SignsOfLife(3_600.0), process.SignsOfLife(0.0)
        for _ in range(100):
            rare.give()
        assert systemd.recv(64) == b"WATCHDOG=1"
        with pytest.raises(BlockingIOError):
            systemd.recv(64)
        ever.give()
        ever.give()
        assert [systemd.recv(64) for _ in range(2)] == [b"WATCHDOG=1"] * 2


_TOUCH_AND_FREE = """
import ctypes
from pathlib import Path

from node.work import process

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
buffers = []
for _ in range(200):
    buffers.append(libc.malloc(ctypes.c_size_t(100_000)))
    libc.malloc(ctypes.c_size_t(20_000))  # stays, so that the heap can't shrink
    ctypes.memset(ctypes.c_void_p(buffers[-1]), 1, 100_000)
for buffer in buffers:
    libc.free(ctypes.c_void_p(buffer))
freed = resident()
process.give_memory_back()
print(freed - resident())
"""


def test_what_the_c_library_keeps_is_given_back() -> None:
    """20 MB of buffers between others that stay: freed, they are resident until this is said."""
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    done = subprocess.run(
        [sys.executable, "-c", _TOUCH_AND_FREE], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) > 15_000_000
