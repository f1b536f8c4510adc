"""Settling what lies in the archive though Redis does not say so: the verb ``found``.

A Redis that crashed may have taken back its last second or two: pages are on disk whose leases it still
holds, whose URLs it holds as queued, or of which it knows nothing at all. Results that come too late (a
process had been stopped for long) are of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from node.rules.domain import registrable
from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.rules.url import dedup_key, host
from node.store.frontier import Frontier, Kind
from node.store.scripts import Verb
from node.store.warc import Position

_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Stored:
    """A visit whose record is in the archive. ``kind``: ``PAGE`` where it is to be parsed, else ``DONE``.

    ``entry`` is what is believed of the URL where Redis knows nothing of it.
    """

    entry: Entry
    kind: Kind
    outcome: str
    position: Position


class Was(StrEnum):
    """How Redis held such a URL."""

    LEASED = "l"
    QUEUED = "q"
    UNKNOWN = "n"
    """Its admission was lost, and is made up for."""
    KNOWN = "k"
    """It had been dealt with; nothing was changed."""
    OTHERS = "o"
    """Another fetcher holds it by now; nothing was changed."""
    REFUSED = "x"
    """Unknown, and its domain is at a bound or was given up; nothing was changed."""


SETTLED = frozenset({Was.LEASED, Was.QUEUED, Was.UNKNOWN})


def found(
    frontier: Frontier,
    now_ms: int,
    fetcher: int,
    records: Sequence[Stored],
    marks: Mapping[str, int],
    run: str = "",
) -> Verb[list[Was]]:
    """Settle records of ``fetcher`` (0: leave all leases alone).

    ``marks``: file -> up to where it has been looked through by that; ``run`` as in ``Frontier.offer``.
    """

    def decode(answer: bytes) -> list[Was]:
        return [Was(each) for each in answer.decode()]

    wire: list[list[Any]] = []
    slots = bytearray()
    for each in records:
        url = each.entry.url
        domain = registrable(host(url))
        at = each.position
        place = f"{at.file} {at.offset} {at.length}"
        wire.append([str(lane_of(domain)), domain, each.entry.pack(), each.kind, each.outcome, place])
        slots += frontier.slots(dedup_key(url))
    bounds = (frontier.wire_plan, frontier.life_cap, frontier.max_domains)
    options = [frontier.base_delay_ms, *bounds, str(fetcher)]
    flat_marks = [part for mark in marks.items() for part in mark]
    args = (now_ms, run, _pack(options), _pack(wire), bytes(slots), _pack(flat_marks))
    return Verb("found", args, decode)


def page_gone(frontier: Frontier, now_ms: int, page: bytes, entry: Entry) -> Verb[int]:
    """Take a page whose record is not in the archive any more off the spool (verb ``unspool``), and queue its
    URL again. Answers 0 where the page was not there any more."""
    domain = registrable(host(entry.url))
    args = (now_ms, frontier.base_delay_ms, page, lane_of(domain), domain, entry.pack())
    return Verb("unspool", args, int)
