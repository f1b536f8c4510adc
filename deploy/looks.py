"""Looking into all nodes: the longest queues, the logs."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deploy import nodes
from deploy.errors import ExitCode
from deploy.inventory import Fleet
from deploy.runner import Run, State, play
from deploy.text import harmless

Queue = tuple[str, dict[str, Any]]
"""Host, and what ``milliarde top --json`` says of one domain there."""


def console() -> Console:
    """For tables on stdout; what is piped is not folded to a terminal that isn't there."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def answer(run: Run, host: str) -> Any:
    """The JSON that a node answered; None if it is none."""
    try:
        return json.loads(str(run.hosts[host].results[nodes.TASK]["stdout"]))
    except (KeyError, ValueError):
        return None


def longest(fleet: Fleet, most: int) -> tuple[list[Queue], Run]:
    """The ``most`` longest queues of the fleet, each with its node."""
    run = nodes.ask(fleet, ["top", "-n", str(most), "--json"])
    found = [
        (host.name, state)
        for host in run.of(State.OK)
        for state in answer(run, host.name) or ()
        if state["queued"] + state["later"] > 0
    ]
    found.sort(key=lambda each: (-each[1]["queued"] - each[1]["later"], each[1]["domain"]))
    return found[:most], run


def top(fleet: Fleet, most: int, *, as_json: bool) -> ExitCode:
    """Print them."""
    found, run = longest(fleet, most)
    if as_json:
        sys.stdout.write(json.dumps([{"node": host, **state} for host, state in found], indent=2) + "\n")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("domain", "node", "queued", "later", "leased", "admitted", "delay"):
            table.add_column(title, justify="left" if title in ("domain", "node") else "right")
        for host, state in found:
            counts = (f"{state[name]:,}" for name in ("queued", "later", "leased", "admitted"))
            table.add_row(Text(harmless(state["domain"])), host, *counts, f"{state['delay_ms'] / 1000:g} s")
        console().print(table)
    nodes.trouble(run)
    return run.code


_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def logs(fleet: Fleet, *, most: int, unit: str, since: str) -> ExitCode:
    """The last lines of all nodes' logs, in the order of their time."""
    words = ["-n", str(most), "--unit", f"milliarde-{unit}*" if unit else "milliarde*"]
    if since:
        words += ["--since", since]
    run = play(fleet, "operate/logs", variables={"milliarde_words": nodes.encoded(words)}, looks_only=True)
    width = max(map(len, run.hosts))
    lines = []
    for host in run.of(State.OK):
        stamp = ""
        for line in nodes.said(host, "The journal").splitlines():
            found = _STAMPED.match(line)
            stamp = found[0] if found else stamp
            lines.append((stamp, f"{host.name:<{width}}  {line}"))
    lines.sort(key=lambda each: each[0])
    sys.stdout.write("".join(f"{line}\n" for _, line in lines))
    nodes.trouble(run)
    return run.code
