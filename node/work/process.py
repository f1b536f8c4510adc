"""The life of one process: start, signals, heartbeat to its supervisor, a clean end.

SIGTERM (or SIGINT) asks a process to stop: it takes no more work, finishes what it has within a
bound, and goes. What it is at is told to NOTIFY_SOCKET, as systemd has it. Under ``milliarde crawl`` a
process does not outlive its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import uvloop

from node.errors import DiskError, InUseError

PARENT_VARIABLE = "MILLIARDE_PARENT"
"""Environment: process id of the supervisor that a child follows into the grave."""
_PR_SET_PDEATHSIG = 1


class Stop:
    """The wish to stop, as a flag for loops and an event for sleepers."""

    def __init__(self) -> None:
        self.requested = False
        self._event = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    def request(self) -> None:
        self.requested = True
        self._event.set()
        for callback in self._callbacks:
            callback()

    def on_request(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` as soon as stopping is wished for."""
        self._callbacks.append(callback)

    async def wait(self, timeout_s: float) -> bool:
        """Sleep up to ``timeout_s``; True as soon as stopping is wished for."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout_s)
        return self.requested


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, however they end.

    A cancellation can get lost: before Python 3.12, ``asyncio.wait_for`` (redis-py sends through it)
    drops one that comes just as it has its result. So it is said again until it is heard.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=0.1)
        for task in done:
            if not task.cancelled():
                task.exception()  # looked at, so that asyncio does not report it as forgotten


_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the thread that started us ends, however it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def follow_parent() -> None:
    """The same for a child of ``milliarde crawl``, which may be gone already."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    die_with_parent()
    if os.getppid() != int(parent):
        sys.exit(0)


def run(main: Callable[[Stop], Awaitable[None]]) -> None:
    """Run an asynchronous process under uvloop until it is done or asked to stop."""
    follow_parent()

    async def body() -> None:
        stop = Stop()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.request)
        await main(stop)

    uvloop.run(body())
    notify("STOPPING=1")


class StopFlag:
    """The same wish for a process without an event loop."""

    def __init__(self) -> None:
        self.requested = False

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.requested = True


def notify(state: str) -> None:
    """Tell our supervisor (READY=1, WATCHDOG=1, STOPPING=1); nothing where none listens.

    It is systemd, or ``milliarde crawl``, which listens in the same way (``watchdog.py``).
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError):
        out = _speaker()
        # nobody may hang for want of a listener; but that we are ready is said only once
        out.settimeout(0 if state == "WATCHDOG=1" else 5)
        out.connect(address)
        out.send(state.encode())


@cache
def _speaker() -> socket.socket:
    """Opened once: a process that may open no more files must not be taken for one that hangs."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


class SignsOfLife:
    """Tells systemd's watchdog that work goes on, whenever it is called, but not more often than needed."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._next_s = 0.0

    def give(self) -> None:
        now = time.monotonic()
        if now >= self._next_s:
            notify("WATCHDOG=1")
            self._next_s = now + self._every_s


@contextlib.contextmanager
def lock(path: Path, what: str, *, patience_s: float = 0.0) -> Iterator[int]:
    """Hold ``path`` locked; ``what`` names the holder if somebody else has it.

    Gives the open file: a child that inherits it holds the lock on. Raises ``InUseError`` where the
    lock is not free within ``patience_s``, ``DiskError`` where the folder can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise DiskError(f"{path.parent} can't be written: {error.strerror}") from None
    try:
        give_up = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < give_up:
                    time.sleep(0.05)
                    continue
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
                raise InUseError(f"{what} is running already (process {holder}): stop it first") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield handle
    finally:
        os.close(handle)


def instance() -> str:
    """A name for this start of a process, never used before."""
    return f"{os.getpid():x}-{time.time_ns():x}"


class Lag:
    """How late the event loop runs: the delay of a timer beyond its time, ms.

    The median over a second tells a starved loop from one late turn; the worst is for people to see.
    """

    def __init__(self, every_s: float = 0.1) -> None:
        self._every_s = every_s
        self._samples: list[float] = []

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(self._every_s)
            self._samples.append((loop.time() - before - self._every_s) * 1000)

    def take_ms(self) -> tuple[float, float]:
        """(median, worst) since it was last asked; zeros if nothing was measured."""
        samples, self._samples = self._samples, []
        return (statistics.median(samples), max(samples)) if samples else (0.0, 0.0)
