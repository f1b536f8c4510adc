"""When a crawl that is going on will be done, and at what cost."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from deploy import figures, prices
from deploy.errors import InputError
from deploy.outlook import Outlook, outlook, read
from deploy.plan import Archive, Wish
from deploy.status import Row

INSTANCE = prices.read().instance("i7i.4xlarge")
HOURLY = 1.5
TERA = 10**12


def row(name: str, **changed: Any) -> Row:
    """A node ten hours into a crawl of 12, at the pace of the reference crawl."""
    told: dict[str, Any] = {
        "state": "crawling",
        "pages": 33_000_000,
        "pages_per_s": 900.0,
        "pressure": "politeness",
        "disk_free_bytes": 2_700_000_000_000,
        "disk_total_bytes": 3_700_000_000_000,
        "seconds": 36_000.0,
        "version": "0.1.0",
    }
    return Row(name, **(told | changed))


def seen(rows: list[Row], wish: Wish | None = None, hours_so_far: float | None = None) -> Outlook:
    told = json.dumps({"nodes": {each.node: asdict(each) for each in rows}, "totals": {}}).encode()
    wish = wish or Wish(archive=Archive.COLLECTED)
    return outlook(read(told), wish, figures.shipped()["measured"], INSTANCE, HOURLY, hours_so_far)


TWELVE = [row(f"node{number:02}") for number in range(1, 13)]


def test_the_end_and_the_bill_are_told_from_the_pace_of_all_nodes() -> None:
    """604 million pages to go at 10,800 a second: 15.5 h after the first ten, of twelve nodes."""
    found = seen(TWELVE)
    assert found.hours_left == pytest.approx((1e9 - 12 * 33e6) / 10_800 / 3600)
    assert found.hours == pytest.approx(10 + 15.535, abs=0.01)
    assert found.usd_so_far == pytest.approx(12 * 10 * HOURLY)
    assert found.usd == pytest.approx(12 * 25.535 * HOURLY, abs=0.5)


def test_machines_cost_from_when_they_are_rented_whether_they_answer_or_not() -> None:
    """Setting up takes its time, and a node that is away is on the bill, too."""
    rows = [*TWELVE, Row("node13", "unreachable")]
    found = seen(rows, hours_so_far=11.0)
    assert (found.nodes, found.answering) == (13, 12)
    assert found.usd_so_far == pytest.approx(13 * 11 * HOURLY)


def test_where_politeness_sets_the_pace_fewer_nodes_would_serve() -> None:
    """10,800 pages/s are five nodes' work by what is measured of one; nine have disk for all of it."""
    assert seen(TWELVE).fewer == 5
    assert seen(TWELVE, Wish(archive=Archive.FULL)).fewer == 9
    assert seen(TWELVE).more is None


@pytest.mark.parametrize("stage", ["fetchers", "parsers", "redis"])
def test_where_the_nodes_set_the_pace_more_would_serve(stage: str) -> None:
    """One more takes its share of what is left."""
    found = seen([row(f"node{number}", pressure=stage) for number in range(12)])
    assert found.more == 13
    assert found.fewer is None
    assert found.hours_left is not None
    assert found.more_hours_left == pytest.approx(found.hours_left * 12 / 13)


def test_neither_is_said_where_something_else_is_wrong() -> None:
    """More machines don't mend a line that is down."""
    found = seen([row("node1", pressure="line"), row("node2", pressure="line")])
    assert (found.fewer, found.more) == (None, None)


def test_a_disk_that_will_be_full_before_the_end_is_named() -> None:
    """By its own bytes a page and its own pace."""
    tight = row("node05", disk_free_bytes=200_000_000_000)
    found = seen([*TWELVE[:4], tight, *TWELVE[5:]])
    assert found.full_node == "node05"
    assert not found.disk_holds
    page_bytes = (3.7 * TERA - 0.2 * TERA) / 33e6
    assert found.full_in_hours == pytest.approx(199e9 / page_bytes / 900 / 3600)
    assert seen(TWELVE).disk_holds


def test_a_node_far_behind_the_others_is_named() -> None:
    """Its share of the domains may be what the crawl ends with."""
    assert seen([*TWELVE, row("node13", pages_per_s=100.0)]).slow == ("node13",)


def test_a_crawl_that_stands_still_has_no_end() -> None:
    """And no division by zero."""
    found = seen([row("node1", pages_per_s=0.0, pressure="operator")])
    assert (found.hours_left, found.usd) == (None, None)


def test_a_crawl_that_has_its_pages_is_done() -> None:
    """Nothing is left to pay for, and nothing to advise."""
    found = seen(TWELVE, Wish(pages=1e6))
    assert (found.hours_left, found.usd_left, found.fewer, found.more) == (0.0, 0.0, None, None)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"nodes": 3}', b'{"nodes": {"a": {"pages": "many"}}}'])
def test_what_is_no_status_is_refused(text: bytes) -> None:
    """In one sentence."""
    with pytest.raises(InputError, match="milliarde-fleet status --json"):
        read(text)


def test_where_no_node_answers_nothing_is_told() -> None:
    """Not even a wrong number."""
    with pytest.raises(InputError, match="no node"):
        seen([Row("node01", "unreachable")])
