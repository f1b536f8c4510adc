"""``Crawl``: ``milliarde crawl`` as a user starts it, and what a user can do to it.

The command runs in a session of its own, with its talk in a file. Every other command of the node is run
the same way (``command``). Nothing here looks inside: what is asserted is read from files, from other
commands' output, and from the servers' access logs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from node import cli

PATIENCE_S = 90.0
"""How long anything may take on a busy machine before a test gives up on it."""
STOP_S = 45.0
"""How long a stop may take: less than it takes until children that don't listen are killed."""


class Web(Protocol):
    """What a crawl must be told of a web to get there."""

    @property
    def ca(self) -> Path: ...
    @property
    def connect_to(self) -> list[str]: ...


def until(holds: Callable[[], Any], what: str, *, within_s: float = PATIENCE_S, every_s: float = 0.02) -> Any:
    """Wait for a condition; answers what it gave. Fails, naming it, if it never holds."""
    give_up = time.monotonic() + within_s
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < give_up, f"waited {within_s:g} s in vain: {what}"
        time.sleep(every_s)


def milliarde(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "node", *map(str, words)],
        cwd=cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _environment() -> dict[str, str]:
    dropped = ("MILLIARDE_CONFIG", "NOTIFY_SOCKET", "FORCE_COLOR")
    # a width at which no line of talk is folded
    return {k: v for k, v in os.environ.items() if k not in dropped} | {"COLUMNS": "400"}


def children(pid: int) -> dict[int, str]:
    """The processes that ``pid`` started and that live: pid -> command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if int(parent) == pid and state != "Z":
            found[int(entry.name)] = line.strip()
    return found


class Crawl:
    """One crawl in ``out``, started as often as a test likes. As a context it leaves no process behind.

    ``words``: arguments of ``milliarde crawl`` besides ``--out`` and the way to ``web``; ``inside``: a
    command that runs another elsewhere and becomes it (``ip netns exec NAME``); ``talk``: where its talk is
    kept, if not beside ``out``.
    """

    def __init__(
        self,
        out: Path,
        web: Web | None,
        *words: str | Path,
        settings: Sequence[str] = (),
        inside: Sequence[str] = (),
        talk: Path | None = None,
    ) -> None:
        self.out = out
        self.inside = inside
        self.words = ["--out", str(out), *map(str, words)]
        for each in settings:
            self.words += ["--set", each]
        if web is not None:
            self.words += ["--ca-file", str(web.ca)]
            for rule in web.connect_to:
                self.words += ["--connect-to", rule]
        self.process: subprocess.Popen[bytes] | None = None
        self._talk = talk or out.parent / f"{out.name}.stderr"
        self._said_from = 0

    def __enter__(self) -> Crawl:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill_everything()

    # -- life

    def start(self) -> Crawl:
        """Start it (again), on what is in its folder."""
        assert self.process is None or self.process.poll() is not None
        self._talk.parent.mkdir(parents=True, exist_ok=True)
        with self._talk.open("ab") as talk:
            self._said_from = talk.tell()
            self.process = subprocess.Popen(
                [*self.inside, sys.executable, "-m", "node", "crawl", *self.words],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=talk,
                stderr=talk,
                start_new_session=True,
            )
        return self

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """Wait until it has ended by itself; its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the crawl did not end within {within_s:g} s:\n{self.said}") from None

    def run(self) -> dict[str, Any]:
        """From start to a good end; its summary."""
        code = self.start().wait()
        assert code == 0, f"exit code {code}:\n{self.said}"
        return self.summary

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it; the exit code."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGINT)
        return self.wait(STOP_S)

    def children(self) -> dict[str, int]:
        """Role and number of each child that lives ("fetcher 1", "redis") -> its process id."""
        assert self.process is not None
        named = {}
        for pid, line in children(self.process.pid).items():
            words = line.split()
            if "-m" in words:
                role = words[words.index("-m") + 2 :]
                named[role[0] if role[1].startswith("-") else f"{role[0]} {role[1]}"] = pid
            elif "redis" in line or "valkey" in line:
                named["redis"] = pid
        return named

    def kill_everything(self) -> None:
        """SIGKILL to the command and all its children at once, as the kernel would under memory pressure."""
        assert self.process is not None
        doomed = list(children(self.process.pid))
        # The command last: its death tells its children to stop in good order.
        for pid in (*doomed, self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        until(lambda: not any(_lives(pid) for pid in doomed), "the children are gone")

    # -- what it says, does and leaves

    @property
    def said(self) -> str:
        """Its talk since it was last started."""
        with self._talk.open("rb") as talk:
            talk.seek(self._said_from)
            return talk.read().decode()

    @property
    def config(self) -> Path:
        return self.out / "node.toml"

    def command(self, name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Another command on this crawl's node; it must succeed."""
        done = milliarde(name, *words, "--config", self.config)
        assert done.returncode == 0, f"milliarde {name}: exit code {done.returncode}: {done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def status(self) -> dict[str, Any]:
        """What ``milliarde status --json`` says; run within this process, since tests ask often."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert cli.main(["status", "--json", "--config", str(self.config)]) == 0
        found: dict[str, Any] = json.loads(said.getvalue())
        return found

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "summary.json").read_text())
        return found

    def fetch_log(self, *, robots: bool = False) -> Iterator[dict[str, Any]]:
        """All whole lines of the fetch log, which may be growing: of robots.txt files, or of all else."""
        for path in sorted((self.out / "log").glob("fetch-*.jsonl")):
            for text in path.read_text().splitlines(keepends=True):
                if text.endswith("\n"):
                    line = json.loads(text)
                    if (line["outcome"] == "robots") is robots:
                        yield line


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
