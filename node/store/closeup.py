"""A closer look at a node: what its counters can't tell. Its cost does not grow with the frontier.

The age of the frontier takes the first member of each lane; of domains only those are read that fetchers
name as their worst (``Report.worst``), and how these stand is taken from their own records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from node.rules.health import Health, Signs, judge
from node.rules.pace import Limits
from node.rules.shard import LANES
from node.store import domain_record, keys
from node.store.connection import Store
from node.store.domain_record import DomainRecord
from node.store.snapshot import TOLD_DOMAINS, Snapshot, Troubled

AGE_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("GET", keys.EPOCH),
    *(("ZRANGE", keys.ready(lane), "0", "0", "WITHSCORES") for lane in range(LANES)),
)


@dataclass(frozen=True, slots=True)
class Told:
    """A domain in trouble: what its fetcher counted of late, and how it stands.

    ``width`` in visits at once; ``slowdowns``: how often it was slowed down in its life.
    """

    counted: Troubled
    health: Health
    in_flight: int
    delay_ms: int
    width: float
    slowdowns: int

    @property
    def retry_share(self) -> float:
        """Retries, as a share of its visits."""
        return self.counted.retries / max(1, self.counted.visits)


@dataclass(frozen=True, slots=True)
class Closeup:
    """``frontier_age_ms``: lateness of the ready domain that has been due for longest; 0 if none is.

    ``worst``: at most ``TOLD_DOMAINS`` domains in trouble, the worst first; those that were given up, or have
    nothing left to visit, are left out.
    """

    frontier_age_ms: int
    worst: Sequence[Told]


def take(store: Store, look: Snapshot, base_delay_ms: int, now_ms: int) -> Closeup:
    """Read what ``look`` leaves open, in one round trip."""
    named: dict[str, Troubled] = {}
    for report in look.procs.values():
        for troubled in report.worst[:TOLD_DOMAINS]:
            known = named.get(troubled.domain)
            if known is None or known.visits < troubled.visits:  # it has changed hands
                named[troubled.domain] = troubled
    records = [("GET", keys.domain(domain)) for domain in named]
    epoch, *answers = store.calls([], extra=[*AGE_COMMANDS, *records])
    firsts, packed = answers[:LANES], answers[LANES:]
    told = [
        _told(troubled, domain_record.unpack(record), base_delay_ms, now_ms)
        for troubled, record in zip(named.values(), packed, strict=True)
        if record is not None
    ]
    there = [each for each in told if each is not None]
    there.sort(key=lambda each: (each.health.score, -each.counted.throttled, each.counted.domain))
    dues = [float(first[1]) for first in firsts if first]
    return Closeup(_age_ms(dues, int(epoch or 0), base_delay_ms, now_ms), there[:TOLD_DOMAINS])


def _age_ms(dues_ms: Sequence[float], epoch_ms: int, base_delay_ms: int, now_ms: int) -> int:
    """How late the first is. One last due before ``epoch_ms`` may be visited a delay after that (I3)."""
    due_ms = min((due if due >= epoch_ms else epoch_ms + base_delay_ms for due in dues_ms), default=now_ms)
    return max(0, int(now_ms - due_ms))


def _told(troubled: Troubled, record: DomainRecord, base_delay_ms: int, now_ms: int) -> Told | None:
    """None where its trouble is over for good."""
    if record.gone or record.queued + record.later + record.leased == 0:
        return None
    limits = Limits(base_delay_ms, 0)
    return Told(
        troubled,
        health_of(record, base_delay_ms, now_ms),
        in_flight=record.leased,
        delay_ms=record.pace.delay_ms(limits),
        width=record.width / 1000 if record.pace.visits_at_once(limits) > 1 else 1.0,
        slowdowns=record.slowdowns,
    )


def health_of(record: DomainRecord, base_delay_ms: int, now_ms: int) -> Health:
    """How a domain fares, by its record."""
    limits = Limits(base_delay_ms, 0)
    return judge(
        Signs(
            ordinary_delay_ms=record.pace.base_ms(limits),
            delay_ms=record.pace.delay_ms(limits),
            width=record.width,
            unreachable=record.unreachable,
            due_in_ms=int(record.due_ms) - now_ms,
            retry_tokens=record.retry_tokens,
            retired=bool(record.gone),
        )
    )
