"""Which faults strike, and when: drawn from a seed, so that a schedule can be had again.

A seed gives the same schedule each time, not the same run: what a fault meets depends on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat
from random import Random


class Kind(StrEnum):
    """What can happen. The words are those of the fault table."""

    KILL = "a process is killed (SIGKILL)"
    STOP = "a process is stopped and continued (SIGSTOP)"
    STOP_IN_VISIT = "a fetcher is stopped in the middle of a visit"
    STOP_LONG = "a fetcher is stopped for longer than lease and delay"
    CONNECTIONS = "all connections to Redis are cut (CLIENT KILL)"
    MEMORY = "Redis is out of memory (maxmemory)"
    DISK_LOW = "the disk is nearly full"
    DISK_FULL = "the disk is full to the last byte"
    DNS_SILENT = "the name server says nothing"
    DNS_BROKEN = "the name server fails (SERVFAIL)"
    CLOCK = "the wall clock is set hours ahead or back, and right again"
    REDIS_KILL = "Redis alone is killed"
    REDIS_LOADING = "Redis alone is killed, and takes long to load (LOADING)"
    REDIS_ROLLED_BACK = "Redis alone is killed, and its last second is lost"
    CRAWL_KILL = "all processes are killed at once"
    POWER_CUT = "the power is cut: the last second on disk is lost, too, and the clock starts anew"


REDIS_KILLS = frozenset({Kind.REDIS_KILL, Kind.REDIS_LOADING, Kind.REDIS_ROLLED_BACK})
"""After which the command starts Redis again."""


@dataclass(frozen=True, slots=True)
class Sort:
    """One row of the table: ``often`` of a hundred faults are of this kind, for ``from_s`` to ``to_s``.

    ``quiet``: after it no domain may be visited for a while, so that faults of its sort are kept apart.
    ``within``: the stretch of the run in which they strike, as shares of it.
    """

    often: int
    from_s: float = 0.0
    to_s: float = 0.0
    quiet: bool = False
    within: tuple[float, float] = (0.0, 1.0)


TABLE: dict[Kind, Sort] = {
    Kind.KILL: Sort(22),
    Kind.STOP: Sort(18, 1, 8),
    Kind.STOP_IN_VISIT: Sort(12, 1, 10),
    # begun early enough to be over before the end
    Kind.STOP_LONG: Sort(1, 25, 26, within=(0.0, 0.5)),
    Kind.CONNECTIONS: Sort(17),
    # at maxmemory links are refused, by design: so that it is known of which pages, only for a while
    Kind.MEMORY: Sort(5, 0.5, 3, within=(0.45, 0.6)),
    Kind.DISK_LOW: Sort(3, 1, 3),
    Kind.DISK_FULL: Sort(4, 0.5, 2),
    # an origin whose robots.txt could not be had waits a minute: it is to be over with the rest
    Kind.DNS_SILENT: Sort(4, 1, 4, within=(0.0, 0.5)),
    Kind.DNS_BROKEN: Sort(4, 1, 4, within=(0.0, 0.5)),
    Kind.CLOCK: Sort(4, 2, 15),
    Kind.REDIS_KILL: Sort(2, quiet=True),
    Kind.REDIS_LOADING: Sort(2, quiet=True),
    Kind.REDIS_ROLLED_BACK: Sort(2, quiet=True),
    Kind.CRAWL_KILL: Sort(2, 0, 2, quiet=True),
    Kind.POWER_CUT: Sort(2, 0, 2, quiet=True),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a schedule: ``at_s`` after its begin, for ``for_s``; ``target``: a process's name."""

    at_s: float
    kind: Kind
    target: str = ""
    for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How large a run is: ``faults`` within ``seconds``; stops last ``longer`` times as long as in the table,
    those for longer than a lease by ``long_s`` more."""

    seed: int
    seconds: float
    faults: int
    fetchers: int = 3
    parsers: int = 2
    domains: int = 48
    pages_per_domain: int = 8
    delay_s: float = 1.5
    longer: float = 1.0
    long_s: float = 0.0
    leave_out: frozenset[Kind] = frozenset()


LEAST_FAULTS = 60
"""That must strike in a short run."""


def short(seed: int) -> Plan:
    """The run that the tests make: two minutes, with the crawl's beginning and its end."""
    return Plan(seed, seconds=52, faults=72)


def schedule(plan: Plan) -> list[Fault]:
    """All faults of a plan, in their order. Every kind is among them, from one fault a kind on.

    Those after which nothing may be visited for a while come at equal distances, the others anywhere.
    """
    dice = Random(plan.seed)
    table = {kind: sort for kind, sort in TABLE.items() if kind not in plan.leave_out}
    kinds = _kinds(table, plan.faults)
    quiet = [kind for kind in kinds if table[kind].quiet]
    others = [kind for kind in kinds if not table[kind].quiet]
    dice.shuffle(quiet)
    dice.shuffle(others)
    apart = plan.seconds / max(1, len(quiet))
    times = [(apart * (at + dice.uniform(0.3, 0.7)), kind) for at, kind in enumerate(quiet)]
    for at, kind in enumerate(others):
        first, last = table[kind].within
        times.append((plan.seconds * (first + (last - first) * (at + dice.random()) / len(others)), kind))
    return [_drawn(at_s, kind, plan, dice) for at_s, kind in sorted(times)]


def _kinds(table: dict[Kind, Sort], faults: int) -> list[Kind]:
    """So many of each kind as the table says, at least one, and ``faults`` in all."""
    hundred = sum(sort.often for sort in table.values())
    counts = {kind: max(1, round(faults * sort.often / hundred)) for kind, sort in table.items()}
    frequent = max(table, key=lambda kind: table[kind].often)
    counts[frequent] = max(1, counts[frequent] + faults - sum(counts.values()))
    return list(chain.from_iterable(repeat(kind, count) for kind, count in counts.items()))


def _drawn(at_s: float, kind: Kind, plan: Plan, dice: Random) -> Fault:
    sort = TABLE[kind]
    fetchers = [f"fetcher {n}" for n in range(1, plan.fetchers + 1)]
    parsers = [f"parser {n}" for n in range(1, plan.parsers + 1)]
    for_s = dice.uniform(sort.from_s, sort.to_s)
    target = ""
    match kind:
        case Kind.KILL:
            target = dice.choice([*fetchers, *parsers, "watch"])
        case Kind.STOP:
            # Redis and the command not for as long: what all of them wait for is one thing at a time
            target = dice.choice([*fetchers, *parsers, "watch", "redis", "crawl"])
            for_s *= plan.longer if target not in ("redis", "crawl") else 0.5
        case Kind.STOP_IN_VISIT:
            target = dice.choice(fetchers)
            for_s *= plan.longer
        case Kind.STOP_LONG:
            target = dice.choice(fetchers)
            for_s += plan.long_s * dice.random()
    return Fault(round(at_s, 3), kind, target, round(for_s, 3))
