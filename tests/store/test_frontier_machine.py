"""I1 to I4 under everything that can happen: hypothesis drives the real scripts on a real Redis
against the model, with crashes of fetchers and parsers, restarts and callers whose clocks lag.

``MILLIARDE_SEED`` chooses the run (else one that is fixed in CI and new elsewhere; it is printed when a
test fails), ``MILLIARDE_SOAK`` the number of examples.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from node.rules.entry import Entry, Lease
from node.rules.outcome import Signal
from node.rules.pace import Limits
from node.rules.shard import lane_of
from node.store import keys, spool
from node.store.check import check
from node.store.connection import ADOPT_MS, GRACE_MS
from node.store.domain_record import unpack
from node.store.frontier import Group, Kind, Settlement
from node.store.scripts import all_scripts
from tests.redis_server import RedisServer
from tests.store.frontier_model import Model, ModelDomain
from tests.store.frontier_world import World, domains_in_one_lane, settings_for

EXAMPLES = int(os.environ.get("MILLIARDE_SOAK") or 40)
STEPS = 150
CI = os.environ.get("CI") == "true"
SEED = int(os.environ.get("MILLIARDE_SEED") or (2026 if CI else random.randrange(10**6)))

DOMAINS = [*domains_in_one_lane(3, lane=7), *domains_in_one_lane(2, lane=8), *domains_in_one_lane(2, lane=40)]
LANES = sorted({lane_of(name) for name in DOMAINS})
PATHS = 12
CAP = 6
LIFE_CAP = 10
MAX_DOMAINS = 6
LATER_MAX = 2
RETIRE_AFTER = 2
FETCHERS = 3
PARSERS = ("p1", "p2")


Operation = TypeVar("Operation", bound=Callable[..., None])
Draw = Callable[[random.Random], Any]
OPERATIONS: dict[str, dict[str, Draw]] = {}
CHOICES: list[str] = []


def happens(weight: int, **arguments: Draw) -> Callable[[Operation], Operation]:
    """Makes a method one of the things that can happen, as often as ``weight`` says.

    (Rules of hypothesis's own would do, but of those it leaves out a random part in each history and
    repeats itself in the rest; little happens where nobody offers, beats, leases and settles.)
    """

    def register(operation: Operation) -> Operation:
        OPERATIONS[operation.__name__] = arguments
        CHOICES.extend([operation.__name__] * weight)
        return operation

    return register


def among(*values: Any) -> Draw:
    return lambda dice: dice.choice(values)


def whole(least: int, most: int) -> Draw:
    return lambda dice: dice.randint(least, most)


def several(draw: Draw, most: int) -> Draw:
    return lambda dice: [draw(dice) for _ in range(dice.randint(1, most))]


def some_links(dice: random.Random) -> dict[str, list[tuple[int, int]]]:
    """Domain -> (path, level) of links to it."""
    return {
        name: [(dice.randrange(PATHS), dice.choice([0, 1, 1, 2, 5, 7])) for _ in range(dice.randint(0, 9))]
        for name in dice.sample(DOMAINS, dice.randint(1, 4))
    }


lags = among(0, 0, 0, 1, 400, 5_000)
fetchers = whole(1, FETCHERS)
which = whole(0, 50)


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


class FrontierMachine(RuleBasedStateMachine):
    """Steps of fetchers, parsers, operators and accidents."""

    server: RedisServer

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None

    @initialize(delay_s=st.sampled_from([0.0, 0.0, 2.0, 2.0, 30.0]))
    def start(self, delay_s: float) -> None:
        options: dict[str, Any] = {"delay_s": delay_s, "max_urls_per_domain": CAP, "max_domains": MAX_DOMAINS}
        self.world = World(self.server, settings_for(self.server, **options, retire_after=RETIRE_AFTER))
        frontier = self.world.frontier
        frontier.later_max, frontier.life_cap = LATER_MAX, LIFE_CAP
        self.limits = Limits(frontier.base_delay_ms, frontier.max_delay_ms)
        self.model = Model(
            self.limits,
            frontier.plan,
            frontier.slots,
            CAP,
            LIFE_CAP,
            MAX_DOMAINS,
            LATER_MAX,
            RETIRE_AFTER,
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
        for number in self.fetchers:
            self.beat(number, 0)
        self.all_beat()

    def teardown(self) -> None:
        if self.world is not None:
            try:
                findings = check(self.world.store, every_url=True)
                assert findings.sound, "\n".join(findings.lines())
                assert findings.totals_compared
            finally:
                self.world.close()

    @rule(dice=st.randoms(use_true_random=True))
    def something_happens(self, dice: random.Random) -> None:
        what = dice.choice(CHOICES)
        arguments = {name: draw(dice) for name, draw in OPERATIONS[what].items()}
        note(f"    {what} {arguments}")
        getattr(self, what)(**arguments)

    # -- time

    def caller(self, lag_ms: int, least_ms: int = 0) -> int:
        """Sets a caller's clock, which may lag but not behind ``least_ms``; answers what the verb
        will take it for."""
        assert self.world is not None
        true_ms = self.true_ms
        self.world.now_ms = max(true_ms - lag_ms, least_ms)
        self.clock_ms = max(self.clock_ms, self.world.now_ms)
        return self.clock_ms

    @property
    def true_ms(self) -> int:
        if not hasattr(self, "_true_ms"):
            assert self.world is not None
            self._true_ms = self.world.now_ms
        return self._true_ms

    @happens(6, ms=among(1, 50, 700, 2_000, 2_600, 9_000, 31_000, 4_000_000))
    def time_passes(self, ms: int) -> None:
        self._true_ms = self.true_ms + ms

    @happens(6)
    def until_something_is_due(self) -> None:
        times = [d.record().ready_at_ms(self.limits) for d in self.model.domains.values()]
        ahead = [int(time) for time in times if time is not None and time > self.true_ms]
        self._true_ms = min(ahead, default=self.true_ms)

    # -- links in, pages off the spool

    @happens(
        8,
        links=some_links,
        parser=among(*PARSERS),
        pages=whole(0, 3),
        twice=among(False, True),
        lag=lags,
    )
    def offer(
        self, links: dict[str, list[tuple[int, int]]], parser: str, pages: int, twice: bool, lag: int
    ) -> None:
        world = self.alive()
        now = self.caller(lag)
        groups: list[Group] = []
        for name, found in links.items():
            entries = [Entry(f"https://{name}/{path}", level, level) for path, level in found]
            groups.append(world.group(name, *entries, due_ms=now))
        acks = [self.in_hand[parser].pop() for _ in range(min(pages, len(self.in_hand[parser])))]
        if twice and self.acknowledged:
            acks.append(self.acknowledged[-1])
        self.acknowledged += acks
        expected = self.model.offer(groups, acks, "")
        assert world.store.call(world.frontier.offer(world.now_ms, groups, acks)) == expected

    @happens(4, parser=among(*PARSERS), most=whole(1, 4))
    def read(self, parser: str, most: int) -> None:
        (answer,) = self.alive().store.calls([], extra=[(*_read_new(parser, most),)])
        self.in_hand[parser] += [page.id for page in spool.pages_read(answer)]

    @happens(1, parser=among(*PARSERS))
    def parser_dies(self, parser: str) -> None:
        """What it held is taken over by the other; it may be acknowledged by both."""
        other = PARSERS[1 - PARSERS.index(parser)]
        (answer,) = self.alive().store.calls([], extra=[spool.claim(other, 0, 100)])
        self.in_hand[other] = list({page.id: None for page in spool.pages_claimed(answer)})

    # -- fetchers

    @happens(6, number=fetchers, lag=lags)
    def beat(self, number: int, lag: int) -> None:
        fetcher = self.fetchers[number]
        if not fetcher.running:
            fetcher.running = True
            fetcher.instance += 1
        now = self.caller(lag)
        before = self.owners()
        fetcher.lanes = self.alive().beat(number, f"i{fetcher.instance}")
        self.last_beat[number] = now
        after = self.owners()
        assert {lane for lane, owner in after.items() if owner == fetcher.tag} >= set(fetcher.lanes)
        for lane in range(64):
            owner = before.get(lane)
            if owner is not None and after.get(lane) != owner and owner != fetcher.tag:
                assert not self.is_alive(owner, now), f"lane {lane} was taken from {owner}, which lives"
        self.observe_reaped(now)

    @happens(2)
    def all_beat(self) -> None:
        """Soon after all that live have shown it, each lane is served, and the shares are even."""
        now = self.caller(0)
        alive = [f for f in self.fetchers.values() if f.running]
        for _ in range(2 + len(self.fetchers)):
            for fetcher in alive:
                fetcher.lanes = self.alive().beat(fetcher.number, f"i{fetcher.instance}")
                self.last_beat[fetcher.number] = now
                self.observe_reaped(now)
        living = {
            n for n, last in self.last_beat.items() if now - last <= ADOPT_MS and self.fetchers[n].instance
        }
        if alive and living == {f.number for f in alive} and not self.anything_leased():
            sizes = sorted(len(f.lanes) for f in alive)
            assert sum(sizes) == 64
            assert sizes[-1] - sizes[0] <= 1

    @happens(1, number=fetchers)
    def fetcher_crashes(self, number: int) -> None:
        fetcher = self.fetchers[number]
        self.died[fetcher.tag] = self.true_ms
        fetcher.running = False
        fetcher.closed += fetcher.held.values()
        fetcher.held, fetcher.lanes = {}, []

    @happens(1, number=fetchers)
    def fetcher_leaves(self, number: int) -> None:
        fetcher = self.fetchers[number]
        if not fetcher.running:
            return
        now = self.caller(0)
        for lease in fetcher.held.values():
            self.settle_one(fetcher, lease, Kind.BACK, Signal.NONE, sent=True, now=now)
        fetcher.held = {}
        self.alive().beat(number, f"i{fetcher.instance}", leave=True)
        self.last_beat.pop(number, None)
        assert fetcher.tag not in self.owners().values()
        fetcher.running, fetcher.lanes = False, []
        self.died[fetcher.tag] = self.true_ms

    @happens(10, number=fetchers, want=among(1, 2, 10), start=whole(0, 63), lag=lags)
    def lease(self, number: int, want: int, start: int, lag: int) -> None:
        running = [each for each in self.fetchers.values() if each.running]
        if not running:
            return
        wanted = {d.lane for d in self.model.domains.values() if self.workable(d, self.true_ms)}
        # mostly one that has something to do
        running = [each for each in running if wanted & set(each.lanes)] or running
        fetcher = running[number % len(running)]
        world, now = self.alive(), self.caller(lag)
        owners = self.owners()
        mine = [lane for lane in fetcher.lanes if owners.get(lane) == fetcher.tag]
        got = world.store.call(world.frontier.lease(world.now_ms, fetcher.tag, fetcher.lanes, want, start))
        assert got.now_ms == now
        self.observe_reaped(now, given={lease.member for lease in got.leases})
        self.bring_back(mine, now)
        self.observe_postponed(mine, now)
        room, reason = self.room(want)
        for lease in got.leases:
            domain = self.model.domains[lease.domain]
            assert lease.lane in mine, "a lane of another"
            assert domain.due_ms <= now, "not due"
            assert lease.member.startswith(fetcher.tag + ".")
            assert lease.expiry_ms == now + world.frontier.lease_ms
            early = self.not_before.get(lease.domain, 0) - self.true_ms
            assert early <= 0, f"I3: {early} ms too soon after {self.why.get(lease.domain)}"
            self.model.hand_out(lease)
            fetcher.held[_token(lease.member)] = lease
            self.last_send[_token(lease.member)] = self.true_ms
        assert len(got.leases) <= max(0, min(room, want))
        missed = [d.name for d in self.model.domains.values() if d.lane in mine and self.workable(d, now)]
        if len(got.leases) < min(room, want):
            assert not missed, f"{missed} were due"
            assert got.reason == ""
            if not got.leases:
                self.check_next_due(got.next_due_ms, mine)
        elif room < want:
            assert got.reason == reason

    def check_next_due(self, next_due_ms: int, mine: list[int]) -> None:
        times: list[float] = []
        for domain in self.model.domains.values():
            if domain.lane in mine:
                ready_at = domain.record().ready_at_ms(self.limits)
                times += [] if ready_at is None else [ready_at]
                times += domain.later.values()
        assert next_due_ms == (min(times) if times else -1)

    @happens(4, number=fetchers, at=which, path=whole(0, PATHS - 1), same=among(False, True), lag=lags)
    def hop(self, number: int, at: int, path: int, same: bool, lag: int) -> None:
        busy = self.busy()
        if not busy:
            return
        world, fetcher = self.alive(), busy[number % len(busy)]
        token = list(fetcher.held)[at % len(fetcher.held)]
        lease = fetcher.held[token]
        now = self.caller(lag, self.last_send[token])
        target = Entry(f"https://{lease.domain}/{path}", 1, lease.entry.depth)
        slots = world.frontier.slots(target.url)
        verdict, member = self.model.hop(lease, target.pack(), now, "redirected", same=same)
        hop = world.store.call(
            world.frontier.hop(world.now_ms, lease, target.pack(), slots, outcome="redirected", same=same)
        )
        assert hop.verdict == verdict
        if hop.lease is not None:
            assert hop.lease.member == member
            fetcher.held[token] = hop.lease
            fetcher.closed.append(lease)
            if self.true_ms < lease.expiry_ms:  # else the fetcher, whose clock is right, sends nothing
                self.last_send[token] = max(self.last_send[token], self.true_ms)

    @happens(
        12,
        number=fetchers,
        picks=several(which, 4),
        kind=among(*Kind, Kind.PAGE, Kind.BACK),
        signal=among(*Signal, Signal.SUCCESS, Signal.DEAD, Signal.DEAD),
        sent=among(False, True),
        pause=among(0, 0, 0, 5_000),
        crawl_delay=among(-1, 0, 0, 0, 3_000),
        wait=among(0, 100, 6_000),
        jitter=among(0.0, 0.3, 1.0),
        stale=among(False, False, False, True),
        lag=lags,
    )
    def settle(
        self,
        number: int,
        picks: list[int],
        kind: Kind,
        signal: Signal,
        sent: bool,
        pause: int,
        crawl_delay: int,
        wait: int,
        jitter: float,
        stale: bool,
        lag: int,
    ) -> None:
        busy = self.busy() or list(self.fetchers.values())
        fetcher = busy[number % len(busy)]
        tokens = list(dict.fromkeys(list(fetcher.held)[i % len(fetcher.held)] for i in picks if fetcher.held))
        leases = [fetcher.held.pop(token) for token in tokens]
        if stale and fetcher.closed:
            leases.append(fetcher.closed[-1])
        if stale and leases:
            leases.append(leases[0])
        now = self.caller(
            lag, max((self.last_send.get(_token(each.member), 0) for each in leases), default=0)
        )
        results = [
            Settlement(
                lease,
                kind,
                "some_outcome",
                signal,
                # a hop was a request
                sent or self.hops_of(lease) > 0,
                pointer=f"f 0 1 0 {lease.entry.url}",
                wait_ms=wait,
                pause_ms=pause,
                crawl_delay_ms=crawl_delay,
            )
            for lease in leases
        ]
        self.settle_all(results, now, jitter)
        fetcher.closed += leases

    def hops_of(self, lease: Lease) -> int:
        return int(lease.member.split(" ", 2)[1])

    def settle_one(
        self, fetcher: Fetcher, lease: Lease, kind: Kind, signal: Signal, *, sent: bool, now: int
    ) -> None:
        fetcher.closed.append(lease)
        self.settle_all([Settlement(lease, kind, "not_sent", signal, sent)], now, 0.0)

    def settle_all(self, results: list[Settlement], now: int, jitter: float) -> None:
        world = self.alive()
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

    # -- reaping by hand, trimming, bringing back

    @happens(2)
    def leases_run_out(self) -> None:
        self._true_ms = self.true_ms + self.alive().frontier.lease_ms
        for lane in LANES:
            self.reap(lane, 0)

    @happens(2, lane=among(*LANES), lag=lags)
    def reap(self, lane: int, lag: int) -> None:
        now = self.caller(lag)
        world = self.alive()
        expired = [
            member
            for domain in self.model.domains.values()
            if domain.lane == lane
            for member, expiry in domain.leases.items()
            if expiry <= now
        ]
        assert world.store.call(world.frontier.reap(world.now_ms, lane, 100)) == len(expired)
        assert len(self.observe_reaped(now)) == len(expired)

    @happens(1, name=among(*DOMAINS), keep=whole(0, 4), reason=among("", "trimmed"))
    def trim(self, name: str, keep: int, reason: str) -> None:
        world, domain = self.alive(), self.model.domains.get(name)
        self.caller(0)
        got = world.store.call(world.frontier.trim(world.now_ms, name, lane_of(name), keep, reason=reason))
        if domain is None:
            assert got == []
        elif reason:
            assert got == self.model.trim(domain, keep, reason)
            self.taken_out.setdefault(name, []).extend(got)

    @happens(1, at=which, twice=among(False, True))
    def include(self, at: int, twice: bool) -> None:
        """What was taken out comes back once, however often it is asked for."""
        if not self.taken_out:
            return
        world, now = self.alive(), self.caller(0)
        name = list(self.taken_out)[at % len(self.taken_out)]
        entries = self.taken_out.pop(name)
        group = Group(name, lane_of(name), now, entries)
        group.slots = bytearray(b"".join(world.frontier.slots(entry[3:]) for entry in entries))
        expected = self.model.offer([group], [], "trimmed")
        assert world.store.call(world.frontier.offer(world.now_ms, [group], returning="trimmed")) == expected
        if twice and self.model.ledger["drop:trimmed"] == 0:
            again = world.store.call(world.frontier.offer(world.now_ms, [group], returning="trimmed"))
            assert again == self.model.offer([group], [], "trimmed")
            assert again.admitted == 0

    # -- the operator

    @happens(
        1,
        pause=among(False, False, False, False, True),
        stop=among(False, False, False, False, True),
        pages_max=among(None, None, 3, 8),
        spool_max=among(None, None, 1, 4),
    )
    def steer(self, pause: bool, stop: bool, pages_max: int | None, spool_max: int | None) -> None:
        wanted = {
            "pages_max": pages_max,
            "spool_max": spool_max,
            "pause": pause or None,
            "stop": stop or None,
        }
        self.control = {name: int(value) for name, value in wanted.items() if value is not None}
        redis = self.alive().store.redis
        redis.execute_command("DEL", keys.CONTROL)
        for name, value in self.control.items():
            redis.execute_command("HSET", keys.CONTROL, name, value)

    @happens(3)
    def steer_nothing(self) -> None:
        self.steer(pause=False, stop=False, pages_max=None, spool_max=None)

    # -- Redis restarts

    @happens(1, clean=among(False, True))
    def redis_restarts(self, clean: bool) -> None:
        """It lost nothing but its scripts; who comes first says so."""
        world = self.alive()
        self.caller(0)
        if clean:
            world.store.redis.execute_command("HSET", keys.META, "clean", "1")
        world.store.redis.execute_command("SCRIPT", "FLUSH")
        for each in all_scripts():
            world.store.redis.execute_command("SCRIPT", "LOAD", each.source)
        world.run += 1
        begun = world.begin()
        assert begun.how == ("clean" if clean else "unclean")
        if not clean:
            assert begun.epoch_ms == self.clock_ms + GRACE_MS
            self.epoch_ms = begun.epoch_ms
            for name, domain in self.model.domains.items():
                # What was under way when it went down is closed later, and owes from then.
                if not domain.leases and domain.due_ms < self.epoch_ms:
                    owed = self.epoch_ms + domain.pace.delay_ms(self.limits)
                    self.wait(name, owed, "an unclean start")

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
            token = _token(member)
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
                packed = self.alive().store.redis.execute_command("GET", keys.domain(domain.name))
                if unpack(packed).due_ms == wanted:
                    domain.due_ms = wanted

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

    # -- after every step

    @invariant()
    def redis_is_as_the_model_says(self) -> None:
        if self.world is None:
            return
        model, redis = self.model, self.world.store.redis
        names = sorted(model.domains)
        commands: list[tuple[Any, ...]] = [
            ("HGETALL", keys.LEDGER),
            ("HGETALL", keys.OUTCOMES),
            ("GET", keys.CLOCK),
        ]
        commands += [("XRANGE", keys.SPOOL, "-", "+"), ("DBSIZE",)]
        for name in names:
            commands.append(("GET", keys.domain(name)))
            commands += [("LRANGE", keys.queue(level, name), 0, -1) for level in range(keys.LEVELS)]
        ledger, outcomes, clock, pages, _size, *rest = self.world.store.calls([], extra=commands)
        assert _numbers(ledger, skip=b"last_lease") == {k: v for k, v in model.ledger.items() if v}
        assert _numbers(outcomes) == {k: v for k, v in model.outcomes.items() if v}
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
        total = sum(v for k, v in model.ledger.items() if k in ("queued", "leased", "spooled", "done"))
        total += sum(v for k, v in model.ledger.items() if k.startswith("drop:"))
        assert model.ledger["admitted"] == total
        assert redis is not None

    # -- small things

    def busy(self) -> list[Fetcher]:
        """Fetchers that hold leases."""
        return [each for each in self.fetchers.values() if each.held]

    def alive(self) -> World:
        assert self.world is not None
        return self.world

    def zset(self, key: str) -> Iterator[tuple[str, float]]:
        flat = self.alive().store.redis.execute_command("ZRANGE", key, 0, -1, "WITHSCORES")
        return ((flat[i].decode(), float(flat[i + 1])) for i in range(0, len(flat), 2))

    def owners(self) -> dict[int, str]:
        flat = self.alive().store.redis.execute_command("HGETALL", keys.LANES)
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
        pages = self.alive().store.redis.execute_command("XRANGE", keys.SPOOL, "-", "+")
        known = [key for key in self.model.spool if not key.startswith(b"not")]
        new = [page[0] for page in pages if page[0] not in known]
        fresh = [key for key in self.model.spool if key.startswith(b"not")]
        assert len(new) == len(fresh)
        for old, identity in zip(fresh, new, strict=True):
            self.model.spool[identity] = self.model.spool.pop(old)


def _token(member: str) -> str:
    return member.partition(" ")[0]


def _read_new(parser: str, most: int) -> tuple[Any, ...]:
    return ("XREADGROUP", "GROUP", keys.PARSERS, parser, "COUNT", most, "STREAMS", keys.SPOOL, ">")


def _numbers(flat: list[bytes], skip: bytes = b"") -> dict[str, int]:
    pairs = {flat[i]: int(flat[i + 1]) for i in range(0, len(flat), 2)}
    return {name.decode(): value for name, value in pairs.items() if value and name != skip}


@pytest.mark.timeout(120 if CI else 3_600)
def test_nothing_is_lost_ready_means_workable_and_the_gap_holds(redis_server: RedisServer) -> None:
    """I1 to I4 hold after every step of any history."""
    print(f"MILLIARDE_SEED={SEED}")

    class Machine(FrontierMachine):
        server = redis_server

    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        # a history takes minutes to shrink; CI prints it as it is
        phases=[Phase.generate] if CI else [Phase.generate, Phase.shrink],
    )
    with_seed(SEED)(Machine)
    run_state_machine_as_test(with_seed(SEED)(Machine), settings=chosen)
