"""One process of a node under ``milliarde crawl``: its start, its log, its deaths."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from node.errors import ExitCode
from node.store.deaths import Deaths
from node.work.process import PARENT_VARIABLE

LOG_MAX_BYTES: Final = 10_000_000
YOUNG_S: Final = 10.0
"""A child that dies younger than this is started again later each time, up to ``BACK_OFF_S``."""
BACK_OFF_S: Final = 30.0
FATAL: Final = frozenset(
    {
        ExitCode.USAGE,
        ExitCode.BAD_SETTINGS,
        ExitCode.BAD_INPUT,
        ExitCode.OTHER_CRAWL,
        ExitCode.NOT_WRITABLE,
        ExitCode.NOT_INSTALLED,
    }
)
"""How a child may end that starting it again would not mend."""


@dataclass(slots=True)
class Child:
    """One process of the node, and how often it died."""

    role: str
    number: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    restarts: int = 0
    again_at: float = 0.0
    deaths: int = 0
    young_deaths: int = 0
    """Of these, how many in a row soon after its start."""
    why: str = ""
    """How it died last."""
    log_from: int = 0
    """Where in its log this start of it begins."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.number}" if self.number else self.role

    def log(self, folder: Path) -> Path:
        return folder / (self.name.replace(" ", "-") + ".log")

    def start(self, config: Path, logs: Path, environment: Mapping[str, str]) -> int:
        """Start it, in a session of its own; what it says goes into its log. Answers its process id."""
        log = self.log(logs)
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_MAX_BYTES:
            log.replace(log.with_suffix(".log.1"))
        words = [sys.executable, "-m", "node", self.role]
        if self.number:
            words.append(str(self.number))
        words += ["--config", str(config)]
        with log.open("ab") as out:
            self.log_from = out.tell()
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid()), **environment},
            )
        self.started = time.monotonic()
        return self.process.pid

    def died(self, code: int, words: str, *, hung: bool) -> str:
        """It has ended with this code, and is to be started again at ``again_at``; answers the news."""
        now = time.monotonic()
        how = "it hung" if hung else f"signal {-code}" if code < 0 else f"exit code {code}"
        self.why = f"{how}: {words}" if words else how
        self.process = None
        self.deaths += 1
        self.young_deaths = self.young_deaths + 1 if now - self.started < YOUNG_S else 0
        wait_s = min(BACK_OFF_S, 0.25 * 2**self.young_deaths) if self.young_deaths else 0.0
        self.again_at = now + wait_s
        again = f"; again in {wait_s:.0f} s" if wait_s >= 1 else ""
        return f"{self.name} died ({self.why}{again})"

    def has_grown_up(self) -> bool:
        """Does it live on after young deaths? Says so once."""
        if not self.young_deaths or time.monotonic() - self.started < YOUNG_S:
            return False
        self.young_deaths = 0
        return True

    def told(self, now_ms: int) -> Deaths:
        """For ``status``. ``now_ms``: of the crawl's clock."""
        wait_s = 0.0 if self.process is not None else max(0.0, self.again_at - time.monotonic())
        return Deaths(
            count=self.deaths,
            in_a_row=self.young_deaths,
            again_ms=now_ms + round(1000 * wait_s),
            why=self.why,
        )

    def last_words(self, logs: Path) -> str:
        """What it wrote last, if it wrote anything since it was started."""
        log = self.log(logs)
        if self.log_from >= log.stat().st_size:
            return ""
        with log.open("rb") as file:
            file.seek(max(self.log_from, log.stat().st_size - 2_000))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
