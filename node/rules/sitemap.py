"""What a sitemap may be, and one that is to be visited. How it is read is in ``sitemap_read``."""

from __future__ import annotations

from typing import NamedTuple

WELL_KNOWN_PATH = "/sitemap.xml"
"""Where a sitemap may be that nobody names."""

_GZIP_TYPES = frozenset({"application/gzip", "application/x-gzip", "application/octet-stream"})


def may_be_sitemap(content_type: str) -> bool:
    """Is the body of such a type worth reading? ``content_type`` is its essence, empty where there is none.

    Servers label sitemaps with all sorts of types, HTML among them.
    """
    return (
        not content_type
        or content_type.startswith("text/")
        or content_type.endswith(("/xml", "+xml"))
        or content_type in _GZIP_TYPES
    )


class Named(NamedTuple):
    """A sitemap to be visited."""

    url: str
    """Canonical."""
    depth: int
    """Links from a seed, as the page or sitemap that led to it; what it names is one deeper."""
    kind: int
    """``entry.SITEMAP`` or ``entry.NESTED``."""
