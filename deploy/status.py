"""How the whole fleet stands: a row for each node, and what they come to."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from deploy import nodes, rented
from deploy.errors import ExitCode, InterruptedRunError
from deploy.inventory import Fleet
from deploy.looks import answer, console
from deploy.rented import Rented
from deploy.runner import Run, State, interruptions
from deploy.text import harmless, human_bytes, natural
from node.rules.outcome import TABLE, Outcome, Signal


@dataclass(frozen=True, slots=True)
class Row:
    """One node. ``errors``: share of its requests that came to nothing good; None before the first."""

    node: str
    state: str
    pages: int = 0
    pages_per_s: float = 0.0
    queued: int = 0
    under_way: int = 0
    pressure: str = ""
    disk_free_bytes: int = 0
    disk_total_bytes: int = 0
    errors: float | None = None
    seconds: float = 0.0
    """How long it has been crawling."""
    lost: int = 0
    """Of the ledger: URLs that are in no place. 0 unless something is wrong."""
    version: str = ""

    @property
    def answered(self) -> bool:
        return bool(self.version)


def failed_share(outcomes: Mapping[str, int]) -> float | None:
    """Of the requests that were sent, those that came to nothing good."""
    sent = failed = 0
    for name, count in outcomes.items():
        try:
            row = TABLE[Outcome(name)]
        except ValueError:  # of a newer version
            continue
        if row.sent:
            sent += count
            failed += count if row.signal is not Signal.SUCCESS else 0
    return failed / sent if sent else None


def row_of(name: str, told: Mapping[str, Any]) -> Row:
    """From what ``milliarde status --json`` says on a node."""
    control, ledger, disk = told["control"], told["ledger"], told["disk"]
    processes: Mapping[str, Any] = told["processes"]
    if control.get("pause"):
        state = f"paused: {control['pause']}"
    else:
        state = "crawling" if any(each.startswith("fetcher") for each in processes) else "stopped"
    return Row(
        name,
        harmless(state),
        pages=told["pages"],
        pages_per_s=told["pages_per_s"],
        queued=ledger.get("queued", 0),
        under_way=ledger.get("leased", 0) + ledger.get("spooled", 0),
        pressure=str(control.get("pace", "")) if processes else "",
        disk_free_bytes=disk["free_bytes"],
        disk_total_bytes=disk["total_bytes"],
        errors=failed_share(told["outcomes"]),
        seconds=told["tally"].get("active_ms", 0) / 1000,
        lost=told["ledger_gap"],
        version=told["version"],
    )


def look(fleet: Fleet) -> tuple[list[Row], Run]:
    """Ask all nodes; those that don't answer have a row that says why."""
    run = nodes.ask(fleet, ["status", "--json"])
    rows = []
    for host in run.hosts.values():
        told = answer(run, host.name) if host.state is State.OK else None
        if told is not None:
            rows.append(row_of(host.name, told))
        else:
            rows.append(Row(host.name, str(State.FAILED if host.state is State.OK else host.state)))
    return sorted(rows, key=lambda row: natural(row.node)), run


def totals(rows: Iterable[Row]) -> dict[str, Any]:
    """Of the nodes that answered."""
    known = [row for row in rows if row.answered]
    return {
        "nodes": len(known),
        "crawling": sum(row.state == "crawling" for row in known),
        "pages": sum(row.pages for row in known),
        "pages_per_s": round(sum(row.pages_per_s for row in known), 1),
        "queued": sum(row.queued for row in known),
        "under_way": sum(row.under_way for row in known),
        "disk_free_bytes": sum(row.disk_free_bytes for row in known),
        "disk_total_bytes": sum(row.disk_total_bytes for row in known),
        "lost": sum(row.lost for row in known),
        "versions": sorted({row.version for row in known}),
    }


def table_of(rows: list[Row]) -> Table:
    """One row a node, and the sum."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True, footer_style="bold")
    total = totals(rows)
    footers = {
        "node": f"{total['nodes']} of {len(rows)}",
        "state": f"{total['crawling']} crawling",
        "pages": f"{total['pages']:,}",
        "pages/s": f"{total['pages_per_s']:,.1f}",
        "queued": f"{total['queued']:,}",
        "disk free": human_bytes(total["disk_free_bytes"]),
        "version": "mixed" if len(total["versions"]) > 1 else "",
    }
    left = ("node", "state", "pressure", "version")
    for title in (
        "node",
        "state",
        "pages",
        "pages/s",
        "queued",
        "pressure",
        "disk free",
        "errors",
        "version",
    ):
        table.add_column(
            title, justify="left" if title in left else "right", footer=footers.get(title, ""), no_wrap=True
        )
    for row in rows:
        if not row.answered:
            table.add_row(row.node, Text(row.state, "bold red"))
            continue
        free = row.disk_free_bytes / row.disk_total_bytes if row.disk_total_bytes else 0.0
        table.add_row(
            row.node,
            Text(row.state + (f", {row.lost} URLs lost" if row.lost else "")),
            f"{row.pages:,}",
            f"{row.pages_per_s:,.1f}",
            f"{row.queued:,}",
            Text(harmless(row.pressure)),
            f"{human_bytes(row.disk_free_bytes)} {free:4.0%}",
            "" if row.errors is None else f"{row.errors:.1%}",
            Text(harmless(row.version)),
        )
    return table


def status(fleet: Fleet, *, as_json: bool, watch_s: float | None) -> ExitCode:
    """Print it, once or again and again."""
    if watch_s is not None:
        return _watch(fleet, watch_s, as_json=as_json)
    rows, run = look(fleet)
    _show(rows, rented.read(fleet.folder), as_json=as_json)
    nodes.trouble(run)
    return run.code


def _show(rows: list[Row], machines: Rented | None, *, as_json: bool) -> None:
    """``machines``: none where nothing is rented, and nothing is known of its cost."""
    if as_json:
        told: dict[str, Any] = {"nodes": {row.node: asdict(row) for row in rows}, "totals": totals(rows)}
        if machines:
            told["cost"] = machines.cost(time.time())
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    else:
        console().print(table_of(rows))
        if machines:
            sys.stdout.write(f"{machines.cost_words(time.time())}\n")


def _watch(fleet: Fleet, every_s: float, *, as_json: bool) -> ExitCode:
    """Until Ctrl-C, which is how it ends well. Where stdout is no terminal, a table each time."""
    with interruptions() as interrupted, contextlib.suppress(InterruptedRunError):
        _watch_until(interrupted, fleet, every_s, as_json=as_json)
    return ExitCode.OK


def _watch_until(interrupted: threading.Event, fleet: Fleet, every_s: float, *, as_json: bool) -> None:
    live = Live(console=console(), auto_refresh=False) if sys.stdout.isatty() and not as_json else None
    machines = rented.read(fleet.folder)
    try:
        if live:
            live.start()
        while not interrupted.is_set():
            began = time.monotonic()
            rows, _run = look(fleet)
            if live:
                table = table_of(rows)
                table.title = Text(time.strftime("%H:%M:%S"), "dim")
                if machines:
                    table.caption = machines.cost_words(time.time())
                live.update(table, refresh=True)
            else:
                _show(rows, machines, as_json=as_json)
            interrupted.wait(max(0.0, every_s - (time.monotonic() - began)))
    finally:
        if live:
            live.stop()
