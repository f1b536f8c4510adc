"""Retries are load."""

from __future__ import annotations

import random

import pytest

from node.rules import retry
from node.rules.retry import Grant, NodeBudget


def test_retries_of_a_domain_are_a_tenth_of_its_first_tries() -> None:
    """Two to begin with, one for every ten first tries, ten at most in stock."""
    tokens, node, granted = retry.DOMAIN_START, NodeBudget(), 0
    for i in range(300):
        wanted = i % 6 == 0
        tokens, node, grant = retry.after_visit(
            tokens, node, first_try=True, sent=True, wanted=wanted, dead=False
        )
        granted += grant is Grant.YES
        assert (grant is None) == (not wanted)
    assert granted == 31
    for _ in range(1_000):
        tokens, node, _ = retry.after_visit(tokens, node, first_try=True, sent=True, wanted=False, dead=False)
    assert tokens == retry.DOMAIN_MAX
    assert retry.after_visit(9, node, first_try=False, sent=True, wanted=True, dead=False)[2] is Grant.DOMAIN


def test_many_domains_share_the_node_s_tenth() -> None:
    """Two each of a thousand domains would be more than a tenth of their first tries."""
    node, granted, tries = NodeBudget(), 0, 0
    for _ in range(4_000):
        tokens = retry.DOMAIN_START
        for i in range(6):
            tokens, node, grant = retry.after_visit(
                tokens, node, first_try=True, sent=True, wanted=i == 0, dead=False
            )
            granted += grant is Grant.YES
            tries += 1
    assert granted == pytest.approx(retry.NODE_START / retry.COST + tries / 10, abs=1)


@pytest.mark.parametrize("failing", [0.1, 0.18, 0.23, 0.5])
def test_none_while_more_than_a_fifth_of_first_tries_fail(failing: float) -> None:
    """And again once they succeed."""
    rng, node = random.Random(7), NodeBudget()
    grants: list[Grant] = []
    for _ in range(5_000):
        _, node, grant = retry.after_visit(
            100, node, first_try=True, sent=True, wanted=rng.random() < failing, dead=False
        )
        grants += [grant] if grant else []
    late = grants[len(grants) // 2 :]
    if failing > 0.2:
        assert late.count(Grant.FAILING) >= 0.9 * len(late)
    else:
        assert late.count(Grant.FAILING) <= 0.1 * len(late)
    for _ in range(5_000):
        _, node, _ = retry.after_visit(100, node, first_try=True, sent=True, wanted=False, dead=False)
    assert retry.after_visit(100, node, first_try=True, sent=True, wanted=True, dead=False)[2] is Grant.YES


def test_a_list_full_of_dead_hosts_does_not_stop_the_retries_of_others() -> None:
    """Hosts that can't be reached have a breaker; they say nothing about those that answer."""
    node, grants = NodeBudget(), set()
    for _ in range(500):
        _, node, grant = retry.after_visit(20, node, first_try=True, sent=True, wanted=True, dead=True)
        grants.add(grant)
    assert grants == {Grant.YES, Grant.NODE}
    for _ in range(500):
        _, node, _ = retry.after_visit(20, node, first_try=True, sent=True, wanted=False, dead=False)
    assert retry.after_visit(20, node, first_try=True, sent=True, wanted=True, dead=False)[2] is Grant.YES


@pytest.mark.parametrize(("tries", "most"), [(0, 2_000), (1, 4_000), (2, 8_000)])
def test_back_off_doubles_with_full_jitter(tries: int, most: int) -> None:
    """Anywhere from nothing to twice the last one."""
    assert retry.wait_ms(tries, 2_000, 0.0) == 0
    assert retry.wait_ms(tries, 2_000, 1.0) == most
    assert retry.wait_ms(0, 0, 1.0) == 1_000
