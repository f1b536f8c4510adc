"""Which IP addresses are on the public internet, and nobody's inside (invariant I7).

The tables are IANA's special-purpose registries (RFC 6890 and its updates) with the multicast and
reserved blocks, written out so that the answer doesn't depend on the version of Python. For IPv6
only global unicast (2000::/3) is public, less what is carved out of it: that refuses the
IPv4-mapped, NAT64 and 6to4 forms that spell a private IPv4 address in another way.
"""

from __future__ import annotations

from bisect import bisect_right
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

_PRIVATE_4 = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # carrier-grade NAT
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # the platform service inside every Azure machine
    "169.254.0.0/16",  # link-local, with the metadata services of most clouds
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # IETF protocol assignments
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # 6to4 relays, withdrawn
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/3",  # multicast, reserved, broadcast
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_PRIVATE_6 = (
    "2001::/23",  # IETF protocol assignments, Teredo among them
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: holds an IPv4 address
    "3fff::/20",  # documentation
)


def _bounds(networks: list[IPv4Network] | list[IPv6Network]) -> tuple[list[int], list[int]]:
    ordered = sorted((int(n.network_address), int(n.broadcast_address)) for n in networks)
    return [first for first, _ in ordered], [last for _, last in ordered]


_FIRST_4, _LAST_4 = _bounds([IPv4Network(text) for text in _PRIVATE_4])
_FIRST_6, _LAST_6 = _bounds([IPv6Network(text) for text in _PRIVATE_6])


def is_public(ip: str) -> bool:
    """Whether ``ip`` is the address of a host on the public internet.

    Only the canonical spellings are addresses at all: ``127.1``, ``0177.0.0.1``, ``2130706433`` or an
    IPv6 address with a zone are refused as they stand.
    """
    try:
        if ":" not in ip:
            number = int(IPv4Address(ip))
            at = bisect_right(_FIRST_4, number) - 1
            return at < 0 or number > _LAST_4[at]
        address = IPv6Address(ip)
    except AddressValueError:
        return False
    if address.scope_id is not None or address not in _GLOBAL_UNICAST:
        return False
    number = int(address)
    at = bisect_right(_FIRST_6, number) - 1
    return at < 0 or number > _LAST_6[at]


def literal(host: str) -> str | None:
    """The address that a URL's ``host`` spells out, without brackets; None for a name.

    Canonical hosts (WHATWG) write addresses in their one usual form, so anything else is a name.
    """
    try:
        if host.startswith("["):
            return str(IPv6Address(host[1:-1])) if host.endswith("]") else None
        if host[-1:].isdigit():
            return str(IPv4Address(host))
    except AddressValueError:
        return None
    return None


def names_inside(host: str) -> bool:
    """Whether a URL's ``host`` says by itself that it is not on the public internet.

    It does if it spells out an address that is not, or names this machine (RFC 6761, 6.3). Other names
    say nothing before they are looked up.
    """
    spelled = literal(host)
    if spelled is not None:
        return not is_public(spelled)
    name = host.rstrip(".")
    return name == "localhost" or name.endswith(".localhost")
