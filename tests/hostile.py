"""Renders docs/hostile.md from the code: ``python -m tests.hostile`` writes it, a test compares.

What a site does is a row of the miniature web's table; what we make of it stands in
``tests/whole/hostile.py``, which a crawl of all of them is held to; what slows and what is kept follows from
the table of outcomes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from node.rules.outcome import TABLE, Outcome, Signal
from tests.web.behaviours.table import GROUPS, Behaviour
from tests.whole.hostile import CAUSES, OUTCOMES, TRUNCATED

PAGE = Path(__file__).resolve().parent.parent / "docs" / "hostile.md"

_TOP = """\
# What hostile sites come to

<!-- Rendered by `python -m tests.hostile` from the code; a test compares. -->

The [miniature web](miniature-web.md) has one domain for each way to misbehave. This is what a crawl of all of
them at once comes to; `tests/whole/test_misbehaving.py` does it in every run of the tests, and
[`scripts/soak hostile`](soak.md) for longer. Outcomes are those of the [reference](reference.md#outcomes).

- **Outcomes**: those that are always met; in brackets those that may be, depending on the moment.
- **What slows**: this domain alone, if any. *Slowed*: its delay doubles each time, up to an hour, and comes
  back by a little with each success. *Parked*: left alone, for twice as long each time, given up after
  a while.
- **What is stored**: by outcome, in the WARC. Every request has a line in the fetch log, stored or not.

"""
_SLOWS = {Signal.THROTTLE: "slowed", Signal.DEAD: "parked"}


def _names(outcomes: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(outcomes, key=[*Outcome].index))


def _met(row: Behaviour) -> str:
    must, may = OUTCOMES[row.name]
    cause = CAUSES.get(row.name)
    said = _names(must) + (f": `{cause}`" if cause else "")
    return f"{said} ({_names(may)})" if may else said


def _slows(row: Behaviour) -> str:
    """By what its outcomes, or the cause of one, tell of the domain."""
    must, may = OUTCOMES[row.name]
    by: dict[Signal, list[str]] = {}
    for name in sorted({*must, *may, *filter(None, [CAUSES.get(row.name)])}):
        by.setdefault(TABLE[Outcome(name)].signal, []).append(name)
    said = [f"{words} by {_names(by[signal])}" for signal, words in _SLOWS.items() if signal in by]
    if "time" in _cuts(row):
        said.append("slowed by a body that the deadline cut off")
    return "; ".join(said) or "nothing"


def _stored(row: Behaviour) -> str:
    must, may = OUTCOMES[row.name]
    kept = {name for name in must | may if TABLE[Outcome(name)].archive}
    marks = "".join(f", marked `truncated={why}`" for why in sorted(_cuts(row)))
    return _names(kept) + marks if kept else "nothing"


def _cuts(row: Behaviour) -> set[str]:
    return {why for url, why in TRUNCATED.items() if urlsplit(url).hostname == row.name}


def _rows() -> Iterator[str]:
    for topic, rows in GROUPS.items():
        if topic == "Healthy":
            continue
        yield from (f"## {topic}", "")
        yield "| domain | what it does | outcomes | what slows | what is stored |"
        yield "|---|---|---|---|---|"
        for row in rows:
            yield f"| `{row.name}` | {row.does} | {_met(row)} | {_slows(row)} | {_stored(row)} |"
        yield ""


def render() -> str:
    """The whole page."""
    return _TOP + "\n".join(_rows())


def main() -> int:
    PAGE.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
