"""What a soak found: claims that hold or don't, and the figures they rest on, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a soak must show; ``measured`` says by what it does, or doesn't."""

    what: str
    measured: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """All claims, and lines of ``figures`` (name, value) that explain them."""

    claims: tuple[Claim, ...]
    figures: tuple[tuple[str, str], ...]

    @property
    def holds(self) -> bool:
        """Whether every claim does."""
        return all(claim.holds for claim in self.claims)

    def text(self) -> str:
        """Both tables in Markdown; figures only where there are any."""
        claims = [(each.what, each.measured, "yes" if each.holds else "**NO**") for each in self.claims]
        tables = [table(("claim", "measured", "holds"), claims)]
        if self.figures:
            tables.append(table(("figure", "value"), self.figures))
        return "\n\n".join(tables)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def into_document(path: Path, name: str, text: str) -> None:
    """Put ``text`` between the marks ``<!-- soak NAME -->`` and ``<!-- /soak NAME -->`` of a document.

    Raises ``ValueError`` where they are missing.
    """
    first, last = f"<!-- soak {name} -->", f"<!-- /soak {name} -->"
    whole = path.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"{path} has no place for it ({first} … {last})")
    path.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")
