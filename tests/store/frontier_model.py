"""The frontier in plain Python: what the verbs must do to one node, one step after the other.

Nothing here knows of Redis. Where the scripts may choose (which due domains are served first, which
expired leases are reaped), the model takes their choice after checking that it was allowed; all else
it works out by itself, and the state of Redis must equal its own after every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from node.rules import pace as pacing
from node.rules import retry
from node.rules.addresses import FORGET, Limits
from node.rules.entry import Lease, unpack
from node.rules.outcome import Signal
from node.rules.pace import Limits as PaceLimits
from node.rules.pace import Pace
from node.rules.seen import Filter, Plan
from node.rules.shed import NOTHING, free_below, hopeless_from
from node.store.domain_record import DomainRecord
from node.store.frontier import Group, Kind, Offered, Settlement
from node.store.keys import LEVELS
from tests.store.frontier_addresses import ModelAddresses


@dataclass
class ModelDomain:
    """One domain, and where each of its URLs is."""

    name: str
    lane: int
    filter: Filter
    due_ms: float = 0.0
    pace: Pace = field(default_factory=Pace)
    tokens: int = retry.DOMAIN_START
    admitted: int = 0
    gone: bool = False
    lowest: int = LEVELS
    lists: dict[int, list[str]] = field(default_factory=lambda: {level: [] for level in range(LEVELS)})
    later: dict[str, int] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    """Lease -> expiry."""
    place: bytes = b""
    turn_ms: float = 0.0

    @property
    def queued(self) -> int:
        return sum(map(len, self.lists.values()))

    def record(self) -> DomainRecord:
        pace = self.pace
        return DomainRecord(
            due_ms=self.due_ms,
            queued=self.queued,
            later=len(self.later),
            admitted=self.admitted,
            slowed_ms=pace.slowed_ms,
            crawl_delay_ms=pace.crawl_delay_ms,
            leased=len(self.leases),
            width=pace.width,
            unreachable=pace.unreachable,
            retry_tokens=self.tokens,
            gone=int(self.gone),
            lowest=self.lowest,
            failed=pace.failed,
            run=pace.run,
            slowed_at_s=pace.slowed_at_s,
            mark=float(pace.mark),
            ttfb=pace.ttfb,
            usual_ttfb=pace.usual_ttfb,
            grade=pace.grade,
            ttfb_count=pace.ttfb_count,
            slowdowns=pace.slowdowns,
            place=self.place,
            turn_ms=self.turn_ms,
        )


def _aged(entry: str, *, tries: int = 0, reaped: int = 0) -> str:
    known = unpack(entry)
    return replace(known, tries=known.tries + tries, reaped=known.reaped + reaped).pack()


@dataclass
class Model:
    """A node's frontier. ``slots`` makes the filter lines of a URL."""

    limits: PaceLimits
    plan: Plan
    slots: Callable[[str], bytes]
    cap: int
    life_cap: int
    max_domains: int
    later_max: int
    retire_after: int
    address_limits: Limits
    shed: int = 0
    """The grade of shedding, as in rules/shed.py."""
    domains: dict[str, ModelDomain] = field(default_factory=dict)
    spool: dict[bytes, str] = field(default_factory=dict)
    ledger: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    retries: retry.NodeBudget = field(default_factory=retry.NodeBudget)
    serial: int = 0
    """Of the newest lease, as Redis counts them: a call takes as many numbers as it wants leases."""
    addresses: ModelAddresses = field(init=False)

    def __post_init__(self) -> None:
        self.addresses = ModelAddresses(self.address_limits, self.domains)

    def place(self, domain: ModelDomain, entry: str, *, front: bool) -> None:
        level = unpack(entry).level
        domain.lowest = min(domain.lowest, level)
        queue = domain.lists[level]
        queue.insert(0 if front else len(queue), entry)
        self.ledger["queued"] += 1

    # -- offer

    def offer(self, groups: Sequence[Group], acks: Sequence[bytes], returning: str) -> Offered:
        acknowledged = 0
        for each in acks:
            if self.spool.pop(each, None) is not None:
                acknowledged += 1
        self.ledger["spooled"] -= acknowledged
        self.ledger["done"] += acknowledged
        counts: Counter[str] = Counter()
        full: dict[str, tuple[int, int]] = {}
        for group in groups:
            self._offer_to(group, returning, counts, full)
        return Offered(
            acknowledged,
            counts["admitted"],
            counts["seen"],
            counts["refused"],
            counts["displaced"],
            full,
            hopeless_from(0 if returning else self.shed),
        )

    def _offer_to(
        self, group: Group, returning: str, counts: Counter[str], full: dict[str, tuple[int, int]]
    ) -> None:
        domain = self.domains.get(group.domain)
        is_new = domain is None
        if domain is None:
            domain = ModelDomain(group.domain, group.lane, Filter(self.plan), group.first_due_ms)
        fresh = [e for e in group.entries if returning or not domain.filter.contains(self._slots_of(e))]
        counts["seen"] += len(group.entries) - len(fresh)
        if not fresh:
            return
        if domain.gone or (is_new and len(self.domains) >= self.max_domains):
            self.ledger["refuse:dead_host" if domain.gone else "refuse:domain_cap"] += len(fresh)
            counts["refused"] += len(fresh)
            full[domain.name] = (-1, 5_000)
            return
        entered, worst, shed = 0, LEVELS, 0
        grade = 0 if returning else self.shed
        for entry in fresh:
            level = unpack(entry).level
            if not returning and domain.filter.contains(self._slots_of(entry)):
                counts["seen"] += 1
                continue
            spent = domain.admitted >= self.life_cap or not domain.filter.room()
            if self.ledger["drop:" + returning] < 1 if returning else spent:
                self.ledger["refuse:budget"] += 1
                counts["refused"] += 1
                worst = -1
                continue
            full_up = domain.queued + len(domain.later) >= self.cap
            free = level < free_below(grade) and not full_up
            if not free and not (grade < NOTHING and self._displace(domain, level, counts)):
                if grade == NOTHING or not full_up:
                    shed += 1
                    self.ledger["refuse:shed"] += 1
                    self.ledger[f"shed:{level}"] += 1
                    counts["refused"] += 1
                    continue
                self.ledger["refuse:full"] += 1
                counts["refused"] += 1
                worst = min(worst, level)
                continue
            self.place(domain, entry, front=False)
            counts["admitted"] += 1
            entered += 1
            if returning:
                self.ledger["drop:" + returning] -= 1
            else:
                domain.filter.add(self._slots_of(entry))
                domain.admitted += 1
                self.ledger["admitted"] += 1
        if worst < LEVELS:
            full[domain.name] = (worst, 5_000)
        elif shed:
            full[domain.name] = (LEVELS, 0)
        if is_new and entered:
            self.domains[domain.name] = domain
            self.ledger["domains"] += 1

    def _displace(self, domain: ModelDomain, level: int, counts: Counter[str]) -> bool:
        for worse in range(LEVELS - 1, level, -1):
            if domain.lists[worse]:
                domain.lists[worse].pop()
                self.ledger["queued"] -= 1
                self.ledger["drop:displaced"] += 1
                counts["displaced"] += 1
                return True
        return False

    def _slots_of(self, entry: str) -> bytes:
        return self.slots(unpack(entry).url)

    # -- leases

    def hand_out(self, lease: Lease) -> None:
        """A lease was given: it must be the best URL of a domain with free width."""
        domain = self.domains[lease.domain]
        assert len(domain.leases) < domain.pace.visits_at_once(self.limits), "no free width"
        domain.lowest, best = next(item for item in domain.lists.items() if item[1])
        assert lease.entry.pack() == best.pop(0), "not the best URL"
        assert lease.delay_ms == domain.pace.delay_ms(self.limits)
        assert lease.address_known == bool(domain.place)
        domain.leases[lease.member] = lease.expiry_ms
        self.ledger["queued"] -= 1
        self.ledger["leased"] += 1

    def reap(self, domain: ModelDomain, member: str, now_ms: int) -> None:
        _token, hops, _name, entry = member.split(" ", 3)
        del domain.leases[member]
        self.ledger["leased"] -= 1
        self.ledger["reaped"] += 1
        owed = domain.pace.delay_ms(self.limits) * (1 + int(hops))
        domain.due_ms = max(domain.due_ms, now_ms + owed)
        if domain.gone:
            self.ledger["drop:dead_host"] += 1
        elif unpack(entry).reaped == 3:
            self.ledger["drop:poison"] += 1
        else:
            self.place(domain, _aged(entry, reaped=1), front=True)

    def bring_back(self, domain: ModelDomain, entry: str) -> None:
        del domain.later[entry]
        self.ledger["queued"] -= 1
        if domain.gone:
            self.ledger["drop:dead_host"] += 1
        else:
            self.place(domain, entry, front=True)

    def extend(self, wanted: Sequence[tuple[Lease, int]], now_ms: int) -> str:
        answer = ""
        for lease, until_ms in wanted:
            leases = self.domains[lease.domain].leases
            expiry = leases.get(lease.member, 0)
            if expiry > now_ms:
                leases[lease.member] = max(expiry, until_ms)
            answer += "1" if expiry > now_ms else "0"
        return answer

    def hop(self, lease: Lease, target: str, now_ms: int, outcome: str, *, same: bool) -> tuple[str, str]:
        """The verdict, and the lease as it is then."""
        domain = self.domains[lease.domain]
        expiry = domain.leases.get(lease.member)
        if expiry is None or expiry <= now_ms:
            return "stale", lease.member
        token, hops, name, entry = lease.member.split(" ", 3)
        if not same:
            if domain.filter.contains(self._slots_of(target)):
                return "seen", lease.member
            if domain.admitted >= self.life_cap or not domain.filter.room():
                return "refused", lease.member
            domain.filter.add(self._slots_of(target))
            domain.admitted += 1
            self.ledger["admitted"] += 1
            self.ledger["done"] += 1
            self.outcomes[outcome] += 1
            entry = target
        renewed = f"{token} {int(hops) + 1} {name} {entry}"
        del domain.leases[lease.member]
        domain.leases[renewed] = expiry
        return "ok", renewed

    # -- settle

    def settle(self, results: Sequence[Settlement], now_ms: int, jitter: float) -> str:
        return "".join(self._settle(result, now_ms, jitter) for result in results)

    def _settle(self, result: Settlement, now_ms: int, jitter: float) -> str:
        member = result.lease.member
        domain = self.domains[result.lease.domain]
        if member not in domain.leases:
            self.ledger["stale"] += 1
            return "0"
        hops, entry = int(member.split(" ", 3)[1]), member.split(" ", 3)[3]
        del domain.leases[member]
        self.ledger["leased"] -= 1
        place = b"" if result.place == FORGET else result.place or domain.place
        if place != domain.place:
            domain.place, domain.turn_ms = place, 0.0
        pace = replace(domain.pace, due_ms=int(domain.due_ms))
        if result.crawl_delay_ms >= 0:
            pace = pacing.after_robots(pace, self.limits, result.crawl_delay_ms)
        slowdowns = pace.slowdowns
        domain.pace = pacing.after_visit(
            pace,
            self.limits,
            now_ms=now_ms,
            signal=result.signal,
            sent=result.sent,
            hops=hops,
            pause_ms=result.pause_ms,
            jitter=jitter,
            serial=result.lease.serial,
            last_serial=self.serial,
            ttfb_ms=result.ttfb_ms,
        )
        self.ledger["slowdowns"] += domain.pace.slowdowns - slowdowns
        domain.due_ms = domain.pace.due_ms
        kind, outcome, answer = result.kind, result.outcome, "1"
        first_try = unpack(entry).tries == 0 and result.sent
        self.ledger["first_tries"] += first_try
        domain.tokens, self.retries, grant = retry.after_visit(
            domain.tokens,
            self.retries,
            first_try=first_try,
            sent=result.sent,
            wanted=kind is Kind.RETRY and not domain.gone,
            dead=result.signal is Signal.DEAD,
        )
        if kind is Kind.RETRY:
            kind = Kind.LATER if grant is retry.Grant.YES else Kind.DONE
        if grant is retry.Grant.YES:
            entry, answer = _aged(entry, tries=1), "r"
            self.ledger["retries"] += 1
        elif grant is not None:
            self.ledger[f"no_retry:{grant}"] += 1
        if domain.gone and kind in (Kind.LATER, Kind.BACK):
            kind, outcome = Kind.DROP, "dead_host"
        self._put(domain, kind, entry, outcome, result, now_ms)
        if domain.pace.unreachable >= self.retire_after and not domain.gone:
            self._retire(domain)
        return answer

    def _put(
        self, domain: ModelDomain, kind: Kind, entry: str, outcome: str, result: Settlement, now_ms: int
    ) -> None:
        if kind is Kind.PAGE:
            self.spool[b"not known yet %d" % len(self.spool)] = result.pointer
            self.ledger["spooled"] += 1
            self.ledger["pages"] += 1
        elif kind is Kind.DONE:
            self.ledger["done"] += 1
        elif kind is Kind.LATER:
            waiting = sum(len(d.later) for d in self.domains.values() if d.lane == domain.lane)
            if waiting < self.later_max:
                domain.later[entry] = now_ms + result.wait_ms
                self.ledger["queued"] += 1
            else:
                self.place(domain, entry, front=False)
                domain.due_ms = max(domain.due_ms, now_ms + max(self.limits.base_delay_ms, 1_000))
        elif kind is Kind.BACK:
            self.place(domain, entry, front=True)
        else:
            self.ledger["drop:" + outcome] += 1
        if kind not in (Kind.DROP, Kind.BACK):
            self.outcomes[outcome] += 1

    def _retire(self, domain: ModelDomain) -> None:
        self.ledger["queued"] -= domain.queued
        self.ledger["drop:dead_host"] += domain.queued
        self.ledger["retired"] += 1
        for queue in domain.lists.values():
            queue.clear()
        domain.gone = True

    # -- shedding what waits

    def drop_worst(self, names: Sequence[str], most: int, least: int) -> int:
        """Of these domains in turn, the worst URLs of level ``least`` and worse; answers how many."""
        left = most
        for name in names:
            for level in range(LEVELS - 1, least - 1, -1):
                queue = self.domains[name].lists[level]
                while queue and left:
                    queue.pop()
                    left -= 1
                    self.ledger[f"shed:{level}"] += 1
        self.ledger["queued"] -= most - left
        self.ledger["drop:shed"] += most - left
        return most - left

    # -- trim

    def trim(self, domain: ModelDomain, keep: int, reason: str) -> list[str]:
        """Worst first: what waits in `later` by its time, then the lists from their ends."""
        out: list[str] = []
        excess = domain.queued + len(domain.later) - keep
        waiting = sorted(domain.later.items(), key=lambda item: (item[1], f"{domain.name} {item[0]}"))
        for entry, _time in waiting[: max(0, excess)]:
            out.append(entry)
            del domain.later[entry]
        for level in range(LEVELS - 1, -1, -1):
            while domain.lists[level] and len(out) < excess:
                out.append(domain.lists[level].pop())
        self.ledger["queued"] -= len(out)
        self.ledger["drop:" + reason] += len(out)
        return out
