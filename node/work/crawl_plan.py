"""What ``milliarde crawl`` is asked for, and what it makes of that before anything runs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from node import settings as settings_of
from node.errors import DiskError
from node.settings import Settings
from node.work.redis_server import socket_path
from node.work.summary import human_bytes

FLEET_FETCHERS, FLEET_PARSERS = 9, 6
"""The fleet's split of 16 cores, whose ratio smaller machines follow."""
CONFIG = "node.toml"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asks for. ``changes``: ("section.key", value) over the defaults."""

    out: Path
    urls: tuple[str, ...]
    lists: tuple[Path, ...]
    changes: tuple[tuple[str, object], ...]
    fetchers: int | None
    parsers: int | None
    idle_s: float | None
    settings_file: Path | None = None
    exclude_list: Path | None = None


def default_split(cores: int) -> tuple[int, int]:
    """Fetchers and parsers for a machine: the fleet's ratio, at least one of each."""
    total = max(2, cores)
    fetchers = max(1, round(total * FLEET_FETCHERS / (FLEET_FETCHERS + FLEET_PARSERS)))
    return fetchers, max(1, total - fetchers)


def settings_for(plan: Plan) -> Settings:
    """Defaults for one machine, the settings file if any, the command line: the last one wins."""
    out = plan.out.resolve()
    known = out / CONFIG
    tree: dict[str, dict[str, object]] = {
        "crawl": {"delay_s": 5.0, "seen_error_rate": 1e-6},
        "fetcher": {"in_flight": 500},
        "watch": {"port": 0},
    }
    base = plan.settings_file or (known if known.exists() and not (plan.urls or plan.lists) else None)
    if base is not None:
        tree = msgspec.to_builtins(settings_of.load(base))
    tree["paths"] = {"data": str(out), "redis_socket": str(socket_path(out))}
    for dotted, value in plan.changes:
        section, _, key = dotted.partition(".")
        tree.setdefault(section, {})[key] = value
    return settings_of.resolved(settings_of.build(tree, "the settings"), Path.cwd())


def make_folders(settings: Settings) -> None:
    """Make the folders, and see that there is room in them."""
    try:
        for folder in (settings.data, settings.warc_folder, settings.log_folder, settings.data / "run"):
            folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(settings.data).free
    except OSError as error:
        raise DiskError(f"{settings.data} can't be written: {error.strerror}") from None
    reserve = settings.archive.disk_reserve_bytes
    if free < reserve:
        raise DiskError(
            f"{settings.data}: {human_bytes(free)} are free, and nothing is fetched while that is less than "
            f"{human_bytes(reserve)}: make room, or lower archive.disk_reserve_bytes"
        )


def write_config(settings: Settings) -> None:
    """Write the settings where the children read them, once it is sure that this is our crawl."""
    path = settings.data / CONFIG
    fresh = path.with_suffix(".toml.new")
    try:
        fresh.write_text(settings_of.dump(settings), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}") from None
