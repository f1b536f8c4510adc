"""What ends a command of the fleet: one sentence for the operator, and an exit code with a name."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the exit status of ``milliarde-fleet`` means. Numbers below 20 mean the same in ``milliarde``."""

    OK = 0
    FAILED = 1
    """Something we did not foresee; a bug."""
    USAGE = 2
    """The words of the command line are wrong."""
    BAD_SETTINGS = 3
    """The inventory can't be used."""
    BAD_INPUT = 4
    """A list, a domain or a host given by the user can't be used."""
    NOT_WRITABLE = 7
    """A file or folder on the operator's machine can't be written."""
    CHECK_FAILED = 9
    """A check found something broken."""
    NOT_INSTALLED = 10
    """Ansible, rsync or a library that is needed is missing or broken."""
    HOST_FAILED = 20
    """On at least one host a step failed; it says on which. The others were done."""
    HOST_UNREACHABLE = 21
    """At least one host can't be reached. The others were done."""
    REFUSED = 22
    """Nothing was done, because it would lose something; it says what."""
    CLOUD_REFUSED = 23
    """Who rents machines out said no: to our credentials, for a quota, for want of machines."""
    INTERRUPTED = 130
    """Stopped by the user (Ctrl-C)."""


class FleetError(Exception):
    """An error with words for the operator. ``exit_code`` is what the process ends with."""

    exit_code = ExitCode.FAILED


class InventoryError(FleetError):
    """The inventory is not there, can't be read, or names no nodes."""

    exit_code = ExitCode.BAD_SETTINGS


class InputError(FleetError):
    """What the user gave can't be used."""

    exit_code = ExitCode.BAD_INPUT


class DiskError(FleetError):
    """A file on the operator's machine can't be written."""

    exit_code = ExitCode.NOT_WRITABLE


class NotInstalledError(FleetError):
    """A program or library is missing."""

    exit_code = ExitCode.NOT_INSTALLED


class RefusedError(FleetError):
    """It would lose something, and nobody said yes."""

    exit_code = ExitCode.REFUSED


class InterruptedRunError(FleetError):
    """The user stopped it."""

    exit_code = ExitCode.INTERRUPTED


class CloudError(FleetError):
    """Who rents machines out said no."""

    exit_code = ExitCode.CLOUD_REFUSED
