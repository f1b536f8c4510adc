"""Which node and lane a domain belongs to: evenly, for good, and independently."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules import shard

DOMAINS = [f"domain-{number}.example" for number in range(24_000)]


@pytest.mark.parametrize(
    ("key", "buckets", "bucket"),
    [(1, 1, 0), (42, 57, 43), (0xDEAD10CC, 1, 0), (0xDEAD10CC, 666, 361), (256, 1024, 520)],
)
def test_jump_agrees_with_other_implementations(key: int, buckets: int, bucket: int) -> None:
    """Values that implementations in other languages publish come out the same."""
    assert shard.jump(key, buckets) == bucket


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 500))
def test_growing_moves_only_to_the_new_bucket(key: int, buckets: int) -> None:
    """With one bucket more, a key stays where it is or goes to the new one."""
    before, after = shard.jump(key, buckets), shard.jump(key, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


def test_few_domains_move_when_a_node_is_added() -> None:
    """From 11 nodes to 12, a twelfth of the domains moves."""
    moved = sum(shard.node_of(name, 11) != shard.node_of(name, 12) for name in DOMAINS)
    assert moved / len(DOMAINS) == pytest.approx(1 / 12, rel=0.1)


@pytest.mark.parametrize("nodes", [1, 2, 4, 12])
def test_nodes_get_equal_shares(nodes: int) -> None:
    """No node has a tenth more domains than another would expect."""
    shares = Counter(shard.node_of(name, nodes) for name in DOMAINS)
    assert sorted(shares) == list(range(nodes))
    for count in shares.values():
        assert count == pytest.approx(len(DOMAINS) / nodes, rel=0.1)


def test_lanes_get_equal_shares_on_every_node() -> None:
    """Lane and node are independent: the domains of each of 12 nodes fill all 64 lanes evenly.

    Chi-squared over the 768 cells stays within five deviations of what chance gives.
    """
    cells = Counter((shard.node_of(name, 12), shard.lane_of(name)) for name in DOMAINS)
    expected = len(DOMAINS) / (12 * shard.LANES)
    degrees = 12 * shard.LANES - 1
    chi_squared = sum(
        (cells[node, lane] - expected) ** 2 / expected for node in range(12) for lane in range(shard.LANES)
    )
    assert abs(chi_squared - degrees) < 5 * (2 * degrees) ** 0.5


def test_places_are_for_good() -> None:
    """A change of the hash would strand every domain of a crawl that goes on; these must not move."""
    names = ("example.com", "xn--bcher-kva.test", "192.0.2.7")
    assert [shard.node_of(name, 12) for name in names] == [1, 3, 7]
    assert [shard.lane_of(name) for name in names] == [5, 35, 0]


@pytest.mark.parametrize("nodes", [0, -1])
def test_there_must_be_a_node(nodes: int) -> None:
    """No node at all is an error, not node -1."""
    with pytest.raises(ValueError, match="at least one"):
        shard.node_of("example.com", nodes)
