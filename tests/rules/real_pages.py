"""Real pages, and a reader of links that owes nothing to our rules: lxml for the page, ada for the URLs."""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import ada_url
import lxml.html
from lxml.etree import ParserError

from tests.conftest import missing

WHOLE = os.environ.get("MILLIARDE_REAL_PAGES") == "all"
"""Every page of every tree, or a sample of some?"""
SAMPLE = 500
"""Pages of a tree."""
TREES = ("apache2-doc", "gosa-help-de", "libjlha-java-doc-ja", "python-django-doc")
"""Debian packages of documentation, in eleven languages; some in EUC-KR, Shift_JIS or ISO-8859-15."""
MORE_TREES = ("postgresql-doc-15", "python3.11-doc", "rust-doc")

_REFRESH = re.compile(r"\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


def pages() -> Iterator[tuple[str, bytes]]:
    """(URL, body) of all pages, or of the same sample each time. A symbolic link is a page at another URL.

    Skips (in CI: fails) where a tree is not unpacked.
    """
    for package in (*TREES, *MORE_TREES) if WHOLE else TREES:
        folder = Path(sys.prefix) / "deb" / package
        if not folder.is_dir():
            missing(f"no {package} (scripts/test unpacks it; all of them with MILLIARDE_REAL_PAGES=all)")
        files = sorted(file for file in folder.rglob("*.html") if file.is_file())
        if not WHOLE and len(files) > SAMPLE:
            files = random.Random(package).sample(files, SAMPLE)
        for file in files:
            yield f"https://{package}.test/{quote(str(file.relative_to(folder)))}", file.read_bytes()


def links(url: str, body: bytes) -> list[str]:
    """The distinct web addresses without fragment that a page leads to, in their order, by the other reader.

    ``a[href]``, ``area[href]``, ``meta`` refresh; not ``rel=nofollow``; relative to the first ``base[href]``.
    """
    try:
        tree = lxml.html.document_fromstring(body)
    except ParserError:  # nothing in it
        return []
    base = next((_join(url, each.get("href")) for each in tree.iter("base") if "href" in each.attrib), None)
    found: dict[str, None] = {}
    for element in tree.iter("a", "area", "meta"):
        href = _refresh(element.attrib) if element.tag == "meta" else element.get("href")
        target = None if href is None else _join(base or url, href)
        if target is not None and target.startswith(("http:", "https:")) and not _is_nofollow(element.attrib):
            found[target.partition("#")[0]] = None
    return list(found)


def _join(base: str, href: str) -> str | None:
    try:
        return ada_url.join_url(base, href)
    except ValueError:
        return None


def _refresh(attributes: dict[str, str]) -> str | None:
    refresh = _REFRESH.match(attributes.get("content", ""))
    return refresh[1] if refresh and attributes.get("http-equiv", "").lower() == "refresh" else None


def _is_nofollow(attributes: dict[str, str]) -> bool:
    return "nofollow" in attributes.get("rel", "").lower().split()
