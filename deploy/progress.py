"""How a run over the fleet goes, on stderr: a live table where that is a terminal, else a line a step."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deploy.runner import Display, Host, State
from deploy.text import human_seconds

_STYLES = {State.OK: "", State.FAILED: "bold red", State.UNREACHABLE: "red"}
Detail = Callable[[str], str]
"""Host -> what else is to be said of it now (bytes that have come, ...)."""


def display(title: str, detail: Detail | None = None) -> Display:
    """The one that fits stderr."""
    return _Live(title, detail) if sys.stderr.isatty() else _Lines(title, detail)


class _Lines:
    """Each step that changed something, or took its time, when it is over; what goes wrong at once."""

    LONG_S = 10.0

    def __init__(self, title: str, detail: Detail | None) -> None:
        self._title = title
        self._detail = detail
        self._play = self._task = ""
        self._done: dict[str, int] = {}
        self._changed: dict[str, int] = {}
        self._told: set[str] = set()
        self._began = self._since = time.monotonic()
        self._beat = _Beat(self._details, 30.0) if detail else None

    def play(self, name: str) -> None:
        self._over()
        self._play = name

    def task(self, name: str) -> None:
        self._over()
        self._task, self._since = name, time.monotonic()

    def host(self, host: Host) -> None:
        if host.state is State.OK:
            changed = host.changed > self._changed.get(host.name, 0)
            self._changed[host.name] = host.changed
            self._done[host.name] = max(changed, self._done.get(host.name, 0))
        elif host.name not in self._told:
            self._told.add(host.name)
            self._say(f"{host.name} {host.state} at '{host.step}': {host.why}")

    def end(self) -> None:
        self._over()
        if self._beat:
            self._beat.stop()

    def _over(self) -> None:
        changed = sum(self._done.values())
        if self._task and (changed or time.monotonic() - self._since > self.LONG_S):
            self._say(f"{self._play}: {self._task} ({changed} of {len(self._done)} changed)")
        self._task = ""
        self._done = {}

    def _details(self) -> None:
        for name in list(self._changed):
            if self._detail:
                self._say(f"{name}: {self._detail(name)}")

    def _say(self, text: str) -> None:
        passed = human_seconds(time.monotonic() - self._began)
        sys.stderr.write(f"{self._title} [{passed}] {text}\n")
        sys.stderr.flush()


class _Live:
    """A row for each host: where it is, what it changed, what is wrong with it."""

    def __init__(self, title: str, detail: Detail | None) -> None:
        self._title = title
        self._detail = detail
        self._play = self._task = ""
        self._hosts: dict[str, Host] = {}
        self._began = time.monotonic()
        # What has ended stays on the screen only where there is something wrong; the command says the rest.
        self._live = Live(
            console=Console(stderr=True, highlight=False),
            get_renderable=self._table,
            refresh_per_second=4,
            transient=True,
        )
        self._live.start()

    def play(self, name: str) -> None:
        self._play = name

    def task(self, name: str) -> None:
        self._task = name

    def host(self, host: Host) -> None:
        self._hosts[host.name] = host

    def end(self) -> None:
        self._live.stop()

    def _table(self) -> Table:
        passed = human_seconds(time.monotonic() - self._began)
        table = Table(box=None, pad_edge=False, title_justify="left", title_style="")
        table.title = Text(f"{self._title} [{passed}] {self._play}: {self._task}")
        for title in ("host", "state", "changed", "step"):
            table.add_column(title, justify="right" if title == "changed" else "left", no_wrap=True)
        for host in list(self._hosts.values()):
            step = f"{host.step}: {host.why}" if host.why else host.step
            if self._detail and not host.why:
                step = f"{step} {self._detail(host.name)}"
            style = _STYLES[host.state]
            table.add_row(*(Text(cell, style) for cell in (host.name, host.state, str(host.changed), step)))
        return table


class _Beat:
    """Calls something every so often, in a thread."""

    def __init__(self, call: Callable[[], None], every_s: float) -> None:
        self._call = call
        self._every_s = every_s
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._call()

    def stop(self) -> None:
        self._stopped.set()
