"""begin: a process meets a Redis, and learns whose it is and what time it is."""

from __future__ import annotations

import pytest
import redis

from node.errors import OtherCrawlError, StoreError
from node.store import keys
from node.store.connection import GRACE_MS, Store
from node.store.scripts import Verb, all_scripts
from tests.redis_server import RedisServer
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import START_MS, World, settings_for


def test_the_first_of_many(world: World) -> None:
    """Whoever comes later on the same Redis finds it begun."""
    assert world.begin().how == "again"
    world.run += 1
    assert [world.begin().how, world.begin().how] == ["unclean", "again"]


def test_a_clean_stop_moves_no_epoch(world: World) -> None:
    """Where the last process said goodbye nobody has to wait; the mark is used up."""
    world.store.redis.execute_command("HSET", keys.META, "clean", "1")
    world.run += 1
    begun = world.begin()
    assert (begun.how, begun.epoch_ms) == ("clean", 0)
    world.run += 1
    assert world.begin().epoch_ms == START_MS + GRACE_MS


def test_the_clock_never_runs_backwards(world: World) -> None:
    """A new boot whose wall clock is wrong goes on where the old one ended."""
    world.now_ms += 50_000
    world.offer("x.test", "https://x.test/")
    world.run += 1
    begun = world.begin(boot="boot-2", boottime=5_000, wall=17)
    assert begun.base_ms + 5_000 == START_MS + 50_000
    world.run += 1
    begun = world.begin(boot="boot-3", boottime=5_000, wall=START_MS + 99_000)
    assert begun.base_ms + 5_000 == START_MS + 99_000


def test_another_crawl_is_refused(redis_server: RedisServer, make_world: MakeWorld) -> None:
    """By its frozen settings, in words, and nothing is changed."""
    world = make_world()
    before = world.dump()
    other = Store(settings_for(redis_server, delay_s=9.0))
    with pytest.raises(OtherCrawlError, match=r"delay_s=9\.0"):
        other.begin()
    other.close()
    assert world.dump() == before


def test_another_layout_is_refused(world: World) -> None:
    """A Redis of a version that kept other keys."""
    world.store.redis.execute_command("HSET", keys.META, "schema", "0")
    with pytest.raises(OtherCrawlError, match="layout 0"):
        world.store.begin()


@pytest.mark.parametrize("key", [keys.LEDGER, keys.SPOOL, keys.ready(5), keys.leases(63), keys.BEATS])
def test_a_damaged_redis_is_refused(world: World, key: str) -> None:
    """Keys that all verbs need are looked at once, so that no verb fails half way on them."""
    world.store.redis.execute_command("DEL", key)
    world.store.redis.execute_command("SET", key, "nonsense")
    with pytest.raises(StoreError, match=f"{key} is a string"):
        world.store.begin()


def test_no_verb_before_begin(redis_server: RedisServer, world: World) -> None:
    """After a restart the other scripts are loaded once the epoch has moved: who comes meanwhile finds
    none, and begins as well."""
    world.store.redis.execute_command("SCRIPT", "FLUSH")
    world.store.redis.execute_command("HSET", keys.META, "schema", "0")
    with pytest.raises(OtherCrawlError):
        world.store.begin()
    loaded = world.store.redis.execute_command("SCRIPT", "EXISTS", *(each.sha for each in all_scripts()))
    assert [each.name for each, there in zip(all_scripts(), loaded, strict=True) if there] == ["begin"]


def test_it_begins_at_maxmemory(world: World) -> None:
    """A node that filled its Redis can be started again."""
    world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        world.run += 1
        assert world.begin().how == "unclean"
    finally:
        world.store.redis.execute_command("CONFIG", "SET", "maxmemory", "0")


def test_a_call_finds_its_script_again(world: World) -> None:
    """Redis lost the scripts (a restart): the call begins anew, then is carried out."""
    generation = world.store.generation
    world.store.redis.execute_command("SCRIPT", "FLUSH")
    assert world.offer("x.test", "https://x.test/").admitted == 1
    assert world.store.generation >= generation


def test_corrupt_arguments_change_nothing(world: World) -> None:
    """A boot time that is none."""
    before = world.dump()
    verb: Verb[object] = Verb("begin", ("f", "r", "b", "x", "y", "z", keys.SCHEMA), lambda answer: answer)
    world.store.redis.execute_command("DEL", keys.META)
    with pytest.raises(redis.ResponseError):
        world.store.call(verb)
    assert world.dump() == {name: value for name, value in before.items() if name != keys.META.encode()}
