"""What a parser does with one page: read its record, decode, parse, and answer its links.

Rules say how; this puts them in order. Every link that is not followed is counted with its reason.
"""

from __future__ import annotations

from node.settings import Settings
from node.store.archive_read import ArchiveReader
from node.store.spool import Pointer
from node.store.tally import Tally


class PageReader:
    """Reads pages by their pointers. ``links`` raises ``BadRecordError`` where the archive is broken."""

    def __init__(self, settings: Settings, archive: ArchiveReader, tally: Tally) -> None:
        self._parser = settings.parser
        self._wire_bytes = settings.fetcher.max_wire_bytes
        self._token = settings.identity.token
        self._max_depth = settings.crawl.max_depth
        self._archive = archive
        self._tally = tally

    def links(self, pointer: Pointer) -> list[tuple[str, int]]:
        """The page's followed links: (canonical URL, depth), each once, in order."""
        raise NotImplementedError
