"""Renders docs/reference.md from the code: ``python -m tests.reference`` writes it, a test compares.

Settings and names are explained where they stand in the code, so there is one place to change.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import msgspec

from deploy import errors as fleet_errors
from node import errors
from node.rules import outcome, usage
from node.rules.outcome import TABLE
from node.rules.refusal import Refusal
from node.settings import Settings, addresses, sections
from node.work.record import SIGNALS_FIELD
from tests.scores import SCORES, Held

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"

STORE_REASONS = {
    "displaced": "gave way to a better URL when its domain's queue was full",
    "full": "its domain's queue was full of URLs at least as good",
    "budget": "its domain has had all the URLs that a crawl can admit for one",
    "domain_cap": "the node keeps state for as many domains as `crawl.max_domains` allows",
    "origin_cap": "its domain has more origins than `crawl.max_origins_per_domain`",
    "dead_host": "its domain was given up: nothing there could be reached, again and again",
    "memory": "Redis was at its `maxmemory`; what is queued is still served, which frees memory",
    "shed": "Redis was short of memory (`redis.shed_from`), and it was of a low priority; counted by it, too",
    "poison": "four times in a row the lease on it ran out",
    "trimmed": "taken out by `milliarde trim`; it is in a file, `include` brings it back",
    "robots_denied": "robots.txt denies it",
    "robots_opted_out": "robots.txt denies what `identity.purpose` says the pages are for",
}
"""Reasons that arise in the store and the visit, not at the gate."""


REAL_PAGES = (
    "Real pages: on the 37,476 pages of seven documentation trees of Debian 12 the links are those that",
    "lxml and ada find, in their order, on all but 47: there 57 links are longer than 2,048 bytes, a `trap`.",
    "Tests read a sample of four of the trees; `MILLIARDE_REAL_PAGES=all scripts/test -k real_pages` reads",
    "all pages, in minutes.",
)
"""Held by ``tests/rules/test_real_pages.py``, which allows for no other difference."""


def attribute_docs(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class -> attribute -> the docstring that follows it."""
    docs: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        found = docs.setdefault(node.name, {})
        for before, after in zip(node.body, node.body[1:], strict=False):
            text = None
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = after.value.value
            name = None
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                name = before.target.id
            elif isinstance(before, ast.Assign) and isinstance(before.targets[0], ast.Name):
                name = before.targets[0].id
            if name and isinstance(text, str):
                found[name] = " ".join(text.split())
    return docs


def _cell(text: object) -> str:
    return str(text).replace("``", "`").replace("|", "\\|")


def _default(value: object) -> str:
    if value is msgspec.NODEFAULT:
        return "*needed*"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ") if value >= 10_000 else str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_default(each) for each in value) + "]"
    return (
        f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _settings() -> Iterator[str]:
    docs = attribute_docs(sections) | attribute_docs(addresses)
    for section in msgspec.structs.fields(Settings):
        struct = section.type
        yield f"### [{section.name}]"
        yield ""
        yield (inspect.getdoc(struct) or "").replace("``", "`")
        yield ""
        yield "| key | default | |"
        yield "|---|---|---|"
        for field in msgspec.structs.fields(struct):
            words = docs[struct.__name__].get(field.name, "")
            yield f"| `{field.name}` | {_cell(_default(field.default))} | {_cell(words)} |"
        yield ""


def _outcomes() -> Iterator[str]:
    yield "| outcome | tells of the domain | tried again | kept in the WARC | request sent | goes back |"
    yield "|---|---|---|---|---|---|"
    for name, row in TABLE.items():
        cells = ("yes" if on else "" for on in (row.retry, row.archive, row.sent, row.back))
        yield f"| `{name}` | {row.signal} | {' | '.join(cells)} |"


def _usage() -> Iterator[str]:
    yield from (
        "## What sites say about use",
        "",
        "Read from robots.txt (Content-Usage, Content-Signal, License), from headers (the first two,",
        "TDM-Reservation, TDM-Policy, X-Robots-Tag, a Link to an RSL licence, Crawler-Price) and from a",
        "page's `meta` and `link` elements. It stands in the fetch log (`signals`, `price`); what robots.txt",
        f"said also in the field `{SIGNALS_FIELD}` of the WARC record. Counted under `signals`, by place",
        f"(robots, header, meta) and kind: {', '.join(f'`{kind}`' for kind in usage.Kind)}.",
        "",
        "With a declared `identity.purpose`, pages are not used where one of these words denies it:",
        "",
        "| purpose | | denied by |",
        "|---|---|---|",
    )
    for _, purpose, words in _enum(usage, usage.Purpose):
        denied_by = (f"`{word}`" for word, about in usage.ABOUT.items() if purpose in about)
        yield f"| `{purpose}` | {_cell(words)} | {', '.join(denied_by)} |"
    yield from (
        "",
        "By robots.txt: they are not fetched (`robots_opted_out`). By a header, or by a `meta` in the head:",
        "they are not kept (`opted_out`). By a `meta` after that: they are kept, and none of their links is",
        "followed. Counted under `opted_out`, by what denied it. A licence is recorded and not fetched, so",
        "it denies nothing. Sitemaps are read all the same. A denial wins over a permission.",
        "",
    )


def _enum(module: ModuleType, enum: type[Enum]) -> Iterator[tuple[str, object, str]]:
    docs = attribute_docs(module)[enum.__name__]
    for member in enum:
        yield member.name.lower(), member.value, docs.get(member.name, "")


def _of(held: Held) -> str:
    return f"{held.got:,} of {held.of:,} | {held.got / held.of:.1%}"


def render() -> str:
    """The whole page."""
    lines = [
        "# Reference",
        "",
        "<!-- Rendered by `python -m tests.reference` from the code; a test compares. -->",
        "",
        "## Settings",
        "",
        "A node reads `node.toml`. An unknown key, a wrong type or a contradiction stops the start with one",
        "sentence. `milliarde crawl` writes the file itself, into its folder; `--set section.key=value`",
        "changes any of these. For `crawl` some defaults differ: `crawl.delay_s` 5,",
        "`crawl.seen_error_rate` 1e-06, `fetcher.in_flight` 500, `watch.port` 0.",
        "",
        *_settings(),
        "## Outcomes",
        "",
        "What became of a visit. `success` lets a domain be visited a little sooner, `throttle` slows it,",
        "`dead` parks it for longer each time. A URL that goes back waits at the front of its queue again,",
        "and nothing is counted.",
        "",
        *_outcomes(),
        "",
        "## Why a URL was not visited",
        "",
        "Counted under `dropped` in `summary.json` and `status --json`.",
        "",
        "| reason | |",
        "|---|---|",
        *(f"| `{each}` | {_cell(each.words)} |" for each in Refusal),
        *(f"| `{name}` | {words} |" for name, words in STORE_REASONS.items()),
        "",
        *_usage(),
        "## Scores",
        "",
        "On other people's cases. `scripts/test` prints them at its end, and fails where one is not as here.",
        "",
        "| | right | | whose cases | others get |",
        "|---|---|---|---|---|",
        *(f"| {name} | {_of(held)} | {held.whose} | {held.others} |" for name, held in SCORES.items()),
        "",
        *REAL_PAGES,
        "",
        "## Exit codes",
        "",
        "| code | name | |",
        "|---|---|---|",
        *(f"| {value} | {name} | {_cell(words)} |" for name, value, words in _enum(errors, errors.ExitCode)),
        "",
        "Of `milliarde-fleet`, where numbers below 20 are the same:",
        "",
        "| code | name | |",
        "|---|---|---|",
        *(
            f"| {value} | {name} | {_cell(words)} |"
            for name, value, words in _enum(fleet_errors, fleet_errors.ExitCode)
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    PAGE.write_text(render(), encoding="utf-8")
    return 0


assert set(outcome.Outcome) == set(TABLE), "an outcome has no row"

if __name__ == "__main__":
    sys.exit(main())
