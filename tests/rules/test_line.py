"""Our own line told from the sites': simulated fetchers, with dead hosts, flaky ones, and outages."""

from __future__ import annotations

import pytest

from node.rules.line import (
    HOLD_S,
    KNOWN,
    PROBE_MOST_S,
    PROBES,
    UNPROVEN_S,
    Judgement,
    Line,
    network_of,
    run_needed,
)
from tests.rules.line_simulation import DEADLINE_S, Run, Web

MINUTE = 60.0


@pytest.mark.parametrize("flaky", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("dead", [0.0, 0.2, 0.5, 0.9])
def test_dead_and_flaky_sites_are_no_outage(dead: float, flaky: float) -> None:
    """A list that is half dead, or nearly all, from the start, and sites that fail now and then: never down,
    and every failure is charged to its site."""
    run = Run(Web(dead=dead, flaky=flaky)).for_seconds(2 * MINUTE)
    assert run.results > 5_000
    assert run.changes == []
    assert run.spared.total() == 0
    assert run.charged["site"] > 0


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("dead", [0.0, 0.3])
@pytest.mark.parametrize(("visits_per_s", "domains"), [(1.0, 70), (10.0, 700), (100.0, 2_000)])
def test_an_outage_charges_nobody(at_once: bool, dead: float, visits_per_s: float, domains: int) -> None:
    """Two minutes without a line, by time-outs or by errors at once: judged before the first failure has
    waited too long, hardly anything sent meanwhile, and over soon after it is over."""
    begin, end = 5 * MINUTE, 7 * MINUTE
    web = Web(domains=domains, networks=20, dead=dead)
    run = Run(web, breaks=[(begin, end)], at_once=at_once, visits_per_s=visits_per_s).for_seconds(9 * MINUTE)
    (down_s, is_down), (up_s, is_up) = run.changes
    assert (is_down, is_up) == (True, False)
    assert begin < down_s <= begin + (0 if at_once else DEADLINE_S) + 1.0 + 12 / visits_per_s
    assert end < up_s <= end + PROBE_MOST_S + DEADLINE_S
    # One visit a second is too few for a verdict while the first failures wait
    assert run.charged["line"] <= (3 if visits_per_s == 1.0 else 0)
    assert run.spared["line"] > 0
    assert run.begun_while_down <= 12 * PROBES


def test_who_is_dead_is_charged_again_after_an_outage() -> None:
    """An outage leaves nothing behind that spares dead hosts."""
    run = Run(Web(dead=0.3), breaks=[(MINUTE, 2 * MINUTE)], at_once=True).for_seconds(3 * MINUTE)
    before = run.charged["site"]
    run.for_seconds(5 * MINUTE)
    assert run.charged["site"] > before + 1_000


def test_short_breaks_do_not_make_it_flap() -> None:
    """Each break is one outage, however short, and pauses for seconds only."""
    breaks = [(2 * MINUTE + 20.0 * n, 2 * MINUTE + 20.0 * n + 1.0) for n in range(10)]
    run = Run(Web(), breaks=breaks, at_once=True).for_seconds(6 * MINUTE)
    assert run.line.outages <= len(breaks)
    assert len(run.changes) == 2 * run.line.outages
    pauses = [up - down for (down, _), (up, _) in zip(run.changes[::2], run.changes[1::2], strict=True)]
    assert max(pauses) < 15
    assert run.charged["line"] == 0


@pytest.mark.parametrize("silent", [0.4, 1.0])
def test_a_tail_of_dead_hosts_is_no_outage(silent: float) -> None:
    """When all that answered is done and only dead hosts are left, they are charged: else a crawl would never
    end."""
    run = Run(Web(dead=0.3, silent=silent), only_dead_after_s=MINUTE).for_seconds(6 * MINUTE)
    assert run.changes == []


def test_a_line_that_is_down_from_the_start() -> None:
    """Nobody has answered yet: thirty that give no sign of life are enough, those before are charged."""
    run = Run(Web(dead=0.3), breaks=[(0.0, 2 * MINUTE)]).for_seconds(5 * MINUTE)
    assert run.changes[0][0] < DEADLINE_S + 1
    assert run.charged["line"] == 0
    run = Run(Web(dead=0.3), breaks=[(0.0, 2 * MINUTE)], at_once=True).for_seconds(5 * MINUTE)
    assert run.changes[0][0] < 1
    assert run.charged["line"] < 30


def test_a_verdict_without_proof_is_not_believed_for_ever() -> None:
    """A list of hosts that all say nothing at all: it is charged to them after ten minutes, once and for
    all."""
    run = Run(Web(dead=1.0, silent=1.0), visits_per_s=10.0).for_seconds(40 * MINUTE)
    (down_s, _), (up_s, _) = run.changes
    assert up_s - down_s == pytest.approx(UNPROVEN_S, abs=1.0)
    assert run.charged["site"] > 1_000


@pytest.mark.parametrize("web", [Web(domains=5, networks=5, dead=0.0), Web(domains=50, networks=1, dead=0.0)])
def test_few_sites_or_one_hoster_are_no_proof(web: Web) -> None:
    """Five sites, or any number on one network, may go down together; nothing is held back for that."""
    run = Run(web, breaks=[(5 * MINUTE, 7 * MINUTE)], at_once=True, visits_per_s=5.0).for_seconds(9 * MINUTE)
    assert run.changes == []


def test_those_who_answered_an_earlier_process_count() -> None:
    """A fetcher that starts in an outage knows by robots.txt in the store who answered yesterday, but
    believes it for a while only."""
    line = Line(networks=3)
    for number in range(run_needed(line.usual)):
        assert line.outages == 0
        line.failed(f"d{number}", "", began_s=1.0, now_s=2.0, known=True, mute=False)
    assert line.outages == 1
    assert not line.probe_due(2.1, 0.0)
    assert line.probe_due(2.0 + UNPROVEN_S, 0.0)
    for number in range(100):  # they have failed us before: that proves nothing any more
        line.failed(f"d{number % 9}", "", began_s=700.0, now_s=701.0, known=True, mute=False)
    assert (line.down, line.outages) == (False, 1)


def test_what_was_under_way_in_an_outage_is_spared_after_it() -> None:
    """Who was asked while the line was down and fails once it is up again is not to blame."""
    line = Line(networks=1)
    for number in range(30):
        line.answered(f"d{number}", str(number), began_s=0.0, now_s=1.0)
    for number in range(12):
        line.failed(f"d{number}", str(number), began_s=2.0, now_s=3.0)
    assert line.outages == 1
    assert line.judge(began_s=0.0, ended_s=3.0, now_s=3.0, under_way=0) is Judgement.OURS
    for moment in (2.5, 5.0, 6.0):  # the first was asked before it was down: that proves nothing
        assert line.judge(began_s=moment, ended_s=9.0, now_s=9.0, under_way=0) is Judgement.OURS
        line.answered("d20", "20", began_s=moment, now_s=moment + 1)
    assert line.judge(began_s=4.0, ended_s=8.0, now_s=8.0, under_way=0) is Judgement.OURS
    assert line.judge(began_s=7.5, ended_s=8.0, now_s=8.0, under_way=0) is Judgement.OPEN
    assert line.judge(began_s=7.5, ended_s=8.0, now_s=8.0 + HOLD_S, under_way=0) is Judgement.THEIRS


def test_memory_is_bounded() -> None:
    """However many domains there are."""
    line = Line(networks=3)
    for number in range(KNOWN + 500):
        line.answered(f"a{number}", str(number), began_s=0.0, now_s=1.0)
        line.failed(f"b{number}", str(number), began_s=0.0, now_s=1.0)
    assert len(line._good) == len(line._in_network) == len(line._bad) == KNOWN


def test_networks() -> None:
    """Neighbours count as one; no address as none."""
    assert network_of("192.0.2.1") == network_of("192.0.77.9") != network_of("192.1.2.1")
    assert network_of("2001:db8:1::1") == network_of("2001:db8:2::1") != network_of("2001:db9::1")
    assert network_of(None) == network_of("") == ""
