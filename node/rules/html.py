"""What a page says: its links as written, what they are relative to, what it asks of robots.

``selectolax`` (lexbor) parses as browsers do, from bytes where it can: that is a third faster than
from text. Nothing is resolved here; ``url.Joiner`` does that. Links are ``a[href]``, ``area[href]`` and
the target of a ``meta`` refresh; ``link rel=canonical`` and ``rel=next`` are reported apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

from node.rules import html_flat
from node.rules.charset import decode
from node.rules.charset_labels import NOT_ASCII
from node.rules.robots_directives import directives
from node.rules.url import document_base
from node.rules.usage import MAX_STATEMENTS, Statement
from node.rules.usage_read import META_NAMES, is_rsl, of_license, of_meta

_WANTED = "a[href],area[href],base[href],meta,link[rel]"
# Lexbor's "events" only mirror a chosen <option> elsewhere; nobody needs that here.
_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)
_LINKS = frozenset({"a", "area"})
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Extracted:
    """What was read from one page. Addresses are raw: as in the attribute, entities decoded."""

    base: str
    """The URL that links are relative to: the page's own, or what its first ``base[href]`` makes of it."""
    links: dict[str, bool] = field(default_factory=dict)
    """Address without fragment -> may it not be followed (``rel=nofollow`` wherever it stands)?
    Each once, in order."""
    links_cut: int = 0
    """Links beyond ``max_links``, repetitions included."""
    refresh: str | None = None
    """Target of the first ``meta`` refresh that has one; it is in ``links``, too."""
    canonical: str | None = None
    next: str | None = None
    noindex: bool = False
    """The page asks not to be kept ..."""
    nofollow: bool = False
    """... or that none of its links be followed."""
    said: list[Statement] = field(default_factory=list)
    """What its ``meta`` and ``link`` elements say about its use; at most ``MAX_STATEMENTS``."""


def extract(body: bytes, url: str, encoding: str, token: str, *, max_links: int = 10_000) -> Extracted:
    """Read a page.

    ``body``: decompressed and cut by the caller. ``url``: the page's canonical URL. ``encoding``: its
    name as ``charset.sniff`` gives it. ``token``: our product token, for ``<meta name=TOKEN>``.
    ``max_links``: how many different addresses are kept. Never raises; ``html_flat`` says what bounds
    time and memory.
    """
    page = _Page(token, max_links)
    if html_flat.is_lopsided(body):
        page.read_flat(decode(body, encoding))
    else:
        if encoding == "utf-8":
            source: bytes | str = body.removeprefix(_BOM)
        elif encoding not in NOT_ASCII and body.isascii():
            source = body
        else:
            source = decode(body, encoding)
        try:
            page.read_tree(source)
        except SelectolaxError:
            # Out of memory, by far the likeliest: the flat reader needs none.
            page = _Page(token, max_links)
            page.read_flat(decode(body, encoding))
    found = page.found
    found.base = document_base(url, page.base_href, encoding)
    return found


class _Page:
    """Collects from tags in document order what ``Extracted`` holds."""

    def __init__(self, token: str, max_links: int) -> None:
        self.found = Extracted("")
        self.base_href: str | None = None
        self._max_links = max_links
        self._robots_names = ("robots", token.lower())

    def read_tree(self, source: bytes | str) -> None:
        """Through lexbor's tree. Raises ``SelectolaxError`` where it can't build one."""
        take = self._tag
        for node in LexborHTMLParser(source, options=_OPTIONS).css(_WANTED):
            take(node.tag, node.attributes)

    def read_flat(self, text: str) -> None:
        """Through the reader that builds no tree."""
        for tag, attributes in html_flat.tags(text):
            self._tag(tag, attributes)

    def _tag(self, tag: str | None, attributes: dict[str, str | None]) -> None:
        if tag in _LINKS:
            # Lexbor's a[href] finds xlink:href of SVG, too, by which browsers follow nothing.
            if "href" in attributes:
                self._link(attributes["href"] or "", attributes.get("rel"))
        elif tag == "meta":
            self._meta(attributes)
        elif tag == "link":
            self._relation((attributes.get("rel") or "").lower().split(), attributes)
        elif self.base_href is None and "href" in attributes:
            self.base_href = attributes["href"] or ""

    def _link(self, href: str, rel: str | None) -> None:
        links = self.found.links
        cut = href.find("#")
        # White space at the end of an address is none of it, before a fragment it is.
        if cut >= 0 and (cut == 0 or href[cut - 1] > " "):
            href = href[:cut]
        nofollow = rel is not None and "nofollow" in rel.lower().split()
        if href not in links:
            if len(links) < self._max_links:
                links[href] = nofollow
            else:
                self.found.links_cut += 1
        elif not nofollow:
            links[href] = False

    def _relation(self, rel: list[str], attributes: dict[str, str | None]) -> None:
        href = attributes.get("href")
        if href and "canonical" in rel and self.found.canonical is None:
            self.found.canonical = href
        if href and "next" in rel and self.found.next is None:
            self.found.next = href
        if href and is_rsl(rel, attributes.get("type") or ""):
            self._say(of_license(href))

    def _say(self, statement: Statement | None) -> None:
        if statement is not None and len(self.found.said) < MAX_STATEMENTS:
            self.found.said.append(statement)

    def _meta(self, attributes: dict[str, str | None]) -> None:
        content = attributes.get("content")
        if not content:
            return
        name = (attributes.get("name") or "").strip().lower()
        if name in self._robots_names:
            noindex, nofollow = directives(content)
            self.found.noindex |= noindex
            self.found.nofollow |= nofollow
            self._say(of_meta(name, content))
        elif name in META_NAMES:
            self._say(of_meta(name, content))
        if (attributes.get("http-equiv") or "").lower() == "refresh":
            target = refresh_target(content)
            if target is not None:
                self._link(target, None)
                self.found.refresh = self.found.refresh or target


_REFRESH = re.compile(
    r"[\t\n\f\r ]*+(?=[0-9.])[0-9.]*+(?=[;,\t\n\f\r ])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+"
    r"(?:url[\t\n\f\r ]*+=[\t\n\f\r ]*+)?(.*)",  # a possessive group is wrong in Python before 3.11.5
    re.IGNORECASE | re.DOTALL,
)


def refresh_target(content: str) -> str | None:
    """Where a ``meta`` refresh leads (HTML Standard, "shared declarative refresh steps"), raw.

    None where it only reloads the page itself, or says nothing.
    """
    match = _REFRESH.match(content)
    if match is None:
        return None
    target: str = match[1]
    if target[:1] in ("'", '"'):
        target = target[1:].partition(target[0])[0]
    return target or None
