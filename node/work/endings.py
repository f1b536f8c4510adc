"""How a visit ends: what it was told and what it met becomes one ``Settlement``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from node.rules import url as urls
from node.rules.entry import MAX_TRIES, Lease
from node.rules.outcome import LINE, TABLE, Outcome, Signal
from node.rules.retry import wait_ms as retry_wait_ms
from node.rules.retry_after import retry_after_s
from node.rules.usage import Said, Statement, denial
from node.settings import Settings
from node.store.connection import AsyncStore
from node.store.exclusions import Exclusions
from node.store.frontier import Frontier, Kind, Settlement
from node.store.spool import Pointer
from node.store.warc import Position
from node.work.http import Fetched, Fetching, header_values
from node.work.neighbours import Neighbours
from node.work.robots import Robots
from node.work.said import said_in_page
from node.work.sitemaps import Sitemaps

KEPT = frozenset({Outcome.PAGE, Outcome.SITEMAP, Outcome.DUPLICATE})
"""What is not done with before its record has a place in the archive."""


class Recorder(Protocol):
    """Keeps what a request gave: the archive and the fetch log."""

    def record(self, lease: Lease, url: str, fetched: Fetched, outcome: Outcome) -> Position | None: ...

    def page(self, lease: Lease, url: str, fetched: Fetched) -> tuple[Position | None, Outcome]: ...

    def note(self, lease: Lease, url: str, outcome: Outcome, detail: str = "") -> None: ...

    def opt_out(self, statement: Statement) -> None: ...

    async def kept(self) -> None: ...


@dataclass(slots=True)
class Means:
    """What all visits of a fetcher share. ``may_send(lease)`` asks whether a lease is still ours;
    ``on_time()`` whether our event loop is, so that the time an answer took is the site's."""

    settings: Settings
    store: AsyncStore
    frontier: Frontier
    client: Fetching
    robots: Robots
    exclusions: Exclusions
    recorder: Recorder
    may_send: Callable[[Lease], bool]
    jitter: Callable[[], float]
    sitemaps: Sitemaps
    on_time: Callable[[], bool]
    neighbours: Neighbours = field(init=False)

    def __post_init__(self) -> None:
        self.neighbours = Neighbours(self.settings)


class Endings:
    """A visit as far as its end goes: its lease (which a hop changes), and what is known of the site."""

    __slots__ = ("crawl_delay_ms", "latency_ms", "lease", "place", "recorded", "said", "sent", "shared")

    def __init__(self, shared: Means, lease: Lease) -> None:
        self.shared = shared
        self.lease = lease
        self.sent = False
        self.crawl_delay_ms = -1
        self.latency_ms = 0
        self.place = b""
        self.recorded: Outcome | None = None
        """What the log says already that the URL at hand came to, before the frontier said something else."""
        self.said: Said = ()
        """What robots.txt says about the use of the page."""

    def against(self, said: Said) -> Statement | None:
        """What of it denies the purpose of this crawl, if anything. Sitemaps are no content."""
        purposes = self.shared.settings.identity.purposes
        if not purposes or self.lease.entry.sitemap:
            return None
        against = denial(said, purposes)
        if against is not None:
            self.shared.recorder.opt_out(against)
        return against

    def _opted_out(self, fetched: Fetched) -> bool:
        """Does a page deny the purpose of this crawl? Then it is not kept."""
        identity = self.shared.settings.identity
        if not identity.purposes:
            return False
        said = fetched.said + said_in_page(fetched, identity.token)
        against = self.against(said)
        if against is None:
            return False
        fetched.said, fetched.detail = said, against.text
        return True

    def not_sent(self, url: str) -> Settlement:
        if self.shared.exclusions.covers(urls.host(url)):
            self.shared.recorder.note(self.lease, url, Outcome.EXCLUDED)
            return self.settle(Kind.DROP, Outcome.EXCLUDED, Signal.NONE)
        return self.settle(Kind.BACK, Outcome.NOT_SENT, Signal.NONE)

    def ended(self, url: str, fetched: Fetched, outcome: Outcome) -> Settlement:
        if outcome is Outcome.PAGE and self.lease.entry.sitemap:
            outcome = Outcome.SITEMAP
        elif outcome is Outcome.PAGE and self._opted_out(fetched):
            outcome = Outcome.OPTED_OUT
        row = TABLE[outcome]
        if row.back:
            if outcome in LINE:
                self.shared.recorder.record(self.lease, url, fetched, outcome)
            return self.settle(Kind.BACK, outcome, Signal.NONE)
        # a page cut off by the deadline is kept, and says about its site what a timeout says
        signal = Signal.THROTTLE if fetched.truncated == "time" else row.signal
        if self.shared.settings.gateway.mode == "off" and self.shared.on_time():
            self.latency_ms = fetched.latency_ms
        if outcome is Outcome.PAGE:
            position, outcome = self.shared.recorder.page(self.lease, url, fetched)
        elif self.recorded is None:
            position = self.shared.recorder.record(self.lease, url, fetched, outcome)
        else:
            position = None
            if outcome is not self.recorded:
                self.shared.recorder.note(self.lease, url, outcome)
        if outcome in KEPT:
            if position is None:  # no room on the disk: the page is fetched again when there is
                return self.settle(Kind.BACK, Outcome.NOT_SENT, signal)
            if outcome is Outcome.DUPLICATE:  # its links are those of the page that it duplicates
                return self.settle(Kind.DONE, outcome, signal)
            entry = self.lease.entry
            pointer = Pointer(position, entry.depth, url, entry.sitemap).pack()
            return self.settle(Kind.PAGE, outcome, signal, pointer=pointer)
        if outcome is Outcome.EXCLUDED:
            return self.settle(Kind.DROP, outcome, signal)
        cap_s = self.shared.settings.crawl.max_crawl_delay_s
        pause = retry_after_s(header_values(fetched, b"retry-after"), fetched.started_unix_s, cap_s)
        pause_ms = round(1000 * (pause or 0.0)) if row.retry else 0
        again = row.retry and self.shared.settings.retries
        if again and self.lease.entry.tries + 1 < MAX_TRIES:
            wait_ms = retry_wait_ms(
                self.lease.entry.tries, self.shared.frontier.base_delay_ms, self.shared.jitter()
            )
            return self.settle(Kind.RETRY, outcome, signal, wait_ms=max(wait_ms, pause_ms), pause_ms=pause_ms)
        return self.settle(Kind.DONE, outcome, signal, pause_ms=pause_ms)

    def settle(
        self,
        kind: Kind,
        outcome: str,
        signal: Signal,
        *,
        pointer: str = "",
        wait_ms: int = 0,
        pause_ms: int = 0,
    ) -> Settlement:
        return Settlement(
            self.lease,
            kind,
            outcome,
            signal,
            sent=self.sent,
            pointer=pointer,
            wait_ms=wait_ms,
            pause_ms=pause_ms,
            crawl_delay_ms=self.crawl_delay_ms,
            ttfb_ms=self.latency_ms,
            place=self.place,
        )
