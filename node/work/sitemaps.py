"""Which sitemaps a fetcher comes to know of, and how many of a domain it reads.

They are found where an origin's robots.txt is looked up: those that it names, and the one by the usual
name. From there on a sitemap is a URL like others: it passes the gates, waits in its domain's queue, and
is visited at its pace.
"""

from __future__ import annotations

from collections import OrderedDict

from redis.exceptions import ResponseError

from node.rules import url as urls
from node.rules.entry import SITEMAP, Lease
from node.rules.refusal import Refusal
from node.rules.robots import Rules
from node.rules.sitemap import WELL_KNOWN_PATH, Named
from node.settings import Settings
from node.store import keys
from node.store.connection import AsyncStore
from node.store.refusals import refuses_writes

REMEMBERED_ORIGINS = 20_000
"""An origin that was forgotten is told of again, which the seen filter takes care of."""


class Sitemaps:
    """What all visits of a fetcher share about sitemaps."""

    def __init__(self, settings: Settings, store: AsyncStore) -> None:
        self._wanted = settings.crawl.sitemaps
        self._max_depth = settings.crawl.max_depth
        self._most = settings.crawl.max_sitemaps_per_domain
        self._store = store
        self._told: OrderedDict[str, None] = OrderedDict()

    def of(self, origin: str, rules: Rules, depth: int) -> list[Named]:
        """The sitemaps of an origin, once in the life of this process: so none is lost with it.

        Call it when a visit has come to its end, with the depth of its page.
        """
        if not self._wanted or origin in self._told:
            return []
        if self._max_depth is not None and depth >= self._max_depth:
            return []  # whatever they name would be too deep
        self._told[origin] = None
        if len(self._told) > REMEMBERED_ORIGINS:
            self._told.popitem(last=False)
        named = dict.fromkeys(
            urls.canonical(text, origin + "/robots.txt") for text in (*rules.sitemaps, WELL_KNOWN_PATH)
        )
        return [Named(url, depth, SITEMAP) for url in named if not isinstance(url, Refusal)]

    async def may_read(self, lease: Lease) -> bool:
        """Count one more visit to a sitemap of the lease's domain: are there few enough?"""
        try:
            return int(await self._store.redis.incr(keys.sitemaps(lease.domain))) <= self._most
        except ResponseError as error:
            if not refuses_writes(error):
                raise
            return True
