"""The inventory: which hosts the fleet has. It is Ansible's own, and read by Ansible."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy import places
from deploy.errors import InputError, InventoryError

VARIABLE = "MILLIARDE_INVENTORY"
GROUP = "nodes"
RENT = "rent"
"""Group of the one host (this machine) from which a fleet's machines are rented."""
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
MOST_HOSTS = 1_000


@dataclass(frozen=True, slots=True)
class Fleet:
    """An inventory that is there, and the hosts of it that a command is for (none named: all)."""

    path: Path
    limit: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """What Ansible calls ``inventory_dir``: lists of ours lie there."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def pattern(self) -> str | None:
        """For Ansible's ``--limit``."""
        return ",".join(self.limit) or None

    def only(self, *hosts: str) -> Fleet:
        """The same fleet, for these hosts."""
        return Fleet(self.path, hosts)

    def hosts(self) -> tuple[str, ...]:
        """The nodes a command is for, in their order. Raises ``InventoryError``, and ``InputError`` where
        a host that was named is none of them."""
        nodes = _nodes(self.path)
        strange = [host for host in self.limit if host not in nodes]
        if strange:
            raise InputError(
                f"{strange[0]} is no node of {self.path}; there are {', '.join(nodes[:12])}"
                + (" …" if len(nodes) > 12 else "")
            )
        return tuple(host for host in nodes if not self.limit or host in self.limit)


def find(named: Path | None, limit: tuple[str, ...] = ()) -> Fleet:
    """The fleet that ``--inventory`` or ``$MILLIARDE_INVENTORY`` names. Raises ``InventoryError``."""
    told = named or Path(os.environ.get(VARIABLE) or "")
    if not str(told) or told == Path():
        raise InventoryError(f"which fleet? give --inventory FILE, or set {VARIABLE}")
    if not told.exists():
        raise InventoryError(f"there is no inventory {told}")
    for host in limit:
        if not _HOST.fullmatch(host):
            raise InputError(f"{host!r} is no name of a host")
    return Fleet(told.absolute(), limit)


def members(path: Path, group: str) -> list[str]:
    """The hosts of a group, in their order. Raises ``InventoryError`` where Ansible can't read it."""
    return list(dict.fromkeys(_members(_groups(path), group)))


def _groups(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [places.program("ansible-inventory"), "-i", str(path), "--list"],
        env=os.environ | places.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InventoryError(f"the inventory {path} can't be read: {first_error(done.stderr)}")
    groups: dict[str, Any] = json.loads(done.stdout)
    return groups


def _nodes(path: Path) -> list[str]:
    groups = _groups(path)
    hosts = list(dict.fromkeys(_members(groups, GROUP)))
    if not hosts:
        how = " ('milliarde-fleet provision' rents them)" if any(_members(groups, RENT)) else ""
        raise InventoryError(f"the inventory {path} has no hosts in a group named '{GROUP}'{how}")
    if len(hosts) > MOST_HOSTS:
        raise InventoryError(f"the inventory {path} has {len(hosts):,} nodes; {MOST_HOSTS:,} is the most")
    return hosts


def _members(groups: Mapping[str, Any], name: str) -> Iterator[str]:
    group = groups.get(name, {})
    yield from group.get("hosts", ())
    for child in group.get("children", ()):
        yield from _members(groups, child)


def first_error(talk: str) -> str:
    """What Ansible complains of, as one line."""
    lines = [line.strip() for line in talk.splitlines() if line.strip()]
    for mark in ("[ERROR]:", "ERROR!", "[WARNING]:"):
        for line in lines:
            if line.startswith(mark):
                return line.removeprefix(mark).strip()
    return lines[-1] if lines else "it says nothing"
