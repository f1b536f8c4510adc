"""The few exceptions that cross layers.

Each carries one sentence that says what is wrong and what to do, and the exit code
the command line ends with. Everything expected on the web is a value (an ``Outcome``),
not an exception.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means; the names are printed with the error."""

    OK = 0
    FAILED = 1
    """Something we did not foresee; a bug."""
    USAGE = 2
    """The words of the command line are wrong."""
    BAD_SETTINGS = 3
    """A setting is unknown, missing or of the wrong kind."""
    BAD_INPUT = 4
    """A seed file, a list or a URL can't be used."""
    NO_STORE = 5
    """Redis can't be reached, or is not usable."""
    OTHER_CRAWL = 6
    """Redis or the folder belongs to another crawl, or to other frozen settings."""
    NOT_WRITABLE = 7
    """A folder can't be written, or the disk is full."""
    IN_USE = 8
    """A port, a folder or a process number is taken."""
    CHECK_FAILED = 9
    """A check found something broken."""
    NOT_INSTALLED = 10
    """A library that is needed is missing or broken."""
    INTERRUPTED = 130
    """Stopped by the user (Ctrl-C)."""


class MilliardeError(Exception):
    """An error with words for the operator. ``exit_code`` is what the process ends with."""

    exit_code = ExitCode.FAILED


class SettingsError(MilliardeError):
    """A setting is unknown, missing, of the wrong kind, or contradicts another."""

    exit_code = ExitCode.BAD_SETTINGS


class InputError(MilliardeError):
    """A file or an argument given by the user can't be used."""

    exit_code = ExitCode.BAD_INPUT


class StoreError(MilliardeError):
    """Redis can't be reached or answers what it must not."""

    exit_code = ExitCode.NO_STORE


class NoRedisError(StoreError):
    """No Redis answers: it is away, or about to be back."""


class OtherCrawlError(MilliardeError):
    """What we were pointed at belongs to another crawl."""

    exit_code = ExitCode.OTHER_CRAWL


class DiskError(MilliardeError):
    """A folder can't be written."""

    exit_code = ExitCode.NOT_WRITABLE


class InUseError(MilliardeError):
    """Somebody else holds what we need."""

    exit_code = ExitCode.IN_USE


class CheckError(MilliardeError):
    """A check ran and found something broken."""

    exit_code = ExitCode.CHECK_FAILED
