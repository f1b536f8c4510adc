"""The limiter on calls to the gateway, shared by all fetchers of the node, as a typed verb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from node.rules.gateway import Told
from node.store.scripts import Verb

_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Event:
    """How a call ended that did not get through. Moments are the crawl's clock, ms.

    ``sent_ms``: when it was let go. ``wait_ms``: the gateway's Retry-After. ``why`` is what an operator
    is told where everything stops for it; ``until_ms`` 0: until an operator resumes.
    """

    told: Told
    sent_ms: float
    wait_ms: int = 0
    why: str = ""
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """How calls stand now.

    ``at_ms``: when ours may go out; None where that is too far away, where none was asked for, or where
    calls are stopped. ``ahead_ms``: for how long turns are taken already. ``hold_ms``: for how long the
    gateway wants none. ``stop``: why there are none at all, in ``why`` in words; None: there are.
    """

    at_ms: float | None
    rate: float
    ahead_ms: int
    hold_ms: int
    stop: Told | None
    why: str


def gateway(
    now_ms: int,
    ceiling_per_s: float,
    *,
    max_wait_ms: int | None = None,
    successes: int = 0,
    event: Event | None = None,
) -> Verb[Turn]:
    """Say what became of calls, and with ``max_wait_ms`` take the next turn, if it comes within that."""
    options: list[object] = [ceiling_per_s, int(max_wait_ms is not None), max_wait_ms or 0, successes]
    if event is None:
        options += ["", 0, 0, "", 0]
    else:
        options += [event.told, event.sent_ms, event.wait_ms, event.why, event.until_ms]
    return Verb("gateway", (now_ms, _pack(options)), _turn)


def _turn(answer: list[Any]) -> Turn:
    at, rate, ahead_ms, hold_ms, stop, why = answer
    return Turn(
        float(at) if at else None,
        float(rate),
        ahead_ms,
        hold_ms,
        Told(stop.decode()) if stop else None,
        why.decode(),
    )


COUNTS = ("turns", "passed", "limited", "failed", "unreachable", "refused", "quota")
"""What is counted of calls: turns taken, and how calls ended."""


@dataclass(frozen=True, slots=True)
class Calls:
    """How calls stand, for people: per second, now and at most; ``counts`` by the names in ``COUNTS``."""

    rate_per_s: float
    ceiling_per_s: float
    stopped: bool
    counts: Mapping[str, int]


def calls_of(fields: Mapping[str, str]) -> Calls | None:
    """Read the hash ``gateway``; None where there is no gateway."""
    if not fields:
        return None
    return Calls(
        float(fields["rate"]),
        float(fields["ceiling"]),
        bool(fields.get("stop")),
        {name: int(fields.get(name, 0)) for name in COUNTS},
    )
