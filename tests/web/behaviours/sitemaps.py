"""A site most of whose pages only its sitemaps name."""

from __future__ import annotations

import gzip
from collections.abc import Callable

from tests.web.behaviours.robots import TEXT
from tests.web.pages import small_page
from tests.web.wire import Exchange

SITE = "https://sitemaps.test"
ROBOTS = (
    f"Sitemap: {SITE}/index.xml\n\nUser-agent: *\nDisallow: /private/\nDisallow: /denied.xml\n\n"
    f"Sitemap: {SITE}/denied.xml\n"
)
XML = "application/xml"
INDEXED = (
    "/pages.xml.gz",
    "/list.txt",
    "/cut.xml",
    "/utf16.xml",
    "/moved.xml",
    "/missing.xml",
    "/nested.xml",
)
"""What /index.xml names."""
PAGES = (
    *("/by-name/1", "/gz/1", "/gz/2", "/text/1", "/text/2", "/cut/1", "/cut/2", "/cut/3", "/utf16/1"),
    *("/moved/1", "/nested/1"),
)
"""What can be found in no other way; each links to nothing."""
HIDDEN = ("/denied/1", "/too-deep/1", "/torn")
"""What must not be found: in a denied sitemap, beyond an index in an index, in a torn address."""


def _urlset(*paths: str) -> str:
    items = "".join(f"<url><loc>{SITE}{path}</loc><lastmod>2026-01-01</lastmod></url>\n" for path in paths)
    return (
        '<?xml version="1.0"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        + items
        + "</urlset>\n"
    )


def _index(*paths: str) -> str:
    items = "".join(f"<s:sitemap><s:loc>{SITE}{path}</s:loc></s:sitemap>\n" for path in paths)
    return (
        '<s:sitemapindex xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        + items
        + "</s:sitemapindex>\n"
    )


def _gz() -> bytes:
    return gzip.compress(_urlset("/gz/1", "/private/1", "/gz/2", "/linked").encode(), mtime=0)


def _cut() -> bytes:
    whole = _urlset("/cut/1", "/cut/2", "/cut/3", "/torn-in-the-middle-of-it")
    return whole[: whole.index("/torn") + 5].encode()


_FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "/index.xml": (XML, lambda: _index(*INDEXED).encode()),
    "/denied.xml": (XML, lambda: _urlset("/denied/1").encode()),
    "/sitemap.xml": ("text/xml; charset=utf-8", lambda: _urlset("/by-name/1", "/linked").encode()),
    "/pages.xml.gz": ("application/x-gzip", _gz),
    "/list.txt": (TEXT, lambda: f"{SITE}/text/1\r\nabout us\r\n{SITE}/text/2".encode()),
    "/cut.xml": (XML, _cut),
    "/utf16.xml": (XML, lambda: _urlset("/utf16/1").encode("utf-16")),
    "/moved-here.xml": (XML, lambda: _urlset("/moved/1").encode()),
    "/nested.xml": (XML, lambda: (_index("/too-deep.xml") + _urlset("/nested/1")).encode()),
    "/too-deep.xml": (XML, lambda: _urlset("/too-deep/1").encode()),
}


async def sitemaps(x: Exchange) -> None:
    """Home links to /linked; the other pages are named by sitemaps of every kind."""
    path = x.request.path
    if path in _FILES:
        kind, body = _FILES[path]
        await x.answer(200, body(), kind=kind)
    elif path == "/moved.xml":
        await x.redirect("/moved-here.xml", 301)
    elif path == "/":
        await x.answer(200, small_page("Sitemaps", ("/linked",)))
    elif path in ("/linked", "/private/1", *PAGES, *HIDDEN):
        await x.answer(200, small_page(path))
    else:
        await x.answer(404, small_page("Not found"))
