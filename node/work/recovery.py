"""What a fetcher does before its first lease: make whole what its earlier self left.

WARC files that a crash left open are cut back to their last whole record. Pages that are in them but
were not settled, and whose leases are still out, are settled now instead of being fetched again.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from node.rules.entry import Lease, parse_lease
from node.rules.headers import essence, text
from node.rules.outcome import Outcome, Signal
from node.rules.shard import LANES
from node.settings import Settings
from node.store import keys
from node.store.archive_check import Found, Recovered, left_over, recover
from node.store.connection import AsyncStore
from node.store.fetchlog import FetchLog, LogEntry
from node.store.frontier import Frontier, Kind, Settlement
from node.store.spool import Pointer

_log = logging.getLogger(__name__)
_BATCH = 200


async def recover_archive(
    store: AsyncStore, frontier: Frontier, log: FetchLog, prefix: str, number: int
) -> int:
    """Recover the files of fetcher ``number``; answers how many URLs were settled from them.

    Must run before the first ``beat``, which returns the leases of our earlier self. Raises ``DiskError``.
    """
    folder = store.settings.warc_folder
    paths = left_over(folder, prefix)
    if not paths:
        return 0
    marks = await _marks(store)
    leases = await _former_leases(store, number)
    settled = 0
    for path in paths:
        trusted = marks.get(path.name.removesuffix(".open"), 0)
        recovered = await asyncio.to_thread(recover, path, trusted)
        settled += await _settle(store, frontier, log, recovered, leases)
        recovered.publish()
        if recovered.cut_bytes or recovered.missing_bytes:
            _log.warning(
                "%s: %d bytes of a torn record were cut off, %d bytes known to Redis are missing",
                recovered.file,
                recovered.cut_bytes,
                recovered.missing_bytes,
            )
    return settled


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
        for path in left_over(settings.warc_folder, prefix):
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


async def _marks(store: AsyncStore) -> dict[str, int]:
    (flat,) = await store.calls([], extra=[("HGETALL", keys.ARCHIVE)])
    return {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}


async def _former_leases(store: AsyncStore, number: int) -> dict[str, Lease]:
    """URL -> lease, of all that earlier selves of this fetcher hold, whoever has their lanes by now."""
    ours = f"{number}.".encode()
    lanes = range(LANES)
    members = await store.calls([], extra=[("ZRANGE", keys.leases(lane), 0, -1) for lane in lanes])
    leases: dict[str, Lease] = {}
    for lane, found in zip(lanes, members, strict=True):
        for member in found:
            if member.startswith(ours):
                lease = parse_lease(member.decode(), lane, 0, 0)
                leases[lease.entry.url] = lease
    return leases


async def _settle(
    store: AsyncStore, frontier: Frontier, log: FetchLog, recovered: Recovered, leases: dict[str, Lease]
) -> int:
    results = []
    for found in recovered.found:
        lease = leases.pop(found.url, None) if 200 <= found.status < 300 else None
        if lease is None:
            continue
        log.add(_log_entry(found, lease))
        entry = lease.entry
        outcome = _outcome(lease, found)
        if outcome is Outcome.DUPLICATE:
            results.append(Settlement(lease, Kind.DONE, outcome, Signal.SUCCESS, sent=True))
            continue
        pointer = Pointer(found.position, entry.depth, found.url, entry.sitemap).pack()
        results.append(Settlement(lease, Kind.PAGE, outcome, Signal.SUCCESS, sent=True, pointer=pointer))
    log.flush()
    for start in range(0, len(results), _BATCH):
        part = results[start : start + _BATCH]
        await store.call(frontier.settle(store.now_ms(), part, {recovered.file: recovered.size}, jitter=0.0))
    return len(results)


def _outcome(lease: Lease, found: Found) -> Outcome:
    if found.revisit:
        return Outcome.DUPLICATE
    return Outcome.SITEMAP if lease.entry.sitemap else Outcome.PAGE


def _log_entry(found: Found, lease: Lease) -> LogEntry:
    return LogEntry(
        t=datetime.fromisoformat(found.date).timestamp(),
        url=found.url,
        outcome=_outcome(lease, found),
        status=found.status,
        type=essence(text(found.headers, b"content-type") or "") or None,
        bytes=found.payload_bytes,
        ip=found.ip,
        depth=lease.entry.depth,
        tries=lease.entry.tries,
        hop=lease.hops,
        position=found.position,
        truncated=found.truncated,
        detail="settled from the archive after a crash",
    )
