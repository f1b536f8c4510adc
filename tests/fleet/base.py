"""What a box is made from: a small Debian, bootstrapped once from the machine's own mirror, and kept.

It is what a rented machine comes with: systemd, sshd, sudo, Python, and no more. What roles install on
top lies beside it as a repository of packages (``/srv/packages`` in the box), since boxes have no way out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.shell import Failed, missing_programs, run

CACHE_VARIABLE = "MILLIARDE_FLEET_CACHE"
PROGRAMS = ("debootstrap", "systemd-nspawn", "ssh", "ssh-keygen", "ip", "nft", "losetup")

SYSTEM = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "ca-certificates"),
    *("python3", "python3-apt", "iproute2", "procps"),
)
"""In the box from the start."""
PACKAGES = ("redis-server", "unbound", "xfsprogs", "chrony", "nftables", "rsync", "python3-venv", "acl")
"""What roles may install; they and all they need are in the box's repository."""

_RECIPE = 1
"""Part of the cache's key: raise it when the recipe below changes."""

_INIT = """#!/bin/sh
# What nspawn leaves read-only though this box owns it: its cgroups and its network's settings.
for controller in memory cpu cpuacct pids; do
  [ ! -d /sys/fs/cgroup/$controller ] || mount -o remount,bind,rw /sys/fs/cgroup/$controller
done
mount --bind /proc/sys/net /proc/sys/net && mount -o remount,bind,rw /proc/sys/net
exec /lib/systemd/systemd
"""


class Unavailable(Exception):
    """No boxes can be had on this machine; says why."""


def cache() -> Path:
    """Where bases and running fleets live: never in a checkout."""
    return Path(os.environ.get(CACHE_VARIABLE) or "/var/cache/milliarde-fleet")


def unavailable() -> str:
    """Why no boxes can be had here; empty where they can."""
    if os.geteuid() != 0:
        return "boxes need root"
    absent = missing_programs(*PROGRAMS)
    if absent:
        return f"boxes need {', '.join(absent)} (apt-get install debootstrap systemd-container nftables)"
    if platform.freedesktop_os_release().get("ID") != "debian":
        return "boxes are made from this machine's Debian mirror, and it has none"
    return ""


def base() -> Path:
    """The base's folder, made now if it isn't there. Raises ``Unavailable`` with the reason."""
    why = unavailable()
    if why:
        raise Unavailable(why)
    mirror = _mirror()
    key = hashlib.sha256(repr((_RECIPE, mirror, SYSTEM, PACKAGES, _INIT)).encode()).hexdigest()[:12]
    folder = cache() / f"base-{key}"
    with locked(cache() / "base.lock"):
        if not folder.is_dir():
            for stale in cache().glob("base-*"):
                if not _in_use(stale):
                    shutil.rmtree(stale)
            fresh = cache() / "new-base"
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                _bootstrap(fresh, *mirror)
            except Failed as error:
                shutil.rmtree(fresh, ignore_errors=True)
                raise Unavailable(f"no base could be made from {mirror[1]}: {error}") from None
            fresh.rename(folder)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; whoever comes second waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _in_use(folder: Path) -> bool:
    return f"lowerdir={folder}," in Path("/proc/mounts").read_text()


def _mirror() -> tuple[str, str, str]:
    """(release, address, keyring) as this machine's apt has them."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    wanted = (f"Release: {release}", "Component: main", "Created-By: Packages", "Origin: Debian")
    found = run("apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted, check=False)
    if not found.stdout.strip():
        raise Unavailable(f"apt knows no mirror of Debian {release} (apt-get update)")
    address = found.stdout.splitlines()[0]
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    for source in Path("/etc/apt/sources.list.d").glob("*.sources"):
        fields = dict(
            line.split(":", 1) for line in source.read_text().splitlines() if ":" in line and line[0] != "#"
        )
        if fields.get("URIs", "").strip().rstrip("/") == address.rstrip("/") and "Signed-By" in fields:
            keyring = fields["Signed-By"].strip()
            break
    return release, address, keyring


def _proxy() -> dict[str, str]:
    """The way out that apt was told of, for programs that are not apt."""
    said = run("apt-config", "shell", "proxy", "Acquire::http::Proxy").stdout.strip()
    found = said.partition("=")[2].strip("'\"")
    return {"http_proxy": found} if found else {}


def _bootstrap(folder: Path, release: str, mirror: str, keyring: str) -> None:
    include = f"--include={','.join(SYSTEM)}"
    signed = f"--keyring={keyring}" if Path(keyring).exists() else "--no-check-gpg"
    if signed == "--no-check-gpg":
        raise Failed(f"the mirror's keyring {keyring} is not here")
    env = {**_proxy(), "DEBIAN_FRONTEND": "noninteractive"}
    folder.parent.mkdir(parents=True, exist_ok=True)
    run("debootstrap", "--variant=minbase", include, signed, release, folder, mirror, env=env)
    _collect_packages(folder, env)
    shutil.rmtree(folder / "var/lib/apt/lists")
    (folder / "var/lib/apt/lists/partial").mkdir(parents=True)
    for host_key in (folder / "etc/ssh").glob("ssh_host_*"):
        host_key.unlink()
    (folder / "etc/machine-id").write_text("")
    (folder / "etc/resolv.conf").unlink()
    (folder / "etc/resolv.conf").write_text("# a box has nobody to ask\n")
    init = folder / "sbin/fleet-init"
    init.write_text(_INIT)
    init.chmod(0o755)
    run("chroot", folder, "useradd", "--create-home", "--shell", "/bin/bash", "admin")
    (folder / "etc/sudoers.d/admin").write_text("admin ALL=(ALL) NOPASSWD: ALL\n")


def _collect_packages(folder: Path, env: dict[str, str]) -> None:
    """Download what roles install, and make it the box's only package source."""
    shutil.copyfile("/etc/resolv.conf", folder / "etc/resolv.conf")
    apt = ("chroot", folder, "apt-get", "-q", "-y", "-o", "APT::Sandbox::User=root")
    run(*apt, "clean")  # of what it was bootstrapped from
    run(*apt, "update", env=env)
    run(*apt, "install", "--download-only", *PACKAGES, env=env)
    repository = folder / "srv/packages"
    repository.mkdir(parents=True)
    entries = []
    for package in sorted((folder / "var/cache/apt/archives").glob("*.deb")):
        place = repository / package.name.replace("%3a", ":")
        shutil.move(package, place)
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
        control = run("dpkg-deb", "--field", place).stdout.strip()
        size = place.stat().st_size
        entries.append(f"{control}\nFilename: ./{place.name}\nSize: {size}\nSHA256: {digest}\n")
    (repository / "Packages").write_text("\n".join(entries))
    run("chroot", folder, "apt-get", "clean")
    (folder / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/packages ./\n")
