"""Who may be visited and who does not want to be: the operator's lists, as each process holds them.

Not to be visited are hosts and domains, everything under them included: those in ``excluded``, and those of
a list of maybe millions (``namelist.py``), one file in the node's folder. ``included`` holds what is visited
all the same. Of all names that a host is under, the nearest one counts. ``scope`` holds the domains of the
seeds.

The sets live in Redis with a version each, the list on the disk; every process looks once a second at the
versions (``READ_VERSIONS``) and at the file, and reads again what has changed, so a change holds
everywhere within two. A list that is there and can't be read ends a process: better no visits than one that
was not wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from node.errors import InputError
from node.store import keys
from node.store.connection import Store
from node.store.namelist import Identity, NameList, identity_of

READ_VERSIONS: tuple[tuple[str, ...], ...] = (
    ("GET", keys.EXCLUDED_VERSION),
    ("GET", keys.SCOPE_VERSION),
)
LIST_NAME: Final = "excluded.names"
"""The list in the node's folder."""
CACHED_HOSTS: Final = 32_768
"""Hosts whose verdict is remembered while there is a list, about 150 bytes each: 5 MB a process."""


class Exclusions:
    """A process's copy of what is excluded. ``covers(host)`` is asked for every request."""

    __slots__ = ("_identity", "_included", "_listed", "_names", "_verdicts")

    def __init__(self, names: Iterable[str] = (), included: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._included = frozenset(included)
        self._listed: NameList | None = None
        self._identity: Identity | None = None
        self._verdicts: dict[str, bool] = {}

    def replace(self, names: Iterable[str], included: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._included = frozenset(included)
        self._verdicts.clear()

    def look(self, folder: Path) -> bool:
        """Take the list in ``folder`` as it is now; True if it has changed. Raises ``InputError``."""
        path = folder / LIST_NAME
        try:
            identity = identity_of(path.stat())
        except FileNotFoundError:
            identity = None
        except OSError as error:
            raise InputError(f"the list {path} can't be read: {error.strerror}") from None
        if identity == self._identity:
            return False
        listed = None if identity is None else NameList(path)
        if self._listed is not None:
            self._listed.close()
        self._listed = listed
        self._identity = None if listed is None else listed.identity
        self._verdicts.clear()
        return True

    def covers(self, host: str) -> bool:
        """Is ``host`` excluded, by its own name or one that it is under?"""
        if self._listed is None:
            return bool(self._names) and self._judge(host)
        verdict = self._verdicts.get(host)
        if verdict is None:
            verdict = self._judge(host)
            if len(self._verdicts) >= CACHED_HOSTS:
                self._verdicts.clear()
            self._verdicts[host] = verdict
        return verdict

    def _judge(self, host: str) -> bool:
        names, included, listed = self._names, self._included, self._listed
        host = host.removesuffix(".")
        while True:
            if host in names:
                return True
            if host in included:
                return False
            if listed is not None and host in listed:
                return True
            _label, dot, host = host.partition(".")
            if not dot:
                return False

    def under(self, host: str) -> list[str]:
        """Names below ``host`` that are excluded by themselves, in order."""
        below = f".{host}"
        found = {name for name in self._names if name.endswith(below)}
        if self._listed is not None:
            found.update(name for name in self._listed.under(host) if self.covers(name))
        return sorted(found)

    @property
    def names(self) -> frozenset[str]:
        """What is excluded by name."""
        return self._names

    @property
    def included(self) -> frozenset[str]:
        """What is visited though it is under an excluded name, or on the list."""
        return self._included

    @property
    def listed(self) -> NameList | None:
        """The list, where there is one."""
        return self._listed

    def __len__(self) -> int:
        return len(self._names) + len(self._listed or ())


def in_force(store: Store, folder: Path) -> Exclusions:
    """The exclusions of a node as they are now. Raises ``InputError`` where its list can't be read."""
    names, included = store.calls([], extra=[("SMEMBERS", keys.EXCLUDED), ("SMEMBERS", keys.INCLUDED)])
    found = Exclusions((name.decode() for name in names), (name.decode() for name in included))
    found.look(folder)
    return found


class Versions:
    """Which versions of the lists in Redis a process holds."""

    __slots__ = ("excluded", "scope")

    def __init__(self) -> None:
        self.excluded = self.scope = -1

    def outdated(self, answers: Iterable[bytes | None]) -> dict[str, tuple[str, ...]]:
        """From the answers to ``READ_VERSIONS``: list (by its key) -> the command that reads it again."""
        excluded, scope = (int(answer or 0) for answer in answers)
        commands: dict[str, tuple[str, ...]] = {}
        if excluded != self.excluded:
            commands[keys.EXCLUDED] = ("SMEMBERS", keys.EXCLUDED)
            commands[keys.INCLUDED] = ("SMEMBERS", keys.INCLUDED)
        if scope != self.scope:
            commands[keys.SCOPE] = ("SMEMBERS", keys.SCOPE)
        return commands

    def note(self, answers: Iterable[bytes | None]) -> None:
        """What was outdated has been read."""
        self.excluded, self.scope = (int(answer or 0) for answer in answers)
