"""One lease: robots.txt where it is due, the page, its redirect hops within the domain.

Before *every* request it is asked anew whether it may be sent: is the lease still ours and young
enough, the lane ours, the host not excluded? If not, nothing is sent. Requests of one visit are at
least ``hop_gap`` apart; where it goes on is said in ``hops``. A visit ends as one ``Settlement``;
nothing about the web is an exception here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from node.rules import url as urls
from node.rules.addresses import counts
from node.rules.entry import Lease
from node.rules.headers import essence
from node.rules.outcome import TABLE, Outcome, Signal
from node.rules.refusal import Refusal
from node.rules.robots import Rules
from node.rules.sitemap import Named, may_be_sitemap
from node.rules.usage_read import in_headers
from node.store.connection import LOST
from node.store.frontier import Kind, Settlement
from node.work.challenged import challenge_in
from node.work.endings import Means
from node.work.hops import FALL_BACK_TO_HTTP, Hops
from node.work.http import Fetched
from node.work.robots import Asked


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


class _Visit(Hops):
    __slots__ = ("asked", "origins")

    def __init__(self, shared: Visitor, lease: Lease) -> None:
        super().__init__(shared, lease)
        self.asked = False
        self.origins: dict[str, Rules] = {}
        """Origins whose robots.txt was looked up, and what it says."""

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
            outcome: Outcome | None = fetched.outcome
            if outcome is Outcome.REDIRECTED:
                next_url, outcome = await self.redirect(url, fetched)
            elif outcome in FALL_BACK_TO_HTTP:
                next_url = await self.fall_back(url, outcome, fetched)
            else:
                next_url = None
            if next_url is not None:
                url = next_url
                continue
            if outcome is None:
                return Visited(self.not_sent(url), self.found)
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
        if not self._may_send(url):
            return False
        self.asked = True
        return True

    def _may_send(self, url: str) -> bool:
        """Is the lease still ours, and the host not excluded? Asked once more when the connection stands."""
        shared = self.shared
        return shared.may_send(self.lease) and not shared.exclusions.covers(urls.host(url))

    async def _ask_robots(self, url: str) -> Settlement | str | None:
        """None: go on. A URL: go on with that one. A settlement: the visit ends here."""
        shared = self.shared
        origin = urls.origin(url)
        if shared.exclusions.covers(urls.host(url)):
            return self.not_sent(url)
        asked = await shared.robots.rules_for(self.lease.domain, origin, self._before_request, self._may_send)
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

    async def _without_robots(self, url: str, asked: Asked) -> Settlement | str:
        if asked.no_room:
            return self.settle(Kind.DROP, "origin_cap", Signal.NONE)
        if asked.cut_short:
            return self.not_sent(url)
        if asked.outcome is Outcome.PRIVATE_ADDRESS:
            self.shared.recorder.note(self.lease, url, asked.outcome)
            return self.settle(Kind.DONE, asked.outcome, Signal.NONE)
        if asked.outcome in FALL_BACK_TO_HTTP:
            plain = await self.fall_back(url, asked.outcome, None)
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
            may_send=partial(self._may_send, url),
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
