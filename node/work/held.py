"""The leases that a fetcher holds: which of them it may still use, and which need more time.

A lease is held from the moment it is handed out until it was settled, whatever became of its visit; so what
waits for the disk or for Redis is not given out to somebody else meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from node.rules.entry import Lease
from node.rules.lease import extended_until
from node.settings import Settings


@dataclass(slots=True)
class _Held:
    lease: Lease
    """As it is by now: a hop changes it."""
    generation: int
    leased_ms: int
    expiry_ms: int


class Held:
    """The leases of one fetcher, by their tokens."""

    def __init__(self, settings: Settings) -> None:
        self._request_ms = round(1000 * settings.request_s)
        self._lease_ms = round(1000 * settings.lease_s)
        self._longest_ms = round(1000 * settings.longest_lease_s)
        self._held: dict[str, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def oldest_ms(self, now_ms: int) -> int:
        """Age of the lease that is held for longest; 0 where there is none."""
        oldest = next(iter(self._held.values()), None)
        return max(0, now_ms - oldest.leased_ms) if oldest else 0

    def take(self, leases: Iterable[Lease], generation: int, now_ms: int) -> None:
        """These were handed out; ``generation``: of the Redis they came from."""
        for lease in leases:
            self._held[token_of(lease)] = _Held(lease, generation, now_ms, lease.expiry_ms)

    def drop(self, leases: Iterable[Lease]) -> None:
        """These were settled, or are not ours."""
        for lease in leases:
            self._held.pop(token_of(lease), None)

    def may_send(self, lease: Lease, generation: int, now_ms: int) -> bool:
        """Is it still ours, so young that one request more can end in time, and from this Redis?

        ``lease``: as its visit knows it, which may have made a hop since.
        """
        held = self._held.get(token_of(lease))
        if held is None:
            return False
        held.lease = lease
        return now_ms < held.expiry_ms - self._request_ms and held.generation == generation

    def to_extend(self, now_ms: int) -> list[tuple[Lease, int]]:
        """Leases that need more time, and until when."""
        wanted = []
        for held in self._held.values():
            until_ms = extended_until(
                now_ms=now_ms,
                leased_ms=held.leased_ms,
                expiry_ms=held.expiry_ms,
                request_ms=self._request_ms,
                lease_ms=self._lease_ms,
                longest_ms=self._longest_ms,
            )
            if until_ms is not None:
                wanted.append((held.lease, until_ms))
        return wanted

    def extended(self, wanted: Sequence[tuple[Lease, int]], answer: str) -> None:
        """What Redis said to it. A 0 may be about a lease that its visit has changed meanwhile: it is asked
        again, under the name it has then."""
        for (lease, until_ms), said in zip(wanted, answer, strict=True):
            held = self._held.get(token_of(lease))
            if held is not None and said == "1":
                held.expiry_ms = max(held.expiry_ms, until_ms)


def token_of(lease: Lease) -> str:
    """What stays the same of a lease through its hops."""
    return lease.member.partition(" ")[0]
