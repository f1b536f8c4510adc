"""What ``milliarde status`` prints: how a node stands, from one look at its counters and a closer one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from node import __version__
from node.rules import shed
from node.rules.health import State
from node.store import closeup as closeups
from node.store import deaths, gateway, snapshot
from node.store.closeup import Closeup, Told
from node.store.connection import Store
from node.store.deaths import Deaths
from node.store.snapshot import Snapshot
from node.store.stages import Stage, stages
from node.work import printing
from node.work.room import Room, room
from node.work.summary import CPU_ROLES, human_bytes, human_seconds
from node.work.systemd import Units

NAMED_DOMAINS = 5
"""Domains in trouble that people are told by name; ``--json`` has all that are known."""


def status(store: Store, *, as_json: bool) -> None:
    """How a node stands."""
    look = snapshot.take(store)
    look = replace(look, deaths={**look.deaths, **Units(store.settings).look()})
    closeup = closeups.take(store, look, round(1000 * store.settings.crawl.delay_s), store.now_ms())
    of_stages = stages(look, closeup, 1000 * time.time())
    free = room(store.settings)
    if as_json:
        printing.json(_all(look, closeup, of_stages, free))
    else:
        rows = _rows(look, closeup, of_stages, free, store.now_ms())
        printing.pairs((label, text) for label, text in rows if text)


def _all(look: Snapshot, closeup: Closeup, of_stages: Mapping[str, Stage], free: Room) -> dict[str, object]:
    return {
        "pages": look.pages,
        "ledger": look.ledger,
        "ledger_gap": look.ledger_gap,
        "outcomes": look.outcomes,
        "dropped": look.dropped,
        "shed": look.shed,
        "signals": look.signals,
        "opted_out": look.opted_out,
        "tally": look.tally,
        "processes": look.procs,
        "deaths": {name: _died(each) for name, each in look.deaths.items()},
        "control": look.control,
        "stages": of_stages,
        "retry_share": round(look.retry_share, 4),
        "worst_domains": [_told(told) for told in closeup.worst],
        "spool": {
            "depth": look.count("spooled"),
            "in_hand": look.spool_pending,
            "oldest_s": of_stages["spool"].oldest_s,
        },
        "dead_letters": look.dead_letters,
        "cpu_seconds": {role: look.tally.get(f"cpu_ms:{role}", 0) / 1000 for role in CPU_ROLES},
        "redis": {
            "used_memory": int(look.redis["used_memory"]),
            "maxmemory": int(look.redis["maxmemory"]),
        },
        "gateway": _gateway(look),
        "version": __version__,
        "pages_per_s": _pages_per_s(look),
        "disk": free,
    }


def _died(died: Deaths) -> dict[str, object]:
    return {"count": died.count, "in_a_row": died.in_a_row, "crash_loop": died.loops, "why": died.why}


def _told(told: Told) -> dict[str, object]:
    counted = told.counted
    return {
        "domain": counted.domain,
        "health": told.health,
        "delay_ms": told.delay_ms,
        "width": told.width,
        "in_flight": told.in_flight,
        "slowdowns": told.slowdowns,
        "retry_share": round(told.retry_share, 4),
        "visits": counted.visits,
        "throttled": counted.throttled,
        "unanswered": counted.unanswered,
        "last": counted.last,
    }


def _rows(
    look: Snapshot, closeup: Closeup, of_stages: Mapping[str, Stage], free: Room, now_ms: int
) -> Iterator[tuple[str, str]]:
    waits = sorted({f"{name}: {r.waiting}" for name, r in look.procs.items() if r.waiting})
    yield "state", _state(look)
    yield "pace set by", look.control.get("advice", "") if look.procs else ""
    yield "pages", f"{look.pages:,}, {_pages_per_s(look):,.1f} a second"
    yield "received", human_bytes(look.tally.get("bytes", 0))
    yield "time", human_seconds(look.tally.get("active_ms", 0) / 1000)
    yield "frontier", _frontier_words(of_stages)
    yield "to parse", f"{look.count('spooled'):,}, the oldest {of_stages['spool'].oldest_s:.1f} s old"
    yield "domains", _domains_words(look)
    yield "addresses", _addresses_words(look)
    yield from _trouble(closeup)
    yield "outcomes", ", ".join(f"{name} {n:,}" for name, n in sorted(look.outcomes.items()))
    if compared := look.count("pages_compared"):
        yield "nearly the same", f"{look.count('pages_near'):,} of {compared:,} pages compared"
    yield "signals", ", ".join(f"{name} {n:,}" for name, n in look.signals.items())
    yield "opted out", ", ".join(f"{name} {n:,}" for name, n in look.opted_out.items())
    yield "no robots.txt", ", ".join(f"{name} {n:,}" for name, n in look.robots_unavailable.items())
    yield "retries", _retries_words(look)
    yield "not visited", ", ".join(f"{name} {n:,}" for name, n in look.dropped.items())
    yield "processes", f"{len(look.procs)}; waiting: {', '.join(waits) or 'none'}"
    for words in deaths.words(look.deaths, now_ms):
        yield "deaths", words
    yield "gateway", _gateway_words(look)
    yield "Redis", human_bytes(float(look.redis.get("used_memory", 0)))
    yield "shed", _shed_words(look)
    yield "disk", f"{human_bytes(free.free_bytes)} free of {human_bytes(free.total_bytes)}"
    if look.ledger_gap:
        yield "ledger", f"does not add up: {look.ledger_gap} URLs ('milliarde check' finds them)"
    if look.dead_letters:
        yield "dead letters", f"{look.dead_letters:,}"


def _addresses_words(look: Snapshot) -> str:
    """Domains that are due but for their address, now, and how often one was put off."""
    waits = look.count("address_waits")
    if not waits:
        return ""
    return f"{look.count('awaiting_address'):,} domains wait for theirs; {waits:,} waits in all"


def _shed_words(look: Snapshot) -> str:
    """What the frontier turns away for want of memory now, and what it did in all, by priority."""
    counts = ", ".join(f"priority {level} {n:,}" for level, n in look.shed.items())
    return "; ".join(filter(None, (shed.words(look.shed_grade), counts)))


def _frontier_words(of_stages: Mapping[str, Stage]) -> str:
    frontier = of_stages["frontier"]
    words = f"{frontier.depth:,} queued, {of_stages['fetchers'].depth:,} leased"
    return f"{words}; {frontier.oldest_s:.1f} s behind"


def _domains_words(look: Snapshot) -> str:
    words = [f"{look.count('domains'):,}"]
    if look.in_trouble:
        words.append(f"{look.in_trouble:,} in trouble of late")
    if look.count("retired"):
        words.append(f"{look.count('retired'):,} given up")
    return ", ".join(words)


def _retries_words(look: Snapshot) -> str:
    words = f"{look.count('retries'):,}, {look.retry_share:.1%} of all tries"
    refused = ", ".join(f"{budget} {n:,}" for budget, n in sorted(look.retries_refused.items()))
    return f"{words}; not granted: {refused}" if refused else words


def _trouble(closeup: Closeup) -> Iterator[tuple[str, str]]:
    """A line for each of the domains that fare worst, where they are not well."""
    ill = [told for told in closeup.worst if told.health.state is not State.HEALTHY]
    for told in ill[:NAMED_DOMAINS]:
        last = f" ({told.counted.last})" if told.counted.last else ""
        yield "in trouble", f"{told.counted.domain}: {told.health.state}, {told.health.why}{last}"
    if len(ill) > NAMED_DOMAINS:
        yield "in trouble", f"... and {len(ill) - NAMED_DOMAINS} more ('status --json' names them)"


def _pages_per_s(look: Snapshot) -> float:
    """As the watch has it; nothing is stored where it doesn't run."""
    return float(look.control.get("pages_per_s", 0)) if "watch" in look.procs else 0.0


def _gateway(look: Snapshot) -> dict[str, object] | None:
    """Calls per second, now and at most, and how calls ended; None where there is no gateway."""
    calls = gateway.calls_of(look.gateway)
    if calls is None:
        return None
    return {"rate_per_s": calls.rate_per_s, "ceiling_per_s": calls.ceiling_per_s, **calls.counts}


def _gateway_words(look: Snapshot) -> str:
    calls = gateway.calls_of(look.gateway)
    if calls is None:
        return ""
    counts = ", ".join(f"{name} {n:,}" for name, n in calls.counts.items() if n)
    return f"{calls.rate_per_s:.3g} calls/s of {calls.ceiling_per_s:.3g}; {counts}"


def _state(look: Snapshot) -> str:
    if look.control.get("pause"):
        return f"paused: {look.control['pause']}"
    return "crawling" if look.procs else "stopped"
