"""A plan in ten lines, as JSON, and several as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, isinf
from typing import Any

from deploy.assumptions import QUEUE_CAP
from deploy.figures import Figures
from deploy.plan import HOUR_S, Archive, Limit, Plan
from deploy.prices import TB, PriceList
from deploy.text import human_bytes

_SHIPPED_SPLIT = (9, 6)
"""What the playbooks start on a node of 16 vCPUs."""
LIMITS = {
    Limit.POLITENESS: "politeness",
    Limit.CPU: "CPU",
    Limit.REDIS: "Redis",
    Limit.NETWORK: "network",
    Limit.DISK: "disk",
    Limit.MEMORY: "memory",
}


@dataclass(frozen=True, slots=True)
class Rates:
    """What the machines cost: US dollars an hour of one, and who says so."""

    hourly: float
    said: str
    prices: PriceList

    def usd(self, plan: Plan) -> float:
        return plan.node_hours * self.hourly


def lines(plan: Plan, figures: Figures, rates: Rates, beside: Sequence[Plan]) -> Iterable[tuple[str, str]]:
    """What is planned and why, label and text. ``beside``: the same with fewer and with more nodes."""
    yield "plan", _headline(plan, rates)
    yield "binds", _binds(plan)
    yield "politeness", _politeness(plan)
    yield "cpu", _cpu(plan, figures)
    yield "redis", _redis(plan)
    yield "network", _network(plan)
    yield "memory", _memory(plan, figures)
    yield "disk", _disk(plan)
    yield "processes", _processes(plan)
    yield "cost", _cost(plan, rates, beside)


def _headline(plan: Plan, rates: Rates) -> str:
    wish = plan.wish
    fleet = f"{plan.nodes} × {plan.instance}, {usd(rates.usd(plan))}"
    words = f"{count(wish.pages)} pages in {hours(plan.hours)} on {fleet}"
    if plan.wanted_hours is not None and not plan.in_time:
        words += f"; in {hours(plan.wanted_hours)} it can't be done"
    elif plan.wanted_hours is not None:
        words += f" ({hours(plan.wanted_hours)} are allowed)"
    if plan.lacking:
        missing = ", ".join(f"{LIMITS[limit]} for {ceil(plan.needs[limit])} nodes" for limit in plan.lacking)
        words += f"; they are too few: it needs {missing}"
    return words


def _binds(plan: Plan) -> str:
    if plan.nodes_set_by is not None:
        nodes = f"{LIMITS[plan.nodes_set_by]} sets the number of nodes"
    else:
        nodes = "one node is enough" if plan.wish.nodes is None else "the number of nodes was asked for"
    return f"{nodes}; {LIMITS[plan.pace_set_by]} sets the pace, {plan.pages_per_s:,.0f} pages/s in all"


def _politeness(plan: Plan) -> str:
    wish = plan.wish
    if isinf(wish.ceiling_per_s):
        return "no delay, so no limit"
    words = (
        f"{count(wish.domains)} live domains at {wish.delay_s:g} s are {wish.ceiling_per_s:,.0f} requests/s "
        f"at most; {wish.busy:.0%} of them busy and {wish.requests_per_page:.2f} requests a page (errors "
        f"{wish.error:.1%}, redirects {wish.redirect:.1%}, retries {wish.retry:.1%}): "
        f"{wish.polite_pages_per_s:,.0f} pages/s"
    )
    if plan.wanted_hours is not None:
        short = wish.pages / plan.wanted_hours / HOUR_S / wish.polite_pages_per_s
        if short > 1:
            words += (
                f"; {hours(plan.wanted_hours)} want {wish.domains * short / 1e6:.2f} million domains, "
                f"or {wish.delay_s / short:.0f} s"
            )
    return words


def _cpu(plan: Plan, figures: Figures) -> str:
    rate = f"{plan.node.per_s[Limit.CPU]:,.0f} pages/s a node: {plan.needs[Limit.CPU]:.1f} nodes"
    if figures.pages_per_node_second is not None:
        return f"{rate}, as seen ({figures.source})"
    core = plan.node.core_share
    shares = f"at {plan.wish.utilisation:.0%}" + ("" if core == 1 else f", a vCPU being {core:g} of a core")
    return f"{plan.node.cpu_ms:.2f} ms a page, {shares}: {rate} ({figures.source})"


def _redis(plan: Plan) -> str:
    if Limit.REDIS not in plan.node.per_s:
        return "part of what the node was seen to do"
    rate = plan.node.per_s[Limit.REDIS]
    return (
        f"{plan.node.redis_ms:.3f} ms a page of its one thread: {rate:,.0f} pages/s a node: "
        f"{plan.needs[Limit.REDIS]:.1f} nodes"
    )


def _network(plan: Plan) -> str:
    each = plan.pages_per_s / plan.nodes * plan.node.wire_bytes * 8 / 1e9
    words = (
        f"{plan.node.wire_bytes / 1000:.0f} KB a page in all: {each:.2f} Gbit/s a node: "
        f"{plan.needs[Limit.NETWORK]:.1f} nodes"
    )
    if plan.wish.archive is Archive.COLLECTED:
        words += (
            f"; collecting takes {plan.pages_per_s * plan.wish.page_bytes * 8 / 1e9:.1f} Gbit/s of your line"
        )
    return words


def _memory(plan: Plan, figures: Figures) -> str:
    return (
        f"at most {plan.queue_cap:,} URLs wait for a domain, {figures.bytes_per_queued_url:g} bytes each, "
        f"and filters: Redis {human_bytes(plan.redis_bytes)} a node, {human_bytes(plan.memory_bytes)} with "
        f"its rewriting and the processes: {plan.needs[Limit.MEMORY]:.1f} nodes"
    )


def _disk(plan: Plan) -> str:
    kept = {
        Archive.FULL: "all kept",
        Archive.COLLECTED: "collected and freed within the hour",
        Archive.SPOOL: "deleted once parsed",
    }[plan.wish.archive]
    return (
        f"{plan.wish.page_bytes / 1000:g} KB a page, {kept}: {human_bytes(plan.disk_bytes)} a node of "
        f"{human_bytes(plan.node.disk_room_bytes)}: {plan.needs[Limit.DISK]:.1f} nodes"
    )


def _processes(plan: Plan) -> str:
    node = plan.node
    words = f"{node.fetchers} fetchers and {node.parsers} parsers a node fit best by their CPU"
    if (
        sum(_SHIPPED_SPLIT) == node.fetchers + node.parsers
        and (node.fetchers, node.parsers) != _SHIPPED_SPLIT
    ):
        words += f" (the playbooks start {_SHIPPED_SPLIT[0]} and {_SHIPPED_SPLIT[1]})"
    words += f"; about {plan.in_flight / node.fetchers:,.0f} visits in flight in each fetcher"
    if plan.wish.queue_needed > (plan.wish.queue_cap or QUEUE_CAP):
        words += (
            f"; milliarde_max_urls_per_domain must be {plan.wish.queue_needed:,} for so many pages of each"
        )
    return words


def _cost(plan: Plan, rates: Rates, beside: Sequence[Plan]) -> str:
    nodes = "1 node" if plan.nodes == 1 else f"{plan.nodes:,} nodes"
    total = usd(rates.usd(plan))
    words = f"{nodes} × {hours(plan.hours)} × ${rates.hourly:.3f} ({rates.said}) = {total}"
    for other in beside:
        words += f"; {other.nodes}: "
        if other.lacking:
            words += f"too little {LIMITS[other.lacking[0]]}"
        else:
            words += f"{hours(other.hours)}, {usd(rates.usd(other))}"
    if plan.wish.archive is not Archive.SPOOL and rates.prices.egress:
        words += (
            f"; {human_bytes(plan.archive_bytes)} out of the region would be "
            f"{usd(rates.prices.egress_usd(plan.archive_bytes))} more"
        )
    return words


def as_json(plan: Plan, figures: Figures, rates: Rates, beside: Sequence[Plan]) -> dict[str, Any]:
    """The same for programs."""
    wish = plan.wish
    return {
        **_numbers(plan, rates),
        "in_time": plan.in_time,
        "wanted_hours": plan.wanted_hours,
        "nodes_set_by": plan.nodes_set_by,
        "pace_set_by": plan.pace_set_by,
        "nodes_needed": {
            **{limit: round(need, 3) for limit, need in plan.needs.items()},
        },
        "pages_per_s_of_a_node": {limit: round(rate, 1) for limit, rate in plan.node.per_s.items()},
        "politeness": {
            "requests_per_s": None if isinf(wish.ceiling_per_s) else round(wish.ceiling_per_s, 1),
            "pages_per_s": None if isinf(wish.ceiling_per_s) else round(wish.polite_pages_per_s, 1),
            "requests_per_page": round(wish.requests_per_page, 4),
        },
        "processes": {"fetchers": plan.node.fetchers, "parsers": plan.node.parsers},
        "visits_in_flight": round(plan.in_flight),
        "max_urls_per_domain": wish.most_queued,
        "redis_bytes": round(plan.redis_bytes),
        "memory_bytes": round(plan.memory_bytes),
        "disk_bytes": round(plan.disk_bytes),
        "archive_bytes": round(plan.archive_bytes),
        "bits_per_s": round(plan.pages_per_s / plan.nodes * plan.node.wire_bytes * 8),
        "usd_per_node_hour": rates.hourly,
        "egress_usd": round(rates.prices.egress_usd(plan.archive_bytes), 2),
        "beside": [_numbers(other, rates) for other in beside],
        "asked": {name: getattr(wish, name) for name in type(wish).__dataclass_fields__},
        "figures": figures.source,
        "prices": rates.said,
    }


def _numbers(plan: Plan, rates: Rates) -> dict[str, Any]:
    return {
        "nodes": plan.nodes,
        "instance": plan.instance,
        "hours": round(plan.hours, 3),
        "pages_per_s": round(plan.pages_per_s, 1),
        "usd": round(rates.usd(plan), 2),
        "lacking": list(plan.lacking),
    }


_HEAD = (
    "pages",
    "kept on the nodes",
    "nodes",
    "set by",
    "hours",
    "pace set by",
    "pages/s",
    "archive",
    "cost",
)


def table(plans: Iterable[tuple[Plan, Rates]]) -> Iterable[str]:
    """Lines of Markdown, a row for each plan."""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|--:|---|--:|---|--:|---|--:|--:|--:|"
    for plan, rates in plans:
        cells = (
            count(plan.wish.pages),
            plan.wish.archive.value,
            f"{plan.nodes:,}",
            "one is enough" if plan.nodes_set_by is None else LIMITS[plan.nodes_set_by],
            hours(plan.hours).removesuffix(" h"),
            LIMITS[plan.pace_set_by],
            f"{plan.pages_per_s:,.0f}",
            f"{plan.archive_bytes / TB:,.1f} TB",
            usd(rates.usd(plan)),
        )
        yield f"| {' | '.join(cells)} |"


_POWERS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(number: float) -> str:
    """10⁹, 1.005 × 10⁹, or 250,000."""
    if number < 1e7:
        return f"{number:,.0f}"
    digits, _, power = f"{number:.3e}".partition("e")
    digits, power = digits.rstrip("0").rstrip("."), str(int(power)).translate(_POWERS)
    return f"10{power}" if digits == "1" else f"{digits} × 10{power}"


def hours(number: float) -> str:
    """10 min; 25.5 h; 24 h; 297 h."""
    if 0 < number < 1:
        return f"{ceil(number * 60):.0f} min"
    return f"{number:,.0f} h" if number >= 100 or number == int(number) else f"{number:,.1f} h"


def usd(number: float) -> str:
    return f"${number:,.2f}" if number < 100 else f"${number:,.0f}"
