"""Making whole what a crash left, of a fetcher or of Redis: what lies in the archive is settled.

At its start, before its first lease, a fetcher cuts its WARC files that were left open back to their last
whole record, and reads on in each of its files from where Redis knows it. What it finds is settled instead of
being fetched again, whether Redis holds it as leased, as queued, or has forgotten that it was ever admitted.
A fetcher that outlives its Redis does the same before it goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from node.rules.entry import MAX_DEPTH, SITEMAP, Entry, Lease, parse_lease
from node.rules.headers import essence, text
from node.rules.outcome import Outcome
from node.rules.priority import LEVELS
from node.rules.shard import LANES
from node.settings import Settings
from node.store import keys
from node.store.archive_check import Found, recover
from node.store.archive_tail import Tail, read_tail, tails
from node.store.connection import AsyncStore
from node.store.fetchlog import FetchLog, LogEntry
from node.store.found import SETTLED, Stored, found
from node.store.frontier import Frontier, Kind
from node.store.logged import Logged, logged

_log = logging.getLogger(__name__)
_BATCH: Final = 100
_LIKELY_DEPTH: Final = 1
"""Of a page that neither Redis nor the fetch log knows."""
_FINAL: Final = frozenset(
    {
        Outcome.DUPLICATE,
        Outcome.NOT_FOUND,
        Outcome.GONE,
        Outcome.UNAUTHORIZED,
        Outcome.FORBIDDEN,
        Outcome.PAYMENT_REQUIRED,
        Outcome.CLIENT_ERROR,
    }
)
"""Outcomes with a record after which there is nothing more to do. (Those of redirects are about the URL that
was leased, and their records about one on the way.)"""


async def recover_archive(
    store: AsyncStore, frontier: Frontier, log: FetchLog, prefix: str, number: int
) -> int:
    """Recover the files of fetcher ``number``; answers how many URLs were settled from them.

    Must run before the first ``beat``, which returns the leases of our earlier self. Raises ``DiskError``,
    and ``InUseError`` while somebody still writes there.
    """
    settler = _Settler(store, frontier, log, number)
    for tail in await settler.tails(prefix):
        if not tail.working:
            records = await asyncio.to_thread(read_tail, tail, tail.size)
            await settler.settle(tail, records, tail.size)
            continue
        recovered = await asyncio.to_thread(recover, tail.path, tail.start)
        records = [each for each in recovered.found if each.position.offset >= tail.start]
        await settler.settle(tail, records, recovered.size)
        recovered.publish()
        if recovered.cut_bytes or recovered.missing_bytes:
            _log.warning(
                "%s: %d bytes of a torn record were cut off, %d bytes known to Redis are missing",
                recovered.file,
                recovered.cut_bytes,
                recovered.missing_bytes,
            )
    return settler.settled


async def catch_up(
    store: AsyncStore,
    frontier: Frontier,
    log: FetchLog,
    prefix: str,
    number: int,
    durable: Mapping[str, int],
) -> int:
    """The same for a fetcher at work whose Redis was restarted. ``durable``: its unfinished files -> their
    bytes on disk. Nothing may be leased or settled meanwhile. Raises ``DiskError``."""
    settler = _Settler(store, frontier, log, number)
    for tail in await settler.tails(prefix):
        end = durable.get(tail.file, 0 if tail.working else tail.size)
        if end > tail.start:
            await settler.settle(tail, await asyncio.to_thread(read_tail, tail, end), end)
    return settler.settled


async def take_over_absent(settings: Settings, present: int) -> None:
    """What fetchers left that will not come back: a crawl that goes on with only ``present`` of them.

    Their files are recovered, their pages settled, their leases returned and their lanes freed. Nobody
    else may be at work on this node yet. Raises ``DiskError``.
    """
    store = AsyncStore(settings)
    frontier = Frontier(settings)
    log = FetchLog(settings.log_folder, "fetch-recovered")
    try:
        await store.begin()
        (flat,) = await store.calls([], extra=[("HGETALL", keys.LANES)])
        owners = {int(flat[i]): int(flat[i + 1].partition(b".")[0]) for i in range(0, len(flat), 2)}
        absent = {number for number in owners.values() if number > present}
        prefix = f"{settings.crawl.name}-f"
        for path in settings.warc_folder.glob(f"{prefix}*"):
            digits = path.name.removeprefix(prefix).partition("-")[0]
            if digits.isdigit() and int(digits) > present:
                absent.add(int(digits))
        for number in sorted(absent):
            await recover_archive(store, frontier, log, fetcher_prefix(settings, number), number)
        for lane in (lane for lane, number in owners.items() if number > present):
            while await store.call(frontier.reap(store.now_ms(), lane, _BATCH, all_leases=True)):
                pass
            await store.calls([], extra=[("HDEL", keys.LANES, lane)])
        if absent:
            await store.calls([], extra=[("HDEL", keys.BEATS, *absent)])
    finally:
        log.close()
        await store.close()


def fetcher_prefix(settings: Settings, number: int) -> str:
    """How the WARC files of a fetcher begin."""
    return f"{settings.crawl.name}-f{number:02d}"


class _Settler:
    """Settles what is found in the files of fetcher ``number``."""

    def __init__(self, store: AsyncStore, frontier: Frontier, log: FetchLog, number: int) -> None:
        self._store = store
        self._frontier = frontier
        self._log = log
        self._number = number
        self._run = store.run_id
        self._leases: dict[str, Lease] = {}
        self._logged: dict[tuple[str, int], Logged] = {}
        self.settled = 0

    async def tails(self, prefix: str) -> list[Tail]:
        """The ends of files that are to be looked at, and what is known of the records there."""
        settings = self._store.settings
        found = await asyncio.to_thread(tails, settings.warc_folder, prefix, await _marks(self._store))
        if found:
            self._leases = await _leases_of(self._store, self._number)
            wanted = {tail.file: tail.start for tail in found}
            log_name = f"fetch-f{self._number:02d}"
            self._logged = await asyncio.to_thread(logged, settings.log_folder, log_name, wanted)
        return found

    async def settle(self, tail: Tail, records: Sequence[Found], end: int) -> None:
        """Settle the records of a file, first in the log, then in Redis; all is looked at up to ``end``."""
        stored = []
        for record in records:
            line = self._logged.get((tail.file, record.position.offset))
            lease = self._leases.get(record.url)
            each = _stored(record, line, lease)
            if each is None:
                continue
            stored.append(each)
            if line is None:
                self._log.add(_log_entry(record, each, lease))
        await self._log.commit()
        for start in range(0, max(len(stored), 1), _BATCH):
            marks = {tail.file: end} if start + _BATCH >= len(stored) else {}
            batch, now_ms = stored[start : start + _BATCH], self._store.now_ms()
            verb = found(self._frontier, now_ms, self._number, batch, marks, self._run)
            answer = await self._store.call(verb)
            self.settled += sum(was in SETTLED for was in answer)


async def _marks(store: AsyncStore) -> dict[str, int]:
    (flat,) = await store.calls([], extra=[("HGETALL", keys.ARCHIVE)])
    return {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}


async def _leases_of(store: AsyncStore, number: int) -> dict[str, Lease]:
    """URL -> lease, of all that this fetcher holds, in whatever life of it, whoever has the lanes by now."""
    ours = f"{number}.".encode()
    lanes = range(LANES)
    members = await store.calls([], extra=[("ZRANGE", keys.leases(lane), 0, -1) for lane in lanes])
    leases: dict[str, Lease] = {}
    for lane, found_there in zip(lanes, members, strict=True):
        for member in found_there:
            if member.startswith(ours):
                lease = parse_lease(member.decode(), lane, 0, 0)
                leases[lease.entry.url] = lease
    return leases


def _stored(record: Found, line: Logged | None, lease: Lease | None) -> Stored | None:
    """What a record settles; None where it doesn't."""
    if line is not None:
        outcome = line.outcome
        depth = min(line.depth, MAX_DEPTH)
        sitemap = SITEMAP if outcome == Outcome.SITEMAP else 0
        entry = Entry(record.url, min(depth, LEVELS - 1), depth, sitemap=sitemap)
    elif record.revisit or 200 <= record.status < 300:
        entry = lease.entry if lease else Entry(record.url, _LIKELY_DEPTH, _LIKELY_DEPTH)
        outcome = Outcome.DUPLICATE if record.revisit else Outcome.PAGE
        if outcome is Outcome.PAGE and entry.sitemap:
            outcome = Outcome.SITEMAP
    else:
        return None
    if outcome in _FINAL:
        return Stored(entry, Kind.DONE, outcome, record.position)
    if outcome in (Outcome.PAGE, Outcome.SITEMAP):
        return Stored(entry, Kind.PAGE, outcome, record.position)
    return None


def _unix_s(record: Found) -> float:
    """When it was fetched; 0 where it doesn't say, as none of ours."""
    try:
        return datetime.fromisoformat(record.date).timestamp()
    except ValueError:
        return 0.0


def _log_entry(record: Found, stored: Stored, lease: Lease | None) -> LogEntry:
    """The line that a record lacks."""
    return LogEntry(
        t=_unix_s(record),
        url=record.url,
        outcome=stored.outcome,
        status=record.status,
        type=essence(text(record.headers, b"content-type") or "") or None,
        bytes=record.payload_bytes,
        ip=record.ip,
        depth=stored.entry.depth,
        tries=stored.entry.tries,
        hop=lease.hops if lease else 0,
        position=record.position,
        truncated=record.truncated,
        detail="settled from the archive after a crash",
    )
