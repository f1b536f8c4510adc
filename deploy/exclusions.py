"""The list of what is never to be visited, beside the inventory: a node that is set up anew gets it, too.

One name a line; ``#`` begins a comment. People may edit it; what we add comes with its day and reason.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import DiskError, InputError
from deploy.inventory import Fleet
from node.rules import url as urls
from node.rules.refusal import Refusal

NAME = "excluded.txt"


def host_of(text: str) -> str:
    """The canonical host a user means by a domain, host or URL. Raises ``InputError``."""
    text = text.strip()
    parsed = urls.canonical(text if "://" in text else f"https://{text}/")
    if isinstance(parsed, Refusal) or not text:
        raise InputError(f"{text!r} is neither a domain nor a URL")
    return urls.host(parsed)


def path_of(fleet: Fleet) -> Path:
    return fleet.folder / NAME


def read(path: Path) -> list[str]:
    """The names in the list, in their order; none where there is no list yet."""
    return [name for line in _lines(path) if (name := _name(line))]


def add(fleet: Fleet, hosts: Iterable[str], reason: str) -> list[str]:
    """Note hosts; answers those that were not there before. Raises ``DiskError``."""
    note = " ".join(f"{time.strftime('%Y-%m-%d')} {reason}".split())
    with _locked(fleet) as path:
        lines = _lines(path)
        known = {_name(line) for line in lines}
        new = [host for host in dict.fromkeys(hosts) if host not in known]
        if new:
            _write(path, [*lines, *(f"{host}  # {note}" for host in new)])
    return new


def remove(fleet: Fleet, hosts: Iterable[str]) -> list[str]:
    """Strike hosts out; answers those that were there. Raises ``DiskError``."""
    gone = set(hosts)
    with _locked(fleet) as path:
        lines = _lines(path)
        found = [name for line in lines if (name := _name(line)) in gone]
        if found:
            _write(path, [line for line in lines if _name(line) not in gone])
    return found


def _name(line: str) -> str:
    return line.partition("#")[0].strip().lower()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from None


@contextmanager
def _locked(fleet: Fleet) -> Iterator[Path]:
    """One command at a time changes the list."""
    path = path_of(fleet)
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise DiskError(f"{path.parent}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(folder)


def _write(path: Path, lines: list[str]) -> None:
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}; nothing was changed") from None
