"""Have the units of the release in force, the wanted processes running with what holds now, and no others.

Prints what it does, a line each; with --dry-run what it would do. Nothing is printed where nothing is to be
done. A process tells what it was started with by MILLIARDE_DEPLOYED in its environment, so a restart that was
missed is made up for, and one that was made is not repeated.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SYSTEMD = Path("/etc/systemd/system")
SHOWN = "Id,ActiveState,MainPID"
TARGET = "milliarde.target"
OURS = ("milliarde-fetcher@.service", "milliarde-parser@.service", "milliarde-watch.service")
FILES = (*OURS, "milliarde-parsers.target", TARGET)
RUNNING = tuple(name.replace("@", "@*") for name in OURS)
BACKOFF_SINCE = 254
"""The systemd that can wait longer each time it starts something again."""


@dataclass(frozen=True)
class Unit:
    """One unit, as systemd has it now."""

    name: str
    state: str
    pid: int

    @property
    def role(self) -> str:
        return self.name.partition(".")[0].partition("@")[0].removeprefix("milliarde-")

    def deployed(self) -> str:
        """What it was started with; empty where it has just ended, or is only just starting."""
        try:
            environment = Path(f"/proc/{self.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return ""
        if not any(environment):
            return ""
        prefix = b"MILLIARDE_DEPLOYED="
        return next((each[len(prefix) :].decode() for each in environment if each.startswith(prefix)), "none")


def systemctl(*words: str) -> str:
    """Run it; its output."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode and words[0] not in ("show", "reset-failed"):
        raise SystemExit(f"systemctl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def wanted_files(units: Path, fetchers: int, parsers: int, deployed: str, systemd: int) -> dict[str, str]:
    """What must stand below ``SYSTEMD``: path -> text."""
    files = {name: (units / name).read_text(encoding="utf-8") for name in FILES}
    names = [*instances("parser", parsers), *instances("fetcher", fetchers)]
    files[f"{TARGET}.d/counts.conf"] = "".join(
        ["# Of Milliarde: milliarde_fetchers and milliarde_parsers.\n[Unit]\n"]
        + [f"Wants={name}\n" for name in names]
    )
    drop_in = (
        "# Of Milliarde. A process keeps this, so that those which are out of date can be told.\n[Service]\n"
    )
    drop_in += f"Environment=MILLIARDE_DEPLOYED={deployed}\n"
    if systemd >= BACKOFF_SINCE:
        drop_in += "# Each start after a death waits longer than the one before.\n"
        drop_in += "RestartSteps=5\nRestartMaxDelaySec=15\n"
    for name in OURS:
        files[f"{name}.d/deployed.conf"] = drop_in
    return files


def instances(role: str, count: int) -> list[str]:
    """Units of a role."""
    return [f"milliarde-{role}@{number}.service" for number in range(1, count + 1)]


def install(files: dict[str, str], *, dry_run: bool) -> None:
    """Write those that are not as they should be, each in one step."""
    for name, text in files.items():
        path = SYSTEMD / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        print("install", name)
        if not dry_run:
            path.parent.mkdir(mode=0o755, exist_ok=True)
            new = path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.chmod(0o644)
            new.replace(path)


def units() -> dict[str, Unit]:
    """All of ours that systemd has loaded."""
    found = {}
    for block in systemctl("show", "--property", SHOWN, *RUNNING, TARGET).split("\n\n"):
        told = dict(line.split("=", 1) for line in block.splitlines())
        if told.get("Id"):
            found[told["Id"]] = Unit(told["Id"], told["ActiveState"], int(told.get("MainPID", 0)))
    return found


def stop_what_must_end(
    here: dict[str, Unit], wanted: Iterable[str], deployed: str, *, dry_run: bool
) -> set[str]:
    """End processes that are too many or out of date; answers which."""
    surplus = [u for u in here.values() if u.name not in (*wanted, TARGET) and u.state != "inactive"]
    outdated = [u for u in here.values() if u.name in wanted and u.pid and u.deployed() not in ("", deployed)]
    # fetchers end before those that take what they bring
    for roles in (("fetcher",), ("parser", "watch")):
        names = sorted(unit.name for unit in (*surplus, *outdated) if unit.role in roles)
        if names:
            print("stop", *names)
            if not dry_run:
                systemctl("stop", *names)
    return {unit.name for unit in (*surplus, *outdated)}


def start_what_is_missing(
    here: dict[str, Unit], wanted: Iterable[str], ended: set[str], *, dry_run: bool
) -> None:
    """Start all that is wanted and does not run."""
    missing = [name for name in wanted if name in ended or name not in here or here[name].state != "active"]
    if not missing and TARGET in here and here[TARGET].state == "active":
        return
    print("start", *(missing or [TARGET]))
    if not dry_run:
        systemctl("reset-failed", *RUNNING)
        systemctl("start", TARGET)
        return
    for name in missing:
        if name in here and here[name].state in ("failed", "activating"):
            print(f"  {name} is {here[name].state}: {last_words(name)}")


def last_words(name: str) -> str:
    """What a unit wrote last."""
    words = ["journalctl", "--quiet", "--output=cat", "--lines=1", "--unit", name]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=Path, required=True, help="the release's folder of units")
    parser.add_argument("--fetchers", type=int, required=True)
    parser.add_argument("--parsers", type=int, required=True)
    parser.add_argument("--deployed", required=True, help="names the release and its settings")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    version = int(systemctl("--version").split()[1])
    files = wanted_files(args.units, args.fetchers, args.parsers, args.deployed, version)
    wanted = [
        *instances("fetcher", args.fetchers),
        *instances("parser", args.parsers),
        "milliarde-watch.service",
    ]
    install(files, dry_run=args.dry_run)
    if not args.dry_run:
        systemctl("daemon-reload")
    here = units()
    ended = stop_what_must_end(here, wanted, args.deployed, dry_run=args.dry_run)
    start_what_is_missing(here, wanted, ended, dry_run=args.dry_run)


if __name__ == "__main__":
    main()
