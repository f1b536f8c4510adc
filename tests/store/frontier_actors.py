"""What can happen to a frontier: steps of fetchers, parsers and operators, and accidents."""

from __future__ import annotations

import random
from dataclasses import replace

from node.rules.addresses import FORGET
from node.rules.entry import Entry
from node.rules.outcome import Signal
from node.rules.shard import lane_of
from node.rules.shed import BETTER, NOTHING
from node.store import keys, spool
from node.store.connection import ADOPT_MS, GRACE_MS
from node.store.frontier import Group, Hop, Kind, Settlement
from node.store.scripts import all_scripts
from tests.redis_server import RedisServer
from tests.store.frontier_history import DOMAINS, FETCHERS, LANES, PARSERS, PATHS, PLACES, History, token_of
from tests.store.frontier_steps import among, happens, several, whole


def some_links(dice: random.Random) -> dict[str, list[tuple[int, int]]]:
    """Domain -> (path, level) of links to it."""
    return {
        name: [(dice.randrange(PATHS), dice.choice([0, 1, 1, 2, 5, 7])) for _ in range(dice.randint(0, 9))]
        for name in dice.sample(DOMAINS, dice.randint(1, 4))
    }


lags = among(0, 0, 0, 1, 400, 5_000)
fetchers = whole(1, FETCHERS)
which = whole(0, 50)


class Actors(History):
    """A history that goes on. Each method that ``happens`` is one step."""

    def __init__(self, server: RedisServer, delay_s: float) -> None:
        super().__init__(server, delay_s)
        for number in self.fetchers:
            self.beat(number, 0)
        self.all_beat()

    # -- time

    @happens(6, ms=among(1, 50, 700, 2_000, 2_600, 9_000, 31_000, 4_000_000))
    def time_passes(self, ms: int) -> None:
        self.true_ms = self.true_ms + ms

    @happens(6)
    def until_something_is_due(self) -> None:
        times = [d.record().ready_at_ms(self.limits) for d in self.model.domains.values()]
        ahead = [int(time) for time in times if time is not None and time > self.true_ms]
        self.true_ms = min(ahead, default=self.true_ms)

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
        world = self.world
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
        (answer,) = self.world.store.calls([], extra=[spool.read_new(parser, most, 1)])
        self.in_hand[parser] += [page.id for page in spool.pages_read(answer)]

    @happens(1, parser=among(*PARSERS))
    def parser_dies(self, parser: str) -> None:
        """What it held is taken over by the other; it may be acknowledged by both."""
        other = PARSERS[1 - PARSERS.index(parser)]
        (answer,) = self.world.store.calls([], extra=[spool.claim(other, 0, 100)])
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
        fetcher.lanes = self.world.beat(number, f"i{fetcher.instance}")
        self.last_beat[number] = now
        after = self.owners()
        assert {lane for lane, owner in after.items() if owner == fetcher.tag} >= set(fetcher.lanes)
        for lane in range(64):
            owner = before.get(lane)
            if owner is not None and after.get(lane) != owner and owner != fetcher.tag:
                assert not self.is_alive(owner, now), f"lane {lane} was taken from {owner}, which lives"
        self.observe_reaped(now)
        for domain in self.model.domains.values():
            for member in domain.leases:
                assert not member.startswith(f"{number}.") or member.startswith(fetcher.tag + ".")

    @happens(2)
    def all_beat(self) -> None:
        """Soon after all that live have shown it, each lane is served, and the shares are even."""
        now = self.caller(0)
        alive = [f for f in self.fetchers.values() if f.running]
        for _ in range(2 + len(self.fetchers)):
            for fetcher in alive:
                fetcher.lanes = self.world.beat(fetcher.number, f"i{fetcher.instance}")
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
            self.settle_all([Settlement(lease, Kind.BACK, "not_sent", Signal.NONE, True)], now, 0.0)
        fetcher.held = {}
        self.world.beat(number, f"i{fetcher.instance}", leave=True)
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
        world, now = self.world, self.caller(lag)
        owners = self.owners()
        mine = [lane for lane in fetcher.lanes if owners.get(lane) == fetcher.tag]
        got = world.store.call(world.frontier.lease(world.now_ms, fetcher.tag, fetcher.lanes, want, start))
        assert got.now_ms == now
        self.observe_reaped(now, given={lease.member for lease in got.leases})
        self.bring_back(mine, now)
        self.observe_postponed(mine, now)
        room, reason = self.room(want)
        self.model.serial += want if got.leases else 0
        self.model.addresses.begin(got.leases, now)
        for lease in got.leases:
            domain = self.model.domains[lease.domain]
            assert lease.lane in mine, "a lane of another"
            assert max(domain.due_ms, domain.turn_ms) <= now, "not due"
            assert lease.member.startswith(fetcher.tag + ".")
            assert lease.expiry_ms == now + world.frontier.lease_ms
            early = self.not_before.get(lease.domain, 0) - self.true_ms
            assert early <= 0, f"I3: {early} ms too soon after {self.why.get(lease.domain)}"
            self.model.hand_out(lease)
            fetcher.held[token_of(lease.member)] = lease
            self.last_send[token_of(lease.member)] = self.true_ms
        self.observe_turns(mine, {lease.domain for lease in got.leases}, now)
        assert len(got.leases) <= max(0, min(room, want))
        missed = [d.name for d in self.model.domains.values() if d.lane in mine and self.workable(d, now)]
        if len(got.leases) < min(room, want):
            assert not missed, f"{missed} were due"
            assert got.reason == ""
            if not got.leases:
                self.check_next_due(got.next_due_ms, mine)
        elif room < want:
            assert got.reason == reason

    @happens(4, number=fetchers, at=which, path=whole(0, PATHS - 1), same=among(False, True), lag=lags)
    def hop(self, number: int, at: int, path: int, same: bool, lag: int) -> None:
        busy = self.busy()
        if not busy:
            return
        world, fetcher = self.world, busy[number % len(busy)]
        token = list(fetcher.held)[at % len(fetcher.held)]
        lease = fetcher.held[token]
        now = self.caller(lag, self.last_send[token])
        target = Entry(f"https://{lease.domain}/{path}", 1, lease.entry.depth)
        slots = world.frontier.slots(target.url)

        def ask(*, look: bool) -> Hop:
            verb = world.frontier.hop(
                world.now_ms, lease, target.pack(), slots, outcome="redirected", same=same, look=look
            )
            return world.store.call(verb)

        looked = ask(look=True)
        verdict, member = self.model.hop(lease, target.pack(), now, "redirected", same=same)
        hop = ask(look=False)
        assert looked == Hop(verdict, None)
        assert hop.verdict == verdict
        if hop.lease is not None:
            assert hop.lease.member == member
            fetcher.held[token] = hop.lease
            fetcher.closed.append(lease)
            if self.true_ms < lease.expiry_ms:  # else the fetcher, whose clock is right, sends nothing
                self.last_send[token] = max(self.last_send[token], self.true_ms)

    @happens(
        4,
        number=fetchers,
        picks=several(which, 3),
        more=among(100, 5_000, 40_000),
        stale=among(False, False, True),
        lag=lags,
    )
    def extend(self, number: int, picks: list[int], more: int, stale: bool, lag: int) -> None:
        busy = self.busy()
        if not busy:
            return
        world, fetcher = self.world, busy[number % len(busy)]
        tokens = dict.fromkeys(list(fetcher.held)[i % len(fetcher.held)] for i in picks)
        leases = [fetcher.held[token] for token in tokens]
        if stale and fetcher.closed:
            leases.append(fetcher.closed[-1])
        now = self.caller(lag)
        wanted = [(lease, world.now_ms + more) for lease in leases]
        answer = world.store.call(world.frontier.extend(world.now_ms, wanted))
        assert answer == self.model.extend(wanted, now)
        for token, (lease, until_ms), said in zip(tokens, wanted, answer, strict=False):
            if said == "1":
                fetcher.held[token] = replace(lease, expiry_ms=max(lease.expiry_ms, until_ms))

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
        place=among(*PLACES, PLACES[0], PLACES[0], b"", b"", FORGET),
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
        place: bytes,
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
            lag, max((self.last_send.get(token_of(each.member), 0) for each in leases), default=0)
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
                place=place,
            )
            for lease in leases
        ]
        self.settle_all(results, now, jitter)
        fetcher.closed += leases

    # -- reaping by hand, trimming, bringing back

    @happens(2)
    def leases_run_out(self) -> None:
        self.true_ms = self.true_ms + self.world.frontier.lease_ms
        for lane in LANES:
            self.reap(lane, 0)

    @happens(2, lane=among(*LANES), lag=lags)
    def reap(self, lane: int, lag: int) -> None:
        now = self.caller(lag)
        world = self.world
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
        world, domain = self.world, self.model.domains.get(name)
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
        world, now = self.world, self.caller(0)
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
        shed=among(None, None, 1, 6, BETTER, NOTHING),
    )
    def steer(
        self, pause: bool, stop: bool, pages_max: int | None, spool_max: int | None, shed: int | None
    ) -> None:
        self.model.shed = shed or 0
        wanted = {
            "shed": shed,
            "pages_max": pages_max,
            "spool_max": spool_max,
            "pause": pause or None,
            "stop": stop or None,
        }
        self.control = {name: int(value) for name, value in wanted.items() if value is not None}
        redis = self.world.store.redis
        redis.execute_command("DEL", keys.CONTROL)
        for name, value in self.control.items():
            redis.execute_command("HSET", keys.CONTROL, name, value)

    @happens(3)
    def steer_nothing(self) -> None:
        self.steer(pause=False, stop=False, pages_max=None, spool_max=None, shed=None)

    @happens(2, shed=among(1, 4, BETTER, NOTHING))
    def memory_is_short(self, shed: int) -> None:
        self.steer(pause=False, stop=False, pages_max=None, spool_max=None, shed=shed)

    @happens(
        2,
        lane=among(*LANES),
        start=among(0, 0, 0, 1, 5),
        domains=whole(1, 3),
        urls=whole(1, 4),
        level=among(1, 2, 5),
        lag=lags,
    )
    def shed(self, lane: int, start: int, domains: int, urls: int, level: int, lag: int) -> None:
        """What waits is dropped, the worst of each domain that is ready; the answer says where to go on."""
        world = self.world
        self.caller(lag)
        before = [name for name, _ in self.zset(keys.ready(lane))]
        names = before[start : start + domains]
        got = world.store.call(
            world.frontier.shed(world.now_ms, lane, start, domains=domains, urls=urls, level=level)
        )
        assert got.dropped == self.model.drop_worst(names, urls, level)
        after = [name for name, _ in self.zset(keys.ready(lane))]
        if got.next < 0:
            assert len(names) < domains
        else:
            # nobody is passed over who has more of it, but for those that were looked at already
            for name in set(before[start:]) & set(after[start : got.next]):
                assert not any(self.model.domains[name].lists[at] for at in range(level, keys.LEVELS))

    # -- Redis restarts

    @happens(1, clean=among(False, True))
    def redis_restarts(self, clean: bool) -> None:
        """It lost nothing but its scripts; who comes first says so."""
        world = self.world
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
            self.model.serial += 10**9  # no token is given twice, whatever Redis has forgotten
            for name, domain in self.model.domains.items():
                # What was under way when it went down is closed later, and owes from then.
                if not domain.leases and domain.due_ms < self.epoch_ms:
                    owed = self.epoch_ms + domain.pace.delay_ms(self.limits)
                    self.wait(name, owed, "an unclean start")
