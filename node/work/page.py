"""What a parser does with one page: fetch its record from the archive, read it, answer its links.

How a page is read is for the rules; here every link that is not followed is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from node.rules import page
from node.rules.headers import every, text
from node.rules.page import Reading
from node.rules.refusal import Refusal
from node.settings import Settings
from node.store.archive_read import ArchiveReader
from node.store.decode import decode_body
from node.store.spool import Pointer
from node.store.tally import Tally


def reading_by(settings: Settings) -> Callable[..., Reading]:
    """``page.read`` as the settings have it: the same for parsers and for those who ask what they see."""
    follow = [name for name in ("canonical", "next") if getattr(settings.parser, f"follow_{name}")]
    return partial(page.read, token=settings.identity.token, follow=follow)


class PageReader:
    """Reads pages by their pointers. ``links`` raises ``BadRecordError`` where the archive is broken."""

    def __init__(self, settings: Settings, archive: ArchiveReader, tally: Tally) -> None:
        self._max_page_bytes = settings.parser.max_page_bytes
        self._max_links = settings.parser.max_links_per_page
        self._max_wire_bytes = settings.fetcher.max_wire_bytes
        self._read = reading_by(settings)
        self._archive = archive
        self._tally = tally

    def links(self, pointer: Pointer) -> list[tuple[str, int]]:
        """The page's links that may be followed: (canonical URL, depth), each once, in order.

        A page that asks for it (meta robots, X-Robots-Tag) gives none.
        """
        stored = self._archive.read(pointer.position, self._max_wire_bytes)
        body, _state = decode_body(stored.body, stored.content_encoding, self._max_page_bytes)
        reading = self._read(
            body,
            pointer.url,
            content_type=text(stored.headers, b"content-type"),
            robots_tags=every(stored.headers, b"x-robots-tag"),
            max_links=self._max_links,
        )
        count = self._tally.add
        if reading.noindex:
            count("noindex")
        if reading.extracted.links_cut:
            count(f"drop:{Refusal.LINKS_CAP}", reading.extracted.links_cut)
        depth = pointer.depth + 1
        urls: dict[str, None] = {}
        for target in reading.targets.values():
            if isinstance(target, Refusal):
                count(f"drop:{target}")
            else:
                urls[target] = None
        return [(url, depth) for url in urls]
