"""What a polite and complete crawl of the ordinary web must find, worked out without any HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.web.graph import Kind, find, links
from tests.web.shape import Shape, domain_index, domain_name


@dataclass(slots=True)
class Expected:
    """Disjoint sets of URLs, each without fragment, as a crawler must know them."""

    pages: set[str] = field(default_factory=set)
    """Answered 200 with HTML: to be stored, each once."""
    missing: set[str] = field(default_factory=set)
    """Answered 404: to be recorded."""
    files: set[str] = field(default_factory=set)
    """Answered 200 with a PDF: requested, not stored as pages."""
    denied: set[str] = field(default_factory=set)
    """Linked, and denied by robots.txt: never to be requested."""
    redirects: dict[str, str] = field(default_factory=dict)
    """Answered 301 or 302, with the target."""
    outside: set[str] = field(default_factory=set)
    """Linked, but out of scope: never to be requested."""

    @property
    def requested(self) -> set[str]:
        """Every URL that a complete crawl asks for, robots.txt aside."""
        return self.pages | self.missing | self.files | self.redirects.keys()


def reachable(shape: Shape, seeds: Iterable[str], scope: Collection[str] | None = None) -> Expected:
    """Walk the graph from ``seeds`` (bare domains or URLs) as a polite crawler does.

    ``scope`` holds the registrable domains that may be crawled; None means all ordinary ones.
    Redirects are followed and denied pages are not entered. All links of a page lie in its first
    200 KB, so a crawler that cuts pages later than that finds the same.
    """
    expected = Expected()
    queue = deque(seed if "://" in seed else f"https://{seed}/" for seed in seeds)
    known = set(queue)
    while queue:
        url = queue.popleft()
        for found in _step(shape, url, scope, expected):
            if found not in known:
                known.add(found)
                queue.append(found)
    return expected


def _step(shape: Shape, url: str, scope: Collection[str] | None, expected: Expected) -> list[str]:
    """Sort one URL into its set, and say where it leads."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    index = domain_index(shape, host)
    place = find(shape, parts.scheme, host, target)
    if place is None or index is None or (scope is not None and domain_name(index) not in scope):
        expected.outside.add(url)
        return []
    if place.kind is Kind.REDIRECT and _denied_anyway(shape, place.location):
        # robots.txt is asked for through the same redirect, so its rules hold for this origin as well.
        expected.denied.add(url)
        return []
    match place.kind:
        case Kind.PAGE | Kind.OPEN:
            expected.pages.add(url)
            return [link.url for link in links(shape, place)]
        case Kind.REDIRECT:
            expected.redirects[url] = place.location
            return [place.location]
        case Kind.DENIED:
            expected.denied.add(url)
        case Kind.FILE:
            expected.files.add(url)
        case _:
            expected.missing.add(url)
    return []


def _denied_anyway(shape: Shape, url: str) -> bool:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    place = find(shape, parts.scheme, parts.hostname or "", target)
    if place is not None and place.kind is Kind.REDIRECT and place.location != url:
        return _denied_anyway(shape, place.location)
    return place is not None and place.kind is Kind.DENIED
