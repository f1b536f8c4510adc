"""What a measurement ran on, and with which versions."""

from __future__ import annotations

import os
import platform
import ssl
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from node import __version__
from node.work.redis_server import find_server
from tests.web.nginx import find_nginx

_PACKAGES = (
    "Scrapy",
    "Twisted",
    "lxml",
    "aiohttp",
    "uvloop",
    "selectolax",
    "isal",
    "ada-url",
    "mmh3",
    "redis",
    "hiredis",
    "msgspec",
)


def facts() -> dict[str, Any]:
    """The machine as it is now."""
    info = dict(
        line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if line.count(":") == 1
    )
    names = {key.strip(): value.strip() for key, value in info.items()}
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": names.get("model name", platform.machine()),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_kb * 1024 / 1e9, 1),
        "kernel": platform.release(),
        "system": _system(),
        "load": [round(each, 2) for each in os.getloadavg()],
    }


def versions(repository: Path) -> dict[str, str]:
    """Ours first, then what we stand on and are compared with."""
    found = {
        "milliarde": __version__,
        "commit": _first_line("git", "-C", str(repository), "describe", "--always", "--dirty"),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "redis-server": _first_line(find_server(), "--version"),
        "nginx": _first_line(str(find_nginx()), "-v"),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _first_line(*command: str) -> str:
    """What a program says of itself; some say it on stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return "unknown"
    said = (done.stdout or done.stderr).strip().partition("\n")[0]
    return "unknown" if done.returncode or not said else said
