"""What lies in the archive is settled, whatever Redis still knows of it after a crash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from node.rules.entry import Entry, Lease
from node.rules.outcome import Outcome, Signal
from node.rules.shard import lane_of
from node.settings import build
from node.store import aof, fetchlog, index, keys, spool
from node.store.archive import ArchiveWriter
from node.store.archive_names import OPEN
from node.store.archive_tail import UNKNOWN_BYTES, tails
from node.store.connection import AsyncStore
from node.store.fetchlog import FetchLog, LogEntry
from node.store.frontier import Frontier, Group, Kind, Settlement
from node.store.spool import Pointer
from node.work.recovery import catch_up, recover_archive
from tests.redis_server import RedisServer
from tests.store.responses import response

URLS = [f"http://{host}.test/" for host in "abc"]
PREFIX = "crawl-f01"
STAGES = ("begun", "queued", "leased", "settled")
"""Up to where Redis remembers: nothing was admitted yet, ..., all was settled."""


class _Crawling:
    """Fetcher 1 and its Redis, which remembers up to a stage after it ``crashes``."""

    def __init__(self, redis: RedisServer, folder: Path) -> None:
        self.redis = redis
        self.settings = build({"paths": {"data": str(folder), "redis_socket": str(redis.socket)}})
        self.store = AsyncStore(self.settings)
        self.frontier = Frontier(self.settings)
        self.archive = ArchiveWriter(self.settings.warc_folder, PREFIX, info={})
        self.log = FetchLog(self.settings.log_folder, "fetch-f01")
        self.sizes: dict[str, int] = {}
        self.wall_ahead_s = 0.0

    async def crawl(self) -> None:
        """Three pages, from their seeds to the spool."""
        await self.store.begin()
        self._stage("begun")
        groups = []
        for url in URLS:
            group = Group(url[7:-1], lane_of(url[7:-1]), 0)
            group.entries.append(Entry(url, 0, 0).pack())
            group.slots += self.frontier.slots(url)
            groups.append(group)
        now = self.store.now_ms()
        await self.store.call(self.frontier.offer(now, groups))
        self._stage("queued")
        await self.store.call(self.frontier.beat(now, 1, "a"))
        leased = await self.store.call(self.frontier.lease(now, "1.a", range(64), 10, 0))
        self._stage("leased")
        results = [self._visit(lease) for lease in leased.leases]
        marks = await self.archive.commit()
        await self.log.commit()
        await self.store.call(self.frontier.settle(now, results, marks, 0.0))
        self._stage("settled")

    def _visit(self, lease: Lease) -> Settlement:
        url = lease.entry.url
        position = self.archive.append(response(url, date_unix_s=time.time() + self.wall_ahead_s))
        self.log.add(LogEntry(t=1.0, url=url, outcome=Outcome.PAGE, status=200, position=position))
        pointer = Pointer(position, 0, url).pack()
        return Settlement(lease, Kind.PAGE, Outcome.PAGE, Signal.SUCCESS, sent=True, pointer=pointer)

    def _stage(self, name: str) -> None:
        log = aof.newest(self.redis.folder)
        assert log is not None
        self.sizes[name] = log.stat().st_size

    async def crash(self, stage: str) -> None:
        """Redis dies, and forgets all that came after ``stage``."""
        self.redis.kill()
        log = aof.newest(self.redis.folder)
        assert log is not None
        log.write_bytes(log.read_bytes()[: self.sizes[stage]])
        self.redis.start()
        await self.store.close()
        self.store = AsyncStore(self.settings)
        await self.store.begin()

    async def places(self) -> tuple[list[str], dict[str, int]]:
        """The URLs on the spool, and the ledger."""
        raw, flat = await self.store.calls(
            [], extra=[("XRANGE", keys.SPOOL, "-", "+"), ("HGETALL", keys.LEDGER)]
        )
        pages = [each.pointer for each in spool.pages_claimed([b"", raw])]
        assert all(each.depth == 0 for each in pages)
        ledger = {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}
        return sorted(each.url for each in pages), ledger


@pytest.fixture
def crawling(new_redis: Callable[..., RedisServer], tmp_path: Path) -> _Crawling:
    return _Crawling(new_redis(appendonly="yes", appendfsync="always"), tmp_path)


async def _is_settled(made: _Crawling, settled: int) -> None:
    assert settled in (0, len(URLS))
    urls, ledger = await made.places()
    assert urls == URLS
    counts = [ledger.get(name, 0) for name in ("admitted", "queued", "leased", "spooled", "pages")]
    assert counts == [3, 0, 0, 3, 3]
    lines = [each.url for each in fetchlog.read(made.settings.log_folder)]
    assert sorted(lines) == URLS, "one line for each request"
    counted = index.build(made.settings.log_folder, made.settings.data / "index.cdxj")
    assert (counted.entries, counted.superseded) == (3, 0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("working", [True, False])
async def test_a_start_settles_what_redis_forgot(crawling: _Crawling, stage: str, working: bool) -> None:
    """Leased, queued, or not known at all; from a file that was left open, and from a finished one."""
    made = crawling
    await made.crawl()
    await made.archive.close()
    made.log.close()
    (path,) = made.settings.warc_folder.glob("*.warc.gz")
    size = path.stat().st_size
    if working:
        path.rename(f"{path}{OPEN}")
    await made.crash(stage)
    log = FetchLog(made.settings.log_folder, "fetch-f01")
    settled = await recover_archive(made.store, made.frontier, log, PREFIX, 1)
    log.close()
    assert (settled > 0) == (stage != "settled")
    await _is_settled(made, settled)
    assert await recover_archive(made.store, made.frontier, log, PREFIX, 1) == 0
    (mark,) = await made.store.calls([], extra=[("HGET", keys.ARCHIVE, path.name)])
    assert (int(mark), path.stat().st_size) == (size, size)
    await made.store.close()


@pytest.mark.parametrize("stage", STAGES)
async def test_a_fetcher_at_work_settles_it_too(crawling: _Crawling, stage: str) -> None:
    """It goes on writing the same file; what it appended and has not flushed is left for later."""
    made = crawling
    await made.crawl()
    await made.crash(stage)
    made.archive.append(response("http://later.test/"))
    settled = await catch_up(made.store, made.frontier, made.log, PREFIX, 1, made.archive.marks)
    assert (settled > 0) == (stage != "settled")
    await _is_settled(made, settled)
    await made.archive.close()
    made.log.close()
    await made.store.close()


async def test_a_lost_log_line_is_made_up_for(crawling: _Crawling) -> None:
    """The index is made of the log: a record that reached the disk before its line gets one."""
    made = crawling
    await made.crawl()
    await made.archive.close()
    made.log.close()
    (path,) = fetchlog.log_files(made.settings.log_folder)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    await made.crash("leased")
    log = FetchLog(made.settings.log_folder, "fetch-f01")
    assert await recover_archive(made.store, made.frontier, log, PREFIX, 1) == 3
    log.close()
    await _is_settled(made, 3)
    await made.store.close()


@pytest.mark.parametrize("ahead_s", [-86_400.0, 86_400.0])
async def test_a_wrong_wall_clock_keeps_nothing_from_being_settled(
    crawling: _Crawling, ahead_s: float
) -> None:
    """Whatever date a record bears: it may seem to be older than the crawl."""
    made = crawling
    made.wall_ahead_s = ahead_s
    await made.crawl()
    await made.archive.close()
    await made.crash("leased")
    assert await catch_up(made.store, made.frontier, made.log, PREFIX, 1, {}) == 3
    made.log.close()
    await _is_settled(made, 3)
    await made.store.close()


async def test_what_is_older_than_the_crawl_is_none_of_its_business(crawling: _Crawling) -> None:
    """Whoever removes Redis's files to crawl anew wants all of it again."""
    made = crawling
    await made.crawl()
    await made.archive.close()
    made.log.close()
    await made.store.redis.execute_command("FLUSHALL")
    await made.store.begin()
    log = FetchLog(made.settings.log_folder, "fetch-f01")
    assert await recover_archive(made.store, made.frontier, log, PREFIX, 1) == 0
    assert await made.places() == ([], {})
    log.close()
    await made.store.close()


async def test_of_old_files_a_new_redis_takes_none(tmp_path: Path) -> None:
    """Only what may have been written in the seconds that were lost is looked at, the newest first."""
    for number in range(1, 5):
        with (tmp_path / f"{PREFIX}-{number:06d}.warc.gz").open("wb") as file:
            file.truncate(UNKNOWN_BYTES // 2)
    found = await asyncio.to_thread(tails, tmp_path, PREFIX, {f"{PREFIX}-000001.warc.gz": 5})
    assert [(each.file[-14:], each.start) for each in found] == [
        ("000001.warc.gz", 5),
        ("000003.warc.gz", 0),
        ("000004.warc.gz", 0),
    ]
