"""What the machine we run on has, as far as it is ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def memory_bytes(cgroups: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """The machine's memory, or what the control groups of this process are allowed of it."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_limits(cgroups, own)])


def _limits(cgroups: Path, own: Path) -> Iterator[int]:
    """Limits of our control group and those above it (version 2, or the memory controller of version 1)."""
    try:
        lines = own.read_text(encoding="ascii").splitlines()
    except OSError:
        return  # no Linux, or no control groups
    for line in lines:
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            top, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = top / path.lstrip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(top):
                yield from _limit(each / name)


def _limit(file: Path) -> Iterator[int]:
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError:
        return  # the root has none, and of a container not all that is above it can be seen
    if text.isdigit():  # else "max"
        yield int(text)
