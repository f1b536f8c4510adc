"""How many machines a crawl wants, and what binds: the arithmetic of ``milliarde-fleet plan``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy import figures, prices
from deploy.errors import InputError
from deploy.plan import Archive, Limit, Plan, Wish, plan, split, with_nodes

FIGURES = figures.shipped()
PRICES = prices.read()
NAME = "i7i.4xlarge"
INSTANCE = PRICES.instance(NAME)
ENOUGH_DOMAINS = 1.3e6


def lossless(wish: Wish) -> Wish:
    """The same where nothing goes wrong and every domain has work."""
    return replace(wish, error=0.0, redirect=0.0, retry=0.0, busy=1.0)


def planned(wish: Wish, named: str = "measured") -> Plan:
    return plan(wish, FIGURES[named], INSTANCE, NAME)


def usd(found: Plan) -> float:
    return found.node_hours * PRICES.hourly(NAME, spot=False)


# -- the reference crawl, and what the design says of ours


def test_the_reference_crawl_is_found_again_from_its_own_figures() -> None:
    """1.005 × 10⁹ pages in 25.5 h at 913 pages/s a node were 12 nodes and $462."""
    found = planned(lossless(Wish(pages=1.005e9, hours=25.5)), "reference")
    assert found.nodes == 12
    assert found.nodes_set_by is Limit.CPU
    assert found.in_time
    assert usd(found) == pytest.approx(460, abs=5)
    assert (found.node.fetchers, found.node.parsers) == (9, 6)


def test_disk_binds_at_nine_nodes_where_every_page_is_kept() -> None:
    """31 TB on disks of 3.75."""
    found = planned(Wish(domains=ENOUGH_DOMAINS, archive=Archive.FULL), "goals")
    assert (found.nodes, found.nodes_set_by) == (9, Limit.DISK)
    assert found.disk_bytes < INSTANCE.disk_bytes
    assert planned(Wish()).nodes == 9  # with what is measured, too


def test_cpu_binds_at_four_nodes_where_files_are_collected_and_freed() -> None:
    """With the goals' figures (500 pages per CPU-second), under $155."""
    found = planned(Wish(domains=ENOUGH_DOMAINS, archive=Archive.COLLECTED), "goals")
    assert (found.nodes, found.nodes_set_by) == (4, Limit.CPU)
    assert found.in_time
    assert usd(found) < 155


def test_politeness_allows_14286_requests_a_second_for_a_million_domains() -> None:
    """No speed lifts that: the day is not held, more nodes don't help, and it says so."""
    wish = Wish(domains=1e6, delay_s=70, hours=24)
    assert round(wish.ceiling_per_s) == 14_286
    found = planned(wish)
    assert found.pace_set_by is Limit.POLITENESS
    assert not found.in_time
    more = with_nodes(replace(wish, nodes=100), FIGURES["measured"], INSTANCE, NAME, 100)
    assert more.hours == found.hours
    # as the design has it, a day wants 1.2 to 1.3 million live domains
    assert not planned(replace(wish, domains=1.2e6)).in_time
    assert planned(replace(wish, domains=1.3e6)).in_time


def test_the_defaults_are_what_was_measured_not_what_is_aimed_at() -> None:
    """Some 330 pages per CPU-second, and so more nodes by CPU than the goals promise."""
    assert 1000 / FIGURES["measured"].all_ms == pytest.approx(329.4, abs=0.1)
    wish = Wish(domains=ENOUGH_DOMAINS, archive=Archive.COLLECTED)
    assert planned(wish).nodes > planned(wish, "goals").nodes


# -- each limit


def test_redis_binds_where_it_is_slow() -> None:
    """It is one thread, whatever the machine has."""
    slow = FIGURES["goals"].redis_ms * 4
    dear = figures.Figures(
        **{name: getattr(FIGURES["goals"], name) for name in figures.Figures.__struct_fields__}
        | {"redis_ms": slow, "all_ms": FIGURES["goals"].all_ms + slow}
    )
    found = plan(Wish(domains=ENOUGH_DOMAINS, archive=Archive.SPOOL), dear, INSTANCE, NAME)
    assert found.nodes_set_by is Limit.REDIS


def test_the_network_binds_where_pages_are_large() -> None:
    """A megabyte each is ten times the line of a few nodes."""
    found = planned(Wish(page_bytes=1e6, archive=Archive.SPOOL))
    assert found.nodes_set_by is Limit.NETWORK


def test_memory_binds_where_much_waits() -> None:
    """Ten million domains and a patient crawl: few pages a second, and full queues."""
    found = planned(Wish(pages=1e9, hours=2_000, domains=1e7, archive=Archive.SPOOL))
    assert found.nodes_set_by is Limit.MEMORY
    assert found.redis_bytes <= 0.35 * INSTANCE.memory_bytes


def test_a_frontier_weighs_what_its_bounds_allow() -> None:
    """83,000 domains of a day at 70 s, 1,543 URLs each: 9 GB at 73 bytes, and their filters."""
    wish = lossless(Wish(domains=1e6, nodes=12, hours=None, pages=12 * 913 * 86_400))
    found = planned(wish, "reference")
    assert found.queue_cap == 1_543
    assert 9e9 < found.redis_bytes < 12e9


def test_no_delay_is_no_limit() -> None:
    """With permission, a site is as fast as the nodes are."""
    found = planned(Wish(delay_s=0, domains=100, pages=1e7))
    assert found.pace_set_by is not Limit.POLITENESS


def test_what_goes_wrong_costs_domains_time_and_cpu() -> None:
    """Each lost request takes a turn of its domain and a share of a fetcher, but nothing of a parser."""
    clean = lossless(Wish(domains=ENOUGH_DOMAINS))
    lossy = replace(clean, error=0.5)
    assert lossy.polite_pages_per_s == pytest.approx(clean.polite_pages_per_s / 2)
    first, second = planned(clean).node, planned(lossy).node
    assert first.cpu_ms < second.cpu_ms < 2 * first.cpu_ms
    assert second.fetchers > first.fetchers


def test_a_domain_that_must_give_more_pages_may_queue_more() -> None:
    """2,000 at once are 8,000 in a domain's life; 10,000 pages of each need a higher cap, and its memory."""
    found = planned(Wish(pages=1e10, archive=Archive.COLLECTED))
    assert found.wish.most_queued > 2_000
    assert found.queue_cap == found.wish.most_queued
    assert planned(Wish(pages=1e10, archive=Archive.COLLECTED, queue_cap=2_000)).queue_cap == 2_000


def test_a_small_crawl_asks_for_no_more_robots_than_it_visits_domains() -> None:
    """A thousand pages of a list of a million domains are an hour's work of no fleet."""
    found = planned(Wish(pages=1_000))
    assert found.wish.robots_per_page(24) < 3
    assert found.nodes == 1
    assert found.hours < 0.01


def test_nodes_that_were_asked_for_are_kept_and_what_they_lack_is_named() -> None:
    """Four are too few for 31 TB."""
    found = planned(Wish(nodes=4, hours=None))
    assert (found.nodes, found.nodes_set_by, found.lacking) == (4, None, (Limit.DISK,))
    assert planned(Wish(nodes=12, hours=None)).lacking == ()


def test_too_small_a_machine_is_refused() -> None:
    """No number of them would do."""
    small = prices.Instance(vcpus=2, memory_gib=2, disk_gb=3_750, internet_gbps=5, on_demand=0.1)
    with pytest.raises(InputError, match="too little memory"):
        plan(Wish(), FIGURES["measured"], small, "t.small")
    with pytest.raises(InputError, match="more than 10,000"):
        planned(Wish(pages=1e13))


WISHES = st.builds(
    Wish,
    pages=st.floats(1e6, 1e10),
    hours=st.floats(1, 500),
    domains=st.floats(1e4, 1e7),
    delay_s=st.floats(1, 300),
    page_bytes=st.floats(1e3, 1e5),
    archive=st.sampled_from(Archive),
    error=st.floats(0, 0.3),
)


@settings(max_examples=60, deadline=None)
@given(WISHES)
def test_a_plan_is_the_smallest_fleet_that_does_it(wish: Wish) -> None:
    """It has room, keeps the pace that politeness leaves, and one node less would not."""
    try:
        found = planned(wish)
    except InputError:
        return
    assert found.lacking == ()
    assert found.in_time or found.pace_set_by is Limit.POLITENESS
    assert found.pages_per_s <= wish.polite_pages_per_s * (1 + 1e-9)
    if found.nodes > 1:
        less = with_nodes(wish, FIGURES["measured"], INSTANCE, NAME, found.nodes - 1)
        assert any(need > less.nodes for need in less.needs.values())
        assert found.nodes_set_by is not None


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 10), st.floats(0.1, 10), st.integers(2, 64))
def test_the_split_leaves_neither_waiting_for_long(
    fetcher_ms: float, parser_ms: float, processes: int
) -> None:
    """No other split of as many processes would be faster."""
    fetchers, parsers = split(fetcher_ms, parser_ms, processes)
    assert fetchers >= 1
    assert parsers >= 1
    assert fetchers + parsers == processes
    best = max(min(n / fetcher_ms, (processes - n) / parser_ms) for n in range(1, processes))
    assert min(fetchers / fetcher_ms, parsers / parser_ms) == best
