"""What commands print: tables for people, JSON for programs, on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from node import __version__
from node.store import check as checking
from node.store import snapshot
from node.store.connection import Store
from node.store.snapshot import Snapshot
from node.work.operate import DomainState, Inspection, Taken
from node.work.room import room
from node.work.seed import SeedReport
from node.work.summary import CPU_ROLES, human_bytes, human_seconds


def _console() -> Console:
    # what is piped is not folded to a terminal that isn't there
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def _json(value: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def _pairs(rows: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for label, text in rows:
        table.add_row(Text(label, style="bold"), Text(text))
    _console().print(table)


def seeds(report: SeedReport) -> None:
    """What became of seed lists; lines that can't be used go to stderr with their numbers."""
    for junk in report.junk:
        sys.stderr.write(f"{junk.where}, line {junk.line}: {junk.why}; passed over\n")
    if report.junk_lines > len(report.junk):
        sys.stderr.write(f"... and {report.junk_lines - len(report.junk):,} more lines\n")
    rows = [("seeds", f"{report.seeds:,}"), ("new", f"{report.admitted:,}"), ("known", f"{report.known:,}")]
    rows += [(why, f"{count:,}") for why, count in sorted(report.refused.items())]
    _pairs(rows)


def status(store: Store, *, as_json: bool) -> None:
    """How a node stands, from one look at its counters."""
    look = snapshot.take(store)
    cpu = {role: look.tally.get(f"cpu_ms:{role}", 0) / 1000 for role in CPU_ROLES}
    free = room(store.settings)
    if as_json:
        _json(
            {
                "pages": look.pages,
                "ledger": look.ledger,
                "ledger_gap": look.ledger_gap,
                "outcomes": look.outcomes,
                "dropped": look.dropped,
                "tally": look.tally,
                "processes": look.procs,
                "control": look.control,
                "spool": {
                    "depth": look.count("spooled"),
                    "in_hand": look.spool_pending,
                    "oldest_s": _age_s(look.spool_oldest_ms),
                },
                "dead_letters": look.dead_letters,
                "cpu_seconds": cpu,
                "redis": {
                    "used_memory": int(look.redis["used_memory"]),
                    "maxmemory": int(look.redis["maxmemory"]),
                },
                "gateway": _gateway(look) or None,
                "version": __version__,
                "pages_per_s": _pages_per_s(look),
                "disk": free,
            }
        )
        return
    waits = sorted({f"{name}: {r.waiting}" for name, r in look.procs.items() if r.waiting})
    rows = [
        ("state", _state(look)),
        ("pace set by", look.control.get("advice", "") if look.procs else ""),
        ("pages", f"{look.pages:,}, {_pages_per_s(look):,.1f} a second"),
        ("received", human_bytes(look.tally.get("bytes", 0))),
        ("time", human_seconds(look.tally.get("active_ms", 0) / 1000)),
        ("frontier", f"{look.count('queued'):,} queued, {look.count('leased'):,} leased"),
        ("to parse", f"{look.count('spooled'):,}, the oldest {_age_s(look.spool_oldest_ms):.1f} s old"),
        ("domains", f"{look.count('domains'):,}"),
        ("outcomes", ", ".join(f"{name} {n:,}" for name, n in sorted(look.outcomes.items()))),
        ("not visited", ", ".join(f"{name} {n:,}" for name, n in look.dropped.items())),
        ("processes", f"{len(look.procs)}; waiting: {', '.join(waits) or 'none'}"),
        ("gateway", _gateway_words(look)),
        ("Redis", human_bytes(float(look.redis.get("used_memory", 0)))),
        ("disk", f"{human_bytes(free.free_bytes)} free of {human_bytes(free.total_bytes)}"),
    ]
    if look.ledger_gap:
        rows.append(("ledger", f"does not add up: {look.ledger_gap} URLs ('milliarde check' finds them)"))
    if look.dead_letters:
        rows.append(("dead letters", f"{look.dead_letters:,}"))
    _pairs((label, text) for label, text in rows if text)


def _pages_per_s(look: Snapshot) -> float:
    """As the watch has it; nothing is stored where it doesn't run."""
    return float(look.control.get("pages_per_s", 0)) if "watch" in look.procs else 0.0


def _gateway(look: Snapshot) -> dict[str, object]:
    """Calls per second, now and at most, and how calls ended; empty where there is no gateway."""
    if not look.gateway:
        return {}
    rates: dict[str, object] = {f"{name}_per_s": float(look.gateway[name]) for name in ("rate", "ceiling")}
    counts = ("turns", "passed", "limited", "failed", "unreachable", "refused", "quota")
    return rates | {name: int(look.gateway.get(name, 0)) for name in counts}


def _gateway_words(look: Snapshot) -> str:
    known = _gateway(look)
    if not known:
        return ""
    counts = ", ".join(f"{name} {n:,}" for name, n in known.items() if not name.endswith("_per_s") and n)
    return f"{known['rate_per_s']:.3g} calls/s of {known['ceiling_per_s']:.3g}; {counts}"


def _state(look: Snapshot) -> str:
    if look.control.get("pause"):
        return f"paused: {look.control['pause']}"
    return "crawling" if look.procs else "stopped"


def _age_s(oldest_unix_ms: int) -> float:
    return max(0.0, time.time() - oldest_unix_ms / 1000) if oldest_unix_ms else 0.0


def check(store: Store, *, as_json: bool) -> bool:
    """Run the check and print what it found; True if all is sound."""
    findings = checking.check(store)
    if as_json:
        _json(findings)
    else:
        for line in findings.lines():
            sys.stdout.write(line + "\n")
    return findings.sound


def taken(results: Iterable[Taken], verb: str) -> None:
    """What exclude and include did, a line a domain."""
    results = list(results)
    if not results:
        sys.stdout.write("there was nothing to bring back\n")
    for each in results:
        where = f" ({each.file})" if each.file else ""
        sys.stdout.write(f"{each.domain}: {each.urls:,} URLs {verb}{where}\n")


TRIMMED_SHOWN = 20


def trimmed(results: Iterable[Taken], *, dry_run: bool) -> None:
    """What trim took, as it goes: a line for each of the first domains, and a sum."""
    verb = "would be trimmed" if dry_run else "trimmed"
    domains = urls = 0
    for each in results:
        domains += 1
        urls += each.urls
        if domains <= TRIMMED_SHOWN:
            taken([each], verb)
    if domains > TRIMMED_SHOWN:
        sys.stdout.write(f"... and {domains - TRIMMED_SHOWN:,} more domains\n")
    sys.stdout.write(f"{urls:,} URLs of {domains:,} domains {verb}\n")


def _state_row(state: DomainState) -> list[str]:
    due = "retired" if state.retired else f"{state.due_in_ms / 1000:.1f} s"
    return [
        state.domain,
        f"{state.queued:,}",
        f"{state.later:,}",
        str(state.leased),
        f"{state.admitted:,}",
        f"{state.delay_ms / 1000:g} s",
        f"{state.width:.1f}",
        due,
    ]


def top(states: list[DomainState], *, as_json: bool) -> None:
    """Domains, longest queue first."""
    if as_json:
        _json(states)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("domain", "queued", "later", "leased", "admitted", "delay", "width", "due in"):
        table.add_column(title, justify="left" if title == "domain" else "right")
    for state in states:
        table.add_row(*(Text(cell) for cell in _state_row(state)))
    _console().print(table)


def inspection(found: Inspection, *, as_json: bool) -> None:
    """All that is known of one domain."""
    if as_json:
        _json(found)
        return
    state = found.state
    rows: list[tuple[str, Any]] = [
        ("domain", state.domain),
        ("lane", f"{found.lane}, served by {found.served_by}"),
        ("queued", f"{state.queued:,} " + " ".join(f"level {k}: {n:,}" for k, n in found.per_level.items())),
        ("later", f"{state.later:,}"),
        ("leased", f"{state.leased}"),
        ("admitted in life", f"{state.admitted:,}"),
        ("delay", f"{state.delay_ms / 1000:g} s (Crawl-delay {state.crawl_delay_ms / 1000:g} s)"),
        ("width", f"{state.width:.2f}"),
        ("due in", f"{state.due_in_ms / 1000:.1f} s"),
        ("unreachable in a row", f"{state.unreachable}"),
    ]
    rows += [("state", word) for word, on in (("retired", state.retired), ("excluded", found.excluded)) if on]
    rows += [("robots", f"{origin}: {words}") for origin, words in found.robots.items()]
    rows += [("next", url) for url in found.next_urls]
    _pairs(rows)
