"""One machine of a fleet: a root over the base, a disk of its own, an init, and the ways to hurt it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fleet import cgroups
from tests.fleet.network import Network, Node
from tests.fleet.shell import Failed, run

BOOT_S = 90.0
"""How long a box may take until it is up, on a busy machine."""
DISK = "/dev/nvme1n1"
"""What a box's own empty disk is called inside it, as an instance store would be."""
_FILLING = "filling-that-a-test-made"
_XFS_GO_DOWN, _WITHOUT_ITS_LOG = 0x8004587D, 2
"""XFS_IOC_GOINGDOWN, and XFS_FSOP_GOING_FLAGS_NOLOGFLUSH: what was not written yet never will be."""

_FILL = """
import os, sys
path, leave, step = sys.argv[1], int(sys.argv[2]), 1 << 26
file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while step:
    size, disk = os.fstat(file).st_size, os.fstatvfs(file)
    try:
        if disk.f_bavail * disk.f_frsize < leave + step:
            raise OSError
        os.posix_fallocate(file, size, step)
    except OSError:
        step //= 2
"""
_LAUNCH = r"""
folders=$1; shift
for folder in $folders; do echo $$ >"$folder/cgroup.procs" || exit 1; done
while :; do
  "$@"; code=$?
  [ $code = 133 ] || exit $code  # it was a reboot from inside
done
"""


@dataclass(frozen=True, slots=True)
class Keys:
    """How one gets in: the operator's key, and what ssh must be told."""

    private: Path
    config: Path

    @property
    def public(self) -> str:
        return self.private.with_suffix(".pub").read_text()


class Box:
    """A machine: off when made; ``boot`` starts it, ``kill_leader`` cuts its power, ``boot`` again."""

    def __init__(self, number: int, network: Network, folder: Path, keys: Keys, disk_mb: int) -> None:
        self.number = number
        self.name = f"box{number}"
        self.node: Node = network.nodes[number - 1]
        self.address = self.node.address
        self.root = folder / "root"
        """Its file system as seen from outside."""
        self._network = network
        self._folder = folder
        self._keys = keys
        self._disk_mb = disk_mb
        self._device = ""
        self._cgroups: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return self.name

    # -- making and unmaking

    def make(self, base: Path, hosts: str, cgroup: str) -> str:
        """Make root and disk; answers its line of known_hosts. ``cgroup``: the name of its cgroups."""
        for name in ("upper", "work", "root"):
            (self._folder / name).mkdir(parents=True)
        layers = f"lowerdir={base},upperdir={self._folder}/upper,workdir={self._folder}/work"
        run("mount", "-t", "overlay", "-o", layers, "overlay", self.root)
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n{hosts}")
        host_key = self.root / "etc/ssh/ssh_host_ed25519_key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", host_key)
        for home, owner in (("root", 0), ("home/admin", 1000)):
            folder = self.root / home / ".ssh"
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / "authorized_keys").write_text(self._keys.public)
            for path in (folder, folder / "authorized_keys"):
                os.chown(path, owner, owner)
        image = self._folder / "disk"
        with image.open("wb") as file:
            file.truncate(self._disk_mb * 1024 * 1024)
        self._device = run("losetup", "--find", "--show", image).stdout.strip()
        self._cgroups = cgroups.make(cgroup)
        (self._folder / "cgroups").write_text("".join(f"{each}\n" for each in self._cgroups))
        kind, key, *_ = host_key.with_suffix(".pub").read_text().split()
        return f"{self.address},{self.name} {kind} {key}\n"

    # -- life

    def start(self) -> None:
        """Power on; ``wait`` tells when it is up."""
        assert self._process is None or self._process.poll() is not None, f"{self.name} is on"
        nspawn = (
            *("systemd-nspawn", "-q", "-D", str(self.root), "-M", self.node.namespace),
            *(f"--hostname={self.name}", "--register=no", "--keep-unit"),
            f"--network-namespace-path=/run/netns/{self.node.namespace}",
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--kill-signal=SIGRTMIN+3"),
            *("--capability=CAP_NET_ADMIN", "--console=read-only"),
            *(f"--bind={self._device}:{DISK}", "/sbin/fleet-init"),
        )
        launch = ("sh", "-c", _LAUNCH, "launch", " ".join(map(str, self._cgroups)), *nspawn)
        with (self._folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                launch, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )

    def wait(self, within_s: float = BOOT_S) -> None:
        """Wait until it has booted. Raises ``Failed`` with what its console said."""
        give_up = time.monotonic() + within_s
        while True:
            done = self.ssh("systemctl is-system-running --wait", check=False)
            state = done.stdout.strip()
            if state in ("running", "degraded"):
                return
            off = self._process is None or self._process.poll() is not None
            if off or time.monotonic() > give_up:
                said = self.console[-3_000:]
                raise Failed(f"{self.name} did not boot ({state or done.stderr.strip()}):\n{said}")
            time.sleep(0.1)

    def boot(self) -> None:
        """Power on after a power cut, with a network card that knows nothing, and wait until it is up."""
        self._network.wire(self.number)
        self.start()
        self.wait()

    def kill_leader(self) -> None:
        """A power cut: its init is killed, and with it everything at once. Nothing is told to stop.

        What an XFS in the box had not written to its disk by then is gone, though the kernel lives on.
        """
        assert self._process is not None
        leader = self.leader
        for mounted in _mounted(leader, "xfs"):
            handle = os.open(f"/proc/{leader}/root{mounted}", os.O_RDONLY)
            try:
                fcntl.ioctl(handle, _XFS_GO_DOWN, struct.pack("=I", _WITHOUT_ITS_LOG))
            finally:
                os.close(handle)
        os.kill(leader, signal.SIGKILL)
        self._process.wait(30)

    @property
    def leader(self) -> int:
        """Its init, as a process of this machine."""
        assert self._process is not None
        for nspawn in _children(self._process.pid):
            for init in _children(nspawn):
                return init
        raise Failed(f"{self.name} has no init:\n{self.console[-3_000:]}")

    @property
    def console(self) -> str:
        """What it wrote to its console."""
        path = self._folder / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def off(self) -> None:
        """End it and all it has, and give back what it held."""
        if self._cgroups:
            cgroups.end(self._cgroups)
        if self._process is not None:
            self._process.wait(30)
        release(self._folder)

    # -- from the operator's side

    def ssh(
        self, command: str, *, user: str = "root", check: bool = True, deadline_s: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the box, over ssh from the control namespace. Raises ``Failed``."""
        words = ("ip", "netns", "exec", self._network.control, "ssh", "-F", self._keys.config)
        return run(*words, f"{user}@{self.address}", command, check=check, deadline_s=deadline_s)

    def until(self, command: str, *, within_s: float = 60.0) -> str:
        """Wait until a command succeeds in the box; what it printed. Raises ``Failed``."""
        give_up = time.monotonic() + within_s
        while True:
            done = self.ssh(command, check=False)
            if done.returncode == 0:
                return done.stdout
            if time.monotonic() > give_up:
                raise Failed(f"{self.name}, {within_s:g} s in vain: {command}:\n{done.stdout}{done.stderr}")
            time.sleep(0.2)

    # -- faults

    def link(self, *, up: bool) -> None:
        """Unplug its network cable, or plug it in again."""
        self._network.link(self.number, up=up)

    def lose_disk(self) -> None:
        """While it is off: its disk is another one, empty, as after the instance was stopped."""
        assert self._process is not None
        assert self._process.poll() is not None, f"{self.name} is on"
        run("blkdiscard", "--zeroout", self._device)

    def fill(self, folder: str, *, leave_bytes: int = 0) -> None:
        """Fill the disk that ``folder`` is on, all but the last ``leave_bytes``."""
        self.ssh(f"python3 -c '{_FILL}' {folder}/{_FILLING} {leave_bytes}")

    def free(self, folder: str) -> None:
        """Take away what ``fill`` put there."""
        self.ssh(f"rm -f {folder}/{_FILLING}")


def release(folder: Path) -> None:
    """Unmount and detach what a box in ``folder`` held; whoever lived there is gone."""
    root, image = folder / "root", folder / "disk"
    give_up = time.monotonic() + 20
    while _is_mounted(root):
        done = run("umount", root, check=False)
        if done.returncode and time.monotonic() > give_up:
            raise Failed(f"{root} can't be unmounted: {done.stderr.strip()}")
        time.sleep(0.05 if done.returncode else 0)
    for line in run("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").stdout.splitlines():
        device, _, back_file = line.strip().partition(" ")
        if back_file.strip() == str(image):
            run("losetup", "--detach", device)


def _is_mounted(path: Path) -> bool:
    return any(line.split()[1] == str(path) for line in Path("/proc/mounts").read_text().splitlines())


def _mounted(pid: int, kind: str) -> list[str]:
    """Where file systems of a kind are mounted for a process."""
    lines = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    return [place for _, place, found, *_ in lines if found == kind]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
