"""``MiniWeb``: a miniature web in a process of its own, for as long as a ``with`` block lasts."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.web.certs import ChainKind
from tests.web.log import Entry, read_log
from tests.web.oracle import Expected, reachable
from tests.web.shape import MEAN_PAGE_BYTES, Shape, domain_name

_ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 30
_STOP_SECONDS = 5


class MiniWeb:
    """Starts ``python -m tests.web`` (in a session of its own) and waits until it listens.

    ``folder`` receives seed files, the access log and, unless ``tls_dir`` names a shared folder,
    the certificates. ``inside`` is a command that runs another (``ip netns exec NAME``), for a web that
    is not on loopback but at ``address``. Raises ``RuntimeError`` with what the process said where it
    doesn't start.
    """

    def __init__(
        self,
        folder: Path,
        *,
        domains: int = 20,
        seed: int = 1,
        pages_per_domain: int = 10,
        mean_bytes: int = MEAN_PAGE_BYTES,
        ca: ChainKind = "mixed",
        tls_dir: Path | None = None,
        address: str = "127.0.0.1",
        inside: Sequence[str] = (),
    ) -> None:
        self.shape = Shape(seed, domains, pages_per_domain, mean_bytes)
        self._folder = folder
        self._command = [
            *inside,
            *(
                sys.executable,
                "-m",
                "tests.web",
                "--dir",
                str(folder),
                "--tls-dir",
                str(tls_dir or folder / "tls"),
            ),
            *("--domains", str(domains), "--seed", str(seed), "--pages-per-domain", str(pages_per_domain)),
            *("--mean-bytes", str(mean_bytes), "--ca", ca, "--address", address),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.https_port = self.http_port = 0
        self.connect_to: list[str] = []
        """In the syntax of curl's ``--connect-to``; the first entry that matches counts."""
        self.ca = self.seeds = self.ordinary_seeds = self.log = Path()
        """PEM file to trust; seed files with and without the misbehaving domains; the access log."""

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        errors = self._folder / "server.err"
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        line = self._first_line()
        if not line:
            self._stop()
            raise RuntimeError(f"the miniature web didn't start: {errors.read_text()}")
        self._told(json.loads(line))
        return self

    def _first_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START_SECONDS)
        return self._process.stdout.readline() if ready else b""

    def _told(self, facts: dict[str, Any]) -> None:
        self.https_port, self.http_port = facts["https_port"], facts["http_port"]
        self.connect_to = facts["connect_to"]
        self.ca, self.log = Path(facts["ca"]), Path(facts["log"])
        self.seeds, self.ordinary_seeds = Path(facts["seeds"]), Path(facts["ordinary_seeds"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        if process.stdout is not None:
            process.stdout.close()

    def kill(self) -> None:
        """SIGKILL: connections break off, answers under way are not logged."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self, seconds: float) -> int:
        """Wait until the process ends by itself; its exit code. Raises ``subprocess.TimeoutExpired``."""
        assert self._process is not None
        return self._process.wait(seconds)

    @property
    def pid(self) -> int:
        """The server's process, for measuring it."""
        assert self._process is not None
        return self._process.pid

    def log_entries(self) -> list[Entry]:
        """All of the access log, in order of ``t_ms``. A request is logged when its answer has ended."""
        return read_log(self.log)

    def requests(self, domain: str | None = None) -> list[Entry]:
        """The requests of the log, or those for ``domain`` and its subdomains."""
        return [
            entry
            for entry in self.log_entries()
            if entry.method is not None and (domain is None or f".{entry.host}".endswith(f".{domain}"))
        ]

    def expected(self, seeds: list[str] | None = None, *, only_seeds: bool = True) -> Expected:
        """What a complete crawl from ``seeds`` (default: all ordinary domains) must find.

        ``only_seeds``: the crawl stays within the seeds' domains.
        """
        start = seeds if seeds is not None else [domain_name(index) for index in range(self.shape.domains)]
        scope = {".".join(seed.split("/")[2 if "://" in seed else 0].rsplit(".", 2)[-2:]) for seed in start}
        return reachable(self.shape, start, scope if only_seeds else None)
