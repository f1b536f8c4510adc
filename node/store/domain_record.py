"""What Redis keeps of a domain: one packed string, ``d:{domain}``, read and written whole.

A hash would be easier on the eye, but each field costs the scripts as much as the whole of this.
``lua/_lib.lua`` packs the same fields in the same order. The last two are there only where they say
something: the place once it is known, the turn while the domain waits for its address.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from node.rules.pace import Limits, Pace

_FORMAT = struct.Struct("<diiiiihhBBhhiiidiiBBH")
SIZE = _FORMAT.size
_TURN = struct.Struct("<d")
_PLACES = (0, 1 + 4, 1 + 8)
"""How long a place may be."""


@dataclass(frozen=True, slots=True)
class DomainRecord:
    """One domain's state; times in ms of the crawl's clock."""

    due_ms: float
    """When it may be visited next. A fraction orders seeds of one moment by rank."""
    queued: int
    """URLs in its lists."""
    later: int
    """URLs that wait for a time of their own."""
    admitted: int
    """URLs ever admitted; all of them are marked in its seen filter."""
    slowed_ms: int
    """The delay our own back-off asks for, 0 = none."""
    crawl_delay_ms: int
    """What its robots.txt asks for, 0 = nothing, -1 = not read yet."""
    leased: int
    width: int
    """Visits at once where there is no delay, thousandths."""
    gone: int
    """1 once it was given up."""
    lowest: int
    """None of its lists below this level holds a URL."""
    unreachable: int
    """Times in a row that nothing answered."""
    retry_tokens: int
    """Tenths of retries it may have."""
    failed: int = 0
    """The limit that failed last: a delay in ms, or a width in visits; 0 = none."""
    run: int = 0
    """Good visits since it was slowed down."""
    slowed_at_s: int = 0
    mark: float = 0.0
    """Serial number of the newest lease when it was slowed down."""
    ttfb: int = 0
    usual_ttfb: int = 0
    """Times to first byte, of late and in general, in 256ths of a ms."""
    grade: int = 0
    """How often its limit failed."""
    ttfb_count: int = 0
    slowdowns: int = 0
    """How often it was slowed down in its life."""
    place: bytes = b""
    """Its last known address, as in ``rules/addresses.py``; empty where none is known, or none counts."""
    turn_ms: float = 0.0
    """When it is looked at again, while its address can take no visit more; 0 = it does not wait for that."""

    @property
    def pace(self) -> Pace:
        """The part that ``rules/pace.py`` reckons with."""
        return Pace(
            self.slowed_ms,
            self.crawl_delay_ms,
            self.width,
            self.unreachable,
            int(self.due_ms),
            self.failed,
            self.grade,
            self.run,
            self.slowed_at_s,
            int(self.mark),
            self.ttfb,
            self.usual_ttfb,
            self.ttfb_count,
            self.slowdowns,
        )

    def ready_at_ms(self, limits: Limits) -> float | None:
        """I2: its score in ``ready``, or None if it must not be there."""
        if self.queued > 0 and self.leased < self.pace.visits_at_once(limits):
            return max(self.due_ms, self.turn_ms)
        return None


def unpack(packed: bytes) -> DomainRecord:
    """Raises ``struct.error`` where the string is no record."""
    place, turn_ms = packed[SIZE:], 0.0
    if len(place) > max(_PLACES):
        place, (turn_ms,) = place[: -_TURN.size], _TURN.unpack(place[-_TURN.size :])
    if len(place) not in _PLACES:
        raise struct.error(f"{len(packed)} bytes are no record")
    return DomainRecord(*(*_FORMAT.unpack(packed[:SIZE]), place, turn_ms))


def pack(record: DomainRecord) -> bytes:
    """The inverse of ``unpack``."""
    packed = _FORMAT.pack(
        record.due_ms,
        record.queued,
        record.later,
        record.admitted,
        record.slowed_ms,
        record.crawl_delay_ms,
        record.leased,
        record.width,
        record.gone,
        record.lowest,
        record.unreachable,
        record.retry_tokens,
        record.failed,
        record.run,
        record.slowed_at_s,
        record.mark,
        record.ttfb,
        record.usual_ttfb,
        record.grade,
        record.ttfb_count,
        record.slowdowns,
    )
    return packed + record.place + (_TURN.pack(record.turn_ms) if record.turn_ms else b"")
