"""Reads what sites say about the use of their pages: in robots.txt, headers, pages. The words: ``usage``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from node.rules import html_flat
from node.rules.headers import Headers
from node.rules.robots_directives import words_for, words_in
from node.rules.robots_match import Matcher, spell_rule
from node.rules.usage import (
    ABOUT,
    DIRECTIVES,
    NOTHING,
    Kind,
    Place,
    Purpose,
    Said,
    Statement,
    bounded,
    denied_in,
    say,
)

META_NAMES = frozenset({"tdm-reservation", "tdm-policy"})
RSL_TYPE = "application/rsl+xml"
LOOK_BYTES = 32_768
"""Of a decoded page, where ``in_page`` looks for its head."""

_MAX_REMEMBERED = 512
"""Sites say the same with every page: a thousand values, up to this long, are read once and remembered."""
_KINDS = {"content-usage": Kind.CONTENT_USAGE, "content-signal": Kind.CONTENT_SIGNAL, "license": Kind.LICENSE}
_HEADERS: dict[bytes, tuple[str, Kind]] = {
    b"content-usage": ("Content-Usage", Kind.CONTENT_USAGE),
    b"content-signal": ("Content-Signal", Kind.CONTENT_SIGNAL),
    b"tdm-reservation": ("TDM-Reservation", Kind.TDM),
    b"tdm-policy": ("TDM-Policy", Kind.TDM),
    b"x-robots-tag": ("X-Robots-Tag", Kind.ROBOTS_TAG),
    b"link": ("Link", Kind.LICENSE),
    b"crawler-price": ("Crawler-Price", Kind.PRICE),
}
_LENGTHS = frozenset(map(len, _HEADERS))
_LINK = re.compile(r"<([^<>]*)>([^<>]*)")
_PARAMETER = re.compile(r""";\s*(rel|type)\s*=\s*(?:"([^"]*)"|([^\s;,"]+))""", re.IGNORECASE)
_WORTH_A_LOOK = (b"tdm-reservation", b"noai", b"noml", b"noarchive")


# -- robots.txt


class InRobots:
    """What one robots.txt says to us about the use of its origin's pages.

    ``lines``: ``Name: value`` of its Content-Usage, Content-Signal and License lines. Of those that begin
    with a path the longest that fits counts, for each name; those without one are the shortest.
    """

    __slots__ = ("_everywhere", "_somewhere")

    def __init__(self, lines: Iterable[str]) -> None:
        general: dict[Kind, list[Statement]] = {}
        by_rule: dict[tuple[Kind, str], list[Statement]] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            kind = _KINDS.get(name.lower())
            if kind is None:
                continue
            path, preferences = _path_of(value) if kind is not Kind.LICENSE else ("", "")
            statement = say(Place.ROBOTS, kind, line, denied_in(preferences))
            if path:
                rule = spell_rule(path.encode("utf-8", "surrogatepass"))
                by_rule.setdefault((kind, rule), []).append(statement)
            else:
                general.setdefault(kind, []).append(statement)
        self._everywhere = bounded([each for said in general.values() for each in said])
        longest_first = sorted(by_rule.items(), key=lambda item: -len(item[0][1]))
        self._somewhere = [
            (kind, Matcher((f"-{rule}",)), tuple(said)) for (kind, rule), said in longest_first
        ]

    def about(self, path_and_query: str) -> Said:
        """What holds for one page."""
        if not self._somewhere:
            return self._everywhere
        found: dict[Kind, Said] = {}
        for kind, matcher, said in self._somewhere:
            if kind not in found and not matcher.allows(path_and_query):
                found[kind] = said
        general = (statement for statement in self._everywhere if statement.kind not in found)
        return bounded([*(each for said in found.values() for each in said), *general])


def _path_of(value: str) -> tuple[str, str]:
    """The path that a value begins with, if any, and the rest."""
    if not value.startswith("/"):
        return "", value
    path, *rest = value.split(None, 1)
    return path, rest[0] if rest else ""


# -- headers


def in_headers(headers: Headers, token: str) -> Said:
    """What the headers of a response say. ``token``: our product token. About a microsecond."""
    found: list[Statement] = []
    for name, value in headers:
        if len(name) in _LENGTHS:
            meant = _HEADERS.get(name.lower())
            if meant is not None:
                read = _in_header if len(value) <= _MAX_REMEMBERED else _in_header.__wrapped__
                statement = read(*meant, value.decode("latin-1").strip(), token)
                if statement is not None:
                    found.append(statement)
    return bounded(found) if found else ()


@lru_cache(maxsize=1_024)
def _in_header(name: str, kind: Kind, value: str, token: str) -> Statement | None:
    denies = NOTHING
    if kind is Kind.LICENSE:
        address = _rsl_in(value)
        if address is None:
            return None
        value = address
        name = "License"
    elif kind is Kind.ROBOTS_TAG:
        words = words_for(value, token) & DIRECTIVES
        if not words:
            return None
        denies = _denied_by(words)
    elif kind is Kind.TDM:
        denies = _reserved(name, value)
    elif kind is not Kind.PRICE:
        denies = denied_in(value)
    return say(Place.HEADER, kind, f"{name}: {value}", denies)


def _rsl_in(link: str) -> str | None:
    """The address of an RSL licence in the value of a Link header (RFC 8288), if there is one."""
    if RSL_TYPE not in link.lower():
        return None
    for target, rest in _LINK.findall(link[:8_192]):
        parameters = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(rest)}
        if is_rsl(parameters.get("rel", "").lower().split(), parameters.get("type", "")):
            return str(target)
    return None


# -- pages


def is_rsl(rel: Collection[str], media_type: str) -> bool:
    """Does a link with this ``rel`` and ``type`` lead to an RSL licence?"""
    return "license" in rel and media_type.partition(";")[0].strip().lower() == RSL_TYPE


def of_meta(name: str, content: str) -> Statement | None:
    """What a ``meta`` says. ``name``: in lower case, one of ``META_NAMES``, ``robots`` or our own."""
    if name in META_NAMES:
        label = "TDM-Reservation" if name == "tdm-reservation" else "TDM-Policy"
        value = content.strip()
        return say(Place.META, Kind.TDM, f"{label}: {value}", _reserved(label, value))
    words = words_in(content) & DIRECTIVES
    if not words:
        return None
    return say(Place.META, Kind.ROBOTS_TAG, f"{name}: {content}", _denied_by(words))


def of_license(href: str) -> Statement:
    """What a ``link`` to an RSL licence says."""
    return say(Place.META, Kind.LICENSE, f"License: {href}")


def in_page(start: bytes, token: str) -> Said:
    """What the metas in the head of a page say that could deny anything; ``start``: of its decoded body.

    For those who must know it before the page is parsed. A page without any costs a search for its words.
    """
    folded = start.lower()
    end = folded.find(b"<body")
    head = folded if end < 0 else folded[:end]
    if not any(word in head for word in _WORTH_A_LOOK):
        return ()
    names = (*META_NAMES, "robots", token.lower())
    return bounded(list(_metas(start[: len(head)].decode("latin-1"), names)))


def _metas(text: str, names: Collection[str]) -> Iterator[Statement]:
    for tag, attributes in html_flat.tags(text):
        name, content = (attributes.get("name") or "").strip().lower(), attributes.get("content")
        if tag == "meta" and content and name in names:
            statement = of_meta(name, content)
            if statement is not None:
                yield statement


def _denied_by(directives: Iterable[str]) -> frozenset[Purpose]:
    return frozenset().union(*(ABOUT[word] for word in directives))


def _reserved(name: str, value: str) -> frozenset[Purpose]:
    return ABOUT["tdm-reservation"] if name == "TDM-Reservation" and value == "1" else NOTHING
