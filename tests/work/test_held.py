"""What a fetcher may still use of its leases, and which it keeps alive."""

from __future__ import annotations

from dataclasses import replace

from node.rules.entry import Entry, Lease, parse_lease
from node.settings import build
from node.work.held import Held

SETTINGS = build({"paths": {"data": "x"}})
LEASE_MS, REQUEST_MS = round(1000 * SETTINGS.lease_s), round(1000 * SETTINGS.request_s)


def lease(serial: int = 1, url: str = "https://h.test/", hops: int = 0) -> Lease:
    entry = Entry(url, 0, 0).pack()
    return parse_lease(f"1.a.{serial} {hops} h.test {entry}", 3, LEASE_MS, 0)


def test_a_lease_is_ours_while_there_is_time_for_a_request() -> None:
    """Not when it is too old, from another Redis, settled, or never was ours."""
    held = Held(SETTINGS)
    held.take([lease()], 1, 0)
    assert held.may_send(lease(), 1, LEASE_MS - REQUEST_MS - 1)
    assert not held.may_send(lease(), 1, LEASE_MS - REQUEST_MS)
    assert not held.may_send(lease(), 2, 0)
    assert not held.may_send(lease(2), 1, 0)
    held.drop([lease(hops=1)])
    assert not held.may_send(lease(), 1, 0)


def test_what_lives_is_extended_under_its_present_name() -> None:
    """After a hop the lease has another name, and Redis is asked for that one."""
    held = Held(SETTINGS)
    held.take([lease(), lease(2)], 1, 0)
    hopped = lease(url="https://h.test/target", hops=1)
    assert held.may_send(hopped, 1, 1)
    assert held.to_extend(1_000) == []
    wanted = held.to_extend(20_000)
    assert wanted == [(hopped, 20_000 + LEASE_MS), (lease(2), 20_000 + LEASE_MS)]
    held.extended(wanted, "10")
    assert held.may_send(hopped, 1, 45_000)
    assert not held.may_send(lease(2), 1, 45_000)
    assert held.to_extend(20_001) == [(lease(2), 20_001 + LEASE_MS)]


def test_no_lease_lives_for_ever() -> None:
    """A visit that hangs loses its URL once the longest visit is over."""
    held = Held(SETTINGS)
    held.take([lease()], 1, 0)
    last = 0
    for now in range(0, 3_600_000, 1_000):
        wanted = held.to_extend(now)
        held.extended(wanted, "1" * len(wanted))
        last = max([last, *(until for _, until in wanted)])
    assert last == round(1000 * SETTINGS.longest_lease_s)
    assert not held.may_send(replace(lease()), 1, last)


def test_the_oldest_visit_has_an_age() -> None:
    """From its lease until it is settled, whatever came after it."""
    held = Held(SETTINGS)
    assert held.oldest_ms(5_000) == 0
    held.take([lease()], 1, 1_000)
    held.take([lease(2)], 1, 4_000)
    assert held.oldest_ms(5_000) == 4_000
    held.drop([lease()])
    assert held.oldest_ms(5_000) == 1_000
    held.drop([lease(2)])
    assert held.oldest_ms(5_000) == 0
