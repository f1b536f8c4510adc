"""How commands print: tables for people, JSON for programs, on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """What tables are printed on."""
    # what is piped is not folded to a terminal that isn't there
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def json(value: object) -> None:
    """Print a value as JSON, for reading, too."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print labels and what belongs to them."""
    table = Table.grid(padding=(0, 2))
    for label, text in rows:
        table.add_row(Text(label, style="bold"), Text(text))
    console().print(table)
