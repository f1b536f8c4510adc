"""Commands about domains, over a fleet: exclude, include, trim, top. Their arguments, and what they call."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from deploy.errors import InputError
from deploy.inventory import find
from deploy.values import whole

_HOW_MANY = whole(10**9, "whole number above zero")


def arguments(add: Callable[..., Any]) -> None:
    """Add them to the command line, by ``add(name, help, run)``."""
    command = add("exclude", "never visit these hosts or domains, nor anything under them", _exclude)
    command.add_argument("names", nargs="+", metavar="DOMAIN")
    command.add_argument("--reason", default="", help="kept beside the inventory and on the nodes")
    command = add("include", "lift exclusions and bring back what was taken out", _include)
    command.add_argument("names", nargs="+", metavar="DOMAIN")
    command = add("trim", "take the worst URLs out of domains' queues, into files on their nodes", _trim)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument(
        "--over", type=_HOW_MANY, metavar="N", help="all domains with more than N URLs waiting"
    )
    command.add_argument("--largest", type=_HOW_MANY, metavar="K", help="the K longest queues of the fleet")
    command.add_argument(
        "--keep",
        type=whole(10**9, "whole number", least=0),
        metavar="N",
        help="how many of the best stay; --over: its N",
    )
    command.add_argument("--dry-run", action="store_true", help="only count what would go")
    command.add_argument("--yes", action="store_true", help="ask nothing")
    command = add("top", "the longest queues of the fleet", _top)
    command.add_argument("-n", type=_HOW_MANY, default=20, dest="most")
    command.add_argument("--json", action="store_true")


def _exclude(args: argparse.Namespace) -> int:
    from deploy import nodes

    return nodes.exclude(find(args.inventory, tuple(args.limit)), args.names, args.reason)


def _include(args: argparse.Namespace) -> int:
    from deploy import nodes

    return nodes.include(find(args.inventory, tuple(args.limit)), args.names)


def _trim(args: argparse.Namespace) -> int:
    from deploy import nodes

    if sum((bool(args.names), args.over is not None, args.largest is not None)) != 1:
        raise InputError("name domains, or give --over N, or --largest K")
    keep = args.over if args.keep is None else args.keep
    if keep is None:
        raise InputError("--keep N says how many URLs of each domain stay")
    return nodes.trim(
        find(args.inventory, tuple(args.limit)),
        args.names,
        over=args.over,
        largest=args.largest,
        keep=keep,
        dry_run=args.dry_run,
        yes=args.yes,
    )


def _top(args: argparse.Namespace) -> int:
    from deploy import looks

    return looks.top(find(args.inventory, tuple(args.limit)), args.most, as_json=args.json)
