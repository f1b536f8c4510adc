"""The life of a URL one stage at a time, in one process, with the node's own parts.

A fetcher and a parser are put together as their processes do it, and made to take turns: lease a batch,
visit it, bring it to disk, settle it; take the pages from the spool, read them, pass the links through the
gates, offer them. Each turn's CPU time is noted, ours and Redis's. So the sums can be held against what whole
processes take, and show which piece is worth work. Where a stage has parts, they are timed apart, on the
same pages.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import uvloop

from node.rules import charset, html
from node.rules.entry import Lease
from node.rules.headers import first
from node.rules.similar import simhash
from node.rules.url import Joiner
from node.settings import Settings
from node.store import keys, spool
from node.store.archive_read import ArchiveReader
from node.store.decode import decode_body
from node.store.frontier import Group
from node.store.spool import Page
from node.work import seed
from node.work.fetcher import Fetcher
from node.work.parser import Parser
from node.work.process import Stop, StopFlag
from node.work.redis_server import RedisServer
from tests.bench import crawls, handshakes
from tests.bench.laps import VISIT, Laps, Staged
from tests.bench.plan import IN_FLIGHT, Plan
from tests.bench.processes import RunError
from tests.bench.served import Web

_WARM_PAGES = 3
"""Pages a domain before the stages are noted."""
_LEASE, _TAKE, _PAGE = "lease", "take from the spool", "page: record to links"


def take(web: Web, work: Path, plan: Plan) -> Staged:
    """Crawl some pages in turns, then ``plan.stage_pages`` of which each stage is noted."""
    folder = work / "stages"
    shutil.rmtree(folder, ignore_errors=True)
    with web.serve() as server:
        nginx = server.nginx
        made = _settings(folder, web, str(nginx.ca), list(nginx.connect_to))
        redis = RedisServer(made)
        redis.start()
        try:
            assert redis.pid is not None
            driver = _Driver(made, web, Laps(redis.pid), plan)
            uvloop.run(driver.run())
        finally:
            redis.stop()
    with web.serve() as server:
        made = _settings(folder, web, str(server.nginx.ca), list(server.nginx.connect_to))
        fetches = uvloop.run(handshakes.measure(made, web, driver.laps, plan.handshake_rounds))
        seen = server.seen(2 * fetches)
        resumed_share = seen.resumed / fetches
    shutil.rmtree(folder)
    return Staged(
        list(driver.laps.stages.values()),
        driver.pages,
        driver.page_bytes / driver.pages,
        driver.links / driver.pages,
        resumed_share,
    )


def _settings(folder: Path, web: Web, ca_file: str, connect_to: list[str]) -> Settings:
    crawl: dict[str, object] = {"delay_s": 0.0, "seen_error_rate": 1e-6}
    if web.max_depth is not None:
        crawl["max_depth"] = web.max_depth
    return crawls.settings(
        folder,
        crawl=crawl,
        fetcher={"in_flight": IN_FLIGHT},
        tls={"ca_file": ca_file},
        dns={"connect_to": connect_to},
    )


class _Driver:
    """A fetcher and a parser taking turns."""

    def __init__(self, settings: Settings, web: Web, laps: Laps, plan: Plan) -> None:
        self.settings = settings
        self.web = web
        self.laps = laps
        self.warm_up = _WARM_PAGES * len(web.tree.sites)
        # what is under way at the end of the warming up counts for neither
        self.most = min(plan.stage_pages, web.tree.pages - self.warm_up - 2 * IN_FLIGHT)
        if self.most <= 0:
            raise RunError(f"{web.tree.pages:,} pages are too few to note the stages of")
        self.pages = self.page_bytes = self.links = 0

    async def run(self) -> None:
        fetcher = Fetcher(self.settings, 1, Stop())
        parser = Parser(self.settings, 1, StopFlag())
        fetcher.visitor.may_send = lambda _lease: True  # there is no heartbeat here that could be late
        parser.store.begin()
        await fetcher.store.begin()
        seed.sow_files(parser.store, parser.frontier, self.settings, [self.web.tree.seeds])
        (domains,) = parser.store.calls([], extra=[("SMEMBERS", keys.SCOPE)])
        parser.offering.take_lists({keys.SCOPE: domains})
        await fetcher.heartbeat.beat("", 0)
        lanes = fetcher.heartbeat.lanes
        turn = empty = 0
        warm = False
        while self.pages < self.most:
            if not warm and self.pages >= self.warm_up:
                # robots.txt is read and TLS sessions are there, as in all of a crawl but its beginning
                self.laps.stages.clear()
                self.pages = self.page_bytes = self.links = 0
                warm = True
            turn += 1
            leases = await self._lease(fetcher, lanes, turn)
            empty = 0 if leases else empty + 1
            if empty > 200:
                raise RunError(f"nothing is left to lease after {self.pages:,} pages")
            if leases:
                await self._visit(fetcher, leases)
            pages = self._take(parser)
            if pages:
                self._parse(parser, pages)
            if not leases:
                await asyncio.sleep(0.01)
        await fetcher.archive.close()
        fetcher.log.close()
        await fetcher.client.close()
        await fetcher.store.close()
        parser.store.close()

    async def _lease(self, fetcher: Fetcher, lanes: list[int], turn: int) -> list[Lease]:
        store, frontier = fetcher.store, fetcher.frontier
        with self.laps.lap("fetcher", _LEASE, 0):
            leased = await store.call(
                frontier.lease(store.now_ms(), fetcher.tag, lanes, IN_FLIGHT, turn % 64)
            )
        self.laps.stages["fetcher", _LEASE].pages += len(leased.leases)
        return leased.leases

    async def _visit(self, fetcher: Fetcher, leases: list[Lease]) -> None:
        lap, count = self.laps.lap, len(leases)
        with lap("fetcher", VISIT, count):
            visited = await asyncio.gather(*(fetcher.visitor.visit(lease) for lease in leases))
        with lap("fetcher", "commit: write and fdatasync", count):
            marks = await fetcher.recorder.commit()
        settlements = [each.settlement for each in visited]
        with lap("fetcher", "settle, and pointers to the spool", count):
            answer = await fetcher.store.call(
                fetcher.frontier.settle(fetcher.store.now_ms(), settlements, marks, random.random())
            )
        if set(answer) != {"1"}:
            raise RunError(f"a settle was refused: {answer}")

    def _take(self, parser: Parser) -> list[Page]:
        with self.laps.lap("parser", _TAKE, 0):
            command = spool.read_new(parser.consumer, self.settings.parser.in_hand, 1)
            (answer,) = parser.store.calls([], extra=[command])
        pages = spool.pages_read(answer)
        self.laps.stages["parser", _TAKE].pages += len(pages)
        return pages

    def _parse(self, parser: Parser, pages: list[Page]) -> None:
        step = self.settings.parser.offer_pages
        for start in range(0, len(pages), step):
            self._parse_some(parser, pages[start : start + step])

    def _parse_some(self, parser: Parser, pages: list[Page]) -> None:
        lap, count = self.laps.lap, len(pages)
        with lap("parser", _PAGE, count):
            found = [parser.reader.links(page.pointer) for page in pages]
        self._parts(pages)
        groups: dict[str, Group] = {}
        now_ms = parser.store.now_ms()
        with lap("parser", "links: gates, dedup, groups", count):
            for links in found:
                parser.offering.groups(links, now_ms, groups)
        with lap("parser", "offer, and pages off the spool", count):
            offered = parser.store.call(
                parser.frontier.offer(now_ms, groups.values(), [page.id for page in pages])
            )
            parser.offering.learn(offered, now_ms)
        self.pages += offered.acknowledged
        self.links += sum(map(len, found))

    def _parts(self, pages: list[Page]) -> None:
        """The parts of "page", in the order in which ``PageReader`` has them."""
        lap, count, settings = self.laps.lap, len(pages), self.settings
        reader = ArchiveReader(settings.warc_folder)
        with lap("parser", "read the record", count, part_of=_PAGE):
            stored = [reader.read(page.pointer.position, settings.fetcher.max_wire_bytes) for page in pages]
        reader.close()
        with lap("parser", "gunzip", count, part_of=_PAGE):
            bodies = [
                decode_body(each.body, each.content_encoding, settings.parser.max_page_bytes).body
                for each in stored
            ]
        with lap("parser", "encoding", count, part_of=_PAGE):
            encodings = [
                charset.sniff(body, (first(each.headers, b"content-type") or b"").decode("latin-1")).name
                for body, each in zip(bodies, stored, strict=True)
            ]
        with lap("parser", "parse and extract", count, part_of=_PAGE):
            extracted = [
                html.extract(body, page.pointer.url, encoding, settings.identity.token, max_links=500)
                for body, page, encoding in zip(bodies, pages, encodings, strict=True)
            ]
        with lap("parser", "join links", count, part_of=_PAGE):
            for each, encoding in zip(extracted, encodings, strict=True):
                join = Joiner(each.base, encoding).join
                dict.fromkeys(map(join, each.links))
        with lap("parser", "fingerprint (of a page that is compared; off by default)", count, part_of=_PAGE):
            for body in bodies:
                simhash(body)
        self.page_bytes += sum(map(len, bodies))
