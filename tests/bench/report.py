"""Figures as Markdown tables (which read well on a terminal, too), as bench.json, and into the document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.figures import Figure
from tests.bench.laps import Staged
from tests.bench.per_run import Raw

NUMBERS = "<!-- numbers: written by scripts/bench --docs -->", "<!-- end of numbers -->"
SCALE = "<!-- scale: written by scripts/bench --scale --docs -->", "<!-- end of scale -->"
IN_FLIGHT = "<!-- in flight: written by scripts/bench --in-flight --docs -->", "<!-- end of in flight -->"
NODES = "<!-- nodes: written by scripts/bench --nodes --docs -->", "<!-- end of nodes -->"


def number(value: float) -> str:
    """Three or four digits that matter: 0.00085, 0.145, 74.6, 510, 12,345."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    if size >= 0.01:
        return f"{value:.3f}"
    return f"{value:.2g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, columns aligned, all but the first to the right."""
    cells = [list(head), *[list(row) for row in rows]]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first, *others = row
        padded = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        return f"| {' | '.join([first.ljust(widths[0]), *padded])} |"

    rule = ["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]
    return "\n".join([line(cells[0]), f"|{'|'.join(rule)}|", *map(line, cells[1:])])


def figures_table(rows: Sequence[Figure]) -> str:
    """The figures with their goals."""
    made = []
    for row in rows:
        spread = "" if row.lowest == row.highest else f"{number(row.lowest)} – {number(row.highest)}"
        goal = "" if row.goal is None else f"{row.goal} {'✓' if row.goal.met(row.value) else '✗'}"
        less = "" if row.without_start is None else number(row.without_start)
        made.append((row.words, goal, number(row.value), spread, less))
    return table(("figure", "goal", "median", "lowest – highest", "without start"), made)


def stage_table(staged: Staged) -> str:
    """The stages, each process's sum below its own."""
    made: list[tuple[str, str, str]] = []
    for where in ("fetcher", "parser"):
        mine = [stage for stage in staged.stages if stage.where == where]
        for whole in mine:
            if whole.part_of:
                continue
            made.append((f"{where}: {whole.what}", number(whole.own_ms), number(whole.redis_ms)))
            made += [
                (f"· {part.what}", number(part.own_ms), "") for part in mine if part.part_of == whole.what
            ]
        sums = [
            sum(getattr(stage, name) for stage in mine if not stage.part_of)
            for name in ("own_ms", "redis_ms")
        ]
        made.append((f"**{where}, all stages**", number(sums[0]), number(sums[1])))
    return table(("stage", "CPU, ms a page", "Redis, ms a page"), made)


def document(
    rows: Sequence[Figure], raw: Raw, remarks: Sequence[str], facts: dict[str, Any], more: Sequence[str] = ()
) -> str:
    """Everything that a run says, as it goes into docs/performance.md; ``more`` stands at its end."""
    staged = raw.staged
    said = [
        facts["line"],
        figures_table(rows),
        *remarks,
        f"One stage at a time, {staged.pages:,} pages of {staged.page_bytes / 1000:,.0f} KB decoded with "
        f"{staged.links:.0f} different links; parts (·) are timed apart on the same pages:",
        stage_table(staged),
        *more,
    ]
    return "\n\n".join(said)


def into_document(path: Path, text: str, marks: tuple[str, str] = NUMBERS) -> None:
    """Put the numbers between their marks. Raises ``ValueError`` where the marks are missing."""
    whole = path.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"{path} has no place for numbers ({marks[0]} … {marks[1]})")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def write_json(path: Path, contents: dict[str, Any]) -> None:
    """bench.json, whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(contents), indent=2) + b"\n")
    beside.replace(path)
