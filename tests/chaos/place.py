"""Where chaos runs: a network, a clock and a small disk of its own, with a web and a name server in it.

Nothing of the node is replaced. It resolves names at a real name server, connects to public addresses (which
are of a network namespace's own loopback), and reads the kernel's clock and boot id, which after a ``reboot``
are those of a machine that has just started (by a time namespace, and a file mounted over the boot id). Its
wall clock can be set (``wall``).
Everything here needs root; whoever has not got it skips (``why_not``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chaos import names, wall
from tests.fleet.shell import Failed, missing_programs, run
from tests.web.running import MiniWeb
from tests.whole.crawl import until

REPO = Path(__file__).resolve().parents[2]
DISK_MB = 192
RESERVE_MB = 40
"""Of it the node must leave so much free."""
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PROGRAMS = ("unshare", "nsenter", "ip", "mount", "umount")


def why_not() -> str | None:
    """Why it can't run here, if it can't."""
    if os.geteuid() != 0:
        return "only root can make namespaces and mount a file system"
    gone = missing_programs(*_PROGRAMS)
    if gone:
        return f"not installed: {', '.join(gone)}"
    if wall.why_not():
        return wall.why_not()
    try:
        run("unshare", "--net", "--mount", "--time", "--boottime", "1", "true")
    except Failed as error:
        return str(error)
    return None


class _Namespaces:
    """New namespaces of the kinds that ``unshare`` is told, held by a process that does nothing."""

    def __init__(self, command: list[str]) -> None:
        self._holder = subprocess.Popen([*command, "cat"], stdin=subprocess.PIPE, start_new_session=True)
        self.folder = Path(f"/proc/{self._holder.pid}/ns")
        until(lambda: self._folder_of("comm").read_text().strip() == "cat", "namespaces are made")

    def _folder_of(self, name: str) -> Path:
        return self.folder.parent / name

    def end(self) -> None:
        """Let go of them; they end with the last process in them."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()


class Place:
    """As a context it is there; what a crawl must be told of its web is ``ca`` and ``connect_to``."""

    def __init__(self, folder: Path, tls_dir: Path, *, domains: int, pages_per_domain: int) -> None:
        self.disk = folder / "disk"
        self._folder = folder
        self._boots = 0
        self._open = contextlib.ExitStack()
        self._boot: _Namespaces | None = None
        self._net: _Namespaces | None = None
        self._web_of = {
            "domains": domains,
            "pages_per_domain": pages_per_domain,
            "mean_bytes": 6_000,
            "tls_dir": tls_dir,
            "address": "0.0.0.0",
        }
        self._domains = domains

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(self._mounted())
            self.wall = wall.Wall(self._folder)
            opened.enter_context(self._network())
            opened.callback(self._leave_boot)
            self.reboot()
            self.web = opened.enter_context(
                MiniWeb(self._folder / "web", inside=self._inside_net, **self._web_of)  # type: ignore[arg-type]
            )
            self.names, self.name_server = opened.enter_context(self._names())
            self._open = opened.pop_all()
        self.ca = self.web.ca
        # the port is ours to choose, the address that of the name server's answer
        self.connect_to = [f":443::{self.web.https_port}", f":80::{self.web.http_port}"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    # -- the disk

    @contextlib.contextmanager
    def _mounted(self) -> Iterator[None]:
        self.disk.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=700", "milliarde-chaos", self.disk)
        try:
            yield
        finally:
            run("umount", "-l", self.disk)

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.disk)
        return found.f_bavail * found.f_frsize

    # -- network and names

    @contextlib.contextmanager
    def _network(self) -> Iterator[None]:
        self._net = _Namespaces(["unshare", "--net"])
        try:
            ip = [*self._inside_net, "ip"]
            run(*ip, "link", "set", "lo", "up")
            for address in names.NETWORKS:
                run(*ip, "address", "add", f"{address}/32", "dev", "lo")
            yield
        finally:
            self._net.end()

    @property
    def _inside_net(self) -> list[str]:
        assert self._net is not None
        return ["nsenter", f"--net={self._net.folder / 'net'}"]

    @contextlib.contextmanager
    def _names(self) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        command = [*self._inside_net, sys.executable, "-m", "tests.chaos.names", str(self._domains)]
        server = subprocess.Popen(
            command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().decode().strip()
        finally:
            server.send_signal(signal.SIGCONT)
            server.stdin.close()
            server.wait()
            server.stdout.close()

    # -- the clock

    def reboot(self) -> None:
        """From now on ``inside`` leads to a machine that has just started: what ran in it must have ended."""
        self._leave_boot()
        self._boots += 1
        up_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        back = str(60 * self._boots - up_s)
        self._boot = _Namespaces(
            [*self._inside_net, "unshare", "--mount", "--time", "--boottime", back, "--monotonic", back]
        )
        boot_id = self._folder / f"boot-{self._boots}"
        boot_id.write_text(f"{uuid.uuid4()}\n")
        run("nsenter", f"--mount={self._boot.folder / 'mnt'}", "mount", "--bind", boot_id, _BOOT_ID)

    def _leave_boot(self) -> None:
        if self._boot is not None:
            self._boot.end()
            self._boot = None

    @property
    def inside(self) -> list[str]:
        """The command that runs another here, and becomes it."""
        assert self._boot is not None
        boot = self._boot.folder
        spaces = [f"--mount={boot / 'mnt'}", f"--time={boot / 'time_for_children'}", f"--wd={REPO}"]
        return [*self._inside_net, *spaces, "--", "env", *self.wall.environment]


def remove(folder: Path) -> None:
    """Remove what a run left, once nothing is mounted in it."""
    shutil.rmtree(folder, ignore_errors=True)
