"""The queue between fetchers and parsers: pointers to pages in the archive, never pages.

A Redis stream with one consumer group. A parser reads under its own name, so what it held when it
died is the first thing it sees again; what another held too long is taken over. A page that ends parsers is
charged with it, alone, and given up at last: it becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec

from node.rules.entry import Entry
from node.rules.priority import LEVELS
from node.store import keys
from node.store.scripts import Verb
from node.store.warc import Position

MAX_WHY = 300
"""Characters kept of the reason why a page was given up."""
HELD_MS = 10**9
"""What is held for whoever comes first counts as not looked at for so long that anybody may take it."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a page lies and what the frontier knows of it."""

    position: Position
    depth: int
    url: str
    sitemap: int = 0
    """As in the ``Entry`` it was visited by."""

    @property
    def entry(self) -> Entry:
        """What the URL is queued as, to be visited again."""
        return Entry(self.url, min(self.depth, LEVELS - 1), self.depth, sitemap=self.sitemap)

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


def look(after: bytes, most: int) -> tuple[Any, ...]:
    """Command: up to ``most`` pages behind that one (``b""``: all), in whosever hands; nobody takes them."""
    return ("XRANGE", keys.SPOOL, b"(" + after if after else b"-", "+", "COUNT", most)


def claim(consumer: str, idle_ms: int, most: int) -> tuple[Any, ...]:
    """Command: take over pages that another consumer has held longer than ``idle_ms``."""
    return ("XAUTOCLAIM", keys.SPOOL, keys.PARSERS, consumer, idle_ms, "0", "COUNT", most)


def _entries(raw: Any) -> list[Page]:
    # an entry deleted meanwhile comes back as None fields
    return [Page(each[0], unpack(each[1][1].decode())) for each in raw or () if each and each[1]]


def pages_read(answer: Any) -> list[Page]:
    """Decode the raw answer of ``read_new`` and ``read_own``."""
    return _entries(answer[0][1]) if answer else []


def pages_seen(answer: Any) -> list[Page]:
    """Decode the raw answer of ``look``."""
    return _entries(answer)


def pages_claimed(answer: Any) -> list[Page]:
    """Decode the raw answer of ``claim``."""
    return _entries(answer[1]) if answer else []


class Fate(IntEnum):
    """What becomes of a page that was charged."""

    GONE = 0
    """No parser has it any more: it was read after all."""
    AGAIN = 1
    """Some other parser is to try it."""
    GIVEN_UP = 2
    """It is with the dead letters."""


def charge(page: bytes, why: str, consumer: str, most: int) -> Verb[Fate]:
    """Charge a page that ``consumer`` had in hand with the end of a parser; at ``most`` it is given up.

    ``why`` may hold what a page said: of it only what can be printed is kept.
    """
    why = "".join(char if char.isprintable() else "\ufffd" for char in why[:MAX_WHY])
    args = (page, why, most, consumer, keys.SUSPECTS, HELD_MS, keys.DEAD_MAX)
    return Verb("charge", args, lambda answer: Fate(answer[0]))


def give_up(page: bytes, why: str) -> Verb[Fate]:
    """Move a page to the dead letters, and off the spool. The ledger counts it as done."""
    return charge(page, why, "", 0)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A page given up by the parsers. ``id`` requeues it; its first part is Unix time in ms."""

    id: bytes
    pointer: Pointer
    why: str

    @property
    def unix_ms(self) -> int:
        """When it was given up."""
        return int(self.id.partition(b"-")[0])


def read_dead(before: bytes, most: int) -> tuple[Any, ...]:
    """Command: up to ``most`` dead letters older than that one (``b""``: all), the newest first."""
    return ("XREVRANGE", keys.DEAD, b"(" + before if before else b"+", "-", "COUNT", most)


def dead_letters(answer: Any) -> list[DeadLetter]:
    """Decode the raw answer of ``read_dead``."""
    return [
        DeadLetter(each[0], unpack(each[1][1].decode()), each[1][3].decode(errors="replace"))
        for each in answer
    ]


def requeue(letters: Iterable[DeadLetter]) -> Verb[int]:
    """Put dead letters back onto the spool; answers how many there were."""
    return Verb("requeue", (msgspec.msgpack.encode([each.id.decode() for each in letters]),), int)
