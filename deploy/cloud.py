"""Machines for rent: ``provision`` and ``destroy``, and what they come to in words.

The playbooks do it (``provision.yml``, ``destroy.yml``); here is what an operator is asked and told.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import sys
import time
from collections.abc import Iterator

from deploy import progress, rented
from deploy.ask import confirm
from deploy.errors import (
    CloudError,
    DiskError,
    ExitCode,
    FleetError,
    InputError,
    InventoryError,
    NotInstalledError,
    RefusedError,
)
from deploy.inventory import RENT, Fleet, members
from deploy.runner import Host, Run, State, play
from deploy.text import human_seconds, names, one_line

_OF_NODES = ("First contact", "Look before anything is removed")
"""Plays of the machines themselves; in all others it is EC2 that is asked."""
_UNREACHED = ("It answers ssh", "Wait until it lets the operator in")
_REFUSED_AT = ("Every machine was asked", "The inventory knows them all")
_OF_OURS = frozenset(code.value for code in ExitCode if code >= ExitCode.BAD_SETTINGS)
_REFUSED = re.compile(
    r"An error occurred \((?P<code>[\w.]+)\) when calling the (?P<call>\w+) operation(?: \([^)]*\))?: "
    r"(?P<words>.*)"
)
_ADVICE = (
    (("LimitExceeded", "CountExceeded"), "ask for more at Service Quotas, or wish for less"),
    (("Capacity", "Unsupported", "SpotMaxPrice"), "try another milliarde_rent_zone, or later"),
    (("AuthFailure", "InvalidClientTokenId", "Expired", "Signature"), "see to your credentials"),
    (("UnauthorizedOperation", "AccessDenied"), "these credentials may not do that"),
)
_NO_CREDENTIALS = (
    "there are no credentials for EC2: 'aws configure' writes them, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID "
    "and AWS_SECRET_ACCESS_KEY"
)


def provision(fleet: Fleet) -> ExitCode:
    """Rent what is missing, write the inventory, pin host keys; again: find them, and fill holes."""
    with _alone(fleet):
        run = play(fleet, "provision", display=progress.display("provision"))
    _see(run, _half_way(fleet))
    found = rented.read(fleet.folder)
    for machine in found.machines if found else ():
        host = run.hosts.get(machine.node)
        if machine.missing:
            words = "nothing is there"
        elif host is None or host.state is State.OK:
            words = f"{machine.instance}, {machine.type}, {machine.market}, since {machine.since}"
        else:
            words = f"{machine.instance} {host.state}: {host.why}"
        sys.stdout.write(f"{machine.node}: {words}\n")
    if found:
        sys.stdout.write(f"{found.cost_words(time.time())}\n")
    sys.stderr.write(f"took {human_seconds(run.seconds)}; all of it is in {run.record}\n")
    # One that never answers is unreachable, though it is a step that says so.
    silent = all(host.step in _UNREACHED for host in run.of(State.FAILED))
    return ExitCode.HOST_UNREACHABLE if run.code is ExitCode.HOST_FAILED and silent else run.code


def destroy(fleet: Fleet, *, without_collect: bool, yes: bool) -> ExitCode:
    """Give back all that carries the fleet's tag. Refused while files are there that were not collected."""
    with _alone(fleet):
        found = rented.read(fleet.folder)
        how_many = f"{len(found.living)} machines" if found else "all machines"
        lost = ", files that were not collected among them" if without_collect else ""
        confirm(
            f"{how_many} that {fleet.folder} has rented, and all that is on their disks{lost}, are gone for "
            "good. Destroy them?",
            yes=yes,
        )
        run = play(
            fleet,
            "destroy",
            display=progress.display("destroy"),
            variables={"milliarde_destroy_uncollected": without_collect},
        )
    asked = [host for host in run.hosts.values() if host.state is not State.OK and host.play in _OF_NODES]
    if asked:
        for host in asked:
            sys.stderr.write(f"{host.name} {host.state}: {host.why}\n")
        left = [host.name for host in asked if host.state is State.FAILED]
        what = (
            f"{names(left, len(found.living) if found else 0)} would lose files"
            if left
            else "not every node can be asked"
        )
        raise RefusedError(
            f"{what}: 'milliarde-fleet collect DIR --final' brings them; --without-collect says that nobody "
            "wants what is not collected"
        )
    _see(run, "the same command does the rest")
    sys.stdout.write("nothing that carries the fleet's tag is left\n")
    if found:
        sys.stdout.write(f"{found.cost_words(time.time())}\n")
    return ExitCode.OK


@contextlib.contextmanager
def _alone(fleet: Fleet) -> Iterator[None]:
    """One at a time: two would each find the same places empty.

    Raises ``InventoryError`` where nothing is to be rented, ``RefusedError`` where another is at it.
    """
    if not fleet.path.is_dir():
        raise InventoryError(
            f"{fleet.path} is no folder: the inventory of rented machines is one (as "
            "ansible/inventory/rented), since they are noted there"
        )
    if fleet.limit:
        raise InputError("machines are rented and destroyed as one fleet: leave --limit out")
    if not members(fleet.path, RENT):
        raise InventoryError(
            f"the inventory {fleet.path} rents nothing: it has no host in a group named '{RENT}' (see "
            "ansible/inventory/rented/fleet.yml)"
        )
    path = fleet.folder / ".lock"
    try:
        file = path.open("w")
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"another command rents or destroys for {fleet.folder} just now") from None
        yield


def _half_way(fleet: Fleet) -> str:
    found = rented.read(fleet.folder)
    if not found or not found.living:
        return ""
    return (
        f"{len(found.living)} of {len(found.machines)} machines are there and tagged: the same command goes "
        "on, 'destroy' gives them back"
    )


def _see(run: Run, then: str) -> None:
    """Raise in words what went wrong between us and EC2, if anything did."""
    for host in run.hosts.values():
        if host.state is State.OK or host.play in _OF_NODES:
            continue
        raise _error(host, then)


def _error(host: Host, then: str) -> FleetError:
    result = host.results.get(host.step, {})
    rest = f"; {then}" if then else ""
    if result.get("rc", 0) in _OF_OURS:  # renting.py said so
        error = FleetError(host.why)
        error.exit_code = ExitCode(result["rc"])
        return error
    if host.step in _REFUSED_AT:
        return RefusedError(host.why)
    if "argument_errors" in result:
        return InventoryError(one_line("; ".join(map(str, result["argument_errors"]))))
    if "assertion" in result:
        return InventoryError(host.why)
    if "Unable to locate credentials" in host.why or "NoCredentials" in host.why:
        return CloudError(_NO_CREDENTIALS)
    if ("boto" in host.why and "import" in host.why) or "couldn't resolve module" in host.why:
        return NotInstalledError(f"{host.why} (scripts/setup --fleet installs it)")
    said = _REFUSED.search(host.why)
    if said is None:
        return CloudError(f"at '{host.step}': {host.why}{rest}")
    advice = next(
        (f" ({words})" for marks, words in _ADVICE if any(mark in said["code"] for mark in marks)), ""
    )
    return CloudError(
        f"EC2 refuses {said['call']}: {said['code']}: {said['words'].rstrip('.')}{advice}{rest}"
    )
