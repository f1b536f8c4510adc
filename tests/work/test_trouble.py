"""A fetcher's table of domains in trouble: who is told, who is forgotten, and that it is bounded."""

from __future__ import annotations

from typing import Any

from node.rules.entry import Entry, Lease
from node.rules.outcome import Signal
from node.store.frontier import Kind, Settlement
from node.store.snapshot import TOLD_DOMAINS
from node.work.trouble import MAX_DOMAINS, Troubles

BASE_MS = 1_000


def visit(domain: str, *, delay_ms: int = BASE_MS, tries: int = 0, **changes: Any) -> Settlement:
    """A visit that went well unless told otherwise."""
    entry = Entry(f"https://{domain}/", 1, 1, tries=tries)
    lease = Lease(f"1.a.1 0 {domain} {entry.pack()}", 0, domain, 0, entry, 10**13, delay_ms)
    told: dict[str, Any] = {"kind": Kind.PAGE, "outcome": "page", "signal": Signal.SUCCESS, "sent": True}
    return Settlement(lease, **(told | {"crawl_delay_ms": 0} | changes))


def bad(domain: str, **changes: Any) -> Settlement:
    told: dict[str, Any] = {"kind": Kind.DONE, "outcome": "rate_limited", "signal": Signal.THROTTLE}
    return visit(domain, **(told | changes))


def names(troubles: Troubles) -> list[str]:
    return [each.domain for each in troubles.worst()]


def test_a_domain_without_trouble_is_never_told() -> None:
    """Nor one whose delay is what it asks for itself, or whose robots.txt nobody knows."""
    troubles = Troubles(BASE_MS)
    troubles.note(visit("well.test"))
    troubles.note(visit("patient.test", delay_ms=9_000, crawl_delay_ms=9_000))
    troubles.note(visit("unknown.test", delay_ms=9_000, crawl_delay_ms=-1))
    assert names(troubles) == []


def test_what_kind_of_trouble_is_counted() -> None:
    """Throttles, silence, second tries, and what it was last; from the first trouble on."""
    troubles = Troubles(BASE_MS)
    troubles.note(visit("x.test"))
    troubles.note(bad("x.test", kind=Kind.RETRY))
    troubles.note(visit("x.test", tries=1, kind=Kind.DONE, outcome="timeout", signal=Signal.THROTTLE))
    troubles.note(visit("x.test", kind=Kind.DONE, outcome="refused", signal=Signal.DEAD))
    troubles.note(visit("x.test", kind=Kind.BACK, outcome="not_sent", signal=Signal.NONE, sent=False))
    (told,) = troubles.worst()
    assert (told.visits, told.throttled, told.unanswered, told.retries) == (3, 2, 1, 1)
    assert told.last == "refused"


def test_an_error_that_is_tried_again_is_trouble() -> None:
    """A server error says nothing about the pace, but its retries are load."""
    troubles = Troubles(BASE_MS)
    troubles.note(visit("x.test", kind=Kind.RETRY, outcome="server_error", signal=Signal.NONE))
    assert names(troubles) == ["x.test"]


def test_the_latest_trouble_weighs_most() -> None:
    """Who fails now stands before who failed before; who is well for long enough is forgotten."""
    troubles = Troubles(BASE_MS)
    for _ in range(5):
        troubles.note(bad("old.test"))
    for _ in range(20):
        troubles.note(visit("old.test"))
    troubles.note(bad("new.test"))
    assert names(troubles) == ["new.test", "old.test"]
    for _ in range(60):
        troubles.note(visit("old.test"))
    assert names(troubles) == ["new.test"]


def test_a_slowed_domain_is_told_until_it_is_back_at_its_pace() -> None:
    """Also by a fetcher that has only just taken it over, and did not see what slowed it."""
    troubles = Troubles(BASE_MS)
    for _ in range(80):
        troubles.note(visit("slow.test", delay_ms=8_000))
    assert names(troubles) == ["slow.test"]
    troubles.note(visit("slow.test"))
    assert names(troubles) == []


def test_the_table_is_bounded_and_keeps_the_worst() -> None:
    """However many domains fail once, those that fail again and again stay."""
    troubles = Troubles(BASE_MS)
    for number in range(30):
        for _ in range(3 + number):
            troubles.note(bad(f"worst-{number}.test"))
    for number in range(5 * MAX_DOMAINS):
        troubles.note(bad(f"once-{number}.test"))
        assert len(troubles) <= MAX_DOMAINS
    told = troubles.worst()
    assert len(told) == TOLD_DOMAINS
    assert all(each.domain.startswith("worst-") for each in told)
    assert max(told, key=lambda each: each.throttled).throttled == 32
