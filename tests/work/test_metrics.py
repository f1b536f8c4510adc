"""What is served at /metrics: every stage, the gateway, and of domains only the few that fare worst."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from node.rules.health import Health, State
from node.store.closeup import Closeup, Told
from node.store.snapshot import TOLD_DOMAINS, Report, Snapshot, Troubled
from node.work.metrics import NodeCollector

Values = Mapping[tuple[str, ...], float]


def snapshot(**changes: Any) -> Snapshot:
    """A node in the middle of its work."""
    told: dict[str, Any] = {
        "ledger": {
            "pages": 900,
            "queued": 5_000,
            "leased": 64,
            "spooled": 30,
            "first_tries": 950,
            "retries": 50,
            "refuse:full": 70,
        },
        "outcomes": {"page": 900, "timeout": 12},
        "tally": {
            "wait_ms:fetchers:spool_full": 4_500,
            "wait_ms:fetchers:no_work": 1_000,
            "wait_ms:parsers:store": 250,
            "refused:fetchers:spool_full": 31,
            "cpu_ms:fetchers": 12_000,
            "requests": 1_000,
            "signal:robots:content_signal": 7,
            "opted_out:header:tdm": 2,
        },
        "procs": {
            "fetcher.1": Report(1, 0, in_hand=40, limit=500, oldest_ms=3_500, waiting="spool_full"),
            "fetcher.2": Report(2, 0, in_hand=24, limit=500, oldest_ms=500),
        },
        "control": {},
        "spool_pending": 10,
        "spool_oldest_ms": 0,
        "dead_letters": 0,
        "redis": {"used_memory": "1000"},
        "gateway": {},
    }
    return Snapshot(**(told | changes))


def told(domain: str, **changes: Any) -> Told:
    known: dict[str, Any] = {"in_flight": 1, "delay_ms": 8_000, "width": 1.0, "slowdowns": 3}
    counted = Troubled(domain, 40, 3, 0, 4, "rate_limited")
    return Told(counted, Health(State.STRUGGLING, 25, "slowed"), **(known | changes))


@pytest.fixture
def served() -> Callable[[Snapshot, Closeup], Mapping[str, Values]]:
    """Shows a look and reads what a scrape gets: sample name -> label values -> value."""
    collector, registry = NodeCollector(), CollectorRegistry()
    registry.register(collector)

    def scrape(look: Snapshot, closeup: Closeup) -> Mapping[str, Values]:
        collector.show(look, closeup)
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            for sample in family.samples:
                labels = sorted(sample.labels.items(), key=lambda pair: pair[0] == "reason")
                found.setdefault(sample.name, {})[tuple(value for _, value in labels)] = sample.value
        return found

    return scrape


Served = Callable[[Snapshot, Closeup], Mapping[str, Values]]
NOTHING = Closeup(0, [])


def test_each_stage_has_depth_age_waits_and_refusals(served: Served) -> None:
    """An operator sees where it jams: how much, how old, who waits for what, what is turned away."""
    found = served(snapshot(), Closeup(2_500, []))
    assert found["milliarde_depth"] == {
        ("frontier",): 5_000,
        ("fetchers",): 64,
        ("spool",): 20,
        ("parsers",): 10,
    }
    assert found["milliarde_oldest_seconds"][("frontier",)] == 2.5
    assert found["milliarde_oldest_seconds"][("fetchers",)] == 3.5
    assert found["milliarde_waited_seconds_total"] == {
        ("fetchers", "spool_full"): 4.5,
        ("fetchers", "no_work"): 1.0,
        ("parsers", "store"): 0.25,
    }
    assert found["milliarde_refused_total"] == {("frontier", "full"): 70, ("fetchers", "spool_full"): 31}
    assert found["milliarde_waiting"] == {("fetcher.1", "spool_full"): 1}


def test_a_stage_or_reason_that_is_new_shows_by_itself(served: Served) -> None:
    """Who adds a reason to wait needs to do nothing here."""
    look = snapshot(tally={"wait_ms:archive:fsync": 700, "refused:parsers:no_memory": 2})
    found = served(look, NOTHING)
    assert found["milliarde_waited_seconds_total"][("archive", "fsync")] == 0.7
    assert found["milliarde_refused_total"][("parsers", "no_memory")] == 2


def test_retries_and_outcomes(served: Served) -> None:
    """Retries are load: their share of all tries is a number of its own."""
    found = served(snapshot(), NOTHING)
    assert found["milliarde_retry_share"][()] == pytest.approx(0.05)
    assert found["milliarde_retries_total"][()] == 50
    assert found["milliarde_outcomes_total"] == {("page",): 900, ("timeout",): 12}


def test_what_sites_say_about_use_is_counted_by_name(served: Served) -> None:
    """How often each way of saying something was met, and what of it cost us pages; no site is a label."""
    found = served(snapshot(), NOTHING)
    assert found["milliarde_signals_total"] == {("robots:content_signal",): 7}
    assert found["milliarde_opted_out_total"] == {("header:tdm",): 2}


def test_only_the_worst_domains_are_labels_and_they_are_replaced(served: Served) -> None:
    """Over many looks, other domains each time: never more label values than ``TOLD_DOMAINS``."""
    for look in range(5):
        names = [f"site-{look}-{number}.test" for number in range(TOLD_DOMAINS)]
        found = served(snapshot(), Closeup(0, [told(name) for name in names]))
        for metric in ("health", "delay_seconds", "width", "in_flight", "slowdowns", "retry_share"):
            assert set(found[f"milliarde_domain_{metric}"]) == {(name,) for name in names}
    assert found["milliarde_domain_delay_seconds"][("site-4-0.test",)] == 8.0
    assert found["milliarde_domain_retry_share"][("site-4-0.test",)] == pytest.approx(0.1)
    assert not {name for name in served(snapshot(), NOTHING) if name.startswith("milliarde_domain_")}


def test_the_gateway_is_there_where_there_is_one(served: Served) -> None:
    """Its rate now and at most, whether it has stopped us, and how calls ended."""
    assert not {name for name in served(snapshot(), NOTHING) if "gateway" in name}
    fields = {"rate": "12.5", "ceiling": "25", "stop": "quota", "passed": "5001", "limited": "3"}
    found = served(snapshot(gateway=fields), NOTHING)
    assert found["milliarde_gateway_calls_per_second"][()] == 12.5
    assert found["milliarde_gateway_ceiling_per_second"][()] == 25
    assert found["milliarde_gateway_stopped"][()] == 1
    assert found["milliarde_gateway_calls_total"][("passed",)] == 5_001


def test_before_the_first_look_there_is_nothing() -> None:
    """A scrape that comes too early is answered, too."""
    registry = CollectorRegistry()
    registry.register(NodeCollector())
    assert generate_latest(registry) == b""
