"""Which node a command is about: its settings, by argument, environment or place."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from node import settings
from node.errors import SettingsError
from node.settings import Settings

CONFIG_VARIABLE = "MILLIARDE_CONFIG"
CONFIG_PLACES = (Path("node.toml"), Path("crawl/node.toml"), Path("/etc/milliarde/node.toml"))


def of_node(args: argparse.Namespace) -> Settings:
    """Those of the node. Raises ``SettingsError`` where none is named or found."""
    found = _found_settings(args)
    if found is not None:
        return found
    raise SettingsError(
        f"which node? give --config FILE, or set {CONFIG_VARIABLE} "
        f"(there is no {', '.join(map(str, CONFIG_PLACES))})"
    )


def of_node_or_defaults(args: argparse.Namespace) -> Settings:
    """Those of the node, if there is one here."""
    return _found_settings(args) or settings.build({"paths": {"data": "."}})


def _found_settings(args: argparse.Namespace) -> Settings | None:
    if args.config is not None:
        return settings.load(args.config)
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return settings.load(Path(named))
    return next((settings.load(place) for place in CONFIG_PLACES if _is_there(place)), None)


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except PermissionError:  # sudo keeps the folder that one stands in, which may be closed to the other user
        return False
