"""One history of a frontier: the real one, the model, what time it really is, and what was really sent.

``compare`` holds Redis against the model. What the scripts may choose is observed, and refused where it
was not allowed. I3 is judged by requests that could have been sent, not by what the scripts believe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from node.rules.addresses import UNLIMITED, Limit, Limits
from node.rules.entry import Lease
from node.rules.pace import Limits as PaceLimits
from node.rules.retry import NodeBudget
from node.rules.shard import lane_of
from node.store import keys
from node.store.check import check
from node.store.connection import ADOPT_MS
from node.store.domain_record import unpack
from node.store.frontier import Settlement
from tests.redis_server import RedisServer
from tests.store.frontier_model import Model, ModelDomain
from tests.store.frontier_world import World, domains_in_one_lane, settings_for

DOMAINS = [*domains_in_one_lane(3, lane=7), *domains_in_one_lane(2, lane=8), *domains_in_one_lane(2, lane=40)]
LANES = sorted({lane_of(name) for name in DOMAINS})
PATHS = 12
EXEMPT = ("11.9.0.0/16", UNLIMITED)
CAP = 6
LIFE_CAP = 10
MAX_DOMAINS = 6
LATER_MAX = 2
RETIRE_AFTER = 2
ADDRESS_LIMITS = Limits(Limit(2, 2), [("192.0.2.0/24", Limit(4, 0)), ("2001:db8::/32", Limit(0, 1)), EXEMPT])
PLACES = [ADDRESS_LIMITS.place(ip) for ip in ("11.0.0.1", "11.0.0.2", "192.0.2.1", "2001:db8::1", "11.9.0.1")]
FETCHERS = 3
PARSERS = ("p1", "p2")


@dataclass
class Fetcher:
    """One fetcher as it sees itself. ``died_ms`` of an earlier instance is kept with its leases."""

    number: int
    instance: int = 0
    running: bool = False
    lanes: list[int] = field(default_factory=list)
    held: dict[str, Lease] = field(default_factory=dict)
    closed: list[Lease] = field(default_factory=list)

    @property
    def tag(self) -> str:
        return f"{self.number}.i{self.instance}"


class History:
    """What has happened to one frontier so far."""

    def __init__(self, server: RedisServer, delay_s: float) -> None:
        options: dict[str, Any] = {"delay_s": delay_s, "max_urls_per_domain": CAP, "max_domains": MAX_DOMAINS}
        self.world = World(server, settings_for(server, **options, retire_after=RETIRE_AFTER))
        frontier = self.world.frontier
        frontier.limits = ADDRESS_LIMITS
        frontier.later_max, frontier.life_cap = LATER_MAX, LIFE_CAP
        self.limits = PaceLimits(frontier.base_delay_ms, frontier.max_delay_ms)
        self.model = Model(
            self.limits,
            frontier.plan,
            frontier.slots,
            CAP,
            LIFE_CAP,
            MAX_DOMAINS,
            LATER_MAX,
            RETIRE_AFTER,
            ADDRESS_LIMITS,
        )
        self.fetchers = {number: Fetcher(number) for number in range(1, FETCHERS + 1)}
        self.last_beat: dict[int, int] = {}
        self.clock_ms = self.world.now_ms
        self.in_hand: dict[str, list[bytes]] = {name: [] for name in PARSERS}
        self.acknowledged: list[bytes] = []
        self.taken_out: dict[str, list[str]] = {}
        self.epoch_ms = 0
        self.control: dict[str, int] = {}
        # I3, by what could really have been sent: domain -> no request before
        self.not_before: dict[str, int] = {}
        self.why: dict[str, str] = {}
        self.last_send: dict[str, int] = {}  # lease token -> real time of its latest request
        self.died: dict[str, int] = {}  # tag -> when that process died
        self.true_ms = self.world.now_ms

    def close(self) -> None:
        """The end: all of it is sound, as `milliarde check` says."""
        try:
            findings = check(self.world.store, every_url=True)
            assert findings.sound, "\n".join(findings.lines())
            assert findings.totals_compared
        finally:
            self.world.close()

    # -- time

    def caller(self, lag_ms: int, least_ms: int = 0) -> int:
        """Sets a caller's clock, which may lag but not behind ``least_ms``; answers what the verb
        will take it for."""
        true_ms = self.true_ms
        self.world.now_ms = max(true_ms - lag_ms, least_ms)
        self.clock_ms = max(self.clock_ms, self.world.now_ms)
        return self.clock_ms

    def hops_of(self, lease: Lease) -> int:
        return int(lease.member.split(" ", 2)[1])

    def settle_all(self, results: list[Settlement], now: int, jitter: float) -> None:
        world = self.world
        expected = ""
        for result in results:
            answer = self.model.settle([result], now, jitter)
            if answer != "0" and result.sent:
                # its last request may have gone out just before the caller looked at its clock
                last = min(world.now_ms, result.lease.expiry_ms)
                self.owe(result.lease.domain, last, self.hops_of(result.lease))
            expected += answer
        mark = {f"file-{len(results)}": now}
        assert world.store.call(world.frontier.settle(world.now_ms, results, mark, jitter)) == expected
        self.note_spooled()

    # -- what the scripts chose, if they were allowed to

    def observe_reaped(self, now: int, given: set[str] | None = None) -> list[str]:
        """Leases that are gone without having been settled: expired, or of an instance replaced."""
        there = {member for lane in LANES for member, _ in self.zset(keys.leases(lane))}
        known = {m: d for d in self.model.domains.values() for m in d.leases}
        assert there - known.keys() == (given or set())
        gone = sorted(known.keys() - there, key=lambda member: (known[member].leases[member], member))
        for member in gone:
            domain = known[member]
            number, instance = member.split(".", 2)[:2]
            fetcher = self.fetchers[int(number)]
            replaced = fetcher.running and f"i{fetcher.instance}" != instance
            expiry = domain.leases[member]
            assert expiry <= now or replaced, "reaped too soon"
            token = token_of(member)
            # The latest moment at which its holder may have sent something.
            holder = f"{number}.{instance}"
            last = min(self.true_ms, expiry, self.died.get(holder, self.true_ms))
            self.last_send[token] = max(self.last_send[token], last)
            self.owe(domain.name, self.last_send[token], int(member.split(" ", 2)[1]))
            self.model.reap(domain, member, now)
        return gone

    def bring_back(self, mine: list[int], now: int) -> None:
        for domain in self.model.domains.values():
            if domain.lane in mine:
                for entry, time in sorted(
                    domain.later.items(), key=lambda i: (i[1], f"{domain.name} {i[0]}")
                ):
                    if time <= now:
                        self.model.bring_back(domain, entry)

    def observe_postponed(self, mine: list[int], now: int) -> None:
        for domain in self.model.domains.values():
            wanted = self.epoch_ms + domain.pace.delay_ms(self.limits)
            if domain.lane in mine and domain.due_ms < self.epoch_ms and now < wanted:
                packed = self.world.store.redis.execute_command("GET", keys.domain(domain.name))
                if unpack(packed).due_ms == wanted:
                    domain.due_ms = wanted

    def observe_turns(self, mine: list[int], leased: set[str], now: int) -> None:
        """Domains that were put off since their address bears no visit more, and those that no longer are."""
        turns: dict[str, float] = {}
        for domain in self.model.domains.values():
            if domain.lane not in mine:
                continue
            packed = self.world.store.redis.execute_command("GET", keys.domain(domain.name))
            turn_ms = unpack(packed).turn_ms
            if turn_ms > now and turn_ms != domain.turn_ms:
                turns[domain.name] = turn_ms
            elif domain.name in leased:
                domain.turn_ms = 0.0
        self.model.addresses.put_off(turns, leased, now)
        self.model.ledger["address_waits"] += len(turns)

    def owe(self, name: str, last_send_ms: int, hops: int) -> None:
        """I3: the next request is a delay after the last one, and one delay more for each hop."""
        owed = self.model.domains[name].pace.delay_ms(self.limits) * (1 + hops)
        self.wait(name, last_send_ms + owed, f"a request at {last_send_ms}, {hops} hops")

    def wait(self, name: str, until_ms: int, why: str) -> None:
        if until_ms > self.not_before.get(name, 0):
            self.not_before[name] = until_ms
            self.why[name] = why

    def workable(self, domain: ModelDomain, now: int) -> bool:
        ready_at = domain.record().ready_at_ms(self.limits)
        if ready_at is None or ready_at > now:
            return False
        postponed = domain.due_ms < self.epoch_ms and now < self.epoch_ms + domain.pace.delay_ms(self.limits)
        return not postponed

    def room(self, want: int) -> tuple[int, str]:
        """How many URLs may be handed out before this call did, and why not more."""
        ledger, control = self.model.ledger, self.control
        room, reason = want, ""
        for name, why, taken in (
            ("spool_max", "spool_full", ledger["leased"] + ledger["spooled"]),
            ("pages_max", "pages_reached", ledger["leased"] + ledger["pages"]),
        ):
            if name in control and control[name] - taken < room:
                room, reason = control[name] - taken, why
        if "stop" in control:
            room, reason = 0, "stopping"
        if "pause" in control:
            room, reason = 0, "paused"
        return room, reason

    def check_next_due(self, next_due_ms: int, mine: list[int]) -> None:
        times: list[float] = []
        for domain in self.model.domains.values():
            if domain.lane in mine:
                ready_at = domain.record().ready_at_ms(self.limits)
                times += [] if ready_at is None else [ready_at]
                times += domain.later.values()
        assert next_due_ms == (min(times) if times else -1)

    # -- after every step

    def compare(self) -> None:
        """Redis holds what the model says, no more and no less; I4's bounds hold."""
        model, redis = self.model, self.world.store.redis
        names = sorted(model.domains)
        commands: list[tuple[Any, ...]] = [
            ("HGETALL", keys.LEDGER),
            ("HGETALL", keys.OUTCOMES),
            ("GET", keys.CLOCK),
            ("HGETALL", keys.RETRIES),
        ]
        commands += [("XRANGE", keys.SPOOL, "-", "+"), ("DBSIZE",)]
        for name in names:
            commands.append(("GET", keys.domain(name)))
            commands += [("LRANGE", keys.queue(level, name), 0, -1) for level in range(keys.LEVELS)]
        ledger, outcomes, clock, retries, pages, _size, *rest = self.world.store.calls([], extra=commands)
        model.ledger["awaiting_address"] = sum(
            domain.turn_ms > 0 and domain.queued > 0 for domain in model.domains.values()
        )
        assert numbers(ledger, skip=b"last_lease") == {k: v for k, v in model.ledger.items() if v}
        assert numbers(outcomes) == {k: v for k, v in model.outcomes.items() if v}
        if retries:
            assert NodeBudget(**numbers(retries)) == model.retries
        # a call that changes nothing may leave the clock as it was
        assert int(clock) <= self.clock_ms
        self.clock_ms = int(clock)
        assert [p[1][1].decode() for p in pages] == list(model.spool.values())
        for i, name in enumerate(names):
            packed, *queues = rest[i * 9 : i * 9 + 9]
            domain = model.domains[name]
            assert unpack(packed) == domain.record(), name
            assert [[e.decode() for e in queue] for queue in queues] == list(domain.lists.values()), name
            # I4
            assert domain.queued + len(domain.later) <= CAP + 32
            assert domain.admitted <= model.life_cap
        for lane in LANES:
            here = [d for d in model.domains.values() if d.lane == lane]
            ready = {d.name: d.record().ready_at_ms(self.limits) for d in here}
            assert dict(self.zset(keys.ready(lane))) == {n: at for n, at in ready.items() if at is not None}
            later = {f"{d.name} {entry}": time for d in here for entry, time in d.later.items()}
            assert dict(self.zset(keys.later(lane))) == later
            assert dict(self.zset(keys.leases(lane))) == {m: t for d in here for m, t in d.leases.items()}
            assert len(later) <= LATER_MAX
        found = [key.decode() for key in redis.execute_command("KEYS", "ip:*")]
        states = self.world.store.calls([], extra=[("GET", key) for key in found])
        model.addresses.compare(dict(zip(found, states, strict=True)), self.clock_ms)
        total = sum(v for k, v in model.ledger.items() if k in ("queued", "leased", "spooled", "done"))
        total += sum(v for k, v in model.ledger.items() if k.startswith("drop:"))
        assert model.ledger["admitted"] == total
        assert redis is not None

    # -- small things

    def busy(self) -> list[Fetcher]:
        """Fetchers that hold leases."""
        return [each for each in self.fetchers.values() if each.held]

    def zset(self, key: str) -> Iterator[tuple[str, float]]:
        flat = self.world.store.redis.execute_command("ZRANGE", key, 0, -1, "WITHSCORES")
        return ((flat[i].decode(), float(flat[i + 1])) for i in range(0, len(flat), 2))

    def owners(self) -> dict[int, str]:
        flat = self.world.store.redis.execute_command("HGETALL", keys.LANES)
        return {int(flat[i]): flat[i + 1].decode() for i in range(0, len(flat), 2)}

    def is_alive(self, tag: str, now: int) -> bool:
        number = int(tag.partition(".")[0])
        fetcher = self.fetchers[number]
        return (
            fetcher.running and fetcher.tag == tag and now - self.last_beat.get(number, -ADOPT_MS) <= ADOPT_MS
        )

    def anything_leased(self) -> bool:
        return any(domain.leases for domain in self.model.domains.values())

    def note_spooled(self) -> None:
        """The ids Redis gave to pages that were spooled just now."""
        pages = self.world.store.redis.execute_command("XRANGE", keys.SPOOL, "-", "+")
        known = [key for key in self.model.spool if not key.startswith(b"not")]
        new = [page[0] for page in pages if page[0] not in known]
        fresh = [key for key in self.model.spool if key.startswith(b"not")]
        assert len(new) == len(fresh)
        for old, identity in zip(fresh, new, strict=True):
            self.model.spool[identity] = self.model.spool.pop(old)


def token_of(member: str) -> str:
    return member.partition(" ")[0]


def numbers(flat: list[bytes], skip: bytes = b"") -> dict[str, int]:
    pairs = {flat[i]: int(flat[i + 1]) for i in range(0, len(flat), 2)}
    return {name.decode(): value for name, value in pairs.items() if value and name != skip}
