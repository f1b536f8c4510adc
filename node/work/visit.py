"""One lease: robots.txt where it is due, the page, its redirect hops within the domain.

Before *every* request it is asked anew whether it may be sent: is the lease still ours and young
enough, the lane ours, the host not excluded? If not, nothing is sent. Requests of one visit are at
least ``hop_gap`` apart; each hop is registered in the frontier before it is made, and paid for with
another delay afterwards (I3). A visit ends as one ``Settlement``; nothing about the web is an
exception here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from node.rules import url as urls
from node.rules.addresses import counts
from node.rules.cookies import ChainJar
from node.rules.domain import registrable
from node.rules.entry import Entry, Lease
from node.rules.headers import essence
from node.rules.outcome import TABLE, Outcome, Signal
from node.rules.refusal import Refusal
from node.rules.robots import Rules
from node.rules.sitemap import Named, may_be_sitemap
from node.rules.url import dedup_key
from node.rules.usage_read import in_headers
from node.store.connection import LOST
from node.store.frontier import Kind, Settlement
from node.work.challenged import challenge_in
from node.work.endings import Endings, Means
from node.work.http import Fetched, header_values, location
from node.work.robots import Asked

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


@dataclass(frozen=True, slots=True)
class Visited:
    """How a visit ended, and URLs it found that belong elsewhere: (URL, depth), and sitemaps."""

    settlement: Settlement
    found: list[tuple[str, int]] = field(default_factory=list)
    sitemaps: list[Named] = field(default_factory=list)


@dataclass(slots=True)
class Visitor(Means):
    """Serves leases."""

    async def visit(self, lease: Lease) -> Visited:
        """Serve one lease to its end, be it that we are told to stop or that the store goes away.

        Then the URL that is leased by now (a hop may have changed it) goes back, and the domain owes a
        delay if anything was sent.
        """
        visit = _Visit(self, lease)
        try:
            visited = await visit.run()
        except (asyncio.CancelledError, *LOST):
            return visit.interrupted()
        for origin, rules in visit.origins.items():
            visit.sitemaps += self.sitemaps.of(origin, rules, lease.entry.depth)
        return replace(visited, sitemaps=visit.sitemaps) if visit.sitemaps else visited


class _Visit(Endings):
    __slots__ = ("asked", "been", "chain", "found", "jar", "origins", "sitemaps")

    def __init__(self, shared: Visitor, lease: Lease) -> None:
        super().__init__(shared, lease)
        self.asked = False
        self.jar: ChainJar | None = None
        self.been = {lease.entry.url}
        self.chain = {dedup_key(lease.entry.url)}
        """What the frontier knows those by: a session id in a URL makes it no other one."""
        self.found: list[tuple[str, int]] = []
        self.origins: dict[str, Rules] = {}
        """Origins whose robots.txt was looked up, and what it says."""
        self.sitemaps: list[Named] = []

    async def run(self) -> Visited:
        url = self.lease.entry.url
        if not self.lease.address_known and await self._has_neighbours(url):
            return Visited(self.settle(Kind.BACK, Outcome.NOT_SENT, Signal.NONE))
        while True:
            stopped = await self._ask_robots(url)
            if stopped is not None:
                if isinstance(stopped, str):
                    url = stopped
                    continue
                return Visited(stopped, self.found)
            if not await self._before_request(url):
                return Visited(self.not_sent(url), self.found)
            fetched = await self._fetch(url)
            outcome = fetched.outcome
            if outcome is Outcome.REDIRECTED:
                next_url, outcome = await self._redirect(url, fetched)
                if next_url is not None:
                    url = next_url
                    continue
            elif outcome in FALL_BACK_TO_HTTP:
                source = self.lease
                next_url = await self._fall_back(url, outcome)
                if next_url is not None:
                    self.shared.recorder.record(source, url, fetched, outcome)
                    url = next_url
                    continue
            return Visited(self.ended(url, fetched, outcome), self.found)

    def interrupted(self) -> Visited:
        """How it ends when it can't go on: nothing is known of a request that may be under way."""
        self.sent = self.sent or self.asked
        return Visited(self.settle(Kind.BACK, Outcome.NOT_SENT, Signal.NONE), self.found)

    # -- before a request

    async def _has_neighbours(self, url: str) -> bool:
        """Do visits to the domain's address count? Then the frontier, which can't know, is told first."""
        neighbours = self.shared.neighbours
        if not neighbours.must_look_up(url):
            return False
        found = (await self.shared.client.look_up(url)).found
        self.place = neighbours.place(url, found[0][0] if found else None, self.lease.domain)
        return counts(self.place)

    async def _before_request(self, url: str) -> bool:
        """Keep the gap to the visit's last request, if there was one; then: may this one be sent?

        The last one has ended when this is called. The gap begins there and not where it was sent:
        it is kept at the server, however long that request was under way.
        """
        shared = self.shared
        if self.asked:
            await asyncio.sleep(shared.settings.hop_gap_s)
        if not shared.may_send(self.lease) or shared.exclusions.covers(urls.host(url)):
            return False
        self.asked = True
        return True

    async def _ask_robots(self, url: str) -> Settlement | str | None:
        """None: go on. A URL: go on with that one. A settlement: the visit ends here."""
        shared = self.shared
        origin = urls.origin(url)
        if shared.exclusions.covers(urls.host(url)):
            return self.not_sent(url)
        asked = await shared.robots.rules_for(self.lease.domain, origin, self._before_request)
        if asked.requests:
            self.sent = True
        if asked.rules is None:
            return await self._without_robots(url, asked)
        self.origins[origin] = asked.rules
        crawl_delay_s = asked.rules.crawl_delay_s
        cap_s = shared.settings.crawl.max_crawl_delay_s
        self.crawl_delay_ms = round(1000 * min(crawl_delay_s, cap_s)) if crawl_delay_s else 0
        path = urls.path_and_query(url)
        if not asked.rules.allows(path):
            shared.recorder.note(self.lease, url, Outcome.ROBOTS_DENIED)
            return self.settle(Kind.DROP, Outcome.ROBOTS_DENIED, asked.signal)
        self.said = asked.rules.said(path)
        against = self.against(self.said)
        if against is not None:
            shared.recorder.note(self.lease, url, Outcome.ROBOTS_OPTED_OUT, against.text)
            return self.settle(Kind.DROP, Outcome.ROBOTS_OPTED_OUT, asked.signal)
        if asked.requests and self._one_at_a_time:
            return self.settle(Kind.BACK, Outcome.NOT_SENT, asked.signal)
        if self.lease.entry.sitemap and not await shared.sitemaps.may_read(self.lease):
            return self.settle(Kind.DROP, Refusal.SITEMAP_CAP, asked.signal)
        return None

    @property
    def _one_at_a_time(self) -> bool:
        """Does each request wait the full delay? In strict mode, and where a site's Crawl-delay asks for more
        than the gap within a visit: it means requests, and knows nothing of visits.
        """
        settings = self.shared.settings
        return settings.crawl.strict_politeness or self.crawl_delay_ms > 1000 * settings.hop_gap_s

    async def _without_robots(self, url: str, asked: Asked) -> Settlement | str:
        if asked.no_room:
            return self.settle(Kind.DROP, "origin_cap", Signal.NONE)
        if asked.cut_short:
            return self.not_sent(url)
        if asked.outcome is Outcome.PRIVATE_ADDRESS:
            self.shared.recorder.note(self.lease, url, asked.outcome)
            return self.settle(Kind.DONE, asked.outcome, Signal.NONE)
        if asked.outcome in FALL_BACK_TO_HTTP:
            plain = await self._fall_back(url, asked.outcome)
            if plain is not None:
                return plain
        self.shared.recorder.note(self.lease, url, Outcome.ROBOTS_UNAVAILABLE, asked.outcome)
        return self.settle(
            Kind.LATER,
            Outcome.ROBOTS_UNAVAILABLE,
            asked.signal,
            wait_ms=asked.wait_ms,
            pause_ms=asked.pause_ms,
        )

    async def _fetch(self, url: str) -> Fetched:
        shared = self.shared
        cookies = None
        if self.jar is not None:
            cookies = self.jar.header(
                urls.host(url), urls.path_and_query(url), https=url.startswith("https:")
            )
        sent, self.sent = self.sent, True
        fetched = await shared.client.fetch(
            url,
            deadline_s=shared.settings.fetcher.deadline_s,
            max_wire_bytes=shared.settings.max_wire_bytes(sitemap=bool(self.lease.entry.sitemap)),
            accept=self._accepts,
            cookies=cookies,
        )
        self.place = shared.neighbours.place(url, fetched.ip, self.lease.domain) or self.place
        gate = None if TABLE[fetched.outcome].back else challenge_in(fetched)
        if gate is not None:
            fetched.outcome, fetched.detail = Outcome.CHALLENGED, gate
        if not TABLE[fetched.outcome].sent:
            self.sent = sent
        fetched.said = self.said + in_headers(fetched.headers, shared.settings.identity.token)
        return fetched

    def _accepts(self, content_type: str | None) -> bool:
        kind = essence(content_type or "")
        if self.lease.entry.sitemap:
            return may_be_sitemap(kind)
        return not kind or kind in self.shared.settings.fetcher.wanted_types

    # -- after a redirect

    async def _redirect(self, url: str, fetched: Fetched) -> tuple[str | None, Outcome]:
        """Where the visit goes on, or None and what it ends as."""
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
        key = dedup_key(target)
        same = key in self.chain
        if (target in self.been and not new_cookies) or self.lease.hops >= shared.settings.crawl.max_hops:
            return None, Outcome.REDIRECT_LOOP
        if shared.exclusions.covers(urls.host(target)):
            return None, Outcome.EXCLUDED
        source = self.lease
        verdict = await self._hop(target, key, Outcome.REDIRECTED, same=same)
        if verdict == "ok":
            self.been.add(target)
            shared.recorder.record(source, url, fetched, Outcome.REDIRECTED)
            return target, Outcome.REDIRECTED
        return None, {
            "seen": Outcome.REDIRECT_TO_SEEN,
            "refused": Outcome.REDIRECT_REFUSED,
        }.get(verdict, Outcome.NOT_SENT)

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

    async def _fall_back(self, url: str, outcome: Outcome) -> str | None:
        """The http form of a bare domain whose https failed, once it is leased; else None."""
        if not (self.lease.entry.bare and url.startswith("https://")):
            return None
        target = "http://" + url.removeprefix("https://")
        verdict = await self._hop(target, dedup_key(target), outcome, same=False)
        return target if verdict == "ok" else None

    async def _hop(self, target: str, key: str, outcome: Outcome, *, same: bool) -> str:
        """Register a hop; on "ok" the lease is the target's."""
        shared = self.shared
        source = self.lease.entry
        packed = Entry(target, source.level, source.depth, sitemap=source.sitemap).pack()
        slot = shared.frontier.slots(key)
        hop = await shared.store.call(
            shared.frontier.hop(shared.store.now_ms(), self.lease, packed, slot, outcome=outcome, same=same)
        )
        if hop.lease is not None:
            self.lease = hop.lease
            self.chain.add(key)
        return hop.verdict
