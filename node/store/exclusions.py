"""Who may be visited and who does not want to be: the operator's lists, as each process holds them.

``excluded`` names hosts and domains, everything under them included; ``scope`` holds the domains of the
seeds. Both live in Redis with a version each; every process looks at the versions once a second
(``READ_VERSIONS``) and reads again what has changed, so a change holds everywhere within two.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.store import keys

READ_VERSIONS: tuple[tuple[str, ...], ...] = (
    ("GET", keys.EXCLUDED_VERSION),
    ("GET", keys.SCOPE_VERSION),
)


class Exclusions:
    """A process's copy of the excluded names. ``covers(host)`` is asked for every request."""

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)

    def replace(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def covers(self, host: str) -> bool:
        """Is ``host``, or a domain it is under, excluded?"""
        names = self._names
        if not names:
            return False
        while True:
            if host in names:
                return True
            _label, dot, host = host.partition(".")
            if not dot:
                return False

    def __len__(self) -> int:
        return len(self._names)


class Versions:
    """Which versions of the lists a process holds."""

    __slots__ = ("excluded", "scope")

    def __init__(self) -> None:
        self.excluded = self.scope = -1

    def outdated(self, answers: Iterable[bytes | None]) -> dict[str, tuple[str, ...]]:
        """From the answers to ``READ_VERSIONS``: list (by its key) -> the command that reads it again."""
        excluded, scope = (int(answer or 0) for answer in answers)
        commands: dict[str, tuple[str, ...]] = {}
        if excluded != self.excluded:
            commands[keys.EXCLUDED] = ("SMEMBERS", keys.EXCLUDED)
        if scope != self.scope:
            commands[keys.SCOPE] = ("SMEMBERS", keys.SCOPE)
        return commands

    def note(self, answers: Iterable[bytes | None]) -> None:
        """What was outdated has been read."""
        self.excluded, self.scope = (int(answer or 0) for answer in answers)
