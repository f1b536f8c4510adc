"""``noindex`` and ``nofollow``: what a page asks of robots, in a ``meta`` or in ``X-Robots-Tag``.

The rules are those that search engines publish: general and our own directives add up, the stricter
wins, ``none`` is both, all else (``max-snippet``, ``unavailable_after``, ...) is not about crawling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_SEPARATOR = re.compile(r"[\s,;]+")
_WITH_VALUE = re.compile(r"(?<![a-z_-])[a-z_-]++\s*+:\s*+[^\s,;]*+")
_NAMED = re.compile(r"\s*+([a-z][a-z0-9_-]*+)\s*+:(.*)", re.DOTALL)
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""These take a value after a colon, so the word before it is no robot's name."""


def directives(content: str) -> tuple[bool, bool]:
    """(noindex, nofollow) of a list of directives, as in ``<meta name=robots content="...">``."""
    words = words_in(content)
    none = "none" in words
    return none or "noindex" in words, none or "nofollow" in words


def words_in(content: str) -> frozenset[str]:
    """All directives of such a list that have no value, in lower case."""
    return frozenset(_SEPARATOR.split(_WITH_VALUE.sub(" ", content.lower())))


def robots_header(values: Iterable[str], token: str) -> tuple[bool, bool]:
    """(noindex, nofollow) of all ``X-Robots-Tag`` headers of a response, for the product token ``token``."""
    noindex = nofollow = False
    for value in values:
        for part in _for_us(value, token):
            no_index, no_follow = directives(part)
            noindex |= no_index
            nofollow |= no_follow
    return noindex, nofollow


def words_for(value: str, token: str) -> frozenset[str]:
    """All directives without a value in one ``X-Robots-Tag`` header that are for ``token`` or for all."""
    return frozenset().union(*(words_in(part) for part in _for_us(value, token)))


def _for_us(value: str, token: str) -> Iterator[str]:
    """A directive after ``name:`` is for that robot, and so are those after it in the same header."""
    for_us = True
    for part in value.lower().split(","):
        directive = part
        named = _NAMED.match(part)
        if named is not None and named[1] not in _VALUED:
            for_us = named[1] in ("robots", token.lower())
            directive = named[2]
        if for_us:
            yield directive
