"""The gate: which links enter, at which priority, and why not."""

from __future__ import annotations

import pytest

from node.rules import admit
from node.rules.admit import Admission, DomainSet, Place, Scope, ScopeKind
from node.rules.refusal import Refusal
from node.rules.shard import lane_of, node_of

OPEN = Scope(ScopeKind.OPEN)


def nothing_excluded(_host: str) -> bool:
    return False


def test_an_admitted_link_has_its_place() -> None:
    """A link goes to its registrable domain, in that domain's lane, one level below its page."""
    gate = Admission(OPEN, 1, 0, nothing_excluded)
    place = gate.admit("https://www.h.test./a", 0)
    assert place == Place("h.test", lane_of("h.test"), 1)
    assert gate.admit("https://www.h.test./b", 0) is place


@pytest.mark.parametrize(("page_depth", "level"), [(-1, 0), (0, 1), (5, 6), (6, 7), (7, 7), (500, 7)])
def test_levels_are_depths_up_to_the_last(page_depth: int, level: int) -> None:
    """Seeds come first, then what is near them; whatever is further shares the last level."""
    place = Admission(OPEN, 1, 0, nothing_excluded).admit("http://h.test/", page_depth)
    assert isinstance(place, Place)
    assert place.level == level


def test_too_deep() -> None:
    """``max_depth`` counts links from a seed; the seed itself always enters."""
    gate = Admission(OPEN, 1, 0, nothing_excluded, max_depth=1)
    assert isinstance(gate.admit("http://h.test/", -1), Place)
    assert isinstance(gate.admit("http://h.test/", 0), Place)
    assert gate.admit("http://h.test/", 1) is Refusal.TOO_DEEP
    assert isinstance(Admission(OPEN, 1, 0, nothing_excluded, max_depth=0).admit("http://h.test/", -1), Place)


def test_every_domain_has_exactly_one_node() -> None:
    """Of four nodes that are given the same link, one admits it; the others say whose it is not."""
    gates = [Admission(OPEN, 4, me, nothing_excluded) for me in range(4)]
    for number in range(50):
        domain = f"d{number}.test"
        answers = [gate.admit(f"http://www.{domain}/", 0) for gate in gates]
        owner = node_of(domain, 4)
        assert isinstance(answers[owner], Place)
        assert [answer for node, answer in enumerate(answers) if node != owner] == [Refusal.OTHER_SHARD] * 3


@pytest.mark.parametrize("kind", [ScopeKind.SEEDS, ScopeKind.LIST])
def test_scope(kind: ScopeKind) -> None:
    """Only hosts of the given domains enter, whether they come as a set or packed."""
    for domains in ({"h.test", "192.0.2.7"}, DomainSet(["h.test", "192.0.2.7"])):
        gate = Admission(Scope(kind, domains), 1, 0, nothing_excluded)
        assert isinstance(gate.admit("https://a.b.h.test:8443/", 0), Place)
        assert isinstance(gate.admit("http://192.0.2.7/", 0), Place)
        assert gate.admit("http://noth.test/", 0) is Refusal.OUT_OF_SCOPE
        assert gate.admit("http://test/", 0) is Refusal.OUT_OF_SCOPE


def test_excluded_hosts_are_asked_for_without_their_dot() -> None:
    """An exclusion holds for every origin of its host, and for the name written with a final dot."""
    gate = Admission(OPEN, 1, 0, lambda host: host == "www.h.test")
    for origin in ("http://www.h.test", "https://www.h.test:8443", "http://www.h.test."):
        assert gate.admit(f"{origin}/", 0) is Refusal.EXCLUDED
    assert isinstance(gate.admit("http://h.test/", 0), Place)


def test_a_change_takes_effect_when_told() -> None:
    """``forget`` drops what was remembered: a new exclusion and a new seed count from then on."""
    excluded: set[str] = set()
    gate = Admission(Scope(ScopeKind.SEEDS, {"h.test"}), 1, 0, excluded.__contains__)
    assert isinstance(gate.admit("http://h.test/", 0), Place)
    assert gate.admit("http://i.test/", 0) is Refusal.OUT_OF_SCOPE
    excluded.add("h.test")
    gate.forget(Scope(ScopeKind.SEEDS, {"h.test", "i.test"}))
    assert gate.admit("http://h.test/", 0) is Refusal.EXCLUDED
    assert isinstance(gate.admit("http://i.test/", 0), Place)
    excluded.clear()
    gate.forget()
    assert isinstance(gate.admit("http://h.test/", 0), Place)


def test_what_is_remembered_is_bounded() -> None:
    """Verdicts on more origins than stated push out the oldest, and stay right."""
    gate = Admission(OPEN, 2, 0, nothing_excluded)
    for number in range(admit.CACHED_ORIGINS + 10):
        gate.admit(f"http://d{number}.test/", 0)
    assert len(gate._verdicts) <= admit.CACHED_ORIGINS
    expected = Place("d0.test", lane_of("d0.test"), 1) if node_of("d0.test", 2) == 0 else Refusal.OTHER_SHARD
    assert gate.admit("http://d0.test/", 0) == expected


@pytest.mark.parametrize(("nodes", "me"), [(0, 0), (1, 1), (4, -1)])
def test_a_node_must_be_one_of_them(nodes: int, me: int) -> None:
    """A node that is none of the fleet's would admit nothing, and say nothing; so it is an error."""
    with pytest.raises(ValueError, match="is not one of"):
        Admission(OPEN, nodes, me, nothing_excluded)


def test_a_long_list_takes_eight_bytes_a_domain() -> None:
    """A list of domains is held packed, and answers for exactly its own."""
    domains = DomainSet(f"d{number}.test" for number in range(50_000))
    assert len(domains._digests) * domains._digests.itemsize == 400_000
    assert all(f"d{number}.test" in domains for number in range(0, 50_000, 7))
    assert not any(f"e{number}.test" in domains for number in range(5_000))
    assert "d1.test" not in DomainSet([])
