"""All settings together, and what follows from several of them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from node.rules.addresses import UNLIMITED, Limit, Limits
from node.rules.gateway import MAX_WAIT_S
from node.rules.lease import MARGIN_MS
from node.rules.line import HOLD_S
from node.rules.priority import Priorities, Rule
from node.settings.addresses import Addresses
from node.settings.sections import (
    Archive,
    Crawl,
    Dns,
    Fetcher,
    Gateway,
    Identity,
    Parser,
    Paths,
    Priority,
    Redis,
    Spool,
    Tls,
    Watch,
    WebBotAuth,
)

VISITS_PER_S, VISITS_AT_ONCE = 5.0, 10
"""What one address bears where the settings don't say; see docs/decisions/."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of ``node.toml``."""

    paths: Paths
    identity: Identity = Identity()
    web_bot_auth: WebBotAuth = WebBotAuth()
    crawl: Crawl = Crawl()
    fetcher: Fetcher = Fetcher()
    parser: Parser = Parser()
    spool: Spool = Spool()
    archive: Archive = Archive()
    tls: Tls = Tls()
    dns: Dns = Dns()
    addresses: Addresses = Addresses()
    redis: Redis = Redis()
    watch: Watch = Watch()
    gateway: Gateway = Gateway()
    priority: Priority = Priority()

    @property
    def priorities(self) -> Priorities:
        """The rules of ``priority``, compiled."""
        return Priorities(
            [Rule(rule.pattern, rule.domain, rule.level, rule.shift) for rule in self.priority.rules]
        )

    @property
    def address_limits(self) -> Limits:
        """How much each IP address bears. Through a gateway nobody knows whose address a site has."""
        addresses = self.addresses
        if self.gateway.mode != "off":
            return Limits(UNLIMITED)
        per_s, at_once = (VISITS_PER_S, VISITS_AT_ONCE) if self.crawl.delay_s > 0 else (0.0, 0)
        default = Limit(
            per_s if addresses.visits_per_s is None else addresses.visits_per_s,
            at_once if addresses.visits_at_once is None else addresses.visits_at_once,
        )
        rows = [(row.network, Limit(row.visits_per_s, row.visits_at_once)) for row in addresses.networks]
        return Limits(default, rows)

    @property
    def data(self) -> Path:
        return Path(self.paths.data)

    @property
    def warc_folder(self) -> Path:
        return self.data / "warc"

    @property
    def log_folder(self) -> Path:
        return self.data / "log"

    def max_wire_bytes(self, *, sitemap: bool) -> int:
        """Where the body of a page or a sitemap is cut, as received."""
        return self.crawl.max_sitemap_bytes if sitemap else self.fetcher.max_wire_bytes

    @property
    def hop_gap_s(self) -> float:
        """The gap between requests of one visit that is in force."""
        if self.crawl.strict_politeness:
            return self.crawl.delay_s
        return min(self.crawl.hop_gap_s, self.crawl.delay_s)

    @property
    def longest_visit_s(self) -> float:
        """robots.txt with its redirects, the page and its hops, each at its deadline."""
        robots_requests = 6
        requests = robots_requests + 1 + self.crawl.max_hops
        return requests * (self.request_s + self.hop_gap_s)

    @property
    def request_s(self) -> float:
        """The longest that one request takes; through a gateway it may have to wait for its turn first."""
        return self.fetcher.deadline_s + (0.0 if self.gateway.mode == "off" else MAX_WAIT_S)

    @property
    def retries(self) -> bool:
        """Is anything tried again? Never on top of a gateway that does so itself."""
        return self.gateway.mode == "off" or self.gateway.retry

    @property
    def lease_s(self) -> float:
        """How long a URL is leased at once."""
        if self.fetcher.lease_s is not None:
            return self.fetcher.lease_s
        return self.request_s + MARGIN_MS / 1000

    @property
    def longest_lease_s(self) -> float:
        """How long it may stay leased while its visit lives, failures held back and the way to the disk
        included."""
        return max(self.lease_s, self.longest_visit_s + 3 * HOLD_S + MARGIN_MS / 1000)

    def frozen_part(self) -> dict[str, object]:
        """What must not change during a crawl; its digest is part of the fingerprint."""
        crawl = self.crawl
        return {
            "name": crawl.name,
            "delay_s": crawl.delay_s,
            "horizon_s": crawl.horizon_s,
            "nodes": crawl.nodes,
            "me": crawl.me,
            "max_urls_per_domain": crawl.max_urls_per_domain,
            "seen_error_rate": crawl.seen_error_rate,
        }
