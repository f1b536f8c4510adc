"""The node's metrics for Prometheus, made from its last snapshot and close-up.

Label sets are the names in the code, and of domains the few that fare worst: they are replaced with each
look, so there are never more than ``TOLD_DOMAINS``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from node.store import gateway
from node.store.closeup import Closeup
from node.store.snapshot import Snapshot
from node.store.stages import stages
from node.work.summary import CPU_ROLES

_TOTALS = {
    "pages": "Pages stored",
    "admitted": "URLs admitted to the frontier",
    "done": "URLs that ended without a page to parse",
    "first_tries": "Visits that were the first of their URL",
    "retries": "Retries granted",
    "slowdowns": "Times that a domain was slowed down: its delay doubled, or its width halved",
    "address_waits": "Times that a domain was put off since its address bore no visit more",
    "reaped": "Leases that ran out",
    "stale": "Results that came after their lease had run out",
    "retired": "Domains given up",
    "pages_compared": "Pages compared with others of their domain",
    "pages_near": "Pages found to be nearly the same as another",
}
"""Counters of the ledger."""
_TALLIED = {
    "requests": "Requests sent",
    "bytes": "Bytes of bodies received",
    "redis_commands": "Commands sent to Redis",
    "pages_parsed": "Pages parsed",
    "pages_charged": "Times that a page was charged with the end of a parser",
    "leases_extended": "Times that a lease was extended, since its visit lived on",
    "line_outages": "Times that our own link or resolver was found to be down",
    "archive_freed_files": "WARC files removed once all their pages were parsed",
    "archive_freed_bytes": "Bytes of WARC files removed once all their pages were parsed",
    "line_spared": "Failures that were charged to no site for that",
}
"""Counters of the tally."""
_NOW = {
    "queued": "URLs that wait in the frontier",
    "leased": "URLs that are being visited",
    "spooled": "Pages that wait for a parser, or are in its hands",
    "domains": "Domains with state",
    "awaiting_address": "Domains that wait for their turn at their address",
}
"""Gauges of the ledger."""


class NodeCollector(Collector):
    """Gives the last look; nothing before there was one. ``show`` replaces it whole."""

    def __init__(self) -> None:
        self._shown: tuple[Snapshot, Closeup] | None = None

    def show(self, look: Snapshot, closeup: Closeup) -> None:
        """What is served from now on."""
        self._shown = look, closeup

    def collect(self) -> Iterable[Metric]:
        """One family after another, as Prometheus asks."""
        if self._shown is None:
            return
        look, closeup = self._shown
        yield from _totals(look)
        yield from _stages(look, closeup)
        yield from _processes(look)
        yield from _domains(closeup)
        yield from _gateway(look)


def _totals(look: Snapshot) -> Iterator[Metric]:
    yield _by_label("outcomes", "Visits by what became of them", "outcome", look.outcomes)
    yield _by_label("dropped", "URLs not visited, by reason", "reason", look.dropped)
    by_priority = {str(level): n for level, n in look.shed.items()}
    yield _by_label("shed", "URLs that gave way for want of memory", "priority", by_priority)
    yield _gauge("shed_grade", "Priorities that are shed now; 9 = nothing enters", look.shed_grade)
    yield _by_label("signals", "Requests of whose pages' use something was said", "signal", look.signals)
    yield _by_label("opted_out", "Pages not used since that denies our purpose", "signal", look.opted_out)
    causes = look.robots_unavailable
    yield _by_label("robots_unavailable", "URLs put off for want of robots.txt, by cause", "cause", causes)
    cpu = {role: look.tally[f"cpu_ms:{role}"] / 1000 for role in CPU_ROLES if f"cpu_ms:{role}" in look.tally}
    yield _by_label("cpu_seconds", "CPU time by role", "role", cpu)
    for name, words in _TOTALS.items():
        yield CounterMetricFamily(f"milliarde_{name}", words, value=look.count(name))
    for name, words in _TALLIED.items():
        yield CounterMetricFamily(f"milliarde_{name}", words, value=look.tally.get(name, 0))
    for name, words in _NOW.items():
        yield _gauge(name, words, look.count(name))
    yield _by_label("retries_refused", "Retries not granted, by the budget", "budget", look.retries_refused)
    yield _gauge("domains_in_trouble", "Domains of which fetchers keep account", look.in_trouble)
    yield _gauge("retry_share", "Retries, as a share of all tries of the crawl", look.retry_share)
    yield _gauge("dead_letters", "Pages given up by the parsers", look.dead_letters)
    yield _gauge("redis_memory_bytes", "Redis memory in use", float(look.redis.get("used_memory", 0)))


def _stages(look: Snapshot, closeup: Closeup) -> Iterator[Metric]:
    """Per stage: how much is in it, how old that is, how long it waited, what was turned away."""
    depth = GaugeMetricFamily("milliarde_depth", "URLs, visits or pages in a stage now", labels=["stage"])
    oldest = GaugeMetricFamily("milliarde_oldest_seconds", "Age of a stage's oldest entry", labels=["stage"])
    labels = ["stage", "reason"]
    waited = CounterMetricFamily("milliarde_waited_seconds", "Time a stage waited, by reason", labels=labels)
    refused = CounterMetricFamily("milliarde_refused", "What was turned away, by reason", labels=labels)
    for name, stage in stages(look, closeup, 1000 * time.time()).items():
        depth.add_metric([name], stage.depth)
        oldest.add_metric([name], stage.oldest_s)
        for reason, seconds in stage.waited_s.items():
            waited.add_metric([name, reason], seconds)
        for reason, count in stage.refused.items():
            refused.add_metric([name, reason], count)
    yield from (depth, oldest, waited, refused)


def _processes(look: Snapshot) -> Iterator[Metric]:
    in_hand = GaugeMetricFamily("milliarde_in_hand", "Visits in flight, pages in hand", labels=["process"])
    limit = GaugeMetricFamily("milliarde_in_hand_limit", "Most it would take now", labels=["process"])
    lag = GaugeMetricFamily("milliarde_loop_lag_seconds", "Worst event-loop lag", labels=["process"])
    rss = GaugeMetricFamily("milliarde_peak_rss_bytes", "Peak resident memory", labels=["process"])
    waits = GaugeMetricFamily("milliarde_waiting", "1 while it takes no work", labels=["process", "reason"])
    for name, report in look.procs.items():
        in_hand.add_metric([name], report.in_hand)
        limit.add_metric([name], report.limit)
        lag.add_metric([name], report.lag_ms / 1000)
        rss.add_metric([name], report.rss_mb * 1e6)
        if report.waiting:
            waits.add_metric([name, report.waiting], 1)
    yield from (in_hand, limit, lag, rss, waits)
    yield from _deaths(look)


def _deaths(look: Snapshot) -> Iterator[Metric]:
    died = {name: each.count for name, each in look.deaths.items()}
    yield _by_label("process_deaths", "Times that a process died and was started again", "process", died)
    loops = GaugeMetricFamily(
        "milliarde_crash_loop", "1 while it dies as soon as it has started", labels=["process"]
    )
    for name, each in look.deaths.items():
        loops.add_metric([name], float(each.loops))
    yield loops


def _domains(closeup: Closeup) -> Iterator[Metric]:
    """The few that fare worst, by name."""

    def of_domains(name: str, words: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"milliarde_domain_{name}", f"{words}; the worst domains", labels=["domain"])

    health = of_domains("health", "Share of its ordinary pace, 0 to 100")
    delay = of_domains("delay_seconds", "Delay in force")
    width = of_domains("width", "Most visits at once")
    in_flight = of_domains("in_flight", "Visits under way")
    slowdowns = of_domains("slowdowns", "Times that it was slowed down")
    retry_share = of_domains("retry_share", "Retries, as a share of its visits")
    for told in closeup.worst:
        labels = [told.counted.domain]
        health.add_metric(labels, told.health.score)
        delay.add_metric(labels, told.delay_ms / 1000)
        width.add_metric(labels, told.width)
        in_flight.add_metric(labels, told.in_flight)
        slowdowns.add_metric(labels, told.slowdowns)
        retry_share.add_metric(labels, told.retry_share)
    yield from (health, delay, width, in_flight, slowdowns, retry_share)


def _gateway(look: Snapshot) -> Iterator[Metric]:
    """The limiter on calls to a gateway, where there is one."""
    calls = gateway.calls_of(look.gateway)
    if calls is None:
        return
    yield _gauge(
        "gateway_calls_per_second", "Calls to the gateway per second, at most, now", calls.rate_per_s
    )
    yield _gauge("gateway_ceiling_per_second", "The plan's share of this node", calls.ceiling_per_s)
    yield _gauge("gateway_stopped", "1 while the gateway has stopped the node", float(calls.stopped))
    yield _by_label("gateway_calls", "Calls to the gateway, by how they ended", "end", calls.counts)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"milliarde_{name}", words, value=value)


def _by_label(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"milliarde_{name}", words, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
