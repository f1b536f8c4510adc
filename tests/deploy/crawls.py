"""``Crawls``: a small fleet on this machine: each node is a crawl, reached by Ansible's local connection.

Only what leads to a node differs from a fleet of machines: no ssh, no root, and ``/usr/local/bin/milliarde``
is a script that names the node's settings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import REPO
from tests.web.running import MiniWeb
from tests.whole.crawl import PATIENCE_S, Crawl, until

DELAY_S = 1.0
"""Long enough for a crawl to last through a test on a busy machine."""


class Crawls:
    """``count`` nodes over the list of ``web``; ``folder`` gets the inventory. A context: there they crawl.

    ``strange_hosts`` are in the inventory, too, and nobody answers there.
    """

    def __init__(
        self, folder: Path, web: MiniWeb, count: int = 2, *, strange_hosts: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.web = web
        self.inventory = folder / "fleet.yml"
        self.nodes = {f"node{number}": self._crawl(number, count) for number in range(1, count + 1)}
        self._strange = strange_hosts
        self._stack = ExitStack()

    def _crawl(self, number: int, count: int) -> Crawl:
        return Crawl(
            self.folder / f"node{number}",
            self.web,
            *(
                "--delay",
                str(DELAY_S),
                "--fetchers",
                "1",
                "--parsers",
                "1",
                "--idle",
                "1d",
                "--scope",
                "list",
            ),
            *("--seeds", self.web.ordinary_seeds),
            settings=[
                f"crawl.domain_list={self.web.ordinary_seeds}",
                "crawl.hop_gap_s=0.2",
                f"crawl.nodes={count}",
                "identity.contact=https://us.test/bot",
                f"crawl.me={number - 1}",
            ],
        )

    def __enter__(self) -> Crawls:
        for name, crawl in self.nodes.items():
            self._stack.enter_context(crawl)
            crawl.start()
            program = self.folder / f"{name}.sh"
            program.write_text(
                f'#!/bin/sh\ncd {REPO}\nexec {sys.executable} -m node "$@" --config {crawl.config}\n'
            )
            program.chmod(0o755)
        self.inventory.write_text(json.dumps(self._inventory(), indent=2))  # JSON is YAML
        for crawl in self.nodes.values():
            until(crawl.config.exists, "the node has its settings")
            until(partial(_all_report, crawl), "the node's processes report")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _inventory(self) -> dict[str, Any]:
        hosts: dict[str, Any] = {
            name: {
                "ansible_connection": "local",
                "milliarde_program": str(self.folder / f"{name}.sh"),
                "milliarde_data": str(crawl.out),
                "milliarde_seeds_folder": str(self.folder / f"{name}.seeds"),
            }
            for name, crawl in self.nodes.items()
        }
        # nobody listens on the discard port
        hosts |= {name: {"ansible_host": "127.0.0.1", "ansible_port": 9} for name in self._strange}
        told = {"ansible_become": False, "ansible_python_interpreter": sys.executable}
        return {"nodes": {"hosts": hosts, "vars": told}}

    def __iter__(self) -> Iterator[Crawl]:
        return iter(self.nodes.values())

    def command(self, *words: str | Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """``milliarde-fleet WORDS`` on this fleet; it must end with ``code``."""
        done = fleet(*words, inventory=self.inventory, runs=self.folder / "runs", stdin=stdin)
        said = f"milliarde-fleet {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == code, said
        assert "Traceback" not in done.stderr, said
        return done


def _all_report(crawl: Crawl) -> bool:
    return len(crawl.status()["processes"]) == 3


def fleet(
    *words: str | Path, inventory: Path | None, runs: Path, stdin: str = "", path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``milliarde-fleet`` to its end, as a command of its own."""
    command, environment = _fleet(words, inventory, runs, path)
    return subprocess.run(
        command,
        cwd=REPO,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def fleet_at_work(*words: str | Path, inventory: Path, runs: Path) -> subprocess.Popen[str]:
    """The same, started; what it says is to be read from its stdout."""
    command, environment = _fleet(words, inventory, runs, None)
    return subprocess.Popen(
        command,
        cwd=REPO,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _fleet(
    words: Sequence[str | Path], inventory: Path | None, runs: Path, path: str | None
) -> tuple[list[str], dict[str, str]]:
    environment = {k: v for k, v in os.environ.items() if k not in ("MILLIARDE_INVENTORY", "FORCE_COLOR")}
    environment |= {"MILLIARDE_RUNS": str(runs), "COLUMNS": "200"}
    if inventory is not None:
        environment["MILLIARDE_INVENTORY"] = str(inventory)
    if path is not None:
        environment["PATH"] = path
    program = "import sys; from deploy.fleet import main; sys.exit(main())"
    return [sys.executable, "-c", program, *map(str, words)], environment
