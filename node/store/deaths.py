"""Which processes of a node died of late, and which of them die again and again: told by who starts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from node.store import keys

LOOP: Final = 3
"""So many deaths in a row, each soon after a start, are a crash loop."""
MAX_WHY: Final = 300


class Deaths(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, since its crawl was started (field of the hash ``deaths``)."""

    count: int
    in_a_row: int = 0
    """How many of the last came soon after a start; 0 once it lives longer."""
    again_ms: int = 0
    """When it is or was started again, by the crawl's clock; 0 where that is not known."""
    why: str = ""
    """How it died last."""
    given_up: bool = False
    """It is not started again by itself."""

    @property
    def loops(self) -> bool:
        return self.in_a_row >= LOOP or self.given_up


def note(process: str, deaths: Deaths) -> tuple[str, str, str, bytes]:
    """Command: tell of a process (``fetcher.1``)."""
    why = "".join(char if char.isprintable() else "\ufffd" for char in deaths.why[:MAX_WHY])
    return "HSET", keys.DEATHS, process, msgspec.json.encode(msgspec.structs.replace(deaths, why=why))


def decode(fields: Mapping[str, bytes]) -> dict[str, Deaths]:
    """Of the hash ``deaths``."""
    return {name: msgspec.json.decode(value, type=Deaths) for name, value in sorted(fields.items())}


def words(deaths: Mapping[str, Deaths], now_ms: int) -> Iterator[str]:
    """A line for each process that died, the crash loops first. ``now_ms``: of the crawl's clock."""
    for name, each in sorted(deaths.items(), key=lambda item: (not item[1].loops, item[0])):
        who = name.replace(".", " ")
        why = f" ({each.why})" if each.why else ""
        wait_s = (each.again_ms - now_ms) / 1000
        if each.given_up:
            yield f"{who} has ended and is not started again{why}"
        elif each.loops:
            again = f", again in {wait_s:.0f} s" if wait_s > 0.5 else ""
            yield f"{who} dies as soon as it has started, {each.in_a_row} times in a row{again}{why}"
        else:
            yield f"{who} died, {each.count} {'time' if each.count == 1 else 'times'}{why}"
