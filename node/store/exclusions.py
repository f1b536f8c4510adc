"""Who does not want to be visited: hosts and domains, subdomains included.

The set lives in Redis; each process keeps a copy and looks at the version every second, so a change
holds everywhere within two. A name covers itself and everything under it.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.store import keys


class Exclusions:
    """A process's copy of the set. ``covers(host)`` is asked for every link and every request."""

    __slots__ = ("_names", "version")

    def __init__(self, names: Iterable[str] = (), version: int = -1) -> None:
        self._names = frozenset(names)
        self.version = version

    def replace(self, names: Iterable[bytes], version: int) -> None:
        """Take over what Redis holds at ``version``."""
        self._names = frozenset(name.decode() for name in names)
        self.version = version

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


READ_VERSION = ("GET", keys.EXCLUDED_VERSION)
READ_NAMES = ("SMEMBERS", keys.EXCLUDED)


def version_of(answer: bytes | None) -> int:
    return int(answer or 0)
