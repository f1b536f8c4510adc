"""Does a robots.txt rule match a path? (RFC 9309 sections 2.2.2 and 2.2.3)

A rule is kept as text in one spelling (``spell_rule``) and compiled the first time it is asked.
``*`` stands for any characters, ``$`` at the end for the end of the URL; all else is literal.
No regular expressions: each part between two stars is looked for once, left to right, which finds
a match where there is one and can't go back over its steps, whatever a stranger wrote.

One path has many spellings (``~`` and ``%7E``, ``ö`` and ``%C3%B6``, ``*`` and ``%2A``), so rule and
URL are brought to a common one. They differ by side where reading the RFC strictly or
leniently matters: a **Disallow** holds for every spelling of its path; an **Allow** does not reach
the letters and digits that somebody encoded (``%62`` for ``b``) or left raw (``ツ``), since Google's
published expectations say so and the doubt is settled by not fetching.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

_NOT_PLAIN = re.compile(rb"[^A-Za-z0-9\-._~:/?@!$&()*+,;=]")
_ESCAPE_RULE = re.compile(rb"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~:/?#@!$&()*+,;=%]")
_ESCAPE_URL = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~:/?#@!&()+,;=%\x80-\U0010ffff]")
_ODD_URL = re.compile(r"[^A-Za-z0-9\-._~:/?#@!&()+,;=]")
_ESCAPED_MARK = re.compile(r"%(?:2D|2E|5F|7E)")
_ESCAPED_WORD = re.compile(r"%(?:3[0-9]|[46][1-9A-F]|[57][0-9A])")
_SPECIAL = re.compile(r"[*$%]")
_INDEX_PAGE = re.compile(r"/index\.html?\$?\Z")


def spell_rule(value: bytes) -> str:
    """The value of an ``Allow`` or ``Disallow`` line as ASCII text, one spelling for equal rules.

    Octets that no URL carries raw are percent-encoded, hexadecimal digits are upper case. ``*`` and
    ``$`` stay special, ``%2A`` and ``%24`` stay literal.
    """
    if _NOT_PLAIN.search(value) is None:
        return value.decode("ascii")
    return _ESCAPE_RULE.sub(_escape_octet, value).decode("ascii")


def _escape_octet(match: re.Match[bytes]) -> bytes:
    found = match[0]
    return found.upper() if len(found) == 3 else b"%%%02X" % found[0]


def _escape_char(match: re.Match[str]) -> str:
    found = match[0]
    return found.upper() if len(found) == 3 else f"%{ord(found):02X}"


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[0][1:], 16))


def _spell_url(path: str) -> tuple[str, str]:
    """A URL's path and query as an Allow and as a Disallow sees it."""
    strict = _ESCAPED_MARK.sub(_unescape, _ESCAPE_URL.sub(_escape_char, path))
    lenient = _ESCAPED_WORD.sub(_unescape, strict)
    if not lenient.isascii():
        octets = lenient.encode("utf-8", "surrogatepass")
        lenient = "".join(chr(o) if o < 0x80 else f"%{o:02X}" for o in octets)
    return strict, lenient


class _Glob(NamedTuple):
    """One compiled rule. ``weight`` is the octets of its text as in the file: the heaviest wins."""

    weight: int
    head: str
    """What the path must start with."""
    parts: tuple[str, ...]
    """What must follow, in this order, after each star."""
    tail: str | None
    """What the path must end with, after the last star; None where the end is open."""
    exact: bool
    """No star and an end: the path must be ``head`` itself."""

    def matches(self, path: str) -> bool:
        if self.exact:
            return path == self.head
        if not path.startswith(self.head):
            return False
        position = len(self.head)
        for part in self.parts:
            found = path.find(part, position)
            if found < 0:
                return False
            position = found + len(part)
        return self.tail is None or (len(path) - position >= len(self.tail) and path.endswith(self.tail))


def _compile(text: str, *, lenient: bool) -> _Glob:
    weight = len(text)
    if "%" in text:
        text = _ESCAPED_MARK.sub(_unescape, text)
        if lenient:
            text = _ESCAPED_WORD.sub(_unescape, text)
    ends = text.endswith("$")
    if ends:
        text = text[:-1]
    if "$" in text:
        text = text.replace("$", "%24")  # A dollar elsewhere is an ordinary character.
    head, *parts = text.split("*")
    if not parts:
        return _Glob(weight, head, (), None, ends)
    tail = parts.pop() if ends else None
    return _Glob(weight, head, tuple(filter(None, parts)), tail, False)


class _Side:
    """All Allow rules, or all Disallow rules, sorted by how they are looked up.

    Plain prefixes are most of what sites write, then ``/*word``; both are asked in C.
    """

    __slots__ = ("_anywhere", "_globs", "_others", "_prefixes", "_sizes", "_weights")

    def __init__(self, texts: Iterable[str], *, lenient: bool) -> None:
        self._weights: dict[str, int] = {}
        starred: list[_Glob] = []
        anywhere: list[str] = []
        others: list[_Glob] = []
        for text in texts:
            head, weight = text, len(text)
            if _SPECIAL.search(text) is not None:
                glob = _compile(text, lenient=lenient)
                if glob.parts or glob.exact or glob.tail is not None:
                    starred.append(glob)
                    if glob.head == "/" and len(glob.parts) == 1 and glob.tail is None:
                        anywhere.append(glob.parts[0])
                    else:
                        others.append(glob)
                    continue
                head, weight = glob.head, glob.weight
            self._weights[head] = max(weight, self._weights.get(head, 0))
        self._prefixes = tuple(self._weights)
        self._sizes = tuple(sorted({len(prefix) for prefix in self._prefixes}))
        self._anywhere = tuple(anywhere)
        self._others = tuple(others)
        self._globs = tuple(sorted(starred, key=attrgetter("weight"), reverse=True))

    def matches(self, path: str) -> bool:
        """Does any rule match?"""
        if path.startswith(self._prefixes):
            return True
        if self._anywhere:
            rest = path[1:]
            for word in self._anywhere:
                if word in rest:
                    return True
        for glob in self._others:  # noqa: SIM110 (a generator costs more than most look-ups)
            if glob.matches(path):
                return True
        return False

    def weight(self, path: str) -> int:
        """The weight of the heaviest rule that matches, 0 where none does."""
        heaviest = 0
        if path.startswith(self._prefixes):
            heaviest = max(self._weights.get(path[:size], 0) for size in self._sizes)
        for glob in self._globs:
            if glob.weight <= heaviest:
                break
            if glob.matches(path):
                return glob.weight
        return heaviest


def _allowed_by(text: str) -> Iterable[str]:
    """An Allow, and what goes with it: a directory is its index page, so who allows one allows both."""
    index = _INDEX_PAGE.search(text)
    return (text,) if index is None else (text, text[: index.start() + 1] + "$")


def _spellings(path: str) -> tuple[str, str]:
    """A path (empty is ``/``) as an Allow and as a Disallow sees it."""
    return (path or "/",) * 2 if _ODD_URL.search(path) is None else _spell_url(path)


class Matcher:
    """The compiled rules of one origin. Built once, asked often; ``allows`` is the whole of it."""

    __slots__ = ("_allow", "_deny")

    def __init__(self, rules: Iterable[str]) -> None:
        """``rules``: each ``+`` (allow) or ``-`` (disallow) and the rule's text from ``spell_rule``."""
        allow: list[str] = []
        deny: list[str] = []
        for rule in rules:
            if rule[0] == "-":
                deny.append(rule[1:])
            else:
                allow += _allowed_by(rule[1:])
        self._allow = _Side(allow, lenient=False) if allow else None
        self._deny = _Side(deny, lenient=True)

    def allows(self, path: str) -> bool:
        """May ``path`` (with its query, without fragment) be fetched? An empty path is ``/``."""
        strict, lenient = _spellings(path)
        if not self._deny.matches(lenient):
            return True
        return self._allow is not None and self._allow.weight(strict) >= self._deny.weight(lenient)


def deciding(rules: Iterable[str], path: str) -> str | None:
    """The rule by which ``Matcher(rules)`` allows or denies ``path``; None where none is about it.

    For people who ask why: it takes as long as compiling all of them.
    """
    strict, lenient = _spellings(path)
    heaviest, decides = 0, None
    for rule in rules:
        allows = rule[0] == "+"
        if allows:
            weight = _Side(_allowed_by(rule[1:]), lenient=False).weight(strict)
        else:
            weight = _Side((rule[1:],), lenient=True).weight(lenient)
        if weight > heaviest or (weight == heaviest > 0 and allows):
            heaviest, decides = weight, rule
    return decides
