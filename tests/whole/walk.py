"""A walk of some sites that owes nothing to our rules: http.client, lxml, urllib.

It follows what a reader could click: ``a[href]``, ``area[href]`` and ``meta`` refresh, within the hosts it
is given, and, as a polite crawler does, no link that says ``rel=nofollow``. It takes no embedded things
(images, scripts, style sheets) and no frames, of which these trees have none: ``frames`` counts them.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import lxml.html
from lxml.etree import ParserError

_REFRESH = re.compile(r"\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


@dataclass(slots=True)
class Walk:
    """What there is, by URL without fragment."""

    pages: set[str] = field(default_factory=set)
    """200 and HTML."""
    files: set[str] = field(default_factory=set)
    """200 and something else."""
    redirects: dict[str, str] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    """URL -> status, 4xx and 5xx."""
    nofollow: set[str] = field(default_factory=set)
    """Linked with ``rel=nofollow``."""
    frames: int = 0

    @property
    def missing(self) -> set[str]:
        return {url for url, status in self.failed.items() if status == 404}

    @property
    def requested(self) -> set[str]:
        """Every URL that a complete and polite crawl asks for, robots.txt aside."""
        return self.pages | self.files | self.redirects.keys() | self.failed.keys()


def walk(seeds: list[str], port: int, ca: Path) -> Walk:
    """All that can be reached from ``seeds`` within their hosts, which are all at ``port`` of loopback."""
    found = Walk()
    queue = deque(seeds)
    known = set(seeds)
    hosts = {urlsplit(seed).netloc for seed in seeds}
    with ExitStack() as stack:
        doors = {host: stack.enter_context(closing(_Door(host, port, ca))) for host in hosts}
        while queue:
            url = queue.popleft()
            for target in _step(doors[urlsplit(url).netloc], url, found):
                parts = urlsplit(target)
                if parts.scheme == "https" and parts.netloc in hosts and target not in known:
                    known.add(target)
                    queue.append(target)
    found.nofollow -= found.requested
    return found


def _step(door: _Door, url: str, found: Walk) -> list[str]:
    status, kind, location, body = door.get(url)
    if 300 <= status < 400:
        found.redirects[url] = urldefrag(urljoin(url, location)).url
        return [found.redirects[url]]
    if status != 200:
        found.failed[url] = status
        return []
    if kind != "text/html":
        found.files.add(url)
        return []
    found.pages.add(url)
    return list(_links(url, body, found))


def _links(url: str, body: bytes, found: Walk) -> Iterator[str]:
    try:
        tree = lxml.html.document_fromstring(body)
    except ParserError:  # nothing in it
        return
    found.frames += len(tree.xpath("//frame|//iframe"))
    bases = tree.xpath("//base/@href")
    base = urljoin(url, bases[0]) if bases else url
    hrefs = {
        (element.get("href").strip().partition("#")[0], "nofollow" in (element.get("rel") or "").split())
        for element in tree.iter("a", "area")
        if element.get("href") is not None
    }
    for href, nofollow in sorted(hrefs):
        target = urljoin(base, href)
        if nofollow:
            found.nofollow.add(target)
        else:
            yield urldefrag(target).url  # that of the page, where there is nothing before the #
    for element in tree.xpath("//meta[@content]"):
        refresh = _REFRESH.match(element.get("content"))
        if refresh and (element.get("http-equiv") or "").lower() == "refresh":
            yield urldefrag(urljoin(base, refresh[1].strip())).url


class _Door:
    """A connection to one host, kept open."""

    def __init__(self, host: str, port: int, ca: Path) -> None:
        self._host = host
        context = ssl.create_default_context(cafile=str(ca))
        self._connection = _Connection(host, port, context)

    def get(self, url: str) -> tuple[int, str, str, bytes]:
        """Status, media type, Location, body."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request("GET", target, headers={"User-Agent": "independent-walk"})
        answer = self._connection.getresponse()
        body = answer.read()
        kind = (answer.getheader("Content-Type") or "").partition(";")[0].strip()
        return answer.status, kind, answer.getheader("Location") or "", body

    def close(self) -> None:
        self._connection.close()


class _Connection(http.client.HTTPSConnection):
    """To ``host`` by name, at a port of loopback. It connects again by itself where the server hung up."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        super().__init__(host, 443)
        self._at = ("127.0.0.1", port)
        self._tls = context

    def connect(self) -> None:
        self.sock = self._tls.wrap_socket(socket.create_connection(self._at, 30), server_hostname=self.host)
