"""The queue between fetchers and parsers: pointers to pages in the archive, never pages.

A Redis stream with one consumer group. A parser reads under its own name, so what it held when it
died is the first thing it sees again; what another held too long is taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from node.store import keys
from node.store.warc import Position


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a page lies and what the frontier knows of it."""

    position: Position
    depth: int
    url: str
    sitemap: int = 0
    """As in the ``Entry`` it was visited by."""

    def pack(self) -> str:
        at = self.position
        kind = f".{self.sitemap}" if self.sitemap else ""
        return f"{at.file} {at.offset} {at.length} {self.depth}{kind} {self.url}"


def unpack(text: str) -> Pointer:
    file, offset, length, depth, url = text.split(" ", 4)
    depth, _dot, kind = depth.partition(".")
    return Pointer(Position(file, int(offset), int(length)), int(depth), url, int(kind or 0))


@dataclass(frozen=True, slots=True)
class Page:
    """A spool entry in a parser's hands; ``id`` acknowledges it."""

    id: bytes
    pointer: Pointer


def read_new(consumer: str, most: int, block_ms: int) -> tuple[Any, ...]:
    """Command: up to ``most`` pages nobody has, waiting up to ``block_ms``."""
    return (
        *("XREADGROUP", "GROUP", keys.PARSERS, consumer, "COUNT", most),
        *("BLOCK", block_ms, "STREAMS", keys.SPOOL, ">"),
    )


def read_own(consumer: str, most: int, after: bytes = b"0") -> tuple[Any, ...]:
    """Command: pages this consumer was given earlier and has not acknowledged."""
    return ("XREADGROUP", "GROUP", keys.PARSERS, consumer, "COUNT", most, "STREAMS", keys.SPOOL, after)


def claim(consumer: str, idle_ms: int, most: int) -> tuple[Any, ...]:
    """Command: take over pages that another consumer has held longer than ``idle_ms``."""
    return ("XAUTOCLAIM", keys.SPOOL, keys.PARSERS, consumer, idle_ms, "0", "COUNT", most)


def deliveries(consumer: str, ids: Sequence[bytes]) -> tuple[Any, ...]:
    """Command: how often pages between the first and last of ``ids`` were given out."""
    return ("XPENDING", keys.SPOOL, keys.PARSERS, ids[0], ids[-1], len(ids), consumer)


def _entries(raw: Any) -> list[Page]:
    # an entry deleted meanwhile comes back as None fields
    return [Page(each[0], unpack(each[1][1].decode())) for each in raw or () if each and each[1]]


def pages_read(answer: Any) -> list[Page]:
    """Decode the raw answer of ``read_new`` and ``read_own``."""
    return _entries(answer[0][1]) if answer else []


def pages_claimed(answer: Any) -> list[Page]:
    """Decode the raw answer of ``claim``."""
    return _entries(answer[1]) if answer else []


def bury(page: Page, reason: str) -> list[tuple[Any, ...]]:
    """Commands: move a page to the dead letters with a reason. The ledger counts it as done."""
    return [("XADD", keys.DEAD, "MAXLEN", "~", keys.DEAD_MAX, "*", "p", page.pointer.pack(), "why", reason)]
