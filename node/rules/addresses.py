"""How much one IP address bears: visits a second and visits at once, of all domains behind it together.

A domain's *place* is what is kept of its address: one byte for the class (which limit holds there, by the
settings), then four bytes of IPv4, or the eight of an IPv6 address's /64: one machine has that many
addresses by itself, and hosters give each site one of them. Class 0 is not limited. A domain whose address
can take no visit more is given a *turn*: a moment at which it is looked at again. Turns at one address lie
apart, so domains come in the order in which they were due, and however many there are, few are looked at.

``store/lua/_address.lua`` carries this out; a model test holds the two together. Times in ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

SLACK_MS = 250
"""Turns and fetchers are late by this much at times, and what was missed so may be made up for."""
LOOK_MS = 50
"""From one turn to the next where only visits at once are limited."""
MAX_CLASSES = 255

UNCOUNTED = b"\0"
"""The class without a limit."""
FORGET = UNCOUNTED
"""The place of a domain that was visited at an address which doesn't count (``connect_to``)."""


@dataclass(frozen=True, slots=True)
class Limit:
    """``per_s``: visits a second; ``at_once``: visits under way. 0 = no limit of that kind."""

    per_s: float
    at_once: int

    @property
    def interval_ms(self) -> float:
        """From one visit to the next."""
        return 1000 / self.per_s if self.per_s > 0 else 0.0

    @property
    def spacing_ms(self) -> float:
        """From one turn to the next."""
        return self.interval_ms or LOOK_MS


UNLIMITED = Limit(0, 0)


class Limits:
    """Which limit holds where: ``default``, or that of the smallest of ``networks`` (CIDR) that an address is
    in. ``classes`` are the limits that there are: a place's first byte counts them from 1.

    Raises ``ValueError`` in one sentence for what is no network, and for too many different limits.
    """

    def __init__(self, default: Limit, networks: Iterable[tuple[str, Limit]] = ()) -> None:
        self.classes: list[Limit] = []
        self._default = self._class_of(default)
        self._networks: dict[tuple[int, int], dict[int, int]] = {}
        """(version, bits of prefix) -> prefix -> class; the longest prefixes first."""
        found: dict[tuple[int, int], dict[int, int]] = {}
        for text, limit in networks:
            network = _network(text)
            bits = network.max_prefixlen - network.prefixlen
            prefixes = found.setdefault((network.version, network.prefixlen), {})
            prefixes.setdefault(int(network.network_address) >> bits, self._class_of(limit))
        self._networks = dict(sorted(found.items(), key=lambda item: -item[0][1]))

    def place(self, ip: str) -> bytes:
        """The place of a domain at ``ip``. Raises ``ValueError`` where that is no address."""
        address = ip_address(ip)
        of_class = self._default
        for (version, prefix_bits), prefixes in self._networks.items():
            if version == address.version:
                known = prefixes.get(int(address) >> (address.max_prefixlen - prefix_bits))
                if known is not None:
                    of_class = known
                    break
        return bytes((of_class,)) + address.packed[: 4 if address.version == 4 else 8]

    def _class_of(self, limit: Limit) -> int:
        if limit == UNLIMITED:
            return 0
        if limit not in self.classes:
            if len(self.classes) == MAX_CLASSES:
                raise ValueError(f"there may be {MAX_CLASSES} different limits at most")
            self.classes.append(limit)
        return self.classes.index(limit) + 1


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no network: {error}") from None
    if network.version == 6 and network.prefixlen > 64:
        raise ValueError(f"{text!r} is less than a /64, and those are limited as a whole")
    return network


def counts(place: bytes) -> bool:
    """Are visits to a domain at this place counted?"""
    return len(place) > 1 and place[0] > 0


def key_name(packed: bytes) -> str:
    """A packed address in the name of its key: ``192.0.2.7``, ``2001:0db8:0000:0001``."""
    if len(packed) == 4:
        return ".".join(map(str, packed))
    return packed.hex(":", 2)


def words(place: bytes) -> str:
    """A place for people: ``192.0.2.7``, ``2001:db8:0:1::/64``, or nothing where no address is known."""
    packed = place[1:]
    if len(packed) == 8:
        return f"{ip_address(packed + bytes(8))}/64"
    return str(ip_address(packed)) if len(packed) == 4 else ""


@dataclass(frozen=True, slots=True)
class Address:
    """What is known of an address that is in use.

    ``last_turn``: the latest that was given; ``next_ms``: when the next visit may begin, by the rate alone;
    ``out``: visits under way.
    """

    last_turn: float = 0.0
    next_ms: float = 0.0
    out: int = 0

    def means_something(self, now_ms: int) -> bool:
        """Else it may as well be forgotten."""
        return self.out > 0 or max(self.last_turn, self.next_ms + SLACK_MS) > now_ms

    def allowance(self, limit: Limit, wanted: int, now_ms: int, *, has_turn: bool) -> int:
        """How many of ``wanted`` visits to one domain may begin now.

        Who has no turn does not overtake those that wait for theirs; who has one is let in a little sooner
        than the rate says, since others may have been late.
        """
        if self.last_turn > now_ms:
            wanted = min(wanted, 1 if has_turn else 0)
        if limit.at_once:
            wanted = min(wanted, limit.at_once - self.out)
        if limit.interval_ms:
            ahead = now_ms + (SLACK_MS if has_turn else 0) - max(self.next_ms, now_ms - SLACK_MS)
            wanted = min(wanted, int(ahead // limit.interval_ms) + 1)
        return max(0, wanted)

    def visited(self, limit: Limit, visits: int, now_ms: int) -> Address:
        """So many visits to it begin."""
        next_ms = max(self.next_ms, now_ms - SLACK_MS) + visits * limit.interval_ms
        return replace(self, next_ms=next_ms if limit.interval_ms else self.next_ms, out=self.out + visits)

    def next_turn(self, limit: Limit, now_ms: int) -> float:
        """When the next domain that has to wait is looked at again."""
        return max(max(self.last_turn, now_ms) + limit.spacing_ms, self.next_ms)
