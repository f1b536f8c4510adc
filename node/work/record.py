"""Keeping what requests gave: WARC records and lines of the fetch log, in step."""

from __future__ import annotations

import asyncio

from node.errors import DiskError
from node.rules.entry import Lease
from node.rules.headers import essence
from node.rules.outcome import TABLE, Outcome
from node.rules.usage import Place, Said, Statement, price
from node.store.archive import ArchiveWriter, heard
from node.store.fetchlog import FetchLog, LogEntry
from node.store.tally import Tally
from node.store.warc import Original, Position, Response, payload_digest
from node.work.duplicates import KnownPages
from node.work.failure import NO_FILES
from node.work.http import Fetched, content_type

ROBOTS = "robots"
"""Under this name stand requests for robots.txt in the fetch log, whatever came of them."""

REMEMBERED = "remembered"
"""Why there is no robots.txt: it could not be had before."""


SIGNALS_FIELD = "WARC-Robots-Signals"
"""What robots.txt says about the use of a page stands in this field of its WARC record; what its headers say
is in them. Of unknown fields the standard says that they are ignored."""
_NO_FIELDS: dict[str, str] = {}


class DiskRecorder:
    """The recorder of a fetcher.

    ``disk_full`` is set while the archive can't be written, ``out_of_files`` when a request could not be
    sent, or the archive not be written, since no more files may be open; whoever acts on that clears it.
    ``known_pages``: how many pages it knows by their bytes, so that none is stored twice for one domain.
    ``gather_s``: for so long those who wait for the disk are gathered.
    """

    def __init__(
        self,
        archive: ArchiveWriter,
        log: FetchLog,
        tally: Tally,
        *,
        known_pages: int = 0,
        gather_s: float = 0.08,
    ) -> None:
        self._archive = archive
        self._log = log
        self._tally = tally
        self._known = KnownPages(known_pages)
        self._gather_s = gather_s
        self._gathering: asyncio.Task[None] | None = None
        self.disk_full = False
        self.out_of_files = False

    def record(self, lease: Lease, url: str, fetched: Fetched, outcome: Outcome) -> Position | None:
        """Archive a response where its outcome says so, and log the request.

        None where nothing was archived; for a page that means there was no room.
        """
        position = None
        if TABLE[outcome].archive and fetched.status is not None:
            position = self._append(url, fetched)
        self._log_visit(lease, url, fetched, outcome, position)
        return position

    def page(self, lease: Lease, url: str, fetched: Fetched) -> tuple[Position | None, Outcome]:
        """Archive a page and log the request: as a page, or as a duplicate of one the domain gave before.

        The position is as in ``record``.
        """
        if not self._known.compares(fetched.body, fetched.truncated):
            return self.record(lease, url, fetched, Outcome.PAGE), Outcome.PAGE
        depth = lease.entry.depth
        digest = payload_digest(fetched.body)
        original = self._known.original(lease.domain, url, depth, digest)
        position = self._append(url, fetched, digest, original)
        if original is not None:
            detail = f"the same as {original.url}"
            self._log_visit(lease, url, fetched, Outcome.DUPLICATE, position, detail)
            return position, Outcome.DUPLICATE
        if position is not None:
            self._known.add(lease.domain, url, depth, digest, fetched.started_unix_s)
        self._log_visit(lease, url, fetched, Outcome.PAGE, position)
        return position, Outcome.PAGE

    def _append(
        self, url: str, fetched: Fetched, digest: str = "", same_as: Original | None = None
    ) -> Position | None:
        """Give a response its place in the archive; None where there is no room."""
        try:
            return self._archive.append(
                Response(
                    url,
                    fetched.status or 0,
                    fetched.reason,
                    fetched.http_version,
                    fetched.headers,
                    fetched.body,
                    fetched.ip,
                    fetched.started_unix_s,
                    fetched.truncated,
                    _extra(fetched.said),
                    digest,
                    same_as,
                )
            )
        except DiskError:
            self.disk_full = True
            return None

    def _log_visit(
        self,
        lease: Lease,
        url: str,
        fetched: Fetched,
        outcome: Outcome,
        position: Position | None,
        detail: str | None = None,
    ) -> None:
        self._log_request(
            fetched,
            url,
            outcome,
            depth=lease.entry.depth,
            tries=lease.entry.tries,
            hop=lease.hops,
            at=position,
            detail=detail,
        )

    def robots(self, url: str, fetched: Fetched) -> None:
        """Log a request for a robots.txt (or what it redirects to); its outcome stands in the detail."""
        self.out_of_files |= fetched.outcome is Outcome.NO_FILES
        detail = f"{fetched.outcome}: {fetched.detail}" if fetched.detail else fetched.outcome
        self._log_request(fetched, url, ROBOTS, detail=detail)

    def _log_request(
        self,
        fetched: Fetched,
        url: str,
        outcome: str,
        *,
        depth: int = 0,
        tries: int = 0,
        hop: int = 0,
        at: Position | None = None,
        detail: str | None = None,
    ) -> None:
        self._tally.add("requests")
        self._tally.add("bytes", fetched.wire_bytes)
        self._log.add(
            LogEntry(
                t=fetched.started_unix_s,
                url=url,
                outcome=outcome,
                status=fetched.status,
                type=essence(content_type(fetched) or "") or None,
                bytes=len(fetched.body),
                ms=(fetched.connect_ms, fetched.ttfb_ms, fetched.total_ms),
                ip=fetched.ip,
                depth=depth,
                tries=tries,
                hop=hop,
                position=at,
                truncated=fetched.truncated,
                detail=fetched.detail if detail is None else detail,
                signals=tuple(f"{each.place} {each.text}" for each in fetched.said),
                price=price(fetched.said),
            )
        )
        if fetched.status is not None:
            for name in {each.name for each in fetched.said}:
                self._tally.add(f"signal:{name}")

    def note(self, lease: Lease, url: str, outcome: Outcome, detail: str = "") -> None:
        """Log a URL that was not requested, with the reason.

        Where robots.txt could not be had, URLs are counted by the cause, too (``robots_unavailable:CAUSE``,
        an outcome's name; or ``remembered``: it had failed before, and it is not time to ask again).
        """
        if outcome is Outcome.ROBOTS_UNAVAILABLE:
            detail = REMEMBERED if detail == outcome else detail
            self._tally.add(f"robots_unavailable:{detail}")
        self._log.note(url, outcome, lease.entry.depth, detail)

    def opt_out(self, statement: Statement) -> None:
        """Count a page that is not used since ``statement`` denies it."""
        self._tally.add(f"opted_out:{statement.name}")

    async def commit(self) -> dict[str, int]:
        """Everything recorded so far is on disk. Raises ``DiskError``; then try again later."""
        try:
            marks, _ = await asyncio.gather(self._archive.commit(), self._log.commit())
        except DiskError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_FILES:
                self.out_of_files = True
            else:
                self.disk_full = True
            raise
        self.disk_full = False
        return marks

    async def kept(self) -> None:
        """Return when everything recorded so far is on disk: in a moment, together with all who ask in it.

        Raises ``DiskError``; what was recorded still waits then.
        """
        if self._gathering is None:
            self._gathering = asyncio.create_task(self._gather())
            self._gathering.add_done_callback(heard)
        # who is cancelled must not take the others' commit along
        await asyncio.shield(self._gathering)

    async def _gather(self) -> None:
        await asyncio.sleep(self._gather_s)
        self._gathering = None
        await self.commit()


def _extra(said: Said) -> dict[str, str]:
    """The WARC fields for what robots.txt says; nearly always none."""
    if not said:
        return _NO_FIELDS
    texts = [each.text for each in said if each.place is Place.ROBOTS]
    return {SIGNALS_FIELD: " | ".join(texts)} if texts else _NO_FIELDS
