"""Running a playbook over the fleet through ansible-runner, and what became of each host.

A host that can't be reached is noted, and the others go on. Every run leaves its record (events, output) in a
folder of its own; the oldest go when there are more than ``RUNS_KEPT``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from deploy import places
from deploy.errors import ExitCode, FleetError, InterruptedRunError, NotInstalledError
from deploy.inventory import Fleet, first_error
from deploy.text import one_line

FORKS = 100
"""Hosts at once. Ansible starts no more than there are."""
RUNS_KEPT = 50
LOOKS_KEPT = 5
"""Records of runs that only look; there may be one every few seconds."""
_OFFENDING = re.compile(r"Offending \S+ key in (\S.*?):(\d+)")
_WAIT_S = 1
"""How soon Ctrl-C is noticed where nothing comes from Ansible."""


class State(StrEnum):
    """What became of a host."""

    OK = "ok"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(slots=True)
class Host:
    """One host in a run. ``results``: task name -> what it answered last."""

    name: str
    state: State = State.OK
    why: str = ""
    """One line, where it is not ok."""
    play: str = ""
    """The play it took part in last."""
    step: str = ""
    """The task it is at, or failed in."""
    changed: int = 0
    results: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """A run that has ended. ``hosts`` in the order in which they were first heard of."""

    hosts: dict[str, Host]
    record: Path
    seconds: float
    last_play: str = ""
    """The play that began last."""

    def of(self, state: State) -> list[Host]:
        return [host for host in self.hosts.values() if host.state is state]

    @property
    def code(self) -> ExitCode:
        """Says whether any host failed, or could not be reached."""
        if self.of(State.FAILED):
            return ExitCode.HOST_FAILED
        return ExitCode.HOST_UNREACHABLE if self.of(State.UNREACHABLE) else ExitCode.OK


class Display(Protocol):
    """Is told how a run goes."""

    def play(self, name: str) -> None:
        """A play begins."""

    def task(self, name: str) -> None:
        """A task begins, on all hosts of the play that are still in it."""

    def host(self, host: Host) -> None:
        """Something became of a host."""

    def end(self) -> None:
        """The run has ended, or was broken off."""


class Silent:
    """Says nothing; for runs that only look."""

    def play(self, name: str) -> None: ...
    def task(self, name: str) -> None: ...
    def host(self, host: Host) -> None: ...
    def end(self) -> None: ...


def play(
    fleet: Fleet,
    playbook: str,
    *,
    display: Display | None = None,
    variables: Mapping[str, object] | None = None,
    looks_only: bool = False,
    check: bool = False,
) -> Run:
    """Run ``ansible/PLAYBOOK.yml`` over the hosts of ``fleet``, all at once.

    ``looks_only``: its record is soon forgotten. ``check``: Ansible's dry run. Raises ``FleetError`` where
    nothing could be run at all, and ``InterruptedRunError`` after Ctrl-C.
    """
    runner = _ansible_runner()
    path = places.playbook(playbook)
    places.program("ansible-playbook")
    hearing = _Hearing(display or Silent())
    folder = places.runs() / ("looks" if looks_only else "runs")
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{path.stem}-{os.getpid()}-{time.monotonic_ns() % 1_000_000:06d}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="milliarde-fleet.") as private, interruptions() as interrupted:
        ended = runner.run(
            private_data_dir=private,
            artifact_dir=str(folder),
            ident=name,
            playbook=str(path),
            inventory=str(fleet.path),
            limit=fleet.pattern,
            extravars=dict(variables or {}) or None,
            cmdline="--check" if check else None,
            forks=FORKS,
            quiet=True,
            envvars=places.environment(),
            settings={"pexpect_timeout": _WAIT_S},
            event_handler=hearing.event,
            cancel_callback=interrupted.is_set,
        )
    hearing.display.end()
    record = folder / name
    _without_secrets(record)
    _prune(folder, LOOKS_KEPT if looks_only else RUNS_KEPT)
    if interrupted.is_set():
        raise InterruptedRunError(
            "interrupted; what was begun on a host may be half done, and the same command does the rest"
        )
    if not hearing.hosts or (ended.rc and not hearing.excuse):
        raise _nothing_ran(fleet, record, hearing)
    return Run(hearing.hosts, record, time.monotonic() - began, hearing.last_play)


class _Hearing:
    """Makes hosts of events."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.hosts: dict[str, Host] = {}
        self.last_play = ""

    @property
    def excuse(self) -> bool:
        """Is there a host whose state explains that Ansible ended with an error?"""
        return any(host.state is not State.OK for host in self.hosts.values())

    def event(self, event: dict[str, Any]) -> bool:
        """Called for each event of ansible-runner; True: it is kept in the record."""
        data: dict[str, Any] = event.get("event_data") or {}
        kind = str(event.get("event"))
        if kind == "playbook_on_play_start":
            self.last_play = str(data.get("play") or "")
            self.display.play(self.last_play)
        elif kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            self.display.task(str(data.get("task") or ""))
        elif kind == "playbook_on_stats":
            self._stats(data)
        elif kind.startswith("runner_on_") and data.get("host"):
            self._host(kind.removeprefix("runner_on_"), data)
        return True

    def _host(self, what: str, data: dict[str, Any]) -> None:
        name = str(data["host"])
        host = self.hosts.setdefault(name, Host(name))
        task = str(data.get("task") or "")
        result = data.get("res")
        if not isinstance(result, dict):
            result = {}
        if host.state is State.OK:
            host.play, host.step = str(data.get("play") or ""), task
        if what == "unreachable":
            host.state, host.why = State.UNREACHABLE, _unreachable_words(result)
        elif what == "failed" and not data.get("ignore_errors"):
            host.results[task] = result
            if host.state is State.OK:
                host.state, host.why = State.FAILED, failure_words(result)
        elif what == "ok":
            host.results[task] = result
            host.changed += bool(result.get("changed"))
        self.display.host(host)

    def _stats(self, data: dict[str, Any]) -> None:
        """The last word: a failure may have been rescued."""
        lost = {*(data.get("failures") or {}), *(data.get("dark") or {})}
        for name in data.get("rescued") or {}:
            host = self.hosts.get(str(name))
            if host is not None and host.state is State.FAILED and name not in lost:
                host.state, host.why = State.OK, ""


def failure_words(result: Mapping[str, Any]) -> str:
    """Why a task failed, as one line: what the command said last, else what Ansible says.

    Of one that was asked again and again until it would say something else: what it still says.
    """
    for each in result.get("results") or ():
        if isinstance(each, dict) and each.get("failed"):
            return failure_words(each)
    talk = str(result.get("stderr") or "").strip() or str(result.get("module_stderr") or "").strip()
    said = str(result.get("msg") or "").strip()
    if said.endswith("Unknown error."):  # ansible-core 2.19 puts this where a task gave no message
        said = ""
    if (
        result.get("rc")
        and talk
        and (not said or said.startswith(("non-zero return code", "MODULE FAILURE")))
    ):
        return one_line(talk.splitlines()[-1])
    return one_line(said or talk or str(result.get("stdout") or "").strip() or "it does not say why")


def _unreachable_words(result: Mapping[str, Any]) -> str:
    """What ssh said; Ansible puts sentences of its own before it."""
    said = str(result.get("msg") or "it does not answer").strip()
    if "HOST IDENTIFICATION HAS CHANGED" in said:  # ssh says it in twelve lines, most of them asterisks
        place = _OFFENDING.search(said)
        return (
            "it has another host key than the one that is pinned"
            + (f" (line {place[2]} of {one_line(place[1])})" if place else "")
            + ": it may be another machine, and nothing was sent there"
        )
    for before in ("via ssh:", "over ssh:"):
        said = said.rpartition(before)[2].strip() or said
    return one_line(said)


def _nothing_ran(fleet: Fleet, record: Path, hearing: _Hearing) -> FleetError:
    try:
        talk = (record / "stdout").read_text(encoding="utf-8", errors="replace")
    except OSError:
        talk = ""
    if not hearing.hosts:
        fleet.hosts()  # says what is wrong: no inventory, no group, or a host that is none
    return FleetError(f"Ansible gave up: {one_line(first_error(talk))} (all of it: {record / 'stdout'})")


def _ansible_runner() -> Any:
    try:
        import ansible_runner
    except ImportError as error:
        raise NotInstalledError(
            f"ansible-runner is missing or broken ({error}): scripts/setup --fleet installs it"
        ) from None
    return ansible_runner


@contextlib.contextmanager
def interruptions() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM meanwhile. Handlers of ansible-runner's own would swallow one that comes when
    Ansible has just ended, and would stay; and a KeyboardInterrupt is lost where it meets a destructor.
    """
    interrupted = threading.Event()
    kept = {
        number: signal.signal(number, lambda *_: interrupted.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield interrupted
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _without_secrets(record: Path) -> None:
    """The record of the command has the operator's whole environment, keys of clouds too: take it out."""
    path = record / "command"
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(path.read_text(encoding="utf-8"))
        told.pop("env", None)
        path.write_text(json.dumps(told), encoding="utf-8")


def _prune(folder: Path, keep: int) -> None:
    """Names begin with their time. Another command may be pruning, too."""
    for old in sorted(folder.iterdir())[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
