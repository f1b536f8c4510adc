"""What sites say about the use of their pages: opt-outs, licences, prices.

Said in robots.txt, in the headers of a response, or in the page itself, in one of these ways:

- **Content-Usage** (draft-ietf-aipref-attach, -vocab): ``train-ai=n, search=y``; in robots.txt maybe after a
  path, as a header without one.
- **Content-Signal** (contentsignals.org): ``search=yes, ai-train=no``; likewise.
- **TDMRep** (W3C community group, 2024): ``tdm-reservation: 1``, and with it maybe ``tdm-policy``.
- **directives**: ``noai``, ``noml``, ``noarchive`` in X-Robots-Tag and meta robots; no standard, but used.
- **RSL** (rslstandard.org): the address of a licence. It is not fetched, so it denies nothing by itself.
- **crawler-price**: what a page costs, with status 402.

``ABOUT`` is the one table of which purpose each word is about. Reading is lenient (case, ``n`` or ``no``),
since what is sloppily written is meant all the same. Where several things are said, a denial wins, as
draft-ietf-aipref-vocab has it (section "Combining Preferences").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import NamedTuple


class Purpose(StrEnum):
    """What a crawl is for."""

    SEARCH = "search"
    """An index that leads people to the pages."""
    INPUT = "input"
    """Handing pages to a model that answers with them (retrieval, grounding)."""
    TRAIN = "train"
    """Training or fine-tuning models."""
    MINE = "mine"
    """Text and data mining: analysis by programs, of whatever kind."""
    ARCHIVE = "archive"
    """Keeping copies for others to read."""


class Kind(StrEnum):
    """In which of the ways it was said; counted under this name."""

    CONTENT_USAGE = "content_usage"
    CONTENT_SIGNAL = "content_signal"
    TDM = "tdm"
    ROBOTS_TAG = "robots_tag"
    LICENSE = "license"
    PRICE = "price"


class Place(StrEnum):
    """Where it was said."""

    ROBOTS = "robots"
    HEADER = "header"
    META = "meta"


class Statement(NamedTuple):
    """One thing said about a page. ``text``: as written, its name before it, at most ``MAX_CHARS``."""

    place: Place
    kind: Kind
    text: str
    denies: frozenset[Purpose] = frozenset()

    @property
    def name(self) -> str:
        """What it is counted under: one of places × kinds."""
        return f"{self.place}:{self.kind}"


Said = tuple[Statement, ...]

MAX_CHARS = 256
MAX_STATEMENTS = 16
"""Of one place, about one page; where there are more, those that deny something come first."""

_EVERYTHING = frozenset(Purpose)
_TRAIN = frozenset({Purpose.TRAIN})
_INPUT = frozenset({Purpose.INPUT})
NOTHING: frozenset[Purpose] = frozenset()

ABOUT: dict[str, frozenset[Purpose]] = {
    # Content-Usage: the working group's draft, and the words of its earlier ones
    "search": frozenset({Purpose.SEARCH}),
    "train-ai": _TRAIN,
    "train-genai": _TRAIN,
    "ai-output": _INPUT,
    "bots": _EVERYTHING,
    # Content-Signal
    "ai-train": _TRAIN,
    "ai-input": _INPUT,
    # TDMRep. Training is mining by the letter of the directive behind it (EU 2019/790), and so is retrieval.
    "tdm-reservation": frozenset({Purpose.MINE, Purpose.TRAIN, Purpose.INPUT}),
    # directives
    "noai": _TRAIN | _INPUT,
    "noml": _TRAIN,
    "noarchive": frozenset({Purpose.ARCHIVE}),
    # about pictures only
    "noimageai": NOTHING,
}
"""Word -> the purposes it is about. (For directives: which they deny.)"""

DIRECTIVES = frozenset({"noai", "noml", "noarchive", "noimageai"})

_NO = frozenset({"n", "no"})
_WORD = re.compile(r"[a-z*][a-z0-9_.*-]*")


def denied_in(preferences: str) -> frozenset[Purpose]:
    """The purposes that ``word=n, word=y`` denies; words nobody knows say nothing, of equal ones the last."""
    found: dict[str, bool] = {}
    for member in preferences.split(","):
        word, equals, value = member.strip().lower().partition("=")
        if equals and _WORD.fullmatch(word := word.strip()):
            found[word] = value.partition(";")[0].strip() in _NO
    return frozenset().union(*(ABOUT.get(word, NOTHING) for word, no in found.items() if no))


def denial(said: Iterable[Statement], purposes: Collection[Purpose]) -> Statement | None:
    """The first thing said that denies one of our ``purposes``; None where nothing does."""
    for statement in said:
        if not statement.denies.isdisjoint(purposes):
            return statement
    return None


def price(said: Said) -> str:
    """What the page costs, as written (``USD 0.01``); empty where nothing is said of it."""
    for statement in said:
        if statement.kind is Kind.PRICE:
            return statement.text.partition(": ")[2]
    return ""


def say(place: Place, kind: Kind, text: str, denies: frozenset[Purpose] = NOTHING) -> Statement:
    """A statement of bounded, printable text."""
    text = text[:MAX_CHARS]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return Statement(place, kind, text, denies)


def bounded(statements: list[Statement]) -> Said:
    """At most ``MAX_STATEMENTS`` of them; what denies something is not lost."""
    if len(statements) > MAX_STATEMENTS:
        statements.sort(key=lambda statement: not statement.denies)
    return tuple(statements[:MAX_STATEMENTS])
