"""Where a visit goes on: a redirect within the domain, or http where https failed for a bare domain.

Each hop is registered in the frontier before it is made, and paid for with another delay afterwards (I3).
Registering takes the source for done; so what the source came to is on disk by then (I1).
"""

from __future__ import annotations

from node.errors import DiskError
from node.rules import url as urls
from node.rules.cookies import ChainJar
from node.rules.domain import registrable
from node.rules.entry import Entry, Lease
from node.rules.outcome import Outcome
from node.rules.refusal import Refusal
from node.rules.sitemap import Named
from node.rules.url import dedup_key
from node.work.endings import Endings, Means
from node.work.http import Fetched, header_values, location

FALL_BACK_TO_HTTP = frozenset(
    {
        Outcome.REFUSED,
        Outcome.UNREACHABLE,
        Outcome.CONNECT_TIMEOUT,
        Outcome.TLS_FAILED,
        Outcome.DISCONNECTED,
        Outcome.GATEWAY_FAILED,
    }
)
"""How https must have failed for a bare domain to be tried over http."""

_REFUSED = {"seen": Outcome.REDIRECT_TO_SEEN, "refused": Outcome.REDIRECT_REFUSED}


class Hops(Endings):
    """A visit as far as it may go from URL to URL; ``_one_at_a_time`` says that it may not."""

    __slots__ = ("been", "chain", "found", "jar", "sitemaps")

    def __init__(self, shared: Means, lease: Lease) -> None:
        super().__init__(shared, lease)
        self.jar: ChainJar | None = None
        self.been = {lease.entry.url}
        self.chain = {dedup_key(lease.entry.url)}
        """What the frontier knows those by: a session id in a URL makes it no other one."""
        self.found: list[tuple[str, int]] = []
        self.sitemaps: list[Named] = []

    @property
    def _one_at_a_time(self) -> bool:
        """Does each request wait the full delay? In strict mode, and where a site's Crawl-delay asks for more
        than the gap within a visit: it means requests, and knows nothing of visits.
        """
        settings = self.shared.settings
        return settings.crawl.strict_politeness or self.crawl_delay_ms > 1000 * settings.hop_gap_s

    async def redirect(self, url: str, fetched: Fetched) -> tuple[str | None, Outcome | None]:
        """Where the visit goes on, or None and what it ends as; or no outcome: the URL goes back."""
        shared = self.shared
        raw = location(fetched)
        target = urls.canonical(raw, url) if raw is not None else Refusal.BAD_URL
        if isinstance(target, Refusal):
            return None, Outcome.BAD_REDIRECT
        new_cookies = self._take_cookies(url, fetched)
        if registrable(urls.host(target)) != self.lease.domain:
            self._leave(target)
            return None, Outcome.REDIRECTED_AWAY
        if self._one_at_a_time:
            self._leave(target)
            return None, Outcome.REDIRECTED
        if (target in self.been and not new_cookies) or self.lease.hops >= shared.settings.crawl.max_hops:
            return None, Outcome.REDIRECT_LOOP
        if shared.exclusions.covers(urls.host(target)):
            return None, Outcome.EXCLUDED
        verdict = await self._go_on(url, target, Outcome.REDIRECTED, fetched)
        if verdict == "ok":
            self.been.add(target)
            return target, Outcome.REDIRECTED
        return None, _REFUSED.get(verdict)

    async def fall_back(self, url: str, outcome: Outcome, fetched: Fetched | None) -> str | None:
        """The http form of a bare domain whose https failed, once it is leased; else None.

        ``fetched`` is None where it was robots.txt that could not be had: that request has its line.
        """
        if not (self.lease.entry.bare and url.startswith("https://")):
            return None
        target = "http://" + url.removeprefix("https://")
        return target if await self._go_on(url, target, outcome, fetched) == "ok" else None

    def _leave(self, target: str) -> None:
        """Leave a redirect target to another visit."""
        entry = self.lease.entry
        if entry.sitemap:
            self.sitemaps.append(Named(target, entry.depth, entry.sitemap))
        else:
            self.found.append((target, entry.depth))

    def _take_cookies(self, url: str, fetched: Fetched) -> bool:
        values = header_values(fetched, b"set-cookie")
        if not values:
            return False
        if self.jar is None:
            self.jar = ChainJar(self.lease.domain)
        return self.jar.take(values, urls.host(url), urls.path_and_query(url))

    async def _go_on(self, url: str, target: str, outcome: Outcome, fetched: Fetched | None) -> str:
        """Register a hop to ``target``, at which the source ends as ``outcome``; the verdict. On "ok" the
        lease is the target's.

        The frontier is asked first what it would say, so that the log says the same; then the source is
        recorded, and registered once that is on disk. It may say something else by then: see ``recorded``.
        """
        if fetched is not None:
            verdict = await self._hop(target, outcome, look=True)
            if verdict != "ok":
                return verdict
            recorder = self.shared.recorder
            recorder.record(self.lease, url, fetched, outcome)
            self.recorded = outcome
            try:
                await recorder.kept()
            except DiskError:
                return "stale"  # the source is fetched again when there is room
        verdict = await self._hop(target, outcome)
        if verdict == "ok":
            self.recorded = None
        return verdict

    async def _hop(self, target: str, outcome: Outcome, *, look: bool = False) -> str:
        shared = self.shared
        source, key = self.lease.entry, dedup_key(target)
        packed = Entry(target, source.level, source.depth, sitemap=source.sitemap).pack()
        hop = await shared.store.call(
            shared.frontier.hop(
                shared.store.now_ms(),
                self.lease,
                packed,
                shared.frontier.slots(key),
                outcome=outcome,
                same=key in self.chain,
                look=look,
            )
        )
        if hop.lease is not None:
            self.lease = hop.lease
            self.chain.add(key)
        return hop.verdict
