"""What a queue holds of a URL: three characters, then the URL itself.

``level depth state url``; each character is ``chr(48 + value)``, so an entry is printable and a
64-character URL takes 67 bytes. ``state`` packs the tries made, how often a lease on it ran out, and of
which kind it is: a page, one that was seeded as a bare domain (https first, http where that fails), or a
sitemap.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_DEPTH = 78
"""Depth saturates here (the last printable character)."""
MAX_TRIES = 3
SITEMAP, NESTED = 1, 2
"""Kinds of sitemap: one that robots.txt or nobody names, and one named by another, whose own are left out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One URL of the frontier. ``level`` 0 (best) to 7; ``depth`` = links from a seed."""

    url: str
    level: int
    depth: int
    tries: int = 0
    reaped: int = 0
    bare: bool = False
    sitemap: int = 0
    """0, ``SITEMAP`` or ``NESTED``; a bare domain is none."""

    def pack(self) -> str:
        kind = self.sitemap + 1 if self.sitemap else int(self.bare)
        state = self.tries + 4 * self.reaped + 16 * kind
        depth = min(self.depth, MAX_DEPTH)
        return f"{chr(48 + self.level)}{chr(48 + depth)}{chr(48 + state)}{self.url}"


def unpack(packed: str) -> Entry:
    """The inverse of ``Entry.pack``."""
    state = ord(packed[2]) - 48
    kind = state >> 4
    return Entry(
        url=packed[3:],
        level=ord(packed[0]) - 48,
        depth=ord(packed[1]) - 48,
        tries=state & 3,
        reaped=(state >> 2) & 3,
        bare=kind == 1,
        sitemap=max(0, kind - 1),
    )


@dataclass(frozen=True, slots=True)
class Lease:
    """A URL handed to a fetcher until ``expiry_ms`` of the crawl's clock.

    ``member`` is the lease as Redis holds it, token included; only who has it can settle it.
    """

    member: str
    lane: int
    domain: str
    hops: int
    entry: Entry
    expiry_ms: int
    delay_ms: int
    address_known: bool = True
    """Does the frontier know at which address its domain is? Then it has seen to what that one bears."""

    @property
    def serial(self) -> int:
        """The number in its token; later leases of a node have greater ones."""
        return int(self.member.partition(" ")[0].rpartition(".")[2])


def parse_lease(
    member: str, lane: int, expiry_ms: int, delay_ms: int, *, address_known: bool = True
) -> Lease:
    """Take a lease's text ``token hops domain entry`` apart."""
    _token, hops, domain, entry = member.split(" ", 3)
    return Lease(member, lane, domain, int(hops), unpack(entry), expiry_ms, delay_ms, address_known)
