"""What commands print: tables for people, JSON for programs, on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from node.rules.seeds import Junk
from node.store import check as checking
from node.store.connection import Store
from node.store.findings import Findings
from node.store.repair import Repaired
from node.work import printing
from node.work.domains import DomainState, Inspection
from node.work.exclusion_list import ListReport
from node.work.operate import Taken
from node.work.seed import SeedReport


def seeds(report: SeedReport) -> None:
    """What became of seed lists; lines that can't be used go to stderr with their numbers."""
    junk_lines(report.junk, report.junk_lines)
    rows = [("seeds", f"{report.seeds:,}"), ("new", f"{report.admitted:,}"), ("known", f"{report.known:,}")]
    rows += [(why, f"{count:,}") for why, count in sorted(report.refused.items())]
    printing.pairs(rows)


def junk_lines(shown: Sequence[Junk], count: int) -> None:
    """The first lines of lists that can't be used, and how many more there are."""
    for junk in shown:
        sys.stderr.write(f"{junk.where}, line {junk.line}: {junk.why}; passed over\n")
    if count > len(shown):
        sys.stderr.write(f"... and {count - len(shown):,} more lines\n")


def check(store: Store, *, every_url: bool, as_json: bool) -> bool:
    """Run the check and print what it found; True if all is sound."""
    findings = checking.check(store, every_url=every_url, warc_folder=store.settings.warc_folder)
    if as_json:
        printing.json(findings)
    else:
        for line in findings.lines():
            sys.stdout.write(line + "\n")
    return findings.sound


def repaired(done: Repaired, after: Findings, *, as_json: bool) -> bool:
    """What was put right, and what a check says after it; True if all is sound."""
    if as_json:
        printing.json({"repaired": dict(done.counts), "after": after})
    else:
        for line in done.lines():
            sys.stdout.write(f"repaired: {line}\n")
        if not done.counts:
            sys.stdout.write("there was nothing to repair\n")
        for line in after.lines():
            sys.stdout.write(line + "\n")
    return after.sound


def taken(results: Iterable[Taken], verb: str) -> None:
    """What exclude and include did, a line a domain."""
    results = list(results)
    if not results:
        sys.stdout.write("there was nothing to bring back\n")
    for each in results:
        where = f" ({each.file})" if each.file else ""
        sys.stdout.write(f"{each.domain}: {each.urls:,} URLs {verb}{where}\n")


DOMAINS_SHOWN = 20


def trimmed(results: Iterable[Taken], *, dry_run: bool) -> None:
    """What trim took, as it goes."""
    many_taken(results, "would be trimmed" if dry_run else "trimmed")


def many_taken(results: Iterable[Taken], verb: str) -> None:
    """What was done to many domains, as it goes: a line for each of the first, and a sum."""
    domains = urls = 0
    for each in results:
        domains += 1
        urls += each.urls
        if domains <= DOMAINS_SHOWN:
            taken([each], verb)
    if domains > DOMAINS_SHOWN:
        sys.stdout.write(f"... and {domains - DOMAINS_SHOWN:,} more domains\n")
    sys.stdout.write(f"{urls:,} URLs of {domains:,} domains {verb}\n")


def listed(report: ListReport) -> None:
    """What a list of excluded names came to; lines that can't be used go to stderr with their numbers."""
    junk_lines(report.junk, report.junk_lines)
    words = "the same as before" if report.unchanged else f"{report.before:,} before"
    sys.stdout.write(f"the list names {report.names:,} hosts and domains ({words})\n")
    if report.junk_lines:
        sys.stdout.write(f"{report.junk_lines:,} lines of it can't be used\n")


def still_excluded(names: Sequence[str]) -> None:
    """Names under what was included that stay excluded, each by itself."""
    if names:
        shown = ", ".join(names[:DOMAINS_SHOWN])
        more = f" and {len(names) - DOMAINS_SHOWN:,} more" if len(names) > DOMAINS_SHOWN else ""
        sys.stdout.write(f"still excluded, each by its own name: {shown}{more}\n")


def _state_row(state: DomainState) -> list[str]:
    due = "never" if state.retired else f"{state.due_in_ms / 1000:.1f} s"
    return [
        state.domain,
        f"{state.queued:,}",
        f"{state.later:,}",
        str(state.leased),
        f"{state.admitted:,}",
        f"{state.delay_ms / 1000:g} s",
        f"{state.width:.1f}",
        due,
        state.health.state,
        state.health.why,
    ]


def top(states: list[DomainState], *, as_json: bool) -> None:
    """Domains, longest queue first."""
    if as_json:
        printing.json(states)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("domain", "queued", "later", "leased", "admitted", "delay", "width", "due in"):
        table.add_column(title, justify="left" if title == "domain" else "right")
    table.add_column("health")
    table.add_column("")
    for state in states:
        table.add_row(*(Text(cell) for cell in _state_row(state)))
    printing.console().print(table)


def _first_byte(state: DomainState) -> str:
    """How long the domain takes to answer; empty where that is not known."""
    if not state.ttfb_ms:
        return ""
    return f"after {state.ttfb_ms} ms of late, {state.usual_ttfb_ms} ms usually"


def _address(state: DomainState) -> str:
    """Where it was met last, and whether it waits for that."""
    if state.turn_in_ms is None:
        return state.address
    wait_s = max(0, state.turn_in_ms) / 1000
    return f"{state.address}, where others are visited; its turn is in {wait_s:.1f} s"


def inspection(found: Inspection, *, as_json: bool) -> None:
    """All that is known of one domain."""
    if as_json:
        printing.json(found)
        return
    state = found.state
    rows: list[tuple[str, Any]] = [
        ("domain", state.domain),
        ("health", f"{state.health.state}, {state.health.score} of 100"),
        ("", state.health.why),
        ("lane", f"{found.lane}, served by {found.served_by}"),
        ("queued", f"{state.queued:,} " + " ".join(f"level {k}: {n:,}" for k, n in found.per_level.items())),
        ("later", f"{state.later:,}"),
        ("leased", f"{state.leased}"),
        ("admitted in life", f"{state.admitted:,}"),
        ("delay", f"{state.delay_ms / 1000:g} s (Crawl-delay {state.crawl_delay_ms / 1000:g} s)"),
        ("width", f"{state.width:.2f}"),
        ("slowed down", f"{state.slowdowns:,} times"),
        ("first byte", _first_byte(state)),
        ("due in", f"{state.due_in_ms / 1000:.1f} s"),
        ("address", _address(state)),
        ("unreachable in a row", f"{state.unreachable}"),
        ("pages alike", found.likeness),
    ]
    rows += [("state", word) for word, on in (("retired", state.retired), ("excluded", found.excluded)) if on]
    rows += [("robots", f"{origin}: {words}") for origin, words in found.robots.items()]
    rows += [("next", url) for url in found.next_urls]
    printing.pairs((label, text) for label, text in rows if text)
