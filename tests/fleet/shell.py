"""Running programs: quietly where all is well, with all they said where not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

DEADLINE_S = 300.0


class Failed(RuntimeError):
    """A program ended badly; the message says which and what it said."""


def run(
    *words: str | Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Raises ``Failed`` where it can't be run, ends badly or takes too long."""
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{' '.join(command)}: {error}") from None
    if check and done.returncode:
        said = (done.stdout + done.stderr).strip()[-4_000:]
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return done


def missing_programs(*names: str) -> list[str]:
    """Those that are not installed. Debian keeps some out of an ordinary PATH."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return [name for name in names if shutil.which(name, path=path) is None]
