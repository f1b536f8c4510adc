"""The seen filter in Lua is the one of rules/seen.py, bit for bit."""

from __future__ import annotations

import random

import pytest

from node.rules.entry import Entry
from node.rules.seen import Filter, plan
from node.store import keys
from tests.store.conftest import MakeWorld
from tests.store.frontier_world import World


def layers(world: World, filter_: Filter) -> list[bytes]:
    return [
        world.store.redis.execute_command("GET", keys.seen(number + 1, "x.test"))
        for number in range(len(filter_.layers))
    ]


@pytest.mark.parametrize(
    ("cap", "error_rate"),
    [
        (3, 1e-3),  # life beyond the plan: several layers
        (40, 0.1),  # false positives, which both must have
        (600, 1e-3),  # a small first layer, then a larger one
        (600, 1e-6),  # two rounds
        (3_000, 1e-3),  # layers read block by block
    ],
)
def test_both_filters_are_the_same(make_world: MakeWorld, cap: int, error_rate: float) -> None:
    """Offered in batches of all sizes, the same URLs are known, and every layer has the same bytes."""
    world = make_world(max_urls_per_domain=cap, seen_error_rate=error_rate)
    assert world.frontier.plan == plan(cap, error_rate, world.frontier.life_cap)
    expected = Filter(world.frontier.plan)
    dice = random.Random(cap)
    offered = 0
    while offered < 2 * cap:
        urls = [f"https://x.test/{dice.randrange(3 * cap)}" for _ in range(dice.choice([1, 2, 7, 300]))]
        offered += len(urls)
        known = admitted = 0
        waiting = world.record("x.test").queued if expected.layers else 0
        for url in urls:
            slots = world.frontier.slots(url)
            if expected.contains(slots):
                known += 1
            elif waiting + admitted < cap and expected.room():
                expected.add(slots)
                admitted += 1
        answer = world.offer("x.test", *urls)
        assert (answer.seen, answer.admitted) == (known, admitted)
        assert layers(world, expected) == [bytes(layer) for layer in expected.layers]
        if answer.admitted and dice.random() < 0.5:  # make room
            verb = world.frontier.trim(
                world.now_ms, "x.test", world.group("x.test").lane, 0, reason="trimmed"
            )
            world.store.call(verb)


def test_a_filter_is_no_larger_than_its_layers(make_world: MakeWorld) -> None:
    """A new layer is made whole at once, so that no look-up meets its end; none is made in vain."""
    world = make_world(max_urls_per_domain=600)
    sizes = [layer.blocks * 8 for layer in world.frontier.plan.layers]
    first = world.frontier.plan.layers[0].capacity_urls
    world.offer("x.test", *(f"https://x.test/{i}" for i in range(first)))
    length = ("STRLEN", keys.seen(1, "x.test")), ("STRLEN", keys.seen(2, "x.test"))
    assert world.store.calls([], extra=length) == [sizes[0], 0]
    world.offer("x.test", Entry("https://x.test/one-more", 0, 0))
    assert world.store.calls([], extra=length) == sizes[:2]
