"""What addresses bear, in the frontier's model: leases and turns are the script's choice, if it may."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from node.rules.addresses import SLACK_MS, Address, Limit, Limits, counts
from node.rules.entry import Lease
from node.store.address_record import unpack

if TYPE_CHECKING:
    from tests.store.frontier_model import ModelDomain


@dataclass
class ModelAddresses:
    """Of all domains' addresses: the limits, the clocks. Who is at an address is what the domains say."""

    limits: Limits
    domains: Mapping[str, ModelDomain]
    clocks: dict[bytes, Address] = field(default_factory=dict)

    def at(self, ip: bytes) -> Address:
        out = sum(len(d.leases) for d in self.domains.values() if counts(d.place) and d.place[1:] == ip)
        return replace(self.clocks.get(ip, Address()), out=out)

    def limit_of(self, domain: ModelDomain) -> Limit | None:
        if not counts(domain.place) or not self.limits.classes:
            return None
        number = domain.place[0] - 1
        return self.limits.classes[number if number < len(self.limits.classes) else 0]

    def begin(self, leases: Sequence[Lease], now_ms: int) -> None:
        """Leases about to be handed out by one call: each domain gets what its address bears."""
        of_domain: dict[str, int] = defaultdict(int)
        for lease in leases:
            of_domain[lease.domain] += 1
        begun: dict[bytes, int] = defaultdict(int)
        for name, visits in of_domain.items():
            domain = self.domains[name]
            limit = self.limit_of(domain)
            if limit is None:
                continue
            ip = domain.place[1:]
            here = self.at(ip)
            here = replace(here, out=here.out + begun[ip])
            assert here.allowance(limit, visits, now_ms, has_turn=domain.turn_ms > 0) == visits, name
            assert limit.at_once == 0 or here.out + visits <= limit.at_once
            begun[ip] += visits
            self.clocks[ip] = replace(here.visited(limit, visits, now_ms), out=0)

    def put_off(self, turns: Mapping[str, float], leased: set[str], now_ms: int) -> None:
        """Who was given a turn by one call, after its leases: each was to be refused, and turns lie apart."""
        by_address: dict[bytes, list[str]] = defaultdict(list)
        for name in sorted(turns, key=lambda name: turns[name]):
            by_address[self.domains[name].place[1:]].append(name)
        for ip, names in by_address.items():
            before = self.at(ip)
            last = before.last_turn
            for number, name in enumerate(names):
                domain = self.domains[name]
                limit = self.limit_of(domain)
                assert limit is not None, f"{name} waits for an address without a limit"
                refused = not before.allowance(limit, 1, now_ms, has_turn=domain.turn_ms > 0)
                others_wait = name in leased and before.last_turn > now_ms
                assert refused or number or others_wait, f"{name} was put off for nothing"
                least = max(last, now_ms) + limit.spacing_ms
                assert least <= turns[name] <= max(least, before.next_ms), name
                last = domain.turn_ms = turns[name]
            self.clocks[ip] = replace(before, last_turn=last, out=0)

    def compare(self, found: Mapping[str, bytes], now_ms: int) -> None:
        """``found``: key -> value of all that Redis keeps of addresses."""
        for key, packed in found.items():
            assert _as_of(unpack(packed), now_ms) == _as_of(self.at(packed_of(key)), now_ms), key
        met = {packed_of(key) for key in found}
        every = {d.place[1:] for d in self.domains.values() if counts(d.place)} | self.clocks.keys()
        for ip in every - met:
            assert not self.at(ip).means_something(now_ms), f"{ip!r} was forgotten"


def _as_of(address: Address, now_ms: int) -> Address:
    """Without what is over: it may be forgotten at any time."""
    last_turn = address.last_turn if address.last_turn > now_ms else 0.0
    next_ms = address.next_ms if address.next_ms + SLACK_MS > now_ms else 0.0
    return Address(last_turn, next_ms, address.out)


def packed_of(key: str) -> bytes:
    """``ip:192.0.2.1`` or ``ip:2001:0db8:0000:0001`` -> the packed address."""
    text = key.removeprefix("ip:")
    if "." in text:
        return bytes(int(part) for part in text.split("."))
    return bytes.fromhex(text.replace(":", ""))
