"""At which address a visit is made, and whether the frontier must be told before.

The frontier keeps each address's limit by the last known addresses of its domains. Of a domain that was
never visited it knows none, and a list may hold thousands of them at one address. So the first visit to a
domain looks its address up before anything is sent; and if that one was met with another domain already, the
URL goes back with what was learnt, and is handed out again when the address bears it. Only the first that a
fetcher meets at an address is visited at once.
"""

from __future__ import annotations

from node.rules import request
from node.rules.addresses import FORGET, counts
from node.rules.connect_to import ConnectTo
from node.settings import Settings

MOST_MET = 20_000
"""Addresses a fetcher remembers to have met; the one met first goes first."""


class Neighbours:
    """Of one fetcher."""

    def __init__(self, settings: Settings) -> None:
        self._limits = settings.address_limits
        self._connect_to = ConnectTo(settings.dns.connect_to)
        self._is_direct = settings.gateway.mode == "off"
        self._met: dict[bytes, str] = {}

    def place(self, url: str, ip: str | None) -> bytes:
        """Where a visit to ``url`` was made that reached ``ip``: as in ``rules/addresses.py``."""
        if ip is None or not self._is_direct:
            return b""
        return FORGET if self._is_redirected(url) else self._limits.place(ip)

    def must_look_up(self, url: str) -> bool:
        """Does it matter where the first visit to a domain, at ``url``, would be made?"""
        return bool(self._limits.classes) and self._is_direct and not self._is_redirected(url)

    def has_met(self, domain: str, place: bytes) -> bool:
        """Was another domain than this one met at its address before? It has been from now on."""
        if not counts(place):
            return False
        first = self._met.setdefault(place[1:], domain)
        if len(self._met) > MOST_MET:
            del self._met[next(iter(self._met))]
        return first != domain

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
