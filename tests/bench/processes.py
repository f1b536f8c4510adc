"""One command and all the processes it starts: their CPU time, their memory, the machine meanwhile.

CPU time is the kernel's own account of the command and of every descendant that was waited for (wait4),
so nothing a process does escapes it: interpreter start, helpers, clearing up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOOK_EVERY_S = 0.25
_POLL_S = 0.02
_GRACE_S = 60.0


class RunError(Exception):
    """A measured command did not do what it was started for; the words say what."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Seconds of all cores together, while something ran."""

    busy_s: float
    idle_s: float
    steal_s: float
    """Taken by the host for other guests."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command took. ``peak_rss_mb``: role -> largest resident set of one process (10^6 bytes)."""

    wall_s: float
    cpu_s: float
    peak_rss_mb: Mapping[str, float]
    machine: Machine


def machine_now() -> Machine:
    """Seconds since boot; differences are what counts."""
    with Path("/proc/stat").open() as stat:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return Machine(
        (user + nice + system + irq + softirq) / _TICKS_PER_S,
        (idle + iowait) / _TICKS_PER_S,
        steal / _TICKS_PER_S,
    )


def cpu_seconds(pid: int) -> float:
    """CPU time of a living process, to the hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def children(pid: int) -> list[int]:
    """Living children of a process (of its main thread, which starts all of ours)."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


@contextmanager
def serving(module: str, *words: object) -> Iterator[int]:
    """A server of ours in a process of its own, which prints its port and ends with its standard input."""
    command = [sys.executable, "-m", module, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


def measure(
    command: Sequence[str],
    *,
    role_of: Callable[[str], str],
    output: Path,
    timeout_s: float,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
) -> Usage:
    """Run a command to its end; stdout and stderr go to ``output``.

    ``role_of`` names a process by its command line. Raises ``RunError`` where it fails or takes longer
    than ``timeout_s`` (it is stopped then).
    """
    before, begun = machine_now(), time.monotonic()
    peaks: dict[str, float] = {}
    with output.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        next_look, give_up, asked = 0.0, begun + timeout_s, False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            now = time.monotonic()
            if now >= next_look:
                _note_peaks(process.pid, role_of, peaks)
                next_look = now + _LOOK_EVERY_S
            if now >= give_up:
                process.send_signal(signal.SIGKILL if asked else signal.SIGTERM)
                asked, give_up = True, now + _GRACE_S
            time.sleep(_POLL_S)
    wall_s, after = time.monotonic() - begun, machine_now()
    process.returncode = os.waitstatus_to_exitcode(status)
    if asked or process.returncode:
        why = f"took longer than {timeout_s:.0f} s" if asked else f"ended with {process.returncode}"
        words = output.read_text(errors="replace").strip().splitlines()[-8:]
        raise RunError("\n".join([f"{' '.join(command[:5])} ... {why}; its last words:", *words]))
    machine = Machine(
        after.busy_s - before.busy_s, after.idle_s - before.idle_s, after.steal_s - before.steal_s
    )
    return Usage(wall_s, usage.ru_utime + usage.ru_stime, peaks, machine)


def _note_peaks(pid: int, role_of: Callable[[str], str], peaks: dict[str, float]) -> None:
    """Peak memory of a process and its descendants so far, by role. Those that end meanwhile are left out."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return
    for line in lines:
        if line.startswith("VmHWM:"):
            role = role_of(words)
            peaks[role] = max(peaks.get(role, 0.0), int(line.split()[1]) * 1024 / 1e6)
    for child in children(pid):
        _note_peaks(child, role_of, peaks)
