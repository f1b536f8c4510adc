"""lease: the best URLs of the domains that are due."""

from __future__ import annotations

import pytest
import redis

from node.rules.entry import Entry
from node.store import keys
from node.store.frontier import Kind
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import START_MS, World, domains_in_one_lane


def control(world: World, **fields: int | str) -> None:
    for name, value in fields.items():
        world.store.redis.execute_command("HSET", keys.CONTROL, name, value)


def test_the_best_url_of_each_due_domain(world: World) -> None:
    """One URL a domain, of its best level; the domain leaves ready until the lease ends."""
    world.offer("x.test", Entry("https://x.test/b", 3, 3), Entry("https://x.test/a", 1, 1))
    world.offer("y.test", "https://y.test/")
    got = world.lease()
    assert {lease.entry.url for lease in got.leases} == {"https://x.test/a", "https://y.test/"}
    assert (got.now_ms, got.reason, got.next_due_ms) == (START_MS, "", -1)
    lease = next(each for each in got.leases if each.domain == "x.test")
    assert lease.expiry_ms == START_MS + world.frontier.lease_ms
    assert lease.delay_ms == 2_000
    assert world.ready_at("x.test") is None
    record = world.record("x.test")
    assert (record.queued, record.leased) == (1, 1)
    assert (world.ledger("queued"), world.ledger("leased")) == (1, 2)
    assert world.ledger("last_lease") == START_MS


def test_next_due_says_when_to_come_again(world: World) -> None:
    """Nothing due: the answer names the moment of the next domain, or of the next URL in later."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    assert world.settle(world.lease().leases[0]) == "1"
    got = world.lease()
    assert (got.leases, got.next_due_ms) == ([], START_MS + 2_000)
    world.now_ms += 2_000
    world.settle(world.lease().leases[0], Kind.LATER, wait_ms=700)
    assert world.lease().next_due_ms == world.now_ms + 700


def test_only_lanes_of_the_caller(world: World) -> None:
    """A fetcher that believes a lane to be its own but has lost it gets nothing from it."""
    world.offer("x.test", "https://x.test/")
    assert world.lease(tag="2.a").leases == []
    assert world.lease(tag="1.old").leases == []
    assert world.lease(lanes=[]).leases == []
    assert len(world.lease().leases) == 1


def test_widths_and_rooms_bound_what_is_handed_out(make_world: MakeWorld) -> None:
    """Without a delay a domain gives up to its width, of the room there is; then others have their turn."""
    world = make_world(delay_s=0.0)
    world.beat()
    for name in ("x.test", "y.test"):
        world.offer(name, *(f"https://{name}/{i}" for i in range(9)))
    assert len(world.lease(3).leases) == 3
    assert len(world.lease(10).leases) == 5
    assert world.record("x.test").leased == world.record("y.test").leased == 4
    assert world.ready_at("x.test") is None


def test_a_crawl_delay_makes_the_width_one(make_world: MakeWorld) -> None:
    """Where the site asks for a delay, one visit at a time, though we would need none."""
    world = make_world(delay_s=0.0)
    world.beat()
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(9)))
    leases = world.lease(10).leases
    for lease in leases:
        world.settle(lease, crawl_delay_ms=3_000)
    assert world.lease(10).leases == []
    world.now_ms += 3_000
    assert len(world.lease(10).leases) == 1
    assert world.lease(10).leases == []


@pytest.mark.parametrize(
    ("fields", "reason", "handed_out"),
    [
        ({"pause": "x"}, "paused", 0),
        ({"stop": "x"}, "stopping", 0),
        ({"pages_max": 2}, "pages_reached", 2),
        ({"spool_max": 3}, "spool_full", 3),
        ({"spool_max": 1, "pages_max": 2}, "spool_full", 1),
        ({"pages_max": 50, "spool_max": 50}, "", 5),
    ],
)
def test_why_not_more(world: World, fields: dict[str, int | str], reason: str, handed_out: int) -> None:
    """Pause, stop, the limit of pages and the spool's bound count what is leased; each is named."""
    for i in range(5):
        world.offer(f"d{i}.test", f"https://d{i}.test/")
    control(world, **fields)
    got = world.lease(10)
    assert (got.reason, len(got.leases)) == (reason, handed_out)
    assert len(world.lease(10).leases) == 0


def test_pages_and_spool_count_towards_their_bounds(world: World) -> None:
    """A page that is stored uses up --pages for good and the spool until it is parsed."""
    for i in range(3):
        world.offer(f"d{i}.test", f"https://d{i}.test/")
    control(world, spool_max=1, pages_max=2)
    world.settle(world.lease().leases[0])
    assert world.lease().reason == "spool_full"
    page = world.store.redis.execute_command("XRANGE", keys.SPOOL, "-", "+")[0][0]
    world.offer("d0.test", acks=(page,))
    lease = world.lease().leases[0]
    world.settle(lease, Kind.DONE, outcome="not_found")
    control(world, spool_max=9)
    assert len(world.lease().leases) == 1  # the one that failed made room for another
    assert world.lease().reason == "pages_reached"


def test_a_lane_with_many_due_domains_gives_all_that_is_asked_for(world: World) -> None:
    """One call fills itself from one lane where the others are empty; the oldest go first."""
    names = domains_in_one_lane(120)
    for i, name in enumerate(names):
        group = world.group(name, Entry(f"https://{name}/", 1, 1), due_ms=START_MS - 1_000 + i)
        world.store.call(world.frontier.offer(world.now_ms, [group]))
    assert [lease.domain for lease in world.lease(100).leases] == names[:100]
    assert [lease.domain for lease in world.lease(100).leases] == names[100:]


def test_no_lane_starves(world: World) -> None:
    """Each lane has its turn, whatever the others hold: the caller turns where it begins."""
    crowd, other = domains_in_one_lane(60, lane=7), domains_in_one_lane(1, lane=8)[0]
    for name in [*crowd, other]:
        world.offer(name, f"https://{name}/")
    served: list[str] = []
    for start in range(64):
        verb = world.frontier.lease(world.now_ms, "1.a", list(range(64)), 1, start)
        served += [lease.domain for lease in world.store.call(verb).leases]
        if other in served:
            break
    assert other in served


def test_a_url_s_own_time(world: World) -> None:
    """A URL in later comes back when its time has come, to the front, and can be had in the same call."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    world.settle(world.lease().leases[0], Kind.LATER, outcome="robots_unavailable", wait_ms=5_000)
    record = world.record("x.test")
    assert (record.queued, record.later, world.ledger("queued")) == (1, 1, 2)
    world.now_ms += 4_999
    (other,) = world.lease().leases
    assert other.entry.url == "https://x.test/b"
    world.settle(other)
    world.offer("x.test", "https://x.test/c")
    world.now_ms += 2_000
    assert world.lease().leases[0].entry.url == "https://x.test/a"
    assert world.record("x.test").later == 0


def test_expired_leases_return(world: World) -> None:
    """On the way a lease reaps a few; the URL is first again once the domain has paid its delay."""
    world.offer("x.test", "https://x.test/a")
    lease = world.lease().leases[0]
    world.now_ms = lease.expiry_ms
    for start in range(0, 64, 2):
        verb = world.frontier.lease(world.now_ms, "1.a", list(range(64)), 10, start)
        assert world.store.call(verb).leases == []
    world.now_ms += 2_000
    again = world.lease().leases[0]
    assert (again.entry.url, again.entry.reaped) == ("https://x.test/a", 1)
    assert again.member != lease.member


def test_after_an_unclean_start_domains_wait(world: World) -> None:
    """I3: what was visited before the crash is not due before the epoch and a delay."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    world.settle(world.lease().leases[0])
    world.now_ms += 100_000
    world.run += 1
    begun = world.begin()
    assert begun.how == "unclean"
    got = world.lease()
    assert (got.leases, got.next_due_ms) == ([], begun.epoch_ms + 2_000)
    assert world.ready_at("x.test") == begun.epoch_ms + 2_000
    world.now_ms = begun.epoch_ms + 1_999
    assert world.lease().leases == []
    world.now_ms += 1
    assert len(world.lease().leases) == 1


def test_postponing_a_whole_lane_takes_several_calls(world: World) -> None:
    """After an unclean start each call looks at a bounded number of domains, and comes back at once."""
    names = domains_in_one_lane(150)
    for name in names:
        world.offer(name, f"https://{name}/")
    world.now_ms += 100_000
    world.run += 1
    epoch_ms = world.begin().epoch_ms
    calls = 0
    while (next_due_ms := world.lease(5).next_due_ms) <= world.now_ms:
        calls += 1
    assert calls >= 1
    assert next_due_ms == epoch_ms + 2_000


def test_a_stale_caller_cannot_shorten_a_gap(world: World) -> None:
    """The greatest time ever shown counts: a clock set back neither leases sooner nor settles earlier."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    lease = world.lease().leases[0]
    world.now_ms += 10_000
    world.offer("y.test", "https://y.test/")
    world.now_ms -= 10_000
    world.settle(lease)
    assert world.ready_at("x.test") == START_MS + 12_000


def test_large_numbers_survive(world: World) -> None:
    """13 digits of ms and serials beyond 32 bits are written as whole numbers, never as 1e+12."""
    world.store.redis.execute_command("SET", "serial", 2**40)
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    lease = world.lease().leases[0]
    assert lease.member.startswith("1.a.10995116277")
    world.settle(lease)
    assert world.store.redis.execute_command("GET", keys.CLOCK) == str(START_MS).encode()
    assert world.store.redis.execute_command("HGET", keys.LEDGER, "last_lease") == str(START_MS).encode()
    for key in (keys.ready(lease.lane), keys.leases(lease.lane)):
        for score in world.store.redis.execute_command("ZRANGE", key, 0, -1, "WITHSCORES")[1::2]:
            assert score.isdigit()


def test_a_large_batch(world: World) -> None:
    """More leases in one answer than Lua's stack holds."""
    groups = [world.group(f"d{i}.test", Entry(f"https://d{i}.test/", 1, 1)) for i in range(4_000)]
    world.store.call(world.frontier.offer(world.now_ms, groups))
    control(world, spool_max=100_000)
    assert len(world.lease(4_000).leases) == 4_000


def test_leasing_goes_on_at_maxmemory(world: World) -> None:
    """It alone frees memory."""
    world.offer("x.test", "https://x.test/a")
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        world.now_ms += 1
        lease = world.lease().leases[0]
        world.now_ms = lease.expiry_ms
        assert world.store.call(world.frontier.reap(world.now_ms, lease.lane, 10)) == 1
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.parametrize(
    ("key", "value"), [(keys.domain("x.test"), "short"), (keys.queue(1, "x.test"), "no list")]
)
def test_a_damaged_key_stops_a_lease_before_it_changes_anything(world: World, key: str, value: str) -> None:
    """No URL of any domain is popped into nowhere."""
    world.offer("x.test", "https://x.test/a")
    world.offer("y.test", "https://y.test/a")
    world.store.redis.execute_command("SET", key, value)
    before = world.dump()
    with pytest.raises(redis.ResponseError):
        world.lease()
    assert world.dump() == before


@pytest.mark.parametrize("now", ["", "soon", "nan", "inf", "-1", "1e300"])
def test_a_time_that_is_none_changes_nothing(world: World, now: str) -> None:
    """The clock can't be set to what is no time."""
    before = world.dump()
    with pytest.raises(redis.ResponseError, match="no time in ms"):
        world.store.redis.execute_command(*_with_time(world, now))
    assert world.dump() == before


def _with_time(world: World, now: str) -> tuple[object, ...]:
    command = list(world.frontier.lease(0, "1.a", [1], 1, 0).command())
    command[3] = now
    return tuple(command)
