"""Who does a fetcher's fetching, put together from the settings: ourselves, or a gateway."""

from __future__ import annotations

from node.errors import SettingsError
from node.rules.connect_to import ConnectTo
from node.rules.request import target_of
from node.settings import Settings
from node.store.connection import AsyncStore
from node.store.tally import Tally
from node.work.gateway import Gateway
from node.work.http import Client, Fetching
from node.work.identity import signer_of, user_agent
from node.work.line import LineWatch
from node.work.proxy import ProxyConnector
from node.work.resolve import Resolver
from node.work.secret import Secret
from node.work.tls import TlsContexts

KEEP_IDLE_S = 15.0
"""How long an idle connection is kept, where connections are kept at all."""


def new_client(settings: Settings, store: AsyncStore, tally: Tally) -> Fetching:
    """Raises ``SettingsError`` where a setting of ``tls``, ``dns``, ``gateway`` or ``web_bot_auth`` can't be
    used.
    """
    tls = TlsContexts(
        verify=settings.tls.verify, ca_file=settings.tls.ca_file, max_sessions=settings.tls.max_sessions
    )
    if settings.gateway.mode != "off":
        return Gateway(settings, store, lambda secret: _to_gateway(settings, tls, secret))
    client = Client(
        user_agent=user_agent(settings),
        tls=tls,
        resolver=_resolver(settings, guard=True),
        max_connections=settings.fetcher.in_flight,
        keep_idle_s=KEEP_IDLE_S if settings.fetcher.keep_alive else 0.0,
        signer=signer_of(settings),
    )
    return LineWatch(client, tally)


def _to_gateway(settings: Settings, tls: TlsContexts, secret: Secret | None) -> Client:
    """What talks to the gateway, or by way of it. A proxy is asked on a new connection each time.

    Through a proxy our own requests reach the sites, so they are signed; a scraping API makes its own.
    """
    gateway = settings.gateway
    resolver = _resolver(settings, guard=False)
    connector = None
    headers: list[str] = []
    if gateway.mode == "proxy":
        line = f"Proxy-Authorization: {secret.basic}\r\n".encode("ascii") if secret else b""
        connector = ProxyConnector(target_of(gateway.proxy), resolver, tls, line)
    else:
        headers = [line.replace("{key}", secret.reveal() if secret else "") for line in gateway.headers]
    return Client(
        user_agent=user_agent(settings),
        tls=tls,
        resolver=resolver,
        max_connections=settings.fetcher.in_flight,
        keep_idle_s=KEEP_IDLE_S if connector is None else 0.0,
        headers=headers,
        connector=connector,
        signer=None if connector is None else signer_of(settings),
    )


def _resolver(settings: Settings, *, guard: bool) -> Resolver:
    dns = settings.dns
    try:
        return Resolver(
            servers=dns.servers,
            connect_to=ConnectTo(dns.connect_to),
            ttl_floor_s=dns.ttl_floor_s,
            ttl_ceiling_s=dns.ttl_ceiling_s,
            negative_ttl_s=dns.negative_ttl_s,
            timeout_s=dns.timeout_s,
            max_entries=dns.max_entries,
            ipv6=dns.ipv6,
            guard=guard,
        )
    except ValueError as error:
        raise SettingsError(f"dns: {error}") from None
