"""``Fleet``: some boxes on a bridge, for as long as a ``with`` block lasts.

Several fleets can live on one machine (``slots.py``), and none outlives its owner for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fleet.base import base, cache
from tests.fleet.box import Box, Keys
from tests.fleet.network import Network
from tests.fleet.shell import run
from tests.fleet.slots import Slot, prefix


class Fleet:
    """``count`` booted boxes. ``folder`` gets ``inventory.ini``, ``ssh_config``, ``key``, ``known_hosts``.

    Raises ``base.Unavailable`` where this machine can't have boxes.
    """

    def __init__(self, folder: Path, count: int = 3, *, disk_mb: int = 512) -> None:
        self.folder = folder.resolve()
        self.count = count
        self._disk_mb = disk_mb
        self._slot = Slot()
        self.boxes: list[Box] = []
        self._network: Network | None = None

    @property
    def network(self) -> Network:
        assert self._network is not None, "the fleet is not up"
        return self._network

    @property
    def control(self) -> str:
        """The namespace of the operator: where ansible, ssh and all servers run."""
        return self.network.control

    def __enter__(self) -> Self:
        lower = base()
        self.folder.mkdir(parents=True, exist_ok=True)
        work = self._slot.take()
        try:
            self._up(lower, work)
        except BaseException:
            self._down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._down()

    def _up(self, lower: Path, work: Path) -> None:
        self._network = network = Network(prefix(self._slot.number), self._slot.number, self.count)
        network.up()
        keys = self._keys(work)
        for number in range(1, self.count + 1):
            self.boxes.append(Box(number, network, work / f"box{number}", keys, self._disk_mb))
        hosts = "".join(f"{box.address} {box.name}\n" for box in self.boxes)
        known = [box.make(lower, hosts, box.node.namespace) for box in self.boxes]
        (self.folder / "known_hosts").write_text("".join(known))
        (self.folder / "inventory.ini").write_text(self.inventory_ini())
        for box in self.boxes:
            box.start()
        self.each(Box.wait)

    def _down(self) -> None:
        for box in self.boxes:
            box.off()
        self.boxes = []
        self._slot.give_back()

    def _keys(self, work: Path) -> Keys:
        key, config = self.folder / "key", self.folder / "ssh_config"
        for old in (key, key.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", key)
        # Connections kept open end up in the slot's folder: another fleet has the same addresses later.
        (work / "cp").mkdir(mode=0o700)
        named = "".join(
            f"Host box{number}\n  HostName {node.address}\n"
            for number, node in enumerate(self.network.nodes, 1)
        )
        config.write_text(
            f"{named}Host *\n  User root\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 5\n  LogLevel ERROR\n"
            "  ServerAliveInterval 3\n  ServerAliveCountMax 2\n"
        )
        return Keys(key, config)

    # -- what an operator is told of it

    def variables(self) -> dict[str, str]:
        """Of all hosts of the inventory: how ansible gets in. It must run in the control namespace."""
        control_path = cache() / "fleets" / str(self._slot.number) / "cp"
        options = "-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o ConnectTimeout=10 -o LogLevel=ERROR"
        alive = "-o ServerAliveInterval=3 -o ServerAliveCountMax=2"
        return {
            "ansible_user": "admin",
            "ansible_ssh_private_key_file": str(self.folder / "key"),
            "ansible_ssh_common_args": f"{options} {alive} -o UserKnownHostsFile={self.folder}/known_hosts",
            "ansible_control_path_dir": str(control_path),
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def inventory(self) -> dict[str, Any]:
        """The inventory as ansible's YAML has it; the order of hosts is the order of nodes."""
        hosts = {box.name: {"ansible_host": box.address} for box in self.boxes}
        return {"all": {"children": {"nodes": {"hosts": hosts}}, "vars": self.variables()}}

    def inventory_ini(self) -> str:
        """The same as an INI file."""
        hosts = "".join(f"{box.name} ansible_host={box.address}\n" for box in self.boxes)
        told = "".join(f"{name}={value}\n" for name, value in self.variables().items())
        return f"[nodes]\n{hosts}\n[all:vars]\n{told}"

    # -- to all

    def each(self, act: Any, *words: Any, **named: Any) -> list[Any]:
        """Do something with every box at the same time; what came of it, in their order."""
        with ThreadPoolExecutor(len(self.boxes)) as pool:
            return list(pool.map(lambda box: act(box, *words, **named), self.boxes))

    def ssh(self, command: str) -> list[str]:
        """Run a command in every box; what each printed."""
        return [done.stdout for done in self.each(Box.ssh, command)]

    def __iter__(self) -> Iterator[Box]:
        return iter(self.boxes)
