"""The sections of ``node.toml``, each with its defaults."""

from __future__ import annotations

from typing import Literal

import msgspec

from node.rules.usage import Purpose


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who we say we are: the User-Agent is ``token/version (+contact)``."""

    token: str = "Milliarde"
    """Product token; robots.txt groups are matched against it."""
    contact: str = ""
    """A URL or mail address where a site's owner reaches the operator. A fleet must have a URL, under which
    the text of [bot.md](bot.md) stands."""
    purpose: Purpose | tuple[Purpose, ...] = ()
    """What the pages are for: ``search``, ``input``, ``train``, ``mine``, ``archive``, or several of them.
    Pages that [deny it](#what-sites-say-about-use) are not fetched, or not kept; without it, what sites say
    is only recorded."""

    @property
    def purposes(self) -> frozenset[Purpose]:
        return frozenset((self.purpose,) if isinstance(self.purpose, Purpose) else self.purpose)


class WebBotAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Requests signed, so that sites can tell us from others under our name
    ([how to](operate.md#signed-requests)). Off without a key.
    """

    key_file: str | None = None
    """The private key, the same on all nodes; ``milliarde key`` makes it."""
    agent: str = ""
    """The https origin that publishes the public one: ``https://bot.example.org``."""
    valid_s: float = 300.0
    """A signature is accepted for this long, by the one authority that it is about."""


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where things are. Relative paths are relative to the settings file."""

    data: str
    """Folder of this crawl: ``warc/``, ``log/``, ``summary.json``, ``index.cdxj``."""
    redis_socket: str = "redis.sock"
    """Unix socket of the node's own Redis."""


class Crawl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is crawled and how politely. Frozen at the start of a crawl where marked (*)."""

    name: str = "crawl"
    """(*) Name of the crawl; another name on the same Redis is refused."""
    delay_s: float = 70.0
    """(*) Least seconds between two visits to one registrable domain; 0 = adapt the width."""
    horizon_s: float | None = None
    """(*) Planned length of the crawl; with a delay it bounds what a domain can ever use."""
    max_urls_per_domain: int = 100_000
    """(*) Most URLs waiting for one domain."""
    scope: Literal["seeds", "list", "open"] = "seeds"
    """Which domains are crawled: those of the seeds, of ``domain_list``, or any of the shard."""
    domain_list: str | None = None
    """(*) File of domains for scope ``list`` (plain, ``rank,domain`` CSV, or .gz of either)."""
    nodes: int = 1
    """(*) Number of nodes in the fleet."""
    me: int = 0
    """(*) This node's number, 0 … nodes - 1."""
    max_domains: int = 1_000_000
    """Most domains a node keeps state for."""
    max_origins_per_domain: int = 64
    """Most origins (scheme, host, port) of one domain that are visited."""
    max_depth: int | None = None
    """Links deeper than this many hops from a seed are dropped; none = no limit."""
    pages: int | None = None
    """Stop after this many stored pages, over all resumes."""
    seconds: float | None = None
    """Stop after this much crawling time, over all resumes."""
    seen_error_rate: float = 1e-3
    """(*) Share of new URLs that a domain's seen filter may take for known."""
    strict_politeness: bool = False
    """Every request, robots.txt and redirect hops too, waits the full delay."""
    hop_gap_s: float = 1.0
    """Least seconds between two requests of one visit (never more than ``delay_s``)."""
    max_hops: int = 5
    """Redirect hops within the domain that one visit follows."""
    max_delay_s: float = 3600.0
    """The most our own back-off slows a domain."""
    max_crawl_delay_s: float = 86_400.0
    """The most a site's Crawl-delay or Retry-After slows it."""
    sitemaps: bool = False
    """Read sitemaps, too: those that robots.txt names, and ``/sitemap.xml``."""
    max_sitemaps_per_domain: int = 100
    """Most sitemap files read of one domain, and most taken from one index."""
    max_sitemap_bytes: int = 10_485_760
    """A sitemap is cut here, as received, and again once it is decoded."""
    retire_after: int = 8
    """A domain whose hosts can't be reached this many times in a row is given up."""


class Fetcher(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One fetcher process."""

    in_flight: int = 1_000
    """Most visits at once."""
    deadline_s: float = 30.0
    """Most seconds for one request: DNS, connect, TLS, headers and body together."""
    max_wire_bytes: int = 1_048_576
    """A body is cut here, as received."""
    lease_s: float | None = None
    """How long a URL is ours at once; a visit that lives on gets more. None = one request and half a minute;
    less than one request and 20 s is refused."""
    lease_batch: int = 100
    """Most URLs asked for in one call."""
    settle_every_ms: int = 80
    """Results are gathered this long before they are flushed and settled together."""
    keep_alive: bool = False
    """Keep connections open between visits (only sensible with ``delay_s = 0``)."""
    wanted_types: tuple[str, ...] = ("text/html", "application/xhtml+xml")
    """Content types whose body is read; a response without a type is read too."""
    known_pages: int = 100_000
    """Pages each fetcher knows by their bytes (450 bytes of memory each): one that comes again at another URL
    of its domain is a ``duplicate``, not stored and not read for links again. 0 = no page is compared."""


class Parser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One parser process."""

    in_hand: int = 80
    """Pages a parser takes from the spool at once."""
    offer_pages: int = 16
    """Pages whose links go into one offer."""
    max_page_bytes: int = 250_000
    """A decoded page is cut here before it is parsed."""
    max_links_per_page: int = 500
    """Distinct links taken from one page; the rest is counted as ``links_cap``."""
    follow_canonical: bool = False
    """Follow ``link rel=canonical``, too."""
    follow_next: bool = False
    """Follow ``link rel=next``, too."""
    near_duplicates: float = 0.0
    """Share of pages that are compared with others of their domain; 0 = none, 0.05 is plenty. A domain whose
    pages are nearly the same [has a lower priority](operate.md#pages-that-are-nearly-the-same)."""
    claim_after_s: float = 60.0
    """A page another parser has held this long is taken over."""
    page_deadline_s: float = 20.0
    """Most seconds of CPU time for one page or sitemap: then its parser ends, and the page is charged."""
    max_deaths: int = 3
    """A page that ended this many parsers, by its deadline or otherwise, goes to the dead letters
    ([how to](operate.md#pages-that-were-given-up))."""


class Spool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The queue between fetchers and parsers, bounded by the delay we tolerate."""

    seconds: float = 10.0
    """Length = what the parsers can do in this time ..."""
    floor: int = 500
    """... but never less than this many pages."""


class Archive(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """WARC files and the fetch log."""

    rotate_bytes: int = 1_000_000_000
    """A WARC file is closed at this size."""
    log_rotate_bytes: int = 256_000_000
    """A fetch log file is closed at this size."""
    keep: Literal["full", "spool"] = "full"
    """``full``: all WARC files. ``spool``: a file goes ``free_after_s`` after it was closed, or once every
    page in it was parsed, whichever is later; a crawl leaves its fetch log, and what was not parsed yet."""
    free_after_s: float = 60.0
    """With ``keep = "spool"``: how long a closed file stays at least."""
    fsync: bool = True
    """Pages are on disk (fdatasync) before anything points at them."""
    disk_reserve_bytes: int = 1_000_000_000
    """Fetching pauses while less than this is free on the data disk ..."""
    disk_resume_bytes: int | None = None
    """... and goes on once this much is; none = a quarter more."""
    slow_s: float = 2.0
    """Fetching pauses while bringing pages to disk takes longer than this, and goes on at half of it."""

    @property
    def resume_bytes(self) -> int:
        """How much must be free for fetching to go on."""
        if self.disk_resume_bytes is not None:
            return self.disk_resume_bytes
        return self.disk_reserve_bytes + max(1, self.disk_reserve_bytes // 4)


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Certificates and sessions."""

    verify: bool = True
    ca_file: str | None = None
    """A PEM file of further trusted roots."""
    max_sessions: int = 20_000
    """Hosts whose TLS session is kept for resumption (5–7 KB each)."""


class Dns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Name resolution, and the way round it for test hosts."""

    servers: tuple[str, ...] = ()
    """``ip[:port]`` of name servers; empty = those of the system."""
    ttl_floor_s: float = 30.0
    ttl_ceiling_s: float = 3600.0
    negative_ttl_s: float = 30.0
    timeout_s: float = 5.0
    max_entries: int = 200_000
    ipv6: bool = False
    """Ask for AAAA records too."""
    connect_to: tuple[str, ...] = ()
    """curl's ``HOST1:PORT1:HOST2:PORT2``: connections to the first go to the second. These
    targets alone are exempt from the guard against private addresses."""


class Redis(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The node's Redis. ``maxmemory_mb`` and ``appendfsync`` are for one that we start ourselves
    (``milliarde crawl``); the rest is about any.
    """

    maxmemory_mb: int | None = None
    """``maxmemory`` with ``noeviction``; none = half of the machine's memory, 0 = no limit."""
    appendfsync: Literal["everysec", "always", "no"] = "everysec"
    shed_from: float = 0.8
    """Share of its memory from which the lowest priorities are turned away, more of them the longer it
    lasts (of ``maxmemory``; where there is none, of ``maxmemory_mb``, or of half of the machine's) ..."""
    shed_to: float = 0.7
    """... and under which they are let in again."""
    shed_queued_after_s: float = 60.0
    """Where it lasts this long, URLs of those priorities that wait already are dropped, too."""
    slow_s: float = 1.0
    """Fetching pauses while calls to Redis take longer than this, and goes on at half of it."""
    stuck_s: float = 120.0
    """A Redis that takes connections and answers none for so long is ended by the watch, for its supervisor
    to start it again (0 = never)."""


class Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The process that serves metrics."""

    host: str = "127.0.0.1"
    port: int = 9464
    """0 = any free port."""


class Gateway(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fetching through a scraping API or a forward proxy, with its plan and its key
    ([how to](operate.md#fetching-through-a-gateway)).
    """

    mode: Literal["off", "api", "proxy"] = "off"
    """``api``: each call asks ``url``; ``proxy``: http in absolute form, https through CONNECT."""
    url: str = ""
    """Address of the API with ``{url}`` where the target stands and ``{key}`` where the key does."""
    headers: tuple[str, ...] = ()
    """``Name: value`` to send to the API beside ours; ``{key}`` stands for the key."""
    proxy: str = ""
    """``http://host:port``."""
    credentials_file: str | None = None
    """File with the key of the API, or the proxy's ``user:password``: one line, and nowhere else."""
    ceiling_per_s: float = 10.0
    """Most calls per second of this node: the plan's cap divided by the nodes that share it."""
    retry: bool = False
    """Try again what failed, though the gateway does so by itself."""
    target_status_header: str = ""
    """Header with the site's own status; an answer without it is the gateway's own."""
    target_header_prefix: str = ""
    """The site's headers have this before their names, all others are the gateway's."""
    error_header: str = ""
    """Header that only the gateway's own errors have."""
    quota_statuses: tuple[int, ...] = (509,)
    """What the gateway answers when the plan is used up."""
    quota_header: str = ""
    """Header that says so (``Name: value``, or ``Name`` for any value), maybe with the last good answer."""
    reset_header: str = ""
    """Header that says when the quota begins anew; without one everything waits for ``resume``."""
    reset_format: Literal["seconds", "unix", "date"] = "seconds"
    """How: seconds from now, Unix time, or a date (HTTP's, or ISO 8601)."""


class PriorityRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of ``priority.rules``."""

    pattern: str
    domain: str = ""
    level: int | None = None
    shift: int | None = None


class Priority(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which URLs of a domain are visited first; without rules those that are nearest to a seed
    ([how to](operate.md#priorities)).
    """

    rules: tuple[PriorityRule, ...] = ()
    """``{pattern = "/price/*", level = 1}``, ``{pattern = "/archive/", domain = "example.com", shift = 3}``:
    the first that is about a URL's path and query (as in robots.txt) decides. ``level``: 0 (the best) to 7;
    ``shift``: that much worse than by its distance from a seed, below 0 better."""
