"""Pages that a domain gives more than once, known by the digest of their bytes.

A domain is visited by one fetcher at a time, so each fetcher knows its own pages, and they are forgotten
with it. What that costs is a page stored and read twice; what must not happen is that a page is taken for
known whose links nobody reads. So the URL that is fetched again, after a lost lease say, is no duplicate of
itself, and neither is a page that is found nearer to a seed than the one known: its links may go further.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import mmh3

from node.store.warc import Original

MIN_BYTES: Final = 64
"""What is smaller than this is not compared: a record that refers to it would be no smaller."""


class _Known(NamedTuple):
    depth: int
    date_unix_s: float
    url: str


class KnownPages:
    """The pages that were stored last, or met again last: at most ``most``, 450 bytes each. 0 = none."""

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def compares(self, body: bytes, truncated: str | None) -> bool:
        """Is a page with this body looked for? What is cut off may begin like another page, and go on
        otherwise."""
        return bool(self._most) and len(body) >= MIN_BYTES and truncated is None

    def original(self, domain: str, url: str, depth: int, digest: str) -> Original | None:
        """The page of ``domain`` with this payload digest, if there is one at another URL, no further from a
        seed than ``depth`` links."""
        key = _key(domain, digest)
        known = self._known.get(key)
        if known is None or known.url == url or known.depth > depth:
            return None
        self._known.move_to_end(key)
        return Original(known.url, known.date_unix_s)

    def add(self, domain: str, url: str, depth: int, digest: str, date_unix_s: float) -> None:
        """Note a page that is in the archive; the one not met for longest makes room."""
        key = _key(domain, digest)
        self._known[key] = _Known(depth, date_unix_s, url)
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._known)


def _key(domain: str, digest: str) -> bytes:
    """16 bytes for a domain and a digest; that two pairs share them is out of the question."""
    return mmh3.mmh3_x64_128_digest(f"{domain} {digest}".encode())
