"""What no type says: least values, and settings that contradict each other."""

from __future__ import annotations

import re

from node.errors import SettingsError
from node.rules.gateway import expand
from node.rules.lease import AHEAD_MS
from node.rules.request import target_of
from node.rules.signature import MAX_VALID_S, is_origin
from node.settings.sections import Gateway, WebBotAuth
from node.settings.tree import Settings

MAX_URLS_PER_DOMAIN = 10_000_000
"""What a seen filter can be planned for."""

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
    ("fetcher.known_pages", 0),
    ("parser.in_hand", 1),
    ("parser.offer_pages", 1),
    ("parser.max_page_bytes", 1_024),
    ("parser.max_links_per_page", 1),
    ("parser.near_duplicates", 0),
    ("parser.claim_after_s", 1),
    ("parser.page_deadline_s", 0.1),
    ("parser.max_deaths", 1),
    ("spool.seconds", 0.1),
    ("spool.floor", 1),
    ("archive.rotate_bytes", 4_096),
    ("archive.log_rotate_bytes", 4_096),
    ("archive.free_after_s", 0.1),
    ("archive.disk_reserve_bytes", 0),
    ("archive.slow_s", 0.001),
    ("redis.slow_s", 0.001),
    ("redis.shed_queued_after_s", 0),
    ("redis.stuck_s", 0),
    ("gateway.ceiling_per_s", 0.001),
    ("addresses.visits_per_s", 0),
    ("addresses.visits_at_once", 0),
)


def validate(settings: Settings) -> None:
    """Raises ``SettingsError`` in one sentence."""
    for path, least in _LEAST:
        section, name = path.split(".")
        value = getattr(getattr(settings, section), name)
        if value is not None and not value >= least:  # also catches NaN
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
    if settings.parser.near_duplicates > 1:
        raise SettingsError("parser.near_duplicates is a share of all pages: between 0 and 1")
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
    _validate_addresses(settings)
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


def _validate_addresses(settings: Settings) -> None:
    for row in settings.addresses.networks:
        if not (row.visits_per_s >= 0 and row.visits_at_once >= 0):
            raise SettingsError(f"addresses.networks: limits of {row.network} must be 0 (none) or more")
    try:
        _ = settings.address_limits
    except ValueError as error:
        raise SettingsError(f"addresses.networks: {error}") from None


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
