"""Every setting of a node, in one frozen tree, read from ``node.toml``.

The tree is strict: an unknown key, a wrong type or a contradiction stops the start with one
sentence. Units are in the names. Sections of the file are the fields of ``Settings``; all
have defaults but ``identity`` (a crawler says who it is) and ``paths.data``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from node.errors import SettingsError
from node.rules.gateway import MAX_WAIT_S, expand
from node.rules.lease import AHEAD_MS, MARGIN_MS
from node.rules.line import HOLD_S
from node.rules.priority import Priorities, Rule
from node.rules.request import target_of
from node.rules.signature import MAX_VALID_S, is_origin
from node.rules.usage import Purpose

MAX_URLS_PER_DOMAIN = 10_000_000
"""What a seen filter can be planned for."""


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
    claim_after_s: float = 60.0
    """A page another parser has held this long is taken over."""
    max_deliveries: int = 3
    """A page given out this often without being done goes to the dead letters."""


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


_LEAST: tuple[tuple[str, float], ...] = (
    ("crawl.delay_s", 0),
    ("crawl.max_urls_per_domain", 1),
    ("crawl.nodes", 1),
    ("crawl.me", 0),
    ("crawl.max_domains", 1),
    ("crawl.max_origins_per_domain", 1),
    ("crawl.hop_gap_s", 0),
    ("crawl.max_hops", 0),
    ("crawl.retire_after", 1),
    ("fetcher.in_flight", 1),
    ("fetcher.deadline_s", 0.1),
    ("crawl.max_sitemaps_per_domain", 1),
    ("crawl.max_sitemap_bytes", 1_024),
    ("fetcher.max_wire_bytes", 1_024),
    ("fetcher.lease_batch", 1),
    ("fetcher.settle_every_ms", 1),
    ("parser.in_hand", 1),
    ("parser.offer_pages", 1),
    ("parser.max_page_bytes", 1_024),
    ("parser.max_links_per_page", 1),
    ("parser.claim_after_s", 1),
    ("parser.max_deliveries", 1),
    ("spool.seconds", 0.1),
    ("spool.floor", 1),
    ("archive.rotate_bytes", 4_096),
    ("archive.log_rotate_bytes", 4_096),
    ("archive.disk_reserve_bytes", 0),
    ("archive.slow_s", 0.001),
    ("redis.slow_s", 0.001),
    ("redis.shed_queued_after_s", 0),
    ("gateway.ceiling_per_s", 0.001),
)


def _validate(settings: Settings) -> None:
    for path, least in _LEAST:
        section, name = path.split(".")
        value = getattr(getattr(settings, section), name)
        if not value >= least:  # also catches NaN
            raise SettingsError(f"{path} is {value}; it must be at least {least:g}")
    crawl = settings.crawl
    if crawl.me >= crawl.nodes:
        raise SettingsError(
            f"crawl.me is {crawl.me} but there are {crawl.nodes} nodes: use 0 to {crawl.nodes - 1}"
        )
    if not 1e-9 <= crawl.seen_error_rate <= 0.1:
        raise SettingsError("crawl.seen_error_rate must be between 1e-9 and 0.1")
    if crawl.max_urls_per_domain > MAX_URLS_PER_DOMAIN:
        raise SettingsError(f"crawl.max_urls_per_domain must be at most {MAX_URLS_PER_DOMAIN:,}")
    if crawl.scope == "list" and not crawl.domain_list:
        raise SettingsError('crawl.scope is "list": name the file in crawl.domain_list')
    least_s = settings.request_s + AHEAD_MS / 1000 + 5.0
    if settings.lease_s < least_s:
        raise SettingsError(
            f"fetcher.lease_s is {settings.lease_s:g} but must be {least_s:g} at least, a request and 20 s: "
            "raise it, or lower fetcher.deadline_s"
        )
    _validate_marks(settings)
    try:
        _ = settings.priorities
    except ValueError as error:
        raise SettingsError(f"priority.rules: {error}") from None
    _validate_gateway(settings.gateway)
    _validate_signing(settings.web_bot_auth, settings.gateway)
    token = settings.identity.token
    if not token or not all(c.isascii() and (c.isalpha() or c in "_-") for c in token):
        raise SettingsError(
            f"identity.token {token!r} is no product token: letters, '-' and '_' only (RFC 9309)"
        )
    if not settings.identity.contact.isprintable() or not settings.identity.contact.isascii():
        raise SettingsError("identity.contact must be printable ASCII: a URL or a mail address")


def _validate_marks(settings: Settings) -> None:
    archive, store = settings.archive, settings.redis
    if not archive.resume_bytes > archive.disk_reserve_bytes:
        raise SettingsError("archive.disk_resume_bytes must be more than archive.disk_reserve_bytes")
    if store.maxmemory_mb is not None and store.maxmemory_mb < 0:
        raise SettingsError("redis.maxmemory_mb must be 0 (no limit) or more")
    if not 0 < store.shed_to < store.shed_from <= 1:
        raise SettingsError("redis.shed_to must be less than redis.shed_from, and both shares of 1")


_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[\x20-\x7e]+")


def _validate_gateway(gateway: Gateway) -> None:
    if gateway.mode == "off":
        return
    name = "url" if gateway.mode == "api" else "proxy"
    address = expand(getattr(gateway, name), "https://example.test/", "key")
    try:
        if "@" in address.partition("://")[2].partition("/")[0]:
            raise ValueError("credentials belong into gateway.credentials_file")
        target_of(address)
    except ValueError as error:
        raise SettingsError(f"gateway.{name} can't be used: {error}") from None
    for each in ("target_status_header", "target_header_prefix", "error_header", "reset_header"):
        if not _HEADER.fullmatch(f"{getattr(gateway, each) or 'X'}: x"):
            raise SettingsError(f"gateway.{each} is no name of a header")
    if not _HEADER.fullmatch(f"{gateway.quota_header or 'X'}: x"):
        raise SettingsError('gateway.quota_header must be "Name" or "Name: value"')
    wrong_header = next((line for line in gateway.headers if not _HEADER.fullmatch(line)), None)
    if wrong_header is not None:
        raise SettingsError(f'gateway.headers: {wrong_header!r} is not "Name: value"')
    if gateway.mode == "proxy":
        if not address.startswith("http://") or address.rstrip("/").count("/") != 2:
            raise SettingsError("gateway.proxy must be http://host:port")
        return
    if "{url}" not in gateway.url:
        raise SettingsError("gateway.url lacks {url}, where the address of each page is put")
    keyed = "{key}" in gateway.url or any("{key}" in line for line in gateway.headers)
    if keyed != (gateway.credentials_file is not None):
        raise SettingsError(
            "{key} must stand in gateway.url or gateway.headers where gateway.credentials_file is given, "
            "and nowhere else"
        )


def _validate_signing(signing: WebBotAuth, gateway: Gateway) -> None:
    if not 10 <= signing.valid_s <= MAX_VALID_S:
        raise SettingsError(f"web_bot_auth.valid_s must be between 10 and {MAX_VALID_S:g}")
    if (signing.agent or signing.key_file is not None) and not is_origin(signing.agent):
        raise SettingsError(
            f"web_bot_auth.agent {signing.agent!r} must be the https origin that publishes the key, "
            'such as "https://bot.example.org"'
        )
    if signing.key_file is not None and gateway.mode == "api":
        raise SettingsError(
            'web_bot_auth can\'t be used with gateway.mode "api": the gateway asks in its own name'
        )


def build(raw: object, source: str = "settings") -> Settings:
    """Settings from a plain mapping (parsed TOML). Raises ``SettingsError`` in one sentence."""
    try:
        settings = msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", "`").replace("Object contains", "there is an")
        raise SettingsError(f"{source}: {words}") from None
    _validate(settings)
    return settings


def load(path: Path) -> Settings:
    """Read ``node.toml``; relative paths in it become absolute, from the file's own folder."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no settings file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can't be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    settings = build(raw, str(path))
    return resolved(settings, path.resolve().parent)


def resolved(settings: Settings, here: Path) -> Settings:
    """The same with relative paths taken from ``here``."""
    paths, gateway, signing = settings.paths, settings.gateway, settings.web_bot_auth
    if gateway.credentials_file is not None:
        gateway = msgspec.structs.replace(gateway, credentials_file=str(here / gateway.credentials_file))
    if signing.key_file is not None:
        signing = msgspec.structs.replace(signing, key_file=str(here / signing.key_file))
    return msgspec.structs.replace(
        settings,
        paths=Paths(data=str(here / paths.data), redis_socket=str(here / paths.redis_socket)),
        gateway=gateway,
        web_bot_auth=signing,
    )


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{key} = {_toml_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    # a TOML basic string has JSON's escapes
    return msgspec.json.encode(str(value)).decode()


def dump(settings: Settings) -> str:
    """The TOML text of ``settings``; ``load`` of it gives the same tree."""
    lines: list[str] = []
    for section, table in msgspec.to_builtins(settings).items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in table.items() if value is not None]
        lines.append("")
    return "\n".join(lines)
