"""What a parser does with one page: read its record, decode, parse, and answer its links.

Rules say how; this puts them in order. Every link that is not followed is counted with its reason.
"""

from __future__ import annotations

from node.rules import charset, html
from node.rules.headers import every, first
from node.rules.refusal import Refusal
from node.rules.robots_directives import robots_header
from node.rules.url import Joiner
from node.settings import Settings
from node.store.archive_read import ArchiveReader
from node.store.decode import decode_body
from node.store.spool import Pointer
from node.store.tally import Tally


class PageReader:
    """Reads pages by their pointers. ``links`` raises ``BadRecordError`` where the archive is broken."""

    def __init__(self, settings: Settings, archive: ArchiveReader, tally: Tally) -> None:
        self._max_page_bytes = settings.parser.max_page_bytes
        self._max_links = settings.parser.max_links_per_page
        self._max_wire_bytes = settings.fetcher.max_wire_bytes
        self._token = settings.identity.token
        self._archive = archive
        self._tally = tally

    def links(self, pointer: Pointer) -> list[tuple[str, int]]:
        """The page's links that may be followed: (canonical URL, depth), each once, in order.

        A page that asks for it (meta robots, X-Robots-Tag) gives none.
        """
        stored = self._archive.read(pointer.position, self._max_wire_bytes)
        body, _state = decode_body(stored.body, stored.content_encoding, self._max_page_bytes)
        content_type = first(stored.headers, b"content-type")
        encoding = charset.sniff(body, content_type.decode("latin-1") if content_type else None).name
        found = html.extract(body, pointer.url, encoding, self._token, max_links=self._max_links)
        tags = every(stored.headers, b"x-robots-tag")
        noindex, nofollow = robots_header(tags, self._token) if tags else (False, False)
        count = self._tally.add
        if noindex or found.noindex:
            count("noindex")
        if found.links_cut:
            count(f"drop:{Refusal.LINKS_CAP}", found.links_cut)
        if nofollow or found.nofollow:
            count(f"drop:{Refusal.NOFOLLOW}", len(found.links))
            return []
        return self._resolve(found, encoding, pointer.depth + 1)

    def _resolve(self, found: html.Extracted, encoding: str, depth: int) -> list[tuple[str, int]]:
        join = Joiner(found.base, encoding).join
        count = self._tally.add
        urls: dict[str, None] = {}
        for href, nofollow in found.links.items():
            if nofollow:
                count(f"drop:{Refusal.NOFOLLOW}")
                continue
            url = join(href)
            if isinstance(url, Refusal):
                count(f"drop:{url}")
            else:
                urls[url] = None
        return [(url, depth) for url in urls]
