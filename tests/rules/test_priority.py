"""Priority rules: whose patterns match, what they do to a level, and which can't be used."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.admit import Admission, Place, Scope, ScopeKind
from node.rules.priority import LEVELS, MAX_RULES, Priorities, Rule

PRICES = Rule("/price/", level=1)
ARCHIVE = Rule("/archive/", shift=3)


def level(rules: list[Rule], url: str, depth: int = 2) -> int:
    """The level of a URL so far from a seed, by the gate that all links pass."""
    gate = Admission(Scope(ScopeKind.OPEN), 1, 0, lambda _host: False, priorities=Priorities(rules))
    place = gate.admit(url, depth - 1)
    assert isinstance(place, Place)
    assert gate.admit(url, depth - 1) is place
    return place.level


def test_a_volatile_page_comes_before_an_archive_page() -> None:
    """Each by its rule, others as far as they are from a seed."""
    rules = [PRICES, ARCHIVE]
    found = [level(rules, f"https://h.test/{path}") for path in ("price/1", "other", "archive/2001")]
    assert found == [1, 2, 5]


def test_without_rules_a_level_is_the_depth() -> None:
    """And a domain's rules are none of another's business."""
    assert level([], "https://h.test/price/1") == 2
    assert level([PRICES._replace(domain="other.test")], "https://h.test/price/1") == 2


@pytest.mark.parametrize(
    ("domain", "host", "applies"),
    [
        ("h.test", "h.test", True),
        ("h.test", "www.h.test", True),
        ("h.test", "www.h.test.", True),
        ("h.test", "noth.test", False),
        ("www.h.test", "h.test", False),
        ("WWW.H.Test.", "www.h.test", True),
        ("bücher.test", "xn--bcher-kva.test", True),
    ],
)
def test_a_domain_covers_its_hosts(domain: str, host: str, applies: bool) -> None:
    """However it is spelled; and nothing that only looks like it."""
    assert (level([PRICES._replace(domain=domain)], f"https://{host}/price/1") == 1) is applies


@pytest.mark.parametrize(
    ("pattern", "path", "applies"),
    [
        ("/a", "/abc", True),
        ("/a$", "/abc", False),
        ("/a$", "/a", True),
        ("*.pdf$", "/x/y.pdf", True),
        ("*.pdf$", "/x/y.pdf?z", False),
        ("/*sort=", "/list?page=2&sort=up", True),
        ("/b", "/ab", False),
        ("/caf%C3%A9", "/caf%C3%A9/x", True),
        ("/café", "/caf%C3%A9/x", True),
        ("*", "/", True),
    ],
)
def test_patterns_are_those_of_robots_txt(pattern: str, path: str, applies: bool) -> None:
    """Prefixes of path and query, stars, an end; one spelling for all."""
    assert (level([Rule(pattern, level=0)], "https://h.test" + path) == 0) is applies


def test_the_first_rule_decides() -> None:
    """So an exception stands before what it is an exception of."""
    rules = [Rule("/archive/today", level=0), ARCHIVE, Rule("/", level=7)]
    assert level(rules, "https://h.test/archive/today/1") == 0
    assert level(rules, "https://h.test/archive/1") == 5
    assert level(rules, "https://h.test/x") == 7
    only_here = [Rule("/", "h.test", level=0), Rule("/", level=6)]
    assert (level(only_here, "https://h.test/"), level(only_here, "https://i.test/")) == (0, 6)


@given(st.integers(0, 20), st.integers(-7, 7).filter(bool))
def test_a_shifted_level_is_always_one_there_is(depth: int, shift: int) -> None:
    """From the best to the worst and no further."""
    found = level([Rule("/", shift=shift)], "https://h.test/", depth)
    assert found == min(LEVELS - 1, max(0, min(depth, LEVELS - 1) + shift))


def test_where_a_level_is_not_by_depth_the_rules_go_by_that() -> None:
    """Sitemaps have one of their own, which a rule shifts or replaces like others."""
    gate = Admission(Scope(ScopeKind.OPEN), 1, 0, lambda _: False, priorities=Priorities([ARCHIVE]))
    for path, wanted in (("/sitemap.xml", 1), ("/archive/sitemap.xml", 4)):
        place = gate.admit(f"https://h.test{path}", 5, 1)
        assert isinstance(place, Place)
        assert place.level == wanted


def test_who_asks_is_told_the_rule() -> None:
    """In the words of the settings."""
    rules = Priorities([PRICES._replace(domain="h.test"), ARCHIVE]).of("www.h.test")
    assert rules is not None
    deciding = [rules.deciding(path) for path in ("/price/1", "/archive/", "/")]
    assert [rule and rule.words for rule in deciding] == [
        "/price/ at h.test: level 1",
        "/archive/: shift +3",
        None,
    ]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule("price", level=1), "begins with / or *"),
        (Rule("", level=1), "begins with / or *"),
        (Rule("/a b", level=1), "no spaces"),
        (Rule("/a\n", level=1), "no spaces"),
        (Rule("/" + "x" * 3_000, level=1), "at most 2,048"),
        (Rule("/x"), "either a level or a shift"),
        (Rule("/x", level=1, shift=1), "either a level or a shift"),
        (Rule("/x", level=8), "level is 8; it must be 0 (the best) to 7"),
        (Rule("/x", level=-1), "level is -1"),
        (Rule("/x", shift=0), "shift is 0"),
        (Rule("/x", shift=8), "shift is 8"),
        (Rule("/x", "https://h.test/", level=1), "is no domain"),
        (Rule("/x", "h.test:8080", level=1), "is no domain"),
        (Rule("/x", "a b", level=1), "is no domain"),
    ],
)
def test_a_rule_that_can_not_be_used_is_named(rule: Rule, words: str) -> None:
    """By its number and pattern, in one sentence."""
    with pytest.raises(ValueError, match="rule 2") as caught:
        Priorities([PRICES, rule])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rules_are_bounded() -> None:
    """A list made by a program gone wrong stops the start."""
    with pytest.raises(ValueError, match="at most 1,000"):
        Priorities([PRICES] * (MAX_RULES + 1))


def test_what_is_compiled_is_bounded_by_the_rules() -> None:
    """Thousands of hosts share what is made for them."""
    priorities = Priorities([ARCHIVE, PRICES._replace(domain="h.test")])
    made = {id(priorities.of(f"{i}.{name}")) for i in range(1_000) for name in ("h.test", "i.test")}
    assert len(made) == 2


def test_no_pattern_takes_long() -> None:
    """What would be catastrophic for a regular expression takes one pass over the path."""
    rules = Priorities([Rule("/" + "*a" * 500 + "*b$", level=0)]).of("h.test")
    assert rules is not None
    path = "/" + "a" * 2_000
    begun = time.process_time()
    for _ in range(100):
        assert rules.level(path, 3) == 3
    assert time.process_time() - begun < 2.0
