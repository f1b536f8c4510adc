"""At which address a visit is made, whether that counts, and whether the frontier must be told before.

The frontier keeps each address's limit by the last known addresses of its domains. Most addresses have one
domain, which can't exceed the limit by itself: it is visited once at a time, with a delay. So an address
counts once a fetcher has met two domains there; one domain of each fetcher may be beside the count.

Of a domain that was never visited no address is known, and a list may hold thousands of them at one. So the
first visit to a domain looks its address up before anything is sent; and if that one counts, the URL goes
back with what was learnt, and is handed out again when the address bears it.
"""

from __future__ import annotations

from node.rules import request
from node.rules.addresses import FORGET, UNCOUNTED, counts
from node.rules.connect_to import ConnectTo
from node.settings import Settings

MOST_MET = 50_000
"""Addresses with one domain that a fetcher remembers, and as many with several; the oldest go first."""


class Neighbours:
    """Of one fetcher."""

    def __init__(self, settings: Settings) -> None:
        delay_s = settings.crawl.delay_s
        self._limits = settings.address_limits
        self._connect_to = ConnectTo(settings.dns.connect_to)
        self._is_direct = settings.gateway.mode == "off"
        self._alone_is_within = delay_s > 0 and all(
            limit.per_s == 0 or limit.per_s * delay_s >= 1 for limit in self._limits.classes
        )
        self._alone: dict[bytes, str] = {}
        self._shared: dict[bytes, None] = {}

    def place(self, url: str, ip: str | None, domain: str) -> bytes:
        """Where a visit to ``url`` of ``domain`` that reached ``ip`` was made: see ``rules/addresses.py``."""
        if ip is None or not self._is_direct:
            return b""
        if self._is_redirected(url):
            return FORGET
        place = self._limits.place(ip)
        if counts(place) and self._alone_is_within and not self._is_shared(place[1:], domain):
            return UNCOUNTED + place[1:]
        return place

    def must_look_up(self, url: str) -> bool:
        """Does it matter where the first visit to a domain, at ``url``, would be made?"""
        return bool(self._limits.classes) and self._is_direct and not self._is_redirected(url)

    def _is_shared(self, ip: bytes, domain: str) -> bool:
        if ip in self._shared:
            return True
        if self._alone.setdefault(ip, domain) == domain:
            _trim(self._alone)
            return False
        del self._alone[ip]
        self._shared[ip] = None
        _trim(self._shared)
        return True

    def _is_redirected(self, url: str) -> bool:
        """Does ``connect_to`` say to which address it goes?"""
        if not self._connect_to:
            return False
        try:
            target = request.target_of(url)
        except ValueError:
            return False
        redirected = self._connect_to.target(target.host, target.port)
        return redirected is not None and redirected[0] is not None


def _trim(known: dict[bytes, str] | dict[bytes, None]) -> None:
    if len(known) > MOST_MET:
        del known[next(iter(known))]
