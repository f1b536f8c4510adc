"""Answers requests for the ordinary domains, from a bounded cache."""

from __future__ import annotations

from collections import OrderedDict

from tests.web.behaviours.documents import pdf
from tests.web.graph import Kind, Place, find, robots_txt
from tests.web.pages import compress, html, render, small_page
from tests.web.shape import Shape, generator, traits
from tests.web.wire import HTML, Exchange

_CACHE_BYTES = 64_000_000


class OrdinaryWeb:
    """The ordinary domains of one shape."""

    def __init__(self, shape: Shape, cache_bytes: int = _CACHE_BYTES) -> None:
        self.shape = shape
        self._cache: OrderedDict[tuple[Place, bool], bytes] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._cached_bytes = 0
        html("Warm", (), 1, generator("warm"))  # makes the pool of fragments, so that no request waits for it

    def _body(self, place: Place, compressed: bool) -> bytes:
        """A page's HTML, gzipped or not, made at most once while it stays in the cache."""
        key = (place, compressed)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        body = render(self.shape, place)
        self._cache[key] = body = compress(body) if compressed else body
        self._cached_bytes += len(body)
        while self._cached_bytes > self._cache_bytes and len(self._cache) > 1:
            self._cached_bytes -= len(self._cache.popitem(last=False)[1])
        return body

    async def answer(self, x: Exchange, place: Place) -> None:
        """Answer with what ``find`` found."""
        here = traits(self.shape, place.index)
        match place.kind:
            case Kind.PAGE | Kind.OPEN | Kind.DENIED:
                coded = here.gzip and x.request.accepts("gzip")
                if here.gzip:
                    x.header("Vary", "Accept-Encoding")
                body = self._body(place, coded)
                await x.answer(200, body, kind=HTML, chunked=here.chunked, coding="gzip" if coded else None)
            case Kind.ROBOTS:
                await x.answer(200, robots_txt(self.shape, x.request.host).encode(), kind="text/plain")
            case Kind.REDIRECT:
                await x.redirect(place.location, 301)
            case Kind.FILE:
                await x.answer(200, pdf(x.request.target), kind="application/pdf")
            case Kind.MISSING:
                await x.answer_compressed(404, small_page("Page not found", ("/",)))

    def find(self, x: Exchange) -> Place | None:
        """What is at the exchange's address; None where no ordinary host has it."""
        return find(self.shape, x.request.scheme, x.request.host, x.request.target)
