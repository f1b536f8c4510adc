"""``Operator``: who runs ``milliarde-fleet`` on boxes, from the control namespace, as from a desk."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.fleet.box import DISK, Box
from tests.fleet.boxes import Fleet
from tests.fleet.network import inside
from tests.fleet.shell import Failed, run
from tests.web.running import MiniWeb

REPO = Path(__file__).resolve().parents[2]
DEADLINE_S = 900.0
CODES = {"ok": 0, "failed": 20, "unreachable": 21, "refused": 22}
"""How ``milliarde-fleet`` ends, by what became of the hosts."""
_RECAP = re.compile(r"^(\S+) +: (.*)$", re.MULTILINE)


class Wheelhouse:
    """What nodes install, by ``scripts/wheelhouse``: this checkout under several versions, one at a time.

    A version is made beside what else is done, and is in force from ``wait`` on.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._making = folder / "making"
        self._made: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self, version: str) -> None:
        """Begin to make a version."""
        self._made = threading.Thread(target=self._make, args=(version,))
        self._made.start()

    def _make(self, version: str) -> None:
        words = ("--version", version, "--python", "3.11", "--out", self._making)
        try:
            run(REPO / "scripts" / "wheelhouse", *words)
        except Failed as error:
            self._error = error

    def wait(self) -> None:
        """Wait until it is made, and put it in force. Raises ``Failed``."""
        if self._made is not None:
            self._made.join()
            self._made = None
        if self._error is not None:
            raise self._error
        for path in self._making.glob("*"):
            path.replace(self.folder / path.name)

    def end(self) -> None:
        """Wait until nothing is being made."""
        if self._made is not None:
            self._made.join()


class Operator:
    """Writes an inventory for ``fleet`` and runs commands on it. ``variables`` are what else it says."""

    def __init__(
        self, fleet: Fleet, web: MiniWeb, folder: Path, wheels: Wheelhouse, **variables: Any
    ) -> None:
        self.fleet = fleet
        self.inventory = folder / "fleet.yml"
        self._runs = folder / "runs"
        folder.mkdir()
        shutil.copyfile(web.ordinary_seeds, folder / "domains.txt")
        told = {
            **fleet.variables(),
            "milliarde_operator_addresses": [fleet.network.address],
            "milliarde_data_disk": DISK,
            "milliarde_wheelhouse": str(wheels.folder),
            **variables,
        }
        self._told = told
        self.tell()

    def tell(self, **variables: Any) -> None:
        """Write the inventory anew, with other values of these variables."""
        self._told |= variables
        hosts = {box.name: {"ansible_host": box.address} for box in self.fleet}
        # JSON is YAML
        self.inventory.write_text(json.dumps({"nodes": {"vars": self._told, "hosts": hosts}}, indent=2))

    def run(self, *words: str | Path, ends: str = "ok") -> str:
        """``milliarde-fleet WORDS``, which must end as said (see ``CODES``); what it printed."""
        program = "import sys; from deploy.fleet import main; sys.exit(main())"
        done = subprocess.run(
            inside(self.fleet.control, sys.executable, "-c", program, *words),
            cwd=REPO,
            env={
                **os.environ,
                "COLUMNS": "200",
                "MILLIARDE_INVENTORY": str(self.inventory),
                "MILLIARDE_RUNS": str(self._runs),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        told = f"milliarde-fleet {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == CODES[ends], told
        assert "Traceback" not in done.stderr, told
        return done.stdout

    def status(self, *, ends: str = "ok") -> dict[str, Any]:
        """What ``milliarde-fleet status --json`` says."""
        found: dict[str, Any] = json.loads(self.run("status", "--json", ends=ends))
        return found

    def recap(self) -> dict[str, dict[str, int]]:
        """By Ansible's own count, what the last of the recorded runs did on each host."""
        last = max((self._runs / "runs").iterdir())
        text = (last / "stdout").read_text().rpartition("PLAY RECAP")[2]
        return {
            host: {name: int(count) for name, count in (each.split("=") for each in counts.split())}
            for host, counts in _RECAP.findall(text)
        }


def trust(box: Box, authority: Path) -> None:
    """Have a box trust the certificates of a web."""
    (box.root / "usr/local/share/ca-certificates/web.crt").write_text(authority.read_text())
    box.ssh("update-ca-certificates")


def workers(box: Box) -> dict[str, int]:
    """The fetchers and parsers that run: unit -> process."""
    units = "'milliarde-fetcher@*' 'milliarde-parser@*'"
    told = box.ssh(f"systemctl show --property=Id,MainPID,ActiveState {units}").stdout
    found = {}
    for unit in told.strip().split("\n\n"):
        fields = dict(line.split("=", 1) for line in unit.splitlines())
        if fields.get("ActiveState") == "active":
            found[fields["Id"].removeprefix("milliarde-").removesuffix(".service")] = int(fields["MainPID"])
    return found
