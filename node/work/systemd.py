"""What systemd tells of a node's processes where it starts them: how often they died, and if they still do.

Under ``milliarde crawl`` that stands in Redis (``store/deaths.py``); systemd knows it by itself, and also of
processes that die before they get to Redis.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from node.settings import Settings
from node.store.deaths import LOOP, Deaths
from node.work.child import YOUNG_S

DATA: Final = Path("/srv/milliarde")
"""The folder that the units in deploy/systemd are about."""
EVERY_S: Final = 15.0
_RUNS: Final = Path("/run/systemd/system")
_UNITS: Final = tuple(f"milliarde-{each}.service" for each in ("fetcher@*", "parser@*", "watch"))
_SHOWN: Final = "Id,NRestarts,ActiveState,SubState,Result,ExecMainStatus,ActiveEnterTimestampMonotonic"
_SHOW: Final = ("/usr/bin/systemctl", "show", "--property", _SHOWN, *_UNITS)


class Units:
    """Asks now and then, since asking takes a process of its own."""

    def __init__(self, settings: Settings) -> None:
        self._are_ours = settings.data == DATA
        self._next = 0.0
        self._told: dict[str, Deaths] = {}

    def look(self) -> dict[str, Deaths]:
        """Process -> how often it died, at most ``EVERY_S`` old; empty where systemd has nothing to say."""
        if self._are_ours and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            self._told = _ask() if _RUNS.is_dir() else {}
        return self._told


def _ask() -> dict[str, Deaths]:
    try:
        done = subprocess.run(_SHOW, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return read(done.stdout, time.monotonic())


def read(shown: str, now_s: float) -> dict[str, Deaths]:
    """Of the output of ``systemctl show``; ``now_s``: CLOCK_MONOTONIC. Those that never died are left out."""
    found = {}
    for block in shown.split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if unit.get("Id"):
            deaths = _deaths(unit, now_s)
            if deaths.count or deaths.given_up:
                found[_process(unit["Id"])] = deaths
    return found


def _process(unit: str) -> str:
    """``milliarde-fetcher@1.service`` -> ``fetcher.1``."""
    return unit.removeprefix("milliarde-").removesuffix(".service").replace("@", ".")


def _deaths(unit: Mapping[str, str], now_s: float) -> Deaths:
    count = int(unit.get("NRestarts") or 0)
    active_s = now_s - int(unit.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
    settled = unit.get("ActiveState") == "active" and active_s > YOUNG_S
    result = unit.get("Result", "")
    return Deaths(
        count=count,
        in_a_row=count if count >= LOOP and not settled else 0,
        why="" if result in ("", "success") else f"{result}, exit code {unit.get('ExecMainStatus', '')}",
        given_up=unit.get("ActiveState") == "failed",
    )
