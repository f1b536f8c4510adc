"""The HTTP client of a fetcher, put together from the settings."""

from __future__ import annotations

from node import __version__
from node.errors import SettingsError
from node.rules.connect_to import ConnectTo
from node.settings import Settings
from node.work.http import Client
from node.work.resolve import Resolver
from node.work.tls import TlsContexts

KEEP_IDLE_S = 15.0
"""How long an idle connection is kept, where connections are kept at all."""


def user_agent(settings: Settings) -> str:
    """``token/version (+contact)``; robots.txt groups are matched against the token."""
    identity = settings.identity
    contact = f" (+{identity.contact})" if identity.contact else ""
    return f"{identity.token}/{__version__}{contact}"


def new_client(settings: Settings) -> Client:
    """Raises ``SettingsError`` where a setting of ``tls`` or ``dns`` can't be used."""
    dns = settings.dns
    try:
        resolver = Resolver(
            servers=dns.servers,
            connect_to=ConnectTo(dns.connect_to),
            ttl_floor_s=dns.ttl_floor_s,
            ttl_ceiling_s=dns.ttl_ceiling_s,
            negative_ttl_s=dns.negative_ttl_s,
            timeout_s=dns.timeout_s,
            max_entries=dns.max_entries,
            ipv6=dns.ipv6,
        )
    except ValueError as error:
        raise SettingsError(f"dns: {error}") from None
    tls = TlsContexts(
        verify=settings.tls.verify, ca_file=settings.tls.ca_file, max_sessions=settings.tls.max_sessions
    )
    return Client(
        user_agent=user_agent(settings),
        tls=tls,
        resolver=resolver,
        max_connections=settings.fetcher.in_flight,
        keep_idle_s=KEEP_IDLE_S if settings.fetcher.keep_alive else 0.0,
    )
