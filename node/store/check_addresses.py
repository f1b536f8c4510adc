"""Are as many visits counted at each IP address as leases are out on its domains? If not, it would be visited
too much, or never again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from struct import error as NotPackedError

from node.rules.addresses import Address, key_name
from node.store import address_record, keys
from node.store.check_places import scan
from node.store.connection import Store


@dataclass(frozen=True, slots=True)
class Miscounted:
    """An address by its key; what is kept of it, and how many leases are out there."""

    key: str
    kept: Address
    leased: int

    @property
    def words(self) -> str:
        return f"counted {self.kept.out:,} visits, but {self.leased:,} leases are out there"


def miscounted(store: Store, leased: Mapping[bytes, int]) -> Iterator[Miscounted]:
    """Addresses whose count is not that of ``leased``: packed address -> leases out. The node must stand
    still meanwhile."""
    scanned = scan(store, "SCAN", (), keys.address("*"))
    names = list(dict.fromkeys(key.decode() for some in scanned for key in some))
    states = store.calls([], extra=[("GET", name) for name in names])
    kept = {name: _read(state) for name, state in zip(names, states, strict=True) if state is not None}
    wanted = {keys.address(key_name(ip)): count for ip, count in leased.items()}
    for key in sorted(kept.keys() | wanted.keys()):
        address = kept.get(key, Address())
        if address.out != wanted.get(key, 0):
            yield Miscounted(key, address, wanted.get(key, 0))


def recount(store: Store, wrong: Miscounted) -> None:
    """Keep the true count of an address instead; one that nobody visits is forgotten."""
    if wrong.leased == 0:
        store.calls([], extra=[("DEL", wrong.key)])
    else:
        state = address_record.pack(replace(wrong.kept, out=wrong.leased))
        store.calls([], extra=[("SET", wrong.key, state)])


def _read(state: bytes) -> Address:
    """What can't be read counts as visits that nobody makes."""
    try:
        return address_record.unpack(state)
    except NotPackedError:
        return Address(out=-1)
