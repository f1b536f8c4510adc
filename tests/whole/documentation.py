"""Real sites: documentation as Debian packages it, unpacked by scripts/test and served by nginx over TLS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import missing

_TREES = {
    # 692 pages; links to pages that are not there
    "django.test": ("python-django-doc", "usr/share/doc/python-django-doc/html"),
    # 154 pages of javadoc in Shift_JIS
    "jlha.test": ("libjlha-java-doc-ja", "usr/share/doc/libjlha-java-doc-ja/api"),
    # 145 pages of a manual in ISO-8859-15: twelve books side by side, with no page that leads to them all
    "gosa.test": ("gosa-help-de", "usr/share/gosa/doc/core/de/html"),
}
"""Host -> package, folder within it. (The figures are Debian 12's; no test depends on them.)"""


def trees() -> dict[str, Path]:
    """Host -> folder of its pages. Skips (in CI: fails) where a package is neither unpacked nor installed."""
    found = {}
    for host, (package, inside) in _TREES.items():
        places = (Path(sys.prefix) / "deb" / package / inside, Path("/") / inside)
        folder = next((place for place in places if place.is_dir()), None)
        if folder is None:
            missing(f"no {package} (scripts/test unpacks it)")
        found[host] = folder
    return found


def seeds(sites: dict[str, Path]) -> list[str]:
    """The home page of each site, or of each book of one that has none."""
    return [url for host, folder in sites.items() for url in _doors(host, folder)]


def _doors(host: str, folder: Path) -> Iterator[str]:
    if (folder / "index.html").exists():
        yield f"https://{host}/"
    else:
        yield from (f"https://{host}/{book.parent.name}/" for book in sorted(folder.glob("*/index.html")))
