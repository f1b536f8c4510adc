"""Can systemd read our units, and are they tight? ``python -m tests.deploy.units`` prints what is wrong.

They are judged as they will lie on a node: in a root of their own, with the programs that they start. systemd
only murmurs about a key that it does not know, so whatever it says is an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
MOST_EXPOSED = 2.5
"""Of 10, by systemd's own count of what a unit could still do to the machine."""
_PROGRAMS = ("opt/milliarde/current/bin/milliarde", "usr/bin/flock", "usr/bin/redis-server", "bin/sh")
_SYSTEM = "usr/lib/systemd/system"


def analyzer() -> str | None:
    """The program that judges, where there is one."""
    return shutil.which("systemd-analyze") if Path("/", _SYSTEM).is_dir() else None


def files() -> list[Path]:
    """All our unit files."""
    return sorted(path for path in UNITS.iterdir() if path.suffix in (".service", ".target", ".slice"))


def _as_started(path: Path) -> str:
    return path.name.replace("@.", "@1.")


def complaints(program: str) -> Iterator[str]:
    """What systemd has to say against them, a paragraph each."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        place = root / "etc/systemd/system"
        place.mkdir(parents=True)
        (root / "usr/lib/systemd").mkdir(parents=True)
        shutil.copytree(Path("/", _SYSTEM), root / _SYSTEM, symlinks=True)
        for name in _PROGRAMS:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("")
            (root / name).chmod(0o755)
        for path in files():
            shutil.copyfile(path, place / path.name)
        names = [_as_started(path) for path in files()]
        said = _said(program, "verify", f"--root={root}", *names)
        if said:
            yield said
        for path in files():
            if path.suffix == ".service":
                started = place / _as_started(path)
                shutil.copyfile(path, started)
                threshold = f"--threshold={MOST_EXPOSED * 10:.0f}"
                yield from _too_exposed(program, threshold, started)


def _too_exposed(program: str, threshold: str, unit: Path) -> Iterator[str]:
    command = [program, "security", "--offline=true", "--no-pager", threshold, str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"{unit.name}: {(done.stdout + done.stderr).strip()}"


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    return said or (f"systemd-analyze ended with {done.returncode}" if done.returncode else "")


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    program = analyzer()
    if program is None:
        print("there is no systemd-analyze here: units are not looked at", file=sys.stderr)
        return 0
    found = list(complaints(program))
    for each in found:
        print(each, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
