"""During a crawl: when will it be done, what will it have cost, and would another number of nodes serve?

A pure function of what ``milliarde-fleet status --json`` says, and of a plan's arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf

import msgspec

from deploy.assumptions import DISK_RESERVE_BYTES
from deploy.errors import InputError
from deploy.figures import Figures
from deploy.plan import HOUR_S, Archive, Wish, node_of, with_nodes
from deploy.plan_words import Rates, count, hours, usd
from deploy.prices import Instance
from deploy.text import harmless
from node.rules.pressure import Stage

ENOUGH_PAGES = 1_000
"""From so many on a node's own bytes a page are believed."""
SLOW_SHARE = 0.5
"""A node below this share of the median's pace is named."""
OF_THE_NODES = frozenset({Stage.FETCHERS, Stage.PARSERS, Stage.STORE})
"""What more nodes would relieve."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is of use to us of one node's row; all of it zero where the node did not answer."""

    state: str
    version: str = ""
    pages: int = 0
    pages_per_s: float = 0.0
    pressure: str = ""
    disk_free_bytes: int = 0
    disk_total_bytes: int = 0
    seconds: float = 0.0
    """How long it has been crawling."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``milliarde-fleet status --json``."""

    nodes: dict[str, Seen]


@dataclass(frozen=True, slots=True)
class Outlook:
    """``hours_left`` none where nothing moves; money none where the time so far is not known.

    ``fewer``, ``more``: a number of nodes that would serve as well, or better, of the same machines.
    """

    nodes: int
    answering: int
    pages: int
    pages_per_s: float
    hours_so_far: float | None
    hours_left: float | None
    usd_so_far: float | None
    usd_left: float | None
    pace_set_by: str
    slow: tuple[str, ...]
    full_node: str | None
    full_in_hours: float | None
    fewer: int | None
    more: int | None
    more_hours_left: float | None

    @property
    def hours(self) -> float | None:
        if self.hours_so_far is None or self.hours_left is None:
            return None
        return self.hours_so_far + self.hours_left

    @property
    def usd(self) -> float | None:
        if self.usd_so_far is None or self.usd_left is None:
            return None
        return self.usd_so_far + self.usd_left

    @property
    def disk_holds(self) -> bool:
        """Whether the disks last until the crawl is done, as it looks now."""
        return self.full_in_hours is None or self.full_in_hours >= (self.hours_left or 0.0)


def read(text: bytes) -> Status:
    """The JSON of ``milliarde-fleet status``. Raises ``InputError``."""
    try:
        return msgspec.json.decode(text, type=Status)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"that is not what 'milliarde-fleet status --json' says: {error}") from None


def outlook(
    status: Status,
    wish: Wish,
    figures: Figures,
    instance: Instance,
    hourly: float,
    hours_so_far: float | None = None,
) -> Outlook:
    """``wish.pages`` are those the crawl is to have in the end. Raises ``InputError`` where no node answers.

    ``hours_so_far``: since the machines were rented; none: as long as the node that has crawled longest.
    """
    known = {name: seen for name, seen in status.nodes.items() if seen.version}
    if not known:
        raise InputError("no node says how it stands, so there is nothing to tell the future by")
    nodes = len(status.nodes)
    pages = sum(seen.pages for seen in known.values())
    pace = sum(seen.pages_per_s for seen in known.values())
    todo = max(0.0, wish.pages - pages)
    left = 0.0 if not todo else todo / pace / HOUR_S if pace > 0 else None
    if hours_so_far is None:
        hours_so_far = max(seen.seconds for seen in known.values()) / HOUR_S or None
    stages = Counter(seen.pressure for seen in known.values() if seen.pressure)
    stage = stages.most_common(1)[0][0] if stages else ""
    full_node, full_in = _first_full(known)
    fewer = _fewer(wish, figures, instance, nodes, pace) if left and stage == Stage.POLITENESS else None
    more = nodes + 1 if left and stage in OF_THE_NODES else None
    return Outlook(
        nodes=nodes,
        answering=len(known),
        pages=pages,
        pages_per_s=pace,
        hours_so_far=hours_so_far,
        hours_left=left,
        usd_so_far=None if hours_so_far is None else hours_so_far * nodes * hourly,
        usd_left=None if left is None else left * nodes * hourly,
        pace_set_by=stage,
        slow=_slow(known),
        full_node=full_node,
        full_in_hours=full_in,
        fewer=fewer,
        more=more,
        more_hours_left=left * nodes / more if more and left else None,
    )


def _slow(known: dict[str, Seen]) -> tuple[str, ...]:
    rates = sorted(seen.pages_per_s for seen in known.values())
    median = rates[len(rates) // 2]
    return tuple(name for name, seen in known.items() if seen.pages_per_s < SLOW_SHARE * median)


def _first_full(known: dict[str, Seen]) -> tuple[str | None, float | None]:
    """Whose disk is full first if it goes on like this, and in how many hours."""
    first: tuple[str | None, float] = None, inf
    for name, seen in known.items():
        if seen.pages < ENOUGH_PAGES or seen.pages_per_s <= 0:
            continue
        page_bytes = (seen.disk_total_bytes - seen.disk_free_bytes) / seen.pages
        room = max(0, seen.disk_free_bytes - DISK_RESERVE_BYTES)
        lasts = room / page_bytes / seen.pages_per_s / HOUR_S if page_bytes > 0 else inf
        if lasts < first[1]:
            first = name, lasts
    return first if first[0] is not None else (None, None)


def _fewer(wish: Wish, figures: Figures, instance: Instance, nodes: int, pace: float) -> int | None:
    """The least number that would have had this pace, and room for all; None where it is not less."""
    least = max(1, ceil(pace / min(node_of(wish, figures, instance, 24.0).per_s.values())))
    for number in range(least, nodes):
        found = with_nodes(replace(wish, nodes=number, hours=None), figures, instance, "the instance", number)
        if not found.lacking:
            return number
    return None


def lines(seen: Outlook, wish: Wish, rates: Rates) -> Iterator[tuple[str, str]]:
    """Label and text for the operator."""
    done = seen.pages / wish.pages
    absent = seen.nodes - seen.answering
    yield (
        "now",
        f"{count(seen.pages)} of {count(wish.pages)} pages ({done:.1%}), {seen.pages_per_s:,.0f} pages/s on "
        f"{seen.nodes} nodes" + (f", of which {absent} say nothing" if absent else ""),
    )
    yield "done", _done_words(seen, wish)
    yield "cost", _cost_words(seen, rates)
    if seen.full_in_hours is not None:
        yield "disk", _disk_words(seen, wish)
    if seen.slow:
        yield "slow", f"{', '.join(map(harmless, seen.slow))}: less than half of the others' pace"
    yield "nodes", _nodes_words(seen)


def _done_words(seen: Outlook, wish: Wish) -> str:
    if seen.hours_left is None:
        return "never, as it stands: no pages come in"
    words = f"in {hours(seen.hours_left)}"
    if seen.hours is not None:
        words += f", after {hours(seen.hours)} in all"
        if wish.hours is not None:
            words += f"; {hours(wish.hours)} were wanted"
    return words


def _cost_words(seen: Outlook, rates: Rates) -> str:
    rate = f"{seen.nodes} × ${rates.hourly:.3f} an hour ({rates.said})"
    if seen.usd_so_far is None:
        left = "" if seen.usd_left is None else f", {usd(seen.usd_left)} from now on"
        return f"{rate}{left}; how long it has lasted is not known: give --elapsed HOURS"
    words = f"{usd(seen.usd_so_far)} so far"
    if seen.usd is not None:
        words += f", {usd(seen.usd)} in the end"
    return f"{words}; {rate}"


def _disk_words(seen: Outlook, wish: Wish) -> str:
    if seen.disk_holds:
        return "lasts until the end on every node"
    free = "" if wish.archive is Archive.SPOOL else " ('milliarde-fleet collect DIR --free' makes room)"
    node = harmless(seen.full_node or "")
    return f"{node} is full in {hours(seen.full_in_hours or 0.0)}, before the end, if nothing is freed{free}"


def _nodes_words(seen: Outlook) -> str:
    fixed = "The number is fixed once a crawl has begun; for the next one: "
    if seen.hours_left == 0:
        return "all pages that were wanted are there"
    if seen.fewer is not None:
        share = seen.fewer / seen.nodes
        return (
            f"{fixed}politeness sets the pace, so more would not help, and {seen.fewer} of these machines "
            f"would keep it, at {share:.0%} of the cost"
        )
    if seen.pace_set_by == Stage.POLITENESS:
        return f"{fixed}politeness sets the pace, so more would not help; fewer have no room"
    if seen.more is not None and seen.more_hours_left is not None:
        saved = (seen.hours_left or 0.0) - seen.more_hours_left
        return (
            f"{fixed}the nodes set the pace ({seen.pace_set_by}); a further one saves time and costs about "
            f"nothing: with {seen.more} the rest would take {hours(saved)} less"
        )
    return (
        f"the pace is set by {harmless(seen.pace_set_by) or 'nothing that is known yet'}: see to that first"
    )
