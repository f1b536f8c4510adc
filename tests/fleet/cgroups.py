"""Where a box's processes live: cgroups of their own in every hierarchy that its systemd wants.

They are nested in the caller's, so that what bounds the caller's memory bounds the box's too.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

HIERARCHIES = ("name=systemd", "", "cpu", "cpuacct", "pids", "memory")
"""By their names in /proc/self/cgroup; the empty one is version 2."""
_GONE_S = 20.0
_SHARES = 4 * 1024
"""Of the processors, where 1,024 is one process of the machine: a box is dozens, and would starve as one."""


def make(name: str) -> list[Path]:
    """Make a cgroup ``name`` inside the caller's, in each hierarchy there is."""
    made = []
    mounts = _mounts()
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        for each in controllers.split(","):
            if each in HIERARCHIES and each in mounts:
                folder = mounts[each] / own.lstrip("/") / name
                folder.mkdir(exist_ok=True)
                made.append(folder)
                if each == "cpu":
                    (folder / "cpu.shares").write_text(str(_SHARES))
    return made


def _mounts() -> dict[str, Path]:
    """Hierarchy -> where it is mounted."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.setdefault("", Path(place))
        elif kind == "cgroup":
            for option in options.split(","):
                if option in HIERARCHIES:
                    found.setdefault(option, Path(place))
    return found


def processes(folders: list[Path]) -> set[int]:
    """All that live in these cgroups or below them."""
    found: set[int] = set()
    for folder in folders:
        for path in [folder / "cgroup.procs", *folder.rglob("cgroup.procs")]:
            try:
                found |= {int(pid) for pid in path.read_text().split()}
            except OSError:  # it was removed meanwhile, or is of a kind that can't be read
                continue
    return found - {0}


def end(folders: list[Path]) -> None:
    """Kill what lives in these cgroups, and remove them. Raises ``RuntimeError`` where something stays."""
    give_up = time.monotonic() + _GONE_S
    while alive := processes(folders):
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > give_up:
            raise RuntimeError(f"processes that can't be killed: {sorted(alive)}")
        time.sleep(0.05)
    for folder in folders:
        inner = sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)
        for each in (*inner, folder):
            _remove(each, give_up)


def _remove(folder: Path, give_up: float) -> None:
    while folder.is_dir():
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # the kernel is not done with its last process
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)
