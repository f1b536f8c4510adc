"""``milliarde-fleet provision`` and ``destroy``: their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from deploy.inventory import find


def arguments(add: Callable[..., Any]) -> None:
    """Add them to the command line, by ``add(name, help, run)``."""
    add("provision", "rent what the fleet lacks at EC2, and note it in the inventory", _provision)
    command = add(
        "destroy", "give back all that was rented; refused while files were not collected", _destroy
    )
    command.add_argument("--without-collect", action="store_true", help="nobody wants what is not collected")
    command.add_argument("--yes", action="store_true", help="ask nothing")


def _provision(args: argparse.Namespace) -> int:
    from deploy import cloud

    return cloud.provision(find(args.inventory, tuple(args.limit)))


def _destroy(args: argparse.Namespace) -> int:
    from deploy import cloud

    return cloud.destroy(
        find(args.inventory, tuple(args.limit)), without_collect=args.without_collect, yes=args.yes
    )
