"""What one IP address bears: which limit holds where, and that visits and turns keep it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.addresses import (
    LOOK_MS,
    MAX_CLASSES,
    SLACK_MS,
    UNLIMITED,
    Address,
    Limit,
    Limits,
    counts,
    key_name,
    words,
)

NOW_MS = 1_796_160_000_000


def test_the_smallest_network_decides() -> None:
    """A hoster's network has a limit of its own, one machine in it another, and all else the ordinary one."""
    machine, hoster = Limit(1, 1), Limit(100, 0)
    limits = Limits(
        Limit(5, 10), [("192.0.2.7", machine), ("192.0.0.0/16", UNLIMITED), ("192.0.2.0/24", hoster)]
    )

    def limit(ip: str) -> Limit | None:
        of_class = limits.place(ip)[0]
        return limits.classes[of_class - 1] if of_class else None

    assert limit("192.0.2.7") == machine
    assert limit("192.0.2.8") == hoster
    assert limit("192.0.3.1") is None
    assert limit("198.51.100.1") == limit("2001:db8::1") == Limit(5, 10)


def test_an_ipv6_address_counts_as_its_64() -> None:
    """Two addresses of one /64 are one place, those of two are two; IPv4 addresses count each by itself."""
    limits = Limits(Limit(5, 10), [("2001:db8:1::/48", Limit(1, 1))])
    assert limits.place("2001:db8::1") == limits.place("2001:db8::ffff:1")
    assert limits.place("2001:db8::1") != limits.place("2001:db8:0:1::1")
    assert limits.place("2001:db8:1::1")[0] != limits.place("2001:db8:2::1")[0]
    assert limits.place("192.0.2.7") != limits.place("192.0.2.8")
    assert words(limits.place("2001:db8:0:1::2")) == "2001:db8:0:1::/64"
    assert words(limits.place("192.0.2.7")) == "192.0.2.7"
    assert words(b"") == ""
    assert key_name(limits.place("2001:db8:0:1::2")[1:]) == "2001:0db8:0000:0001"


def test_without_a_limit_nothing_is_counted() -> None:
    """Where nothing is limited there is no class, but people are told the address all the same."""
    limits = Limits(UNLIMITED)
    assert limits.classes == []
    place = limits.place("192.0.2.7")
    assert not counts(place)
    assert words(place) == "192.0.2.7"


@pytest.mark.parametrize("text", ["192.0.2.0/33", "nonsense", "192.0.2.1/24", "2001:db8::/96", ""])
def test_what_is_no_network_is_refused(text: str) -> None:
    """Host bits that are set are a mistake, too, and less than a /64 of IPv6 can't be told apart."""
    with pytest.raises(ValueError, match=r"network|64"):
        Limits(UNLIMITED, [(text, Limit(1, 1))])


def test_classes_fit_into_a_byte() -> None:
    """As many different limits as it can count, and no more; equal ones are one."""
    rows = [(f"10.{i // 256}.{i % 256}.0/24", Limit(i % MAX_CLASSES + 1, 0)) for i in range(600)]
    assert len(Limits(UNLIMITED, rows).classes) == MAX_CLASSES
    with pytest.raises(ValueError, match="at most"):
        Limits(Limit(0, 1), rows)


@given(
    st.sampled_from([Limit(5, 0), Limit(5, 3), Limit(0.5, 2), Limit(100, 10), Limit(0, 2)]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 5), st.booleans()), min_size=20, max_size=120),
    st.integers(0, 3_000),
)
def test_visits_keep_to_rate_and_number(
    limit: Limit, steps: list[tuple[int, int, bool]], visit_ms: int
) -> None:
    """Whoever comes however often, with a turn or without: never more at once, and in any stretch of time no
    more than the rate gives with half a second's worth and one."""
    address, now_ms = Address(), NOW_MS
    ends: list[int] = []
    begun: list[int] = []
    for ahead_ms, wanted, has_turn in steps:
        now_ms += ahead_ms
        ended = [end for end in ends if end <= now_ms]
        ends = [end for end in ends if end > now_ms]
        address = replace(address, out=address.out - len(ended))
        may = address.allowance(limit, wanted, now_ms, has_turn=has_turn)
        assert may <= wanted
        if may:
            address = address.visited(limit, may, now_ms)
            ends += [now_ms + visit_ms] * may
            begun += [now_ms] * may
        if may < wanted:
            turn_ms = address.next_turn(limit, now_ms)
            assert turn_ms >= max(address.last_turn, now_ms) + (limit.interval_ms or LOOK_MS)
            address = replace(address, last_turn=turn_ms)
        assert not limit.at_once or len(ends) <= limit.at_once
    if limit.per_s:
        for i, first in enumerate(begun):
            for k in range(i, len(begun)):
                allowed = (begun[k] - first + 2 * SLACK_MS) / limit.interval_ms + 1
                assert k - i + 1 <= allowed + 1e-6


def test_who_waits_is_not_overtaken() -> None:
    """While turns are given out, a domain without one has to take one behind them."""
    limit = Limit(10, 0)
    address = Address(last_turn=NOW_MS + 500)
    assert address.allowance(limit, 1, NOW_MS, has_turn=False) == 0
    assert address.allowance(limit, 3, NOW_MS, has_turn=True) == 1
    assert address.next_turn(limit, NOW_MS) == NOW_MS + 600
    assert Address(last_turn=NOW_MS).allowance(limit, 1, NOW_MS, has_turn=False) == 1


def test_what_means_nothing_may_be_forgotten() -> None:
    """Forgotten, an address lets in the same visits and gives the same turns as if it were not."""
    limit = Limit(4, 2)
    known = Address(last_turn=NOW_MS - 10, next_ms=NOW_MS - SLACK_MS)
    assert not known.means_something(NOW_MS)
    for later_ms in (0, 100, 1_000):
        now_ms = NOW_MS + later_ms
        assert known.visited(limit, 1, now_ms).next_ms == Address().visited(limit, 1, now_ms).next_ms
        assert known.next_turn(limit, now_ms) == Address().next_turn(limit, now_ms)
    assert replace(known, next_ms=NOW_MS - SLACK_MS + 1).means_something(NOW_MS)
    assert replace(known, out=1).means_something(NOW_MS)
