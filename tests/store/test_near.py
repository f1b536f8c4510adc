"""Pages that are nearly the same: what an offer keeps of them, and what it does about their domain."""

from __future__ import annotations

import random

from node.rules.entry import Entry, unpack
from node.rules.similar import MOST, Likeness
from node.store import keys, near
from node.store.frontier import Offered
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World

NAME = "a.test"
COPY = bytes(8)


def offer(world: World, *entries: Entry, prints: tuple[bytes, ...] = (), told: bool = True) -> Offered:
    groups = [world.group(NAME, *entries)] if entries else []
    pages = near.told({NAME: prints}) if told else b""
    return world.store.call(world.frontier.offer(world.now_ms, groups, near=pages))


def likeness(world: World) -> Likeness:
    return near.unpack(world.store.redis.execute_command("GET", keys.near(NAME)))


def queued(world: World) -> dict[str, int]:
    """URL -> the level it waits at; each entry says the level of its list."""
    found = {}
    for level in range(keys.LEVELS):
        for packed in world.store.redis.execute_command("LRANGE", keys.queue(level, NAME), 0, -1):
            entry = unpack(packed.decode())
            assert entry.level == level
            found[entry.url.rpartition("/")[2]] = level
    return found


def test_redis_keeps_the_law(world: World) -> None:
    """After any pages the script knows what ``rules/similar.py`` says, and counted the pages so."""
    dice = random.Random(5)
    kinds = [dice.randbytes(8) for _ in range(24)]
    law, count, copies = Likeness(), 0, 0
    for _ in range(120):
        prints = []
        for _ in range(dice.randrange(4)):
            one = int.from_bytes(dice.choice(kinds))
            for _ in range(dice.choice((0, 1, 6, 7, 12))):
                one ^= 1 << dice.randrange(64)
            prints.append(one.to_bytes(8))
        for each in prints:
            before = law
            law = law.with_page(each)
            copies += law.near - (before.near if before.compared < MOST else before.near // 2)
        count += len(prints)
        offer(world, prints=tuple(prints))
        assert likeness(world) == law
    assert (world.ledger("pages_compared"), world.ledger("pages_near")) == (count, copies)
    assert copies > 20


def test_urls_of_a_domain_of_copies_enter_lower(world: World) -> None:
    """They wait behind what was there, whatever leads to them; those of other domains, and seeds, do not."""
    offer(world, Entry(f"https://{NAME}/before", 1, 1), prints=(COPY,) * 20)
    offer(world, Entry(f"https://{NAME}/after", 1, 1), Entry(f"https://{NAME}/deep", 6, 6))
    offer(world, Entry(f"https://{NAME}/seed", 0, 0), told=False)
    world.offer("b.test", "https://b.test/")
    assert queued(world) == {"before": 1, "after": 4, "deep": 7, "seed": 0}
    assert world.ledger("queued") == 5


def test_a_domain_of_copies_is_visited_less_often(make_world: MakeWorld) -> None:
    """After each page of it the next visit is up to three delays later; of others nothing changes."""
    world = make_world(delay_s=2)
    world.beat()
    for name in (NAME, "b.test"):
        world.offer(name, *(f"https://{name}/{n}" for n in range(5)))
    for lease in world.lease().leases:
        world.settle(lease)
    offer(world, prints=(COPY,) * 20)
    assert world.ready_at("b.test") == world.now_ms + 2_000
    assert world.ready_at(NAME) == world.record(NAME).due_ms == world.now_ms + 8_000
    world.now_ms += 2_000
    offer(world)
    assert world.ready_at(NAME) == world.now_ms + 8_000, "a page that is not compared counts, too"
    world.now_ms += 2_000
    offer(world, told=False)
    assert world.ready_at(NAME) == world.now_ms + 6_000


def test_without_a_delay_visits_go_on_as_before(make_world: MakeWorld) -> None:
    """Where the width adapts, only the order of URLs changes."""
    world = make_world(delay_s=0)
    world.beat()
    offer(world, Entry(f"https://{NAME}/1", 1, 1), prints=(COPY,) * 20)
    assert world.record(NAME).due_ms <= world.now_ms


def test_a_page_of_a_domain_that_is_not_known_makes_none(world: World) -> None:
    """The frontier keeps state for domains with URLs only."""
    offer(world, prints=(COPY,) * 20)
    assert not world.store.redis.execute_command("EXISTS", keys.domain(NAME))
    assert likeness(world).lowered == 3


def test_where_nothing_is_compared_nothing_is_kept(world: World) -> None:
    """Off, an offer neither reads nor writes any of it."""
    offer(world, Entry(f"https://{NAME}/1", 1, 1), told=False)
    offer(world)
    assert not world.store.redis.execute_command("EXISTS", keys.near(NAME))
