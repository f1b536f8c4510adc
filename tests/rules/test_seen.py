"""The seen filter: never forgets, seldom errs, and how much it takes to be so."""

from __future__ import annotations

import struct
from collections import Counter
from itertools import pairwise
from math import comb

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.rules import seen
from node.rules.seen import Filter, Layer, Plan, plan


def filled(of: Plan, urls: int, seed: str) -> Filter:
    """A filter that has taken in ``urls`` different URLs."""
    slots = of.slots()
    full = Filter(of)
    for number in range(urls):
        full.add(slots(f"http://{seed}.test/{number}"))
    return full


def exact_error(full: Filter) -> float:
    """The chance that a new URL is taken for known by this very filter, from its bits alone."""
    k = full.plan.bits_set
    right = 1.0
    for layer in full.layers:
        blocks = [int.from_bytes(layer[at : at + 8], "little").bit_count() for at in range(0, len(layer), 8)]
        line = sum(comb(ones, k) for ones in blocks) / comb(64, k) / len(blocks)
        right *= 1 - line**full.plan.rounds
    return 1 - right


# --- error and size -----------------------------------------------------------------------------


def test_a_fleets_domain_in_a_day() -> None:
    """1,543 URLs at an error of 1e-3 take at most 24 bits each, and a domain that is full keeps the rate.

    Measured with fixed names: 20 domains, 2,000 strange URLs each.
    """
    of = plan(1543, 1e-3)
    assert of.bits_per_url <= 24
    assert sum(8 * layer.blocks for layer in of.layers) <= 4629
    slots = of.slots()
    errors, exact = 0, 0.0
    for domain in range(20):
        full = filled(of, 1543, f"d{domain}")
        exact += exact_error(full) / 20
        errors += sum(full.contains(slots(f"http://d{domain}.test/new/{number}")) for number in range(2000))
    assert exact <= 1e-3
    assert exact == pytest.approx(of.expected_error(), rel=0.05)
    assert errors / 40_000 == pytest.approx(1e-3, abs=5 * (1e-3 / 40_000) ** 0.5)


@pytest.mark.parametrize(
    ("max_urls", "error_rate", "filters"),
    [
        (1, 1e-3, 40),
        (40, 1e-2, 40),
        (300, 1e-3, 20),
        (700, 0.1, 20),
        (1543, 1e-6, 20),
        (3000, 1e-4, 10),
        (20_000, 2e-3, 2),
        (20_000, 1e-3, 2),
        (20_000, 1e-6, 2),
        (20_000, 1e-9, 2),
    ],
)
def test_a_full_filter_keeps_its_rate(max_urls: int, error_rate: float, filters: int) -> None:
    """Sizes and rates of all kinds are met or bettered, on average over filters filled to the last URL."""
    of = plan(max_urls, error_rate)
    error = sum(exact_error(filled(of, max_urls, f"f{number}")) for number in range(filters)) / filters
    assert error <= error_rate
    assert of.expected_error() <= error_rate


def test_beyond_its_plan_a_filter_goes_on() -> None:
    """A life of four caps at most doubles the error, and costs a domain nothing before its cap is reached."""
    of = plan(1543, 1e-3, life_urls=6172)
    assert of.layers[: of.planned] == plan(1543, 1e-3).layers
    assert sum(layer.capacity_urls for layer in of.layers) == 6172
    assert of.expected_error() <= 1e-3
    assert of.expected_error(len(of.layers)) <= 2e-3
    whole = filled(of, 6172, "life")
    assert not whole.room()
    assert exact_error(whole) <= 2.1e-3


@settings(deadline=None)
@given(st.integers(1, seen.MAX_URLS), st.floats(seen.LEAST_ERROR, seen.GREATEST_ERROR))
def test_every_plan_adds_up(max_urls: int, error_rate: float) -> None:
    """Capacities sum to what was asked for, layers begin small and grow, and the rate is kept."""
    of = plan(max_urls, error_rate)
    capacities = [layer.capacity_urls for layer in of.layers]
    assert sum(capacities) == max_urls
    assert capacities[0] <= 512
    for smaller, larger in pairwise(capacities[:-1]):
        assert larger == 8 * smaller
    assert len(capacities) == 1 or capacities[-1] > capacities[-2] / 4
    assert of.expected_error() <= error_rate
    assert of.rounds in (1, 2)
    assert all(layer.blocks >= 1 for layer in of.layers)
    assert of.layers[-1].blocks * 8 <= 512 << 20


def test_the_largest_plan_fits_redis() -> None:
    """No layer outgrows a Redis string, whatever rate is set."""
    for of in (plan(seen.MAX_URLS, 1e-9), plan(seen.MAX_URLS // 4, 1e-9, seen.MAX_URLS)):
        assert max(layer.blocks for layer in of.layers) * 8 <= 512 << 20


def test_the_layers_of_a_large_plan() -> None:
    """An unlimited crawl begins small in every domain and grows eightfold."""
    of = plan(10_000_000, 1e-6)
    assert [layer.capacity_urls for layer in of.layers] == [256, 2048, 16384, 131072, 1048576, 8801664]
    assert of.rounds == 2
    assert of.bits_per_url < 51


def test_the_first_layer_of_a_small_plan_is_tiny() -> None:
    """A domain of which only the seed is ever seen takes an eighth of a kilobyte."""
    of = plan(1543, 1e-3)
    assert of.layers[0] == Layer(capacity_urls=16, blocks=15)
    assert len(filled(of, 1, "one").layers[0]) == 120


@pytest.mark.parametrize(
    ("max_urls", "error_rate", "life_urls"),
    [
        (0, 1e-3, None),
        (-1, 1e-3, None),
        (1 << 27, 1e-3, None),
        (10_000_000, 1e-3, 50_000_000),
        (10, 0.0, None),
        (10, 0.2, None),
        (10, -1.0, None),
        (10, 1e-12, None),
        (10, float("nan"), None),
        (10, 1e-3, 9),
    ],
)
def test_plans_that_nobody_means(max_urls: int, error_rate: float, life_urls: int | None) -> None:
    """Sizes and rates out of reason are refused with words."""
    with pytest.raises(ValueError, match="a seen filter"):
        plan(max_urls, error_rate, life_urls)


# --- slots --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.text(), st.integers(1, 2), st.integers(1, 8))
def test_a_slot_has_its_bits(key: str, rounds: int, bits_set: int) -> None:
    """Each line is 12 bytes with exactly the planned number of different bits in its mask."""
    slots = seen.slot_maker(rounds, bits_set)(key)
    assert len(slots) == 12 * rounds
    for _, low, high in struct.iter_unpack("<III", slots):
        assert low.bit_count() + high.bit_count() == bits_set


def test_slots_are_for_good() -> None:
    """A change would make the filters of every crawl that goes on worthless; this one must not."""
    assert seen.slot_maker(2, 7)("http://h.test/").hex() == "8a6cf32600000400e0280010cb25a05e1400041101000002"
    assert seen.fingerprint("http://h.test/") == 12241095336184212618


def test_bits_and_blocks_are_chosen_evenly() -> None:
    """Every bit of a block, and every block of a layer, is as likely as any other, in each round."""
    slots = seen.slot_maker(2, 7)
    urls = 20_000
    bits: list[Counter[int]] = [Counter(), Counter()]
    blocks: list[Counter[int]] = [Counter(), Counter()]
    for number in range(urls):
        for round_, (selector, low, high) in enumerate(
            struct.iter_unpack("<III", slots(f"http://h.test/{number}"))
        ):
            blocks[round_][selector % 100] += 1
            mask = high << 32 | low
            bits[round_].update(bit for bit in range(64) if mask >> bit & 1)
    for round_ in range(2):
        for counts, cells, total in ((bits[round_], 64, urls * 7), (blocks[round_], 100, urls)):
            assert set(counts) == set(range(cells))
            assert all(count == pytest.approx(total / cells, rel=0.25) for count in counts.values())


def test_the_rounds_of_a_url_differ() -> None:
    """The second line of a URL says something that the first does not."""
    slots = seen.slot_maker(2, 7)
    assert all(lines[:12] != lines[12:] for lines in map(slots, map(str, range(1000))))
    same_block = sum(
        first % 50 == second % 50
        for first, second in (struct.unpack("<I8xI8x", slots(str(number))) for number in range(5000))
    )
    assert same_block / 5000 == pytest.approx(1 / 50, abs=0.01)


def test_fingerprints_differ() -> None:
    """A cache of fingerprints takes no URL for another."""
    assert len({seen.fingerprint(f"http://h.test/{number}") for number in range(50_000)}) == 50_000


# --- the filter itself --------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.text(max_size=6), unique=True, max_size=60), st.sampled_from([1e-3, 1e-6]))
@example(["010"], 1e-6)  # both lines fall into one block
def test_nothing_is_forgotten(keys: list[str], error_rate: float) -> None:
    """Whatever was added is known ever after, through every layer that is begun."""
    of = Plan(
        60, error_rate, 1 if error_rate == 1e-3 else 2, 7, (Layer(5, 4), Layer(15, 13), Layer(40, 35)), 3
    )
    slots = of.slots()
    filter_ = Filter(of)
    for number, key in enumerate(keys):
        assert filter_.room()
        filter_.add(slots(key))
        assert all(filter_.contains(slots(earlier)) for earlier in keys[: number + 1])
    assert len(filter_.layers) == (3 if len(keys) > 20 else 2 if len(keys) > 5 else 1 if keys else 0)


def test_a_full_filter_says_so() -> None:
    """The last layer takes its capacity and no more."""
    full = filled(plan(1543, 1e-3), 1543, "full")
    assert not full.room()
    with pytest.raises(OverflowError):
        full.add(full.plan.slots()("http://h.test/one-more"))
    assert Filter(plan(1, 1e-3)).room()
    assert not Filter(plan(1, 1e-3)).contains(plan(1, 1e-3).slots()("http://h.test/"))
