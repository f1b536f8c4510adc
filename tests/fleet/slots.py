"""Room for several fleets on one machine: each holds a slot (1 to 254), which gives its names and addresses.

What an owner that was killed has left behind is removed by the next one that takes a slot.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleet import cgroups
from tests.fleet.base import cache
from tests.fleet.box import release
from tests.fleet.network import Network, remove_namespace
from tests.fleet.shell import Failed, run

_SLOTS = range(1, 255)
_PREFIX = "milliarde"


class Slot:
    """A number that is ours alone, and a folder of that number; both are given back at the end."""

    def __init__(self) -> None:
        self.number = 0
        self._handle = -1

    def take(self) -> Path:
        """Clear away what dead owners left, then take the first free number; its empty folder."""
        fleets = cache() / "fleets"
        fleets.mkdir(parents=True, exist_ok=True)
        for number in _SLOTS:
            handle = os.open(fleets / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # its owner lives
                os.close(handle)
                continue
            folder = fleets / str(number)
            _clear(number, folder)
            if self.number:
                os.close(handle)
            else:
                self.number, self._handle = number, handle
            if not (fleets / f"{number + 1}.lock").exists():
                break
        if not self.number:
            raise Failed(f"{len(_SLOTS)} fleets run on this machine")
        folder = fleets / str(self.number)
        folder.mkdir()
        return folder

    def give_back(self) -> None:
        """Remove all that bears this number, and let go of it."""
        if self.number:
            _clear(self.number, cache() / "fleets" / str(self.number))
            os.close(self._handle)
            self.number = 0


def prefix(number: int) -> str:
    """What the names of a slot's namespaces and cgroups begin with."""
    return f"{_PREFIX}-{number}"


def _clear(number: int, folder: Path) -> None:
    """Remove a fleet whose owner is gone: processes, mounts, loop devices, namespaces, folder."""
    for box in folder.glob("box*"):
        told = box / "cgroups"
        if told.exists():
            cgroups.end([Path(line) for line in told.read_text().splitlines() if Path(line).is_dir()])
        release(box)
    for path in Path("/run/netns").glob(f"{prefix(number)}-*"):
        for pid in run("ip", "netns", "pids", path.name).stdout.split():
            run("kill", "-9", pid, check=False)
        remove_namespace(path.name)
    if folder.is_dir():
        shutil.rmtree(folder)


@contextmanager
def wires(nodes: int) -> Iterator[Network]:
    """A bridge with ``nodes`` bare namespaces on it, without boxes."""
    slot = Slot()
    try:
        slot.take()
        network = Network(prefix(slot.number), slot.number, nodes)
        network.up()
        yield network
    finally:
        slot.give_back()
