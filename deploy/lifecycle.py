"""A fleet's life: up, more seeds, a new release, a restart, a lost node begun anew, down."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from deploy import nodes, progress
from deploy.ask import confirm
from deploy.balance import domains_in
from deploy.errors import DiskError, ExitCode, InputError, RefusedError
from deploy.inventory import Fleet
from deploy.looks import console
from deploy.runner import Run, State, play
from deploy.status import look, table_of
from deploy.text import human_seconds, names, natural

SEEDS = ".seeds"
"""Folder beside the inventory: lists that were sown later, for a node that is begun anew. Ansible does not
look into what begins with a dot."""


def up(fleet: Fleet, *, domains: Path | None, version: str | None, check: bool) -> ExitCode:
    """From bare hosts to nodes that crawl; again, to nodes that are as the inventory says."""
    return _have(fleet, "site", "up", _told(domains, version), check=check)


def deploy(fleet: Fleet, *, version: str | None, check: bool) -> ExitCode:
    """A release, settings, lists to one node at a time; it stops at the first that fails its verification."""
    return _have(fleet, "deploy", "deploy", _told(None, version), check=check)


def restart(fleet: Fleet) -> ExitCode:
    """Redis and all processes anew, one node at a time."""
    return _have(fleet, "operate/restart", "restart", {}, check=False)


def replace(fleet: Fleet, host: str, *, version: str | None) -> ExitCode:
    """Begin the shard of a node anew whose disk was lost. Raises ``RefusedError`` where it was not."""
    fleet = fleet.only(host)
    fleet.hosts()
    run = play(fleet, "operate/shard", looks_only=True)
    if run.code is not ExitCode.OK:
        nodes.trouble(run)
        return run.code
    if run.hosts[host].results["Its mark beside the data"]["stat"]["exists"]:
        raise RefusedError(
            f"{host} still has its shard, so nothing is lost: 'milliarde-fleet up --limit {host}' has it go "
            "on. Only a node without its data is begun anew"
        )
    code = _have(fleet, "site", "replace", {**_told(None, version), "milliarde_replace": True}, check=False)
    for path in sorted(_kept_seeds(fleet).glob("*")) if code is ExitCode.OK else ():
        code = max(code, _sow(fleet, path))
    return code


def seed(fleet: Fleet, path: Path) -> ExitCode:
    """A further list for all nodes; kept beside the inventory for one that is begun anew."""
    if not any(islice(filter(None, domains_in(path)), 1)):
        raise InputError(f"there is no usable line in {path}")
    return _sow(fleet, _keep_seeds(fleet, path))


def down(fleet: Fleet, *, without_collect: bool, yes: bool) -> ExitCode:
    """Stop nodes for good. Refused while files are there that were not collected, or nobody can look."""
    run = play(fleet, "operate/uncollected", looks_only=True)
    left = {
        host.name: str(host.results["Files that were not collected"].get("stdout") or "").splitlines()
        for host in run.of(State.OK)
    }
    lost = {name: files for name, files in left.items() if files}
    unknown = [host for host in run.hosts.values() if host.state is not State.OK]
    if (lost or unknown) and not without_collect:
        for name in sorted(lost, key=natural):
            sys.stderr.write(f"{name}: {len(lost[name]):,} files were not collected ({lost[name][0]}, ...)\n")
        nodes.trouble(run)
        what = f"{names(lost, len(run.hosts))} would lose files" if lost else "not every node can be asked"
        raise RefusedError(
            f"{what} that stopping an instance wipes: 'milliarde-fleet collect DIR --final' brings them; "
            "--without-collect says that nobody wants them"
        )
    if lost or unknown:
        count = sum(map(len, lost.values()))
        confirm(f"{count:,} files were not collected, and they go with the instances. Take it down?", yes=yes)
    return _have(fleet, "down", "down", {"milliarde_down_uncollected": without_collect}, check=False)


# -- what they share


def _told(domains: Path | None, version: str | None) -> dict[str, object]:
    """Variables from the command line. Raises ``InputError`` where the list is not there."""
    told: dict[str, object] = {}
    if domains is not None:
        if not domains.is_file():
            raise InputError(f"there is no list {domains}")
        told["milliarde_domain_list"] = str(domains.absolute())
    if version is not None:
        told["milliarde_version"] = version
    return told


def _have(
    fleet: Fleet, playbook: str, title: str, variables: Mapping[str, object], *, check: bool
) -> ExitCode:
    """Run it with its progress shown, and say what became of each host."""
    fleet.hosts()  # says what is wrong with the inventory before Ansible does so at length
    run = play(fleet, playbook, display=progress.display(title), variables=variables, check=check)
    report(run)
    if not check and title not in ("down", "restart") and run.of(State.OK):
        rows, _ = look(fleet.only(*(host.name for host in run.of(State.OK))))
        console().print(table_of(rows))
    return run.code


def report(run: Run) -> None:
    """A line for each host on stdout, with what is wrong with it; where the record lies, on stderr."""
    not_begun: Sequence[str] = ()
    if run.code is not ExitCode.OK:
        not_begun = [host.name for host in run.of(State.OK) if host.play != run.last_play]
    for name in sorted(run.hosts, key=natural):
        host = run.hosts[name]
        if host.state is not State.OK:
            words = f"{host.state} at '{host.step}': {host.why}"
        else:
            words = "not begun" if name in not_begun else f"ok, changed={host.changed}"
        sys.stdout.write(f"{name}: {words}\n")
    sys.stdout.flush()
    sys.stderr.write(f"took {human_seconds(run.seconds)}; all of it is in {run.record}\n")


def _kept_seeds(fleet: Fleet) -> Path:
    return fleet.folder / SEEDS / fleet.path.stem


def _keep_seeds(fleet: Fleet, path: Path) -> Path:
    """A copy under a name by which the same list is known again. Raises ``DiskError``."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        kept = _kept_seeds(fleet) / f"{digest}-{path.name}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, kept)
    except OSError as error:
        raise DiskError(f"{error.filename}: {error.strerror}; nothing was sown") from None
    return kept


def _sow(fleet: Fleet, path: Path) -> ExitCode:
    run = play(
        fleet, "operate/seed", display=progress.display("seed"), variables={"milliarde_seeds": str(path)}
    )
    nodes.show(run)
    return run.code
