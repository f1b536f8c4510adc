"""Commands that every node does by itself: pause, resume, drain, check, exclude, include, trim.

Each is one run over all nodes at once, without gathering facts: what must take effect in seconds does.
"""

from __future__ import annotations

import base64
import errno
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from deploy import exclusions, progress
from deploy.ask import confirm
from deploy.errors import ExitCode
from deploy.inventory import Fleet
from deploy.runner import Display, Host, Run, State, play
from deploy.text import harmless, names

EVERY = "*"
TASK = "Milliarde"


def encoded(words: Iterable[str]) -> str:
    """Arguments on their way through Ansible, which would take ``{{`` in them for a template."""
    return base64.b64encode(json.dumps(list(words)).encode()).decode()


def ask(
    fleet: Fleet,
    words: Sequence[str] | Mapping[str, Sequence[str]],
    *,
    changes: bool = False,
    display: Display | None = None,
) -> Run:
    """Run ``milliarde WORDS`` on each node; a mapping gives each host its own.

    ``changes``: its record is kept with those of other operations.
    """
    per_host = words if isinstance(words, Mapping) else {EVERY: words}
    return play(
        fleet,
        "operate/milliarde",
        display=display,
        variables={
            "milliarde_words": {host: encoded(each) for host, each in per_host.items()},
            "milliarde_changes": changes,
        },
        looks_only=not changes,
    )


def said(host: Host, task: str = TASK) -> str:
    """What a command said on a host, on stdout if there is anything, else on stderr."""
    result = host.results.get(task, {})
    return harmless(str(result.get("stdout") or result.get("stderr") or "").strip())


def show(run: Run, task: str = TASK) -> None:
    """What nodes answered, those with the same answer together; what went wrong on stderr."""
    answers: dict[str, list[str]] = {}
    for host in run.of(State.OK):
        answers.setdefault(said(host, task), []).append(host.name)
    for answer, hosts in answers.items():
        who = names(hosts, len(run.hosts))
        lines = answer.splitlines() or ["done"]
        sys.stdout.write("".join(f"{who}: {line}\n" for line in lines))
    sys.stdout.flush()
    trouble(run)


def trouble(run: Run) -> None:
    """A line on stderr for each host that failed or could not be reached."""
    for state in (State.FAILED, State.UNREACHABLE):
        for host in run.of(state):
            sys.stderr.write(f"{host.name} {state}: {_why(host)}\n")


def _why(host: Host) -> str:
    result = host.results.get(TASK, {})
    # it was never begun (the system's error stands for its exit code), so it could say nothing
    if result.get("rc") == errno.ENOENT and not result.get("stderr") and not result.get("stdout"):
        return "Milliarde is not installed there ('milliarde-fleet up' does that)"
    return host.why


def simple(fleet: Fleet, words: Sequence[str]) -> ExitCode:
    """Have each node do it, and show what it says."""
    run = ask(fleet, words, changes=True)
    show(run)
    return run.code


def drain(fleet: Fleet, wait: str) -> ExitCode:
    """Pause, and wait until nothing is under way anywhere."""
    run = ask(fleet, ["drain", "--wait", wait], changes=True, display=progress.display("drain"))
    show(run)
    return run.code


def exclude(fleet: Fleet, given: Sequence[str], reason: str) -> ExitCode:
    """Note it in the inventory, so that every later deploy keeps it, and tell all nodes at once."""
    hosts = [exclusions.host_of(text) for text in given]
    added = exclusions.add(fleet, hosts, reason)
    _say_list(exclusions.path_of(fleet), added, "added to")
    run = ask(fleet, ["exclude", *hosts, *(["--reason", reason] if reason else [])], changes=True)
    show(run)
    _say_later(run, "is excluded there by the next 'milliarde-fleet deploy', or by the same command again")
    return run.code


def include(fleet: Fleet, given: Sequence[str]) -> ExitCode:
    """Strike it out of the inventory's list, and have all nodes lift it."""
    hosts = [exclusions.host_of(text) for text in given]
    _say_list(exclusions.path_of(fleet), exclusions.remove(fleet, hosts), "struck out of")
    run = ask(fleet, ["include", *hosts], changes=True)
    show(run)
    _say_later(run, "stays excluded there until the same command is given again")
    return run.code


def _say_list(path: Path, hosts: Sequence[str], done: str) -> None:
    if hosts:
        sys.stderr.write(f"{', '.join(hosts[:5])}{' …' if len(hosts) > 5 else ''} {done} {path}\n")


def _say_later(run: Run, words: str) -> None:
    missed = [host.name for host in run.hosts.values() if host.state is not State.OK]
    if missed:
        sys.stderr.write(f"{names(missed, len(run.hosts))}: it {words}\n")


def trim(
    fleet: Fleet,
    domains: Sequence[str],
    *,
    over: int | None,
    largest: int | None,
    keep: int,
    dry_run: bool,
    yes: bool,
) -> ExitCode:
    """Cut queues: of named domains, of all that are too long, or of the longest of the whole fleet."""
    words: Sequence[str] | dict[str, list[str]]
    looks = ExitCode.OK
    end = ["--keep", str(keep), *(["--dry-run"] if dry_run else [])]
    if domains:
        hosts = [exclusions.host_of(text) for text in domains]
        what, words = ", ".join(hosts), ["trim", *hosts, *end]
    elif over is not None:
        what, words = (
            f"every domain with more than {over:,} URLs waiting",
            ["trim", "--over", str(over), *end],
        )
    else:
        from deploy.looks import longest

        found, looked = longest(fleet, largest or 0)
        trouble(looked)
        looks = looked.code
        per_host: dict[str, list[str]] = {}
        for host, state in found:
            per_host.setdefault(host, []).append(str(state["domain"]))
        if not per_host:
            sys.stdout.write("there are no queues\n")
            return looks
        what = ", ".join(str(state["domain"]) for _, state in found[:5]) + (" …" if len(found) > 5 else "")
        words = {host: ["trim", *each, *end] for host, each in per_host.items()}
        fleet = fleet.only(*per_host)
    if not dry_run:
        confirm(f"Keep the {keep:,} best URLs of {what}, and take the others out into files?", yes=yes)
    run = ask(fleet, words, changes=not dry_run)
    show(run)
    return run.code or looks
