"""The section ``addresses`` of ``node.toml``: how much one IP address bears."""

from __future__ import annotations

import msgspec


class NetworkLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of ``addresses.networks``."""

    network: str
    visits_per_s: float = 0.0
    visits_at_once: int = 0


class Addresses(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much this node's fetchers, all together, ask of one IP address, whatever the number of its domains
    ([how to](operate.md#many-domains-at-one-address)). An IPv6 address counts as its /64. Not counted: what
    ``dns.connect_to`` leads to, and all that goes through a gateway.
    """

    visits_per_s: float | None = None
    """Most visits a second that begin at one address; 0 = no limit. None = 5, but no limit where
    ``crawl.delay_s`` is 0: that is for sites that asked for it."""
    visits_at_once: int | None = None
    """Most visits under way at one address; 0 = no limit. None = 10, or no limit as above."""
    networks: tuple[NetworkLimit, ...] = ()
    """Addresses or networks with limits of their own, such as large hosters:
    ``{network = "192.0.2.0/24", visits_per_s = 100, visits_at_once = 200}``. They hold for each of its
    addresses; without any there is none. The smallest network that an address is in decides."""
