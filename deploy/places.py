"""Where things are on the operator's machine: playbooks, programs, the records of what was run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from deploy.errors import DiskError, NotInstalledError

ANSIBLE = Path(__file__).resolve().parent.parent / "ansible"
"""The playbooks, in the checkout that this package lies in."""
RUNS_VARIABLE = "MILLIARDE_RUNS"


def playbook(name: str) -> Path:
    """Path of ``ansible/NAME.yml``. Raises ``NotInstalledError`` where there are no playbooks."""
    path = ANSIBLE / f"{name}.yml"
    if not path.is_file():
        raise NotInstalledError(
            f"there is no {path}: milliarde-fleet works from a checkout (scripts/setup --fleet readies it)"
        )
    return path


def runs() -> Path:
    """The folder of records: ``$MILLIARDE_RUNS``, else ``milliarde-fleet`` in the user's state folder."""
    named = os.environ.get(RUNS_VARIABLE)
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = Path(named).absolute() if named else state / "milliarde-fleet"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DiskError(
            f"{folder} can't be made ({error.strerror}): name another in {RUNS_VARIABLE}"
        ) from None
    return folder


def environment() -> dict[str, str]:
    """What Ansible is started with, beside what is there.

    Its programs lie beside our Python, which need not be in PATH. ansible-runner switches the check of host
    keys off unless told.
    """
    beside = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    told = {"PATH": path if beside in path.split(os.pathsep) else f"{beside}{os.pathsep}{path}"}
    for name, value in (
        ("ANSIBLE_CONFIG", str(ANSIBLE / "ansible.cfg")),
        ("ANSIBLE_HOST_KEY_CHECKING", "True"),
        ("ANSIBLE_NOCOLOR", "1"),
    ):
        told[name] = os.environ.get(name, value)
    return told


def program(name: str) -> str:
    """Path of a program. Raises ``NotInstalledError``."""
    found = shutil.which(name, path=environment()["PATH"])
    if found is None:
        how = "scripts/setup --fleet installs it" if name.startswith("ansible") else f"apt-get install {name}"
        raise NotInstalledError(f"{name} is not installed here ({how})")
    return found
