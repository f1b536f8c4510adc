"""The pages of a parser that are compared with others of their domain, until an offer takes them along."""

from __future__ import annotations

from node.rules.domain import registrable
from node.rules.similar import sampler, simhash
from node.rules.url import host
from node.store import near


class Compared:
    """``share`` of all pages; with 0 none is, and nothing is told."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._is_compared = sampler(share)
        self._pages: dict[str, list[bytes]] = {}

    def see(self, url: str, body: bytes) -> None:
        """A page (decoded) that was read. Its domain is told in any case: who has much alike waits longer."""
        if not self._share:
            return
        prints = self._pages.setdefault(registrable(host(url)), [])
        if self._is_compared(url):
            print_ = simhash(body)
            if print_ is not None:
                prints.append(print_)

    def take(self) -> bytes:
        """What the next offer tells of them; they are forgotten."""
        if not self._pages:
            return b""
        pages, self._pages = self._pages, {}
        return near.told(pages)
