"""settle: what becomes of a lease, and of its domain's pace."""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from node.rules import pace as pacing
from node.rules import retry
from node.rules.entry import Entry, Lease
from node.rules.outcome import Signal
from node.rules.pace import Limits, Pace
from node.store import keys
from node.store.check import check
from node.store.frontier import Kind, Settlement
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import START_MS, World, domains_in_one_lane

PAGE = "f.warc.gz 0 1 1 https://page.test/"
"""What points to a page; of which, doesn't matter here."""


def leased(world: World, url: str = "https://x.test/a") -> Lease:
    world.offer("x.test", url)
    (lease,) = world.lease().leases
    return lease


def spool(world: World) -> list[bytes]:
    return [page[1][1] for page in world.store.redis.execute_command("XRANGE", keys.SPOOL, "-", "+")]


def test_a_page_goes_to_the_spool_and_the_domain_is_due_a_delay_later(world: World) -> None:
    """The lease ends, its pointer is spooled, the next visit is a delay after this one's end."""
    lease = leased(world)
    world.offer("x.test", "https://x.test/b")
    world.now_ms += 500
    assert world.settle(lease, pointer="file 0 10 1 https://x.test/a") == "1"
    assert spool(world) == [b"file 0 10 1 https://x.test/a"]
    assert world.ready_at("x.test") == START_MS + 2_500
    assert world.record("x.test").leased == 0
    assert [world.ledger(name) for name in ("leased", "spooled", "pages", "done")] == [0, 1, 1, 0]
    assert world.store.redis.execute_command("HGET", keys.OUTCOMES, "page") == b"1"


def test_a_settle_that_is_repeated_is_refused(world: World) -> None:
    """Alone, or twice in one call: a page is spooled once."""
    lease = leased(world)
    result = Settlement(lease, Kind.PAGE, "page", Signal.SUCCESS, True, pointer=PAGE)
    assert world.store.call(world.frontier.settle(world.now_ms, [result, result], {}, 0.0)) == "10"
    assert world.settle(lease) == "0"
    assert (len(spool(world)), world.ledger("stale"), world.ledger("leased")) == (1, 2, 0)


def test_a_lease_that_was_reaped_is_stale(world: World) -> None:
    """Who slept through its lease can't settle it: the URL belongs to somebody else by then."""
    lease = leased(world)
    world.now_ms = lease.expiry_ms
    world.store.call(world.frontier.reap(world.now_ms, lease.lane, 10))
    assert world.settle(lease) == "0"
    assert world.ledger("queued") == 1


def test_hops_are_paid_for(world: World) -> None:
    """Each redirect hop costs one more delay."""
    lease = leased(world)
    target = Entry("https://x.test/b", 1, 1)
    verb = world.frontier.hop(
        world.now_ms, lease, target.pack(), world.frontier.slots(target.url), outcome="redirected", same=False
    )
    hop = world.store.call(verb)
    assert hop.lease is not None
    world.settle(hop.lease)
    assert world.record("x.test").due_ms == START_MS + 4_000


def test_what_was_never_sent_costs_nothing(world: World) -> None:
    """A URL that robots.txt denies, or that goes back, does not make its domain wait."""
    lease = leased(world)
    world.settle(lease, Kind.DROP, outcome="robots_denied", signal=Signal.NONE, sent=False)
    assert world.record("x.test").due_ms == START_MS
    assert world.ledger("drop:robots_denied") == 1


def test_back_is_as_if_it_had_not_been_taken(world: World) -> None:
    """The URL is first in its queue again, with its tries."""
    lease = leased(world)
    world.offer("x.test", "https://x.test/b")
    world.settle(lease, Kind.BACK, signal=Signal.NONE, sent=False)
    assert world.lease().leases[0].entry == lease.entry


def test_retries_are_a_tenth_of_first_tries(make_world: MakeWorld) -> None:
    """A domain begins with two retries and earns one with ten first tries; what gets none is done."""
    world = make_world(delay_s=0.0, max_urls_per_domain=1_000)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(300)))
    granted = tried = 0
    while leases := [each for each in world.lease(1).leases if each.entry.tries == 0]:
        tried += 1
        if tried % 6:
            world.settle(leases[0], Kind.DONE, outcome="page")
        else:
            answer = world.settle(
                leases[0], Kind.RETRY, outcome="server_error", signal=Signal.NONE, wait_ms=9_999_999
            )
            granted += answer == "r"
    assert (tried, granted, world.ledger("retries")) == (300, 32, 32)
    assert world.ledger("no_retry:domain") == 50 - 32


@pytest.mark.parametrize(
    ("budget", "signal", "reason"),
    [
        ({"tokens": 9 - 1}, Signal.NONE, "node"),
        ({"first_tries": 100, "failed": 21}, Signal.NONE, "failing"),
        ({"first_tries": 100, "failed": 21}, Signal.DEAD, "failing"),
        ({"first_tries": 100, "failed": 19}, Signal.NONE, ""),
        ({"first_tries": 100, "failed": 20}, Signal.DEAD, ""),
        ({"first_tries": 40, "failed": 30}, Signal.NONE, ""),
    ],
)
def test_the_node_has_a_budget_of_retries_too(
    make_world: MakeWorld, budget: dict[str, int], signal: Signal, reason: str
) -> None:
    """A tenth of all its first tries; and none while more than a fifth of them fail, of hosts that answer."""
    world = make_world(delay_s=0.0)
    world.beat()
    lease = leased(world)
    pairs = (str(part) for pair in budget.items() for part in pair)
    world.store.redis.execute_command("HSET", keys.RETRIES, *pairs)
    answer = world.settle(lease, Kind.RETRY, outcome="x", signal=signal, wait_ms=9_999)
    assert answer == ("1" if reason else "r")
    assert world.ledger("retries") == int(not reason)
    assert not reason or world.ledger(f"no_retry:{reason}") == 1
    tokens = int(world.store.redis.execute_command("HGET", keys.RETRIES, "tokens"))
    assert tokens == min(retry.NODE_MAX, budget.get("tokens", retry.NODE_START) + 1) - (
        0 if reason else retry.COST
    )


def test_a_retry_waits_and_counts(world: World) -> None:
    """Its tries go up, it waits for its time in later, and is queued all the while."""
    lease = leased(world)
    assert world.settle(lease, Kind.RETRY, outcome="timeout", signal=Signal.NONE, wait_ms=9_000) == "r"
    assert (world.ledger("queued"), world.record("x.test").later) == (1, 1)
    world.now_ms += 9_000
    assert world.lease().leases[0].entry.tries == 1


def test_later_is_bounded(world: World) -> None:
    """A lane's later that is full sends a URL to the end of its queue, and its domain waits a moment."""
    world.frontier.later_max = 1
    first, second = domains_in_one_lane(2)
    for name in (first, second):
        world.offer(name, f"https://{name}/a", f"https://{name}/b")
        lease = next(each for each in world.lease().leases if each.domain == name)
        world.settle(
            lease, Kind.LATER, outcome="robots_unavailable", signal=Signal.NONE, sent=False, wait_ms=99_000
        )
    assert (world.record(first).later, world.record(second).later) == (1, 0)
    assert world.record(second).queued == 2
    assert world.ready_at(second) == START_MS + 2_000
    assert check(world.store).sound


def test_a_dead_host_is_parked_longer_each_time_and_then_given_up(make_world: MakeWorld) -> None:
    """Its URLs are dropped and counted, and it takes no more."""
    world = make_world(retire_after=3)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(9)))
    waits = []
    for _ in range(3):
        (lease,) = world.lease().leases
        world.settle(lease, Kind.DONE, outcome="refused", signal=Signal.DEAD)
        waits.append(int(world.record("x.test").due_ms) - world.now_ms)
        world.now_ms += waits[-1]
    assert waits == [2_000, 4_000, 8_000]
    assert world.record("x.test").gone == 1
    assert (world.ledger("drop:dead_host"), world.ledger("done"), world.ledger("queued")) == (6, 3, 0)
    assert world.ready_at("x.test") is None
    assert world.offer("x.test", "https://x.test/new").full == {"x.test": (-1, 5_000)}
    assert check(world.store, every_url=True).sound


def test_what_returns_to_a_dead_host_is_dropped(make_world: MakeWorld) -> None:
    """From later, from a lease that is settled, from a lease that runs out: counted, not lost."""
    world = make_world(delay_s=0.0, retire_after=1)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(9)))
    one, two, three, four = world.lease(4).leases
    world.settle(one, Kind.LATER, outcome="robots_unavailable", signal=Signal.NONE, wait_ms=1)
    world.settle(two, Kind.DONE, outcome="refused", signal=Signal.DEAD)
    world.settle(three, Kind.BACK, signal=Signal.NONE, sent=False)
    world.now_ms = four.expiry_ms
    world.lease()
    world.store.call(world.frontier.reap(world.now_ms, four.lane, 10))
    assert world.ledger("drop:dead_host") == 8
    assert [world.ledger(name) for name in ("queued", "leased")] == [0, 0]
    assert check(world.store, every_url=True).sound


def test_visits_that_fail_together_park_a_host_once(make_world: MakeWorld) -> None:
    """Thirty connections refused at one moment are one sign of death, not thirty."""
    world = make_world(delay_s=0.0, retire_after=3)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(9)))
    for lease in world.lease(4).leases:
        world.settle(lease, Kind.BACK, outcome="refused", signal=Signal.DEAD)
    assert (world.record("x.test").unreachable, world.record("x.test").gone) == (1, 0)


def test_retry_after_holds(world: World) -> None:
    """A site that asks for a pause gets it."""
    lease = leased(world)
    world.settle(lease, Kind.DONE, outcome="rate_limited", signal=Signal.THROTTLE, pause_ms=60_000)
    assert world.record("x.test").due_ms == START_MS + 60_000
    assert world.record("x.test").slowed_ms == 4_000


def test_marks_of_the_archive_are_kept(world: World) -> None:
    """Durable offsets of its files, beyond 32 bits."""
    world.store.call(world.frontier.settle(world.now_ms, [], {"a.warc.gz": 2**40 + 1, "b": 7}, 0.0))
    assert world.store.redis.execute_command("HGETALL", keys.ARCHIVE) == [
        b"a.warc.gz",
        b"1099511627777",
        b"b",
        b"7",
    ]


def test_a_settle_succeeds_whole_at_maxmemory(world: World) -> None:
    """Redis without room: the lease goes first, so page, retry and marks are all written."""
    lease, other = _two_domains(world)
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        world.now_ms += 1
        results = [
            Settlement(lease, Kind.PAGE, "page", Signal.SUCCESS, True, pointer=PAGE),
            Settlement(other, Kind.RETRY, "timeout", Signal.NONE, True, wait_ms=5),
        ]
        assert world.store.call(world.frontier.settle(world.now_ms, results, {"f": 1}, 0.0)) == "1r"
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")
    assert spool(world) == [PAGE.encode()]
    assert world.store.redis.execute_command("HGET", keys.ARCHIVE, "f") == b"1"
    assert int(world.store.redis.execute_command("GET", keys.CLOCK)) == world.now_ms
    assert check(world.store, every_url=True).sound


def _two(world: World) -> tuple[Lease, Lease]:
    world.offer("x.test", "https://x.test/a")
    one, two = world.lease().leases
    return one, two


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "lost"},
        {"signal": "fine"},
        {"wait_ms": "soon", "kind": Kind.LATER},
        {"crawl_delay_ms": "none"},
    ],
)
def test_a_corrupt_result_changes_nothing(world: World, wrong: dict[str, Any]) -> None:
    """Nor do the good ones beside it: no lease ends without a place for its URL."""
    one, two = _two_domains(world)
    good = Settlement(one, Kind.PAGE, "page", Signal.SUCCESS, True, pointer=PAGE)
    values: dict[str, Any] = {"kind": Kind.DONE, "outcome": "x", "signal": Signal.NONE, "sent": True} | wrong
    before = world.dump()
    with pytest.raises(redis.ResponseError):
        world.store.call(world.frontier.settle(world.now_ms, [good, Settlement(two, **values)], {}, 0.0))
    assert world.dump() == before


def _two_domains(world: World) -> tuple[Lease, Lease]:
    world.offer("y.test", "https://y.test/a")
    return _two(world)


@pytest.mark.parametrize(
    ("key", "kind"), [(keys.domain("y.test"), Kind.DONE), (keys.queue(1, "y.test"), Kind.BACK)]
)
def test_a_damaged_key_stops_a_settle_before_it_changes_anything(world: World, key: str, kind: Kind) -> None:
    """No lease of the batch ends."""
    one, two = sorted(_two_domains(world), key=lambda lease: lease.domain)
    world.store.redis.execute_command("SET", key, "damaged")
    before = world.dump()
    results = [
        Settlement(one, Kind.PAGE, "page", Signal.SUCCESS, True, pointer=PAGE),
        Settlement(two, kind, "x", Signal.NONE, False),
    ]
    with pytest.raises(redis.ResponseError):
        world.store.call(world.frontier.settle(world.now_ms, results, {}, 0.0))
    assert world.dump() == before


def test_a_large_batch(world: World) -> None:
    """Thousands of results in one call."""
    groups = [world.group(f"d{i}.test", Entry(f"https://d{i}.test/", 1, 1)) for i in range(3_000)]
    world.store.call(world.frontier.offer(world.now_ms, groups))
    world.store.redis.execute_command("HSET", keys.CONTROL, "spool_max", 100_000)
    leases = world.lease(3_000).leases
    results = [Settlement(lease, Kind.PAGE, "page", Signal.SUCCESS, True, pointer=PAGE) for lease in leases]
    assert world.store.call(world.frontier.settle(world.now_ms, results, {}, 0.0)) == "1" * 3_000
    assert world.store.redis.execute_command("XLEN", keys.SPOOL) == 3_000


# -- the pace, tied to rules/pace.py

visits = st.tuples(
    st.sampled_from(Signal),
    st.booleans(),  # sent
    st.sampled_from([0, 0, 0, 1, 3_600_000]),  # pause
    st.sampled_from([-1, -1, 0, 1, 2_500, 86_400_000]),  # crawl delay
    st.floats(0, 1),  # jitter
    st.integers(0, 5_000),  # ms that pass
    st.sampled_from([Kind.DONE, Kind.RETRY]),
    st.sampled_from([0, 0, 40, 300, 5_000]),  # time to first byte
)


@settings(
    max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(delay_s=st.sampled_from([0.0, 0.001, 2.0, 70.0]), history=st.lists(visits, max_size=25))
def test_the_script_s_pace_is_that_of_the_rules(
    make_world: MakeWorld, delay_s: float, history: list[tuple[Signal, bool, int, int, float, int, Kind, int]]
) -> None:
    """settle.lua and rules/pace.py reckon the same, to the millisecond, through any history."""
    world = make_world(delay_s=delay_s, retire_after=10_000)
    world.beat()
    limits = Limits(world.frontier.base_delay_ms, world.frontier.max_delay_ms)
    expected, tokens, node = Pace(due_ms=START_MS), retry.DOMAIN_START, retry.NodeBudget()
    for number, (signal, sent, pause, crawl_delay, jitter, passed, kind, ttfb) in enumerate(history):
        world.offer("x.test", f"https://x.test/{number}")
        world.now_ms = max(world.now_ms, expected.due_ms)
        lease = next(each for each in world.lease().leases if each.domain == "x.test")
        assert lease.delay_ms == expected.delay_ms(limits)
        world.now_ms += passed
        if crawl_delay >= 0:
            expected = pacing.after_robots(expected, limits, crawl_delay)
        expected = pacing.after_visit(
            expected,
            limits,
            now_ms=world.now_ms,
            signal=signal,
            sent=sent,
            hops=0,
            pause_ms=pause,
            jitter=jitter,
            serial=lease.serial,
            last_serial=int(world.store.redis.execute_command("GET", "serial")),
            ttfb_ms=ttfb,
        )
        first = lease.entry.tries == 0
        tokens, node, grant = retry.after_visit(
            tokens,
            node,
            first_try=first,
            sent=sent,
            wanted=kind is Kind.RETRY,
            dead=signal is Signal.DEAD,
        )
        answer = world.settle(
            lease,
            kind,
            outcome="x",
            signal=signal,
            sent=sent,
            pause_ms=pause,
            crawl_delay_ms=crawl_delay,
            jitter=jitter,
            wait_ms=10**10,
            ttfb_ms=ttfb,
        )
        assert (answer == "r") == (grant is retry.Grant.YES)
        record = world.record("x.test")
        assert (record.pace, record.retry_tokens) == (expected, tokens)


@pytest.mark.parametrize("delay_s", [0.0, 2.0])
def test_long_histories_agree_too(make_world: MakeWorld, delay_s: float) -> None:
    """Limits that fail, are remembered, tried again and forgotten; answers that come late; and many visits
    out at once, of which only the first to fail counts."""
    met = set[str]().union(*(long_history(make_world, delay_s, random.Random(seed)) for seed in range(4)))
    assert met == {"late", "again", "forgotten"} | (set() if delay_s else {"ignored"})


def long_history(make_world: MakeWorld, delay_s: float, rng: random.Random) -> set[str]:
    """Runs one in both and compares; answers what was met."""
    world = make_world(delay_s=delay_s, retire_after=10_000, max_urls_per_domain=2_000)
    limits = Limits(world.frontier.base_delay_ms, world.frontier.max_delay_ms)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(1_500)))
    expected = world.record("x.test").pace
    out: list[tuple[Lease, bool]] = []
    met: set[str] = set()
    tolerance, usual = 3, 60
    for step in range(900):
        if not out:
            world.now_ms = max(world.now_ms, expected.due_ms)
        world.beat()
        calm = 6 <= step < 750
        if rng.random() < 0.01 or step in (6, 750):
            tolerance, usual = (99, 60) if calm else (rng.randint(1, 9), 400)
        for lease in world.lease(40).leases:
            out.append((lease, len(out) >= tolerance or (not calm and rng.random() < 0.02)))
        lease, overload = out.pop(rng.randrange(len(out)))
        world.now_ms += rng.choice([10, 200, 3_000]) * (100 if calm else 1)
        signal = Signal.THROTTLE if overload else Signal.SUCCESS
        ttfb = 0 if overload else rng.randint(usual // 2, usual * 2)
        before = expected
        expected = pacing.after_visit(
            expected,
            limits,
            now_ms=world.now_ms,
            signal=signal,
            sent=True,
            hops=0,
            pause_ms=0,
            jitter=0.25,
            serial=lease.serial,
            last_serial=int(world.store.redis.execute_command("GET", "serial")),
            ttfb_ms=ttfb,
        )
        world.settle(
            lease, Kind.DONE, outcome="x", signal=signal, jitter=0.25, ttfb_ms=ttfb, crawl_delay_ms=-1
        )
        assert world.record("x.test").pace == expected
        met |= {"late"} if signal is Signal.SUCCESS and expected.slowdowns > before.slowdowns else set()
        met |= {"ignored"} if overload and expected.slowdowns == before.slowdowns else set()
        met |= {"again"} if expected.grade > max(1, before.grade) else set()
        met |= {"forgotten"} if before.grade and not expected.grade else set()
    return met
