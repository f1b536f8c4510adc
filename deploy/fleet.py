"""``milliarde-fleet``: the operator's command over a fleet of nodes.

So far it answers one question, before anything is rented: how a list falls on the nodes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from deploy.balance import Balance, ListError, balance

OK, USAGE, BAD_INPUT = 0, 2, 4
"""Exit codes; the same numbers mean the same as in ``milliarde``."""


def _nodes(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes (1 to 10,000)")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="milliarde-fleet", description="Operate a fleet of Milliarde nodes.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = "how a list of domains falls on the nodes"
    command = commands.add_parser("balance", help=words, description=words)
    command.add_argument("list", type=Path, metavar="LIST", help="plain, rank,domain CSV, or .gz of either")
    command.add_argument("--nodes", type=_nodes, default=12)
    command.add_argument("--json", action="store_true")
    return top


def _show(found: Balance) -> None:
    print(f"{found.domains:,} domains on {len(found.per_node)} nodes, {found.mean:,.0f} each on average")
    for node, count in enumerate(found.per_node):
        print(f"  node {node:<3} {count:>10,}  {count / found.mean - 1:+.1%}")
    print(f"the fullest node has {found.worst_to_mean:.3f} times the mean")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code."""
    args = _parser().parse_args(argv)
    try:
        found = balance(args.list, args.nodes)
    except ListError as error:
        print(f"milliarde-fleet balance: {error}", file=sys.stderr)
        return BAD_INPUT
    if found.junk_lines:
        print(f"{found.junk_lines:,} lines can't be used and were passed over", file=sys.stderr)
    if args.json:
        print(json.dumps(asdict(found) | {"worst_to_mean": found.worst_to_mean}))
    else:
        _show(found)
    return OK
