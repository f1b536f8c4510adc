"""found and unspool: the frontier is made to agree with what lies in the archive."""

from __future__ import annotations

import pytest

from node.rules.entry import SITEMAP, Entry
from node.rules.outcome import Signal
from node.store import keys, spool
from node.store.check import check
from node.store.found import Stored, Was, found, page_gone
from node.store.frontier import Kind
from node.store.refusals import NewRedisError
from node.store.warc import Position
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World

AT = Position("f.warc.gz", 100, 50, "")


def _stored(url: str, depth: int = 2, kind: Kind = Kind.PAGE, sitemap: int = 0) -> Stored:
    return Stored(Entry(url, depth, depth, sitemap=sitemap), kind, "page", AT)


def _found(world: World, *records: Stored, fetcher: int = 1, run: str = "", mark: int = 150) -> list[Was]:
    verb = found(world.frontier, world.now_ms, fetcher, records, {"f.warc.gz": mark}, run)
    return world.store.call(verb)


def _spooled(world: World) -> list[str]:
    pages = spool.pages_claimed([b"", world.store.redis.execute_command("XRANGE", keys.SPOOL, "-", "+")])
    return [each.pointer.pack() for each in pages]


def _is_sound(world: World) -> None:
    findings = check(world.store, every_url=True)
    assert findings.sound, list(findings.lines())


def test_a_lease_is_settled_and_the_domain_owes_its_visit(world: World) -> None:
    """The page goes to the spool with the depth that the frontier knows, and the delay is kept."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    (lease,) = world.lease().leases
    assert _found(world, _stored(lease.entry.url, depth=7)) == [Was.LEASED]
    assert _spooled(world) == ["f.warc.gz 100 50 1 https://x.test/a"]
    assert (world.ledger("leased"), world.ledger("pages")) == (0, 1)
    assert world.ready_at("x.test") == world.now_ms + 2_000
    assert world.store.redis.execute_command("HGET", keys.ARCHIVE, "f.warc.gz") == b"150"
    _is_sound(world)


@pytest.mark.parametrize("fetcher", [0, 2])
def test_leases_of_others_are_left_alone(world: World, fetcher: int) -> None:
    """Their visits are under way: to close one would let a second visit to the domain begin beside it."""
    world.offer("x.test", "https://x.test/a")
    assert len(world.lease().leases) == 1
    assert _found(world, _stored("https://x.test/a"), fetcher=fetcher) == [Was.OTHERS]
    assert (world.ledger("leased"), _spooled(world)) == (1, [])
    _is_sound(world)


def test_a_queued_url_is_taken_off_its_queue(world: World) -> None:
    """It is not fetched again; the others stay, and the last one takes its domain out of ready."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    assert _found(world, _stored("https://x.test/a"), _stored("https://x.test/a")) == [Was.QUEUED, Was.KNOWN]
    assert world.ready_at("x.test") is not None
    assert _found(world, _stored("https://x.test/b", kind=Kind.DONE)) == [Was.QUEUED]
    assert world.ready_at("x.test") is None
    assert (world.ledger("spooled"), world.ledger("done"), world.ledger("queued")) == (1, 1, 0)
    _is_sound(world)


def test_a_url_with_a_time_of_its_own_is_taken_from_there(world: World) -> None:
    """What waits in ``later`` counts as queued."""
    world.offer("x.test", "https://x.test/a")
    (lease,) = world.lease().leases
    world.settle(lease, Kind.LATER, outcome="x", signal=Signal.NONE, wait_ms=9_000)
    assert _found(world, _stored("https://x.test/a")) == [Was.QUEUED]
    _is_sound(world)


def test_a_lost_admission_is_made_up_for(world: World) -> None:
    """Of a domain that is known, and of one that is not: admitted, marked as seen, and spooled."""
    world.offer("x.test", "https://x.test/a")
    lost = [_stored("https://x.test/lost"), _stored("https://new.test/lost", sitemap=SITEMAP)]
    assert _found(world, *lost) == [Was.UNKNOWN, Was.UNKNOWN]
    assert _spooled(world) == [
        "f.warc.gz 100 50 2 https://x.test/lost",
        "f.warc.gz 100 50 2.1 https://new.test/lost",
    ]
    assert (world.ledger("admitted"), world.ledger("domains"), world.ledger("pages")) == (3, 2, 1)
    assert world.record("new.test").due_ms >= world.now_ms + 2_000
    assert world.offer("new.test", "https://new.test/lost").seen == 1
    assert _found(world, *lost) == [Was.KNOWN, Was.KNOWN]
    _is_sound(world)


def test_what_was_dealt_with_stays_so(world: World) -> None:
    """Done, spooled or dropped: nothing is counted twice."""
    for name in ("done", "page", "drop"):
        world.offer(f"{name}.test", f"https://{name}.test/")
    leases = {lease.domain: lease for lease in world.lease().leases}
    world.settle(leases["done.test"], Kind.DONE)
    world.settle(leases["page.test"])
    world.settle(leases["drop.test"], Kind.DROP, outcome="excluded", sent=False)
    before = world.dump()
    names = ("done", "page", "drop")
    assert _found(world, *(_stored(f"https://{name}.test/") for name in names)) == [Was.KNOWN] * 3
    after = world.dump()
    del after[b"archive"]
    assert after == before


def test_bounds_hold_for_what_is_found(make_world: MakeWorld) -> None:
    """A domain too many is refused, and nothing is kept of it."""
    world = make_world(max_domains=1)
    world.beat()
    world.offer("x.test", "https://x.test/a")
    assert _found(world, _stored("https://y.test/")) == [Was.REFUSED]
    assert world.store.redis.execute_command("EXISTS", keys.domain("y.test")) == 0
    _is_sound(world)


def test_another_redis_is_told_nothing(world: World) -> None:
    """What rests on the state before a crash is refused whole: settles, offers, and what was found."""
    world.offer("x.test", "https://x.test/a")
    (lease,) = world.lease().leases
    before = world.dump()
    with pytest.raises(NewRedisError):
        _found(world, _stored("https://x.test/a"), run="another")
    with pytest.raises(NewRedisError):
        world.store.call(world.frontier.settle(world.now_ms, [], {"f.warc.gz": 7}, 0.0, "another"))
    with pytest.raises(NewRedisError):
        world.store.call(world.frontier.offer(world.now_ms, [], run="another"))
    assert world.dump() == before
    run = f"run-{world.run}"
    world.store.call(world.frontier.settle(world.now_ms, [], {"f.warc.gz": 7}, 0.0, run))
    assert _found(world, _stored(lease.entry.url), run=run) == [Was.LEASED]


def test_a_page_whose_record_is_gone_is_queued_again(world: World) -> None:
    """It leaves the spool, in whosever hands it is, and is counted as if it had not come."""
    world.offer("x.test", "https://x.test/a")
    (lease,) = world.lease().leases
    world.settle(lease)
    read = spool.read_new("p1", 10, 1)
    (page,) = spool.pages_read(world.store.calls([], extra=[read])[0])
    gone = page_gone(world.frontier, world.now_ms, page.id, Entry("https://x.test/a", 1, 1))
    assert [world.store.call(gone), world.store.call(gone)] == [1, 0]
    places = [world.ledger(name) for name in ("queued", "spooled", "pages", "done", "record_gone")]
    assert places == [1, 0, 0, 0, 1]
    assert world.store.redis.execute_command("XPENDING", keys.SPOOL, keys.PARSERS)[0] == 0
    world.now_ms += 2_000
    assert [each.entry.url for each in world.lease().leases] == ["https://x.test/a"]
    _is_sound(world)


def test_lease_numbers_are_not_given_out_again_after_a_crash(world: World) -> None:
    """Redis may have forgotten the last ones, whose holders live on."""
    world.offer("x.test", "https://x.test/a", "https://x.test/b")
    (before,) = world.lease().leases
    world.run += 1
    assert world.begin().how == "unclean"
    world.settle(before, Kind.BACK, sent=False)
    world.now_ms += 60_000
    world.beat()
    (after,) = world.lease().leases
    assert after.serial > before.serial + 1_000_000
