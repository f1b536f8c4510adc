"""What a parser reads from a page, link by link, with why any was left out.

The page is read by the rules that parsers use, and cut where they cut it. What lies beyond their bounds
is read too, here only, so that it can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from node.errors import InputError
from node.rules import url as urls
from node.rules.admit import Admission
from node.rules.page import Reading
from node.rules.refusal import Refusal
from node.rules.url import Joiner
from node.settings import Settings
from node.work.explain import gates
from node.work.page import reading_by

_ALL_LINKS = 1_000_000

REPEATED = "repeated"
PAGE_CAP = "page_cap"
WORDS = {
    REPEATED: "Leads where an earlier one leads.",
    PAGE_CAP: "Beyond `max_page_bytes` of its page.",
    **{str(each): each.words for each in Refusal},
}
"""What the reasons mean for which a link is left out."""


class Link(msgspec.Struct, frozen=True):
    """A link that is followed. ``position``: its place among all of the page, from 1."""

    position: int
    url: str
    href: str
    """As it stands in the page, entities decoded and without its fragment."""


class LeftOut(msgspec.Struct, frozen=True):
    """A link that is not. ``url``: where it leads; None where that can't be fetched, or wasn't looked at."""

    position: int
    url: str | None
    href: str
    refused: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says. Addresses are canonical, None where there is none."""

    encoding: str
    """By its name in the Encoding Standard, lower case."""
    encoding_source: str
    """``bom``, ``header``, ``meta``, ``detector`` or ``fallback``."""
    base: str
    """What its links are relative to."""
    noindex: bool
    nofollow: bool
    canonical: str | None
    next: str | None
    refresh: str | None
    bytes: int
    bytes_read: int
    """... by a parser, which cuts pages at ``parser.max_page_bytes``."""
    links: list[Link]
    left_out: list[LeftOut]


def list_links(settings: Settings, body: bytes, base: str, content_type: str | None = None) -> Listing:
    """Read a page whose address is ``base``. Raises ``InputError`` where that can't be one."""
    url = urls.canonical(base)
    if isinstance(url, Refusal):
        raise InputError(f"--base {base!r} can't be the address of a page: {url} ({url.words})")

    as_set = reading_by(settings)

    def read(part: bytes, max_links: int) -> Reading:
        return as_set(part, url, content_type=content_type, robots_tags=(), max_links=max_links)

    cut = body[: settings.parser.max_page_bytes]
    reading = read(cut, settings.parser.max_links_per_page)
    targets = reading.targets
    beyond: dict[str, str] = {}
    if reading.extracted.links_cut:
        targets = {**read(cut, _ALL_LINKS).targets, **targets}
        beyond = dict.fromkeys(targets.keys() - reading.targets.keys(), Refusal.LINKS_CAP.value)
    if len(cut) < len(body):
        within = targets
        targets = {**read(body, _ALL_LINKS).targets, **within}
        beyond |= dict.fromkeys(targets.keys() - within.keys(), PAGE_CAP)
    links, left_out = _sorted_out(gates(settings), targets, beyond)
    found = reading.extracted
    join = Joiner(found.base, reading.encoding.name).join
    return Listing(
        encoding=reading.encoding.name,
        encoding_source=reading.encoding.source,
        base=found.base,
        noindex=reading.noindex,
        nofollow=reading.nofollow,
        canonical=_address(join, found.canonical),
        next=_address(join, found.next),
        refresh=_address(join, found.refresh),
        bytes=len(body),
        bytes_read=len(cut),
        links=links,
        left_out=left_out,
    )


def _sorted_out(
    admission: Admission, targets: Mapping[str, str | Refusal], beyond: Mapping[str, str]
) -> tuple[list[Link], list[LeftOut]]:
    """The links that are followed and those that are not. ``beyond``: href -> the bound it lies beyond."""
    links: list[Link] = []
    left_out: list[LeftOut] = []
    followed: set[str] = set()
    for position, (href, target) in enumerate(targets.items(), 1):
        url = None if isinstance(target, Refusal) else target
        verdict = target if url is None else admission.admit(url, -1)
        if href in beyond:
            left_out.append(LeftOut(position, url, href, beyond[href]))
        elif isinstance(verdict, Refusal):
            left_out.append(LeftOut(position, url, href, verdict.value))
        elif target in followed:
            left_out.append(LeftOut(position, url, href, REPEATED))
        else:
            followed.add(target)
            links.append(Link(position, target, href))
    return links, left_out


def _address(join: Callable[[str], str | Refusal], href: str | None) -> str | None:
    url = None if href is None else join(href)
    return None if isinstance(url, Refusal) else url
