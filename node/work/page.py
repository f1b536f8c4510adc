"""What a parser does with one page or sitemap: fetch its record from the archive, read it, answer its links.

How a page is read is for the rules; here every link that is not followed is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from node.rules import page, sitemap_read
from node.rules.entry import NESTED, SITEMAP
from node.rules.headers import every, text
from node.rules.page import Reading
from node.rules.refusal import Refusal
from node.rules.sitemap import Named
from node.rules.usage import Statement, denial
from node.settings import Settings
from node.store.archive_read import ArchiveReader
from node.store.decode import decode_body, undo_gzip
from node.store.spool import Pointer
from node.store.tally import Tally
from node.work.compared import Compared


def reading_by(settings: Settings) -> Callable[..., Reading]:
    """``page.read`` as the settings have it: the same for parsers and for those who ask what they see."""
    follow = [name for name in ("canonical", "next") if getattr(settings.parser, f"follow_{name}")]
    return partial(page.read, token=settings.identity.token, follow=follow)


class PageReader:
    """Reads pages and sitemaps by their pointers. Raises ``BadRecordError`` where the archive is broken."""

    def __init__(self, settings: Settings, archive: ArchiveReader, tally: Tally) -> None:
        self._max_page_bytes = settings.parser.max_page_bytes
        self._max_links = settings.parser.max_links_per_page
        self._max_wire_bytes = settings.fetcher.max_wire_bytes
        self._max_sitemap_bytes = settings.crawl.max_sitemap_bytes
        self._max_sitemaps = settings.crawl.max_sitemaps_per_domain
        self._purposes = settings.identity.purposes
        self._read = reading_by(settings)
        self.compared = Compared(settings.parser.near_duplicates)
        self._archive = archive
        self._tally = tally

    def links(self, pointer: Pointer) -> list[tuple[str, int]]:
        """The page's links that may be followed: (canonical URL, depth), each once, in order.

        A page that asks for it (meta robots, X-Robots-Tag) gives none; neither does one that denies our
        purpose so late in its text that it was stored before that was seen.
        """
        stored = self._archive.read(pointer.position, self._max_wire_bytes)
        body, _state = decode_body(stored.body, stored.content_encoding, self._max_page_bytes)
        self.compared.see(pointer.url, body)
        reading = self._read(
            body,
            pointer.url,
            content_type=text(stored.headers, b"content-type"),
            robots_tags=every(stored.headers, b"x-robots-tag"),
            max_links=self._max_links,
        )
        if reading.noindex:
            self._tally.add("noindex")
        if reading.extracted.said and self._is_denied(reading.extracted.said):
            return []
        if reading.extracted.links_cut:
            self._tally.add(f"drop:{Refusal.LINKS_CAP}", reading.extracted.links_cut)
        depth = pointer.depth + 1
        return [(url, depth) for url in self._admissible(reading.targets)]

    def _is_denied(self, said: Sequence[Statement]) -> bool:
        """Count what a page says about its use. Does it deny our purpose?"""
        for name in {each.name for each in said}:
            self._tally.add(f"signal:{name}")
        against = denial(said, self._purposes)
        if against is None:
            return False
        self._tally.add(f"opted_out:{against.name}")
        return True

    def sitemap(self, pointer: Pointer) -> tuple[list[tuple[str, int]], list[Named]]:
        """The pages that a sitemap names, as ``links`` has them, and the sitemaps, if it may name any.

        X-Robots-Tag is for pages: many a site has it with its sitemaps, to keep them out of an index.
        """
        stored = self._archive.read(pointer.position, self._max_sitemap_bytes)
        decoded = decode_body(stored.body, stored.content_encoding, self._max_sitemap_bytes)
        decoded = undo_gzip(decoded, self._max_sitemap_bytes)
        found = sitemap_read.read(
            decoded.body,
            pointer.url,
            content_type=text(stored.headers, b"content-type"),
            whole=not (stored.cut or decoded.cut),
            max_sitemaps=self._max_sitemaps if pointer.sitemap == SITEMAP else 0,
        )
        if found.cut:
            self._tally.add(f"drop:{Refusal.SITEMAP_CAP}", found.cut)
        depth = pointer.depth + 1
        pages = [(url, depth) for url in self._admissible(found.pages)]
        return pages, [Named(url, pointer.depth, NESTED) for url in self._admissible(found.sitemaps)]

    def _admissible(self, targets: dict[str, str | Refusal]) -> dict[str, None]:
        """Each canonical URL once, in order; the others are counted."""
        urls: dict[str, None] = {}
        for target in targets.values():
            if isinstance(target, Refusal):
                self._tally.add(f"drop:{target}")
            else:
                urls[target] = None
        return urls
