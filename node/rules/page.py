"""A page, from its bytes to what it says and where its links lead.

A parser does this with every page it is given, and ``milliarde links`` with the one it is asked about.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from node.rules import charset, html
from node.rules.charset import Encoding
from node.rules.html import Extracted
from node.rules.refusal import Refusal
from node.rules.robots_directives import robots_header
from node.rules.url import Joiner


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of one page."""

    encoding: Encoding
    extracted: Extracted
    noindex: bool
    """The page asks not to be kept, in a ``meta`` or by its header ..."""
    nofollow: bool
    """... or that none of its links be followed: then each of them is refused for that."""
    targets: dict[str, str | Refusal]
    """Link -> the canonical URL it leads to, or why it is not followed; as they stand in the page."""


def read(
    body: bytes,
    url: str,
    *,
    content_type: str | None,
    robots_tags: Sequence[str],
    token: str,
    max_links: int,
    follow: Collection[str] = (),
) -> Reading:
    """Read a page. Never raises.

    ``body``: decompressed and cut by the caller. ``url``: its canonical URL. ``content_type``,
    ``robots_tags``: the values of Content-Type and of all X-Robots-Tag. ``token``: our product token.
    ``max_links``: how many different links are taken. ``follow``: which relations of ``link`` elements are
    links, too (``canonical``, ``next``).
    """
    encoding = charset.sniff(body, content_type)
    found = html.extract(body, url, encoding.name, token, max_links=max_links)
    noindex, nofollow = robots_header(robots_tags, token) if robots_tags else (False, False)
    noindex |= found.noindex
    nofollow |= found.nofollow
    links = found.links
    if follow:
        relations = {"canonical": found.canonical, "next": found.next}
        links = links | {href: False for name in follow if (href := relations[name]) is not None}
    if nofollow:
        targets: dict[str, str | Refusal] = dict.fromkeys(links, Refusal.NOFOLLOW)
    else:
        join = Joiner(found.base, encoding.name).join
        targets = {href: Refusal.NOFOLLOW if not_this else join(href) for href, not_this in links.items()}
    return Reading(encoding, found, noindex, nofollow, targets)
