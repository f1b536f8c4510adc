"""robots.txt by origin: a bounded copy in the process, behind it Redis for all of them.

What Redis keeps of an origin is one small value: until when it holds, how often asking failed in a
row, and the few rules that concern us (``Rules.dumps``), or none where the file can't be had.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from redis.exceptions import ResponseError

from node.rules.robots import Rules
from node.store import keys
from node.store.connection import AsyncStore
from node.store.refusals import refuses_writes

KEEP_S = 48 * 3600
"""Redis forgets a domain's robots this long after the last change."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an origin until ``expires_ms``; ``rules`` None = can't be had yet."""

    rules: Rules | None
    expires_ms: int
    failures: int = 0

    def pack(self) -> bytes:
        body = b"-" if self.rules is None else b"+" + self.rules.dumps()
        return b"%d %d %b" % (self.expires_ms, self.failures, body)


def unpack(value: bytes) -> Known:
    expires, failures, body = value.split(b" ", 2)
    rules = None if body == b"-" else Rules.loads(body[1:])
    return Known(rules, int(expires), int(failures))


class RobotsCache:
    """Looks an origin up, here first. Lanes are served by one process, so the copy stays true."""

    def __init__(self, store: AsyncStore, *, max_origins_per_domain: int, max_entries: int = 20_000) -> None:
        self._store = store
        self._max_origins = max_origins_per_domain
        self._max_entries = max_entries
        self._local: OrderedDict[str, Known] = OrderedDict()

    async def get(self, domain: str, origin: str) -> Known | None:
        """What is known of ``origin``, expired or not; None if it was never asked."""
        known = self._local.get(origin)
        if known is not None:
            self._local.move_to_end(origin)
            return known
        value = await self._store.redis.hget(keys.robots(domain), origin)
        if value is None:
            return None
        known = unpack(value)
        self._remember(origin, known)
        return known

    async def may_add(self, domain: str) -> bool:
        """Is there room for one more origin of this domain?"""
        count = await self._store.redis.hlen(keys.robots(domain))
        return int(count) < self._max_origins

    async def put(self, domain: str, origin: str, known: Known) -> None:
        """Remember what asking gave; where Redis takes no writes, at least here."""
        self._remember(origin, known)
        pipe = self._store.redis.pipeline(transaction=False)
        pipe.hset(keys.robots(domain), origin, known.pack())
        pipe.expire(keys.robots(domain), KEEP_S)
        try:
            await pipe.execute()
        except ResponseError as error:
            if not refuses_writes(error):
                raise

    def _remember(self, origin: str, known: Known) -> None:
        self._local[origin] = known
        self._local.move_to_end(origin)
        if len(self._local) > self._max_entries:
            self._local.popitem(last=False)
