"""A parser: spool -> read -> parse -> links -> offer, page by page, many pages to an offer.

A blocking loop: while Redis works on one parser's offer, the others parse. The pages whose links went
into an offer are acknowledged by the same call, so links in and page off are one step; a parser that
dies gets its pages back when it starts again, or another takes them over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec
from redis.exceptions import ResponseError

from node.errors import StoreError
from node.settings import Settings
from node.store import keys, spool
from node.store.archive_read import ArchiveReader, BadRecordError
from node.store.connection import LOST, Store
from node.store.exclusions import READ_VERSIONS, Exclusions, Versions
from node.store.frontier import Frontier, Group
from node.store.refusals import is_out_of_memory
from node.store.snapshot import Report
from node.store.spool import Page
from node.store.tally import Tally, rss_bytes
from node.work import process
from node.work.charging import Charging
from node.work.links import Offering
from node.work.page import PageReader
from node.work.page_guard import PageGuard, Unguarded, bound_memory
from node.work.process import StopFlag
from node.work.stopwatch import Stopwatch

BLOCK_MS = 250
BEAT_S = 1.0
OUT_OF_MEMORY_WAIT_S = 0.5
LEAVE_TO_OTHERS_S = 3.0
"""So long a parser takes over no pages after one ended it: another is to try that one."""
OFFER_URLS = 2_000
"""URLs of a sitemap that go into one offer: all of a long one would hold up everybody at Redis."""


class Parser:
    """One parser process; ``number`` is its place in the node, from 1."""

    def __init__(self, settings: Settings, number: int, stop: StopFlag) -> None:
        self.settings = settings
        self.guard = Unguarded()
        self.number = number
        self.stop = stop
        self.consumer = f"p{number}"
        self.store = Store(settings)
        self.frontier = Frontier(settings)
        self.tally = Tally("parsers")
        self.versions = Versions()
        self.offering = Offering(settings, self.frontier, Exclusions(), self.tally)
        self.reader = PageReader(settings, ArchiveReader(settings.warc_folder), self.tally)
        self.charging = Charging(settings, self.store, self.consumer, self.tally)
        self.in_hand = 0
        self.took = 0
        """Pages taken last: none means that there was nothing to do."""
        self._next_beat = self._next_claim = 0.0
        self._run = ""
        """Run id of the Redis that what we know of it is from."""
        self._signs = process.SignsOfLife(BEAT_S)
        self._own_first = True
        self._busy_s = 0.0
        self._commands_booked = 0
        self._up_booked = time.monotonic()
        self._watch = Stopwatch()

    # -- life

    def run(self) -> None:
        """Work until asked to stop; what is in hand then is finished."""
        self._patiently(self.store.begin)
        self._patiently(self._see_to_what_was_left)
        process.notify("READY=1")
        while not self.stop.requested:
            try:
                self._meet()
                self._beat_if_due()
                self._work(self._take())
            except LOST:
                # pages in hand are still ours in the group; they are read again as such
                self.guard.end()
                self._own_first = True
                self._patiently(self.store.begin)
        self._leave()

    def _meet(self) -> None:
        """Forget what was known of a Redis that was restarted: it may have lost what it did last."""
        if self._run != self.store.run_id:
            self._run = self.store.run_id
            self.offering.forget_all()
            self.versions = Versions()

    def _see_to_what_was_left(self) -> None:
        if self.charging.what_was_left(self.guard):
            self._next_claim = time.monotonic() + LEAVE_TO_OTHERS_S

    def _patiently(self, action: Callable[[], object]) -> None:
        """Do something with Redis, waiting for it to come back."""
        while True:
            try:
                action()
                return
            except (*LOST, StoreError) as error:
                if self.stop.requested:
                    raise StoreError(f"Redis went away: {error}") from None
                time.sleep(0.25)

    def _leave(self) -> None:
        try:
            self.store.calls(
                [], extra=[*self._tallies(), ("HDEL", keys.PROCS, f"parser.{self.number}")], spare=True
            )
        except LOST:
            return
        finally:
            self.store.close()

    # -- heartbeat

    def _beat_if_due(self) -> None:
        if time.monotonic() >= self._next_beat:
            self._beat()
            self._next_beat = time.monotonic() + BEAT_S

    def _beat(self) -> None:
        report = Report(
            os.getpid(),
            self.store.now_ms(),
            in_hand=self.in_hand,
            limit=self.settings.parser.in_hand,
            waiting="" if self.took else "no_pages",
            rss_mb=rss_bytes() // 1_000_000,
        )
        tallies, claims = self._tallies(), self._claims()
        try:
            excluded, scope, _, *rest = self.store.calls(
                [],
                extra=[
                    *READ_VERSIONS,
                    ("HSET", keys.PROCS, f"parser.{self.number}", msgspec.json.encode(report)),
                    *tallies,
                    *claims,
                ],
                spare=True,
            )
        except LOST:
            self.tally.put_back(tallies)
            raise
        tallied, claimed = rest[: len(tallies)], rest[len(tallies) :]
        self.tally.put_back([each for each, done in zip(tallies, tallied, strict=True) if done is None])
        outdated = self.versions.outdated((excluded, scope))
        lists = self.store.calls([], extra=list(outdated.values())) if outdated else []
        self.offering.take_lists(dict(zip(outdated, lists, strict=True)))
        self.versions.note((excluded, scope))
        process.notify("WATCHDOG=1")
        for answer in claimed:
            if taken_over := spool.pages_claimed(answer):
                self._work(taken_over, redelivered=True)

    def _claims(self) -> list[tuple[Any, ...]]:
        """The command that takes over what others held too long, unless it is to be left to others."""
        if time.monotonic() < self._next_claim:
            return []
        claim_after_ms = round(1000 * self.settings.parser.claim_after_s)
        return [spool.claim(self.consumer, claim_after_ms, self.settings.parser.in_hand)]

    def _tallies(self) -> list[tuple[str, ...]]:
        self.tally.add("redis_commands", self.store.commands - self._commands_booked)
        self._commands_booked = self.store.commands
        now = time.monotonic()
        self.tally.add("up_ms:parsers", round(1000 * (now - self._up_booked)))
        self._up_booked = now
        self.tally.add("parser_busy_ms", round(1000 * self._busy_s))
        self._busy_s = 0.0
        return self.tally.take()

    # -- pages

    def _take(self) -> list[Page]:
        """Pages to parse: our own unfinished ones first, then new ones."""
        most = self.settings.parser.in_hand
        if self._own_first:
            (answer,) = self.store.calls([], extra=[spool.read_own(self.consumer, most)])
            pages = spool.pages_read(answer)
            if pages:
                self._work(pages, redelivered=True)
                return []
            self._own_first = False
        self._watch.start()
        (answer,) = self.store.calls([], extra=[spool.read_new(self.consumer, most, BLOCK_MS)])
        took_s = self._watch.seconds()
        idle_s = min(took_s, BLOCK_MS / 1000)  # what is longer was not for want of pages
        self._waited("no_pages", idle_s)
        self._waited("store", took_s - idle_s)
        return spool.pages_read(answer)

    def _waited(self, reason: str, seconds: float) -> None:
        self.tally.add(f"wait_ms:parsers:{reason}", round(1000 * seconds))

    def _work(self, pages: list[Page], *, redelivered: bool = False) -> None:
        """Parse pages and offer their links, ``offer_pages`` to a call; redelivered ones singly."""
        self.in_hand = self.took = len(pages)
        step = 1 if redelivered else self.settings.parser.offer_pages
        for start in range(0, len(pages), step):
            self._parse_and_offer(pages[start : start + step])
            self.in_hand -= step
            self._signs.give()
        self.in_hand = 0

    def _parse_and_offer(self, pages: list[Page]) -> None:
        ordinary = [page for page in pages if not page.pointer.sitemap]
        try:
            for page in pages:
                if page.pointer.sitemap:
                    self._read_sitemap(page)
            if ordinary:
                self._read_pages(ordinary)
        except ResponseError as error:
            self.guard.end()
            if len(pages) == 1:
                self.charging.charge(pages[0].id, f"could not offer its links: {error}")
            for page in pages if len(pages) > 1 else ():  # which of them is it?
                self._parse_and_offer([page])

    def _read_sitemap(self, page: Page) -> None:
        """Offer what a sitemap names, in parts. The last acknowledges it; till then it may be read again."""
        begun = time.perf_counter()
        groups: dict[str, Group] = {}
        found: list[tuple[str, int]] = []
        self.guard.begin(page.id)
        try:
            found, named = self.reader.sitemap(page.pointer)
            self.offering.sitemaps(named, self.store.now_ms(), groups)
        except BadRecordError as error:
            self.charging.unreadable(page, error)
        self.guard.end()
        self._busy_s += time.perf_counter() - begun
        for start in range(0, max(len(found), 1), OFFER_URLS):
            self.offering.groups(found[start : start + OFFER_URLS], self.store.now_ms(), groups)
            is_last = start + OFFER_URLS >= len(found)
            if not self._offer(groups, [page] if is_last else []):
                return
            groups = {}

    def _read_pages(self, pages: list[Page]) -> None:
        begun = time.perf_counter()
        groups: dict[str, Group] = {}
        now_ms = self.store.now_ms()
        for page in pages:
            self.guard.begin(page.id)
            try:
                found = self.reader.links(page.pointer)
            except BadRecordError as error:
                self.charging.unreadable(page, error)
                continue
            self.offering.groups(found, now_ms, groups)
        self.guard.end()
        self._busy_s += time.perf_counter() - begun
        self._offer(groups, pages)

    def _offer(self, groups: dict[str, Group], pages: list[Page]) -> bool:
        """Offer, and acknowledge ``pages``. False: refused for want of memory; they are parsed again."""
        ids = [page.id for page in pages]
        near = self.reader.compared.take()
        verb = self.frontier.offer(self.store.now_ms(), groups.values(), ids, near=near, run=self._run)
        self._watch.start()
        try:
            offered = self.store.call(verb)
        except ResponseError as error:
            self.offering.forget()
            if not is_out_of_memory(error):
                raise
            # nothing was changed; the pages are still ours
            self._own_first = True
            self.tally.add("refused:parsers:no_memory")
            time.sleep(OUT_OF_MEMORY_WAIT_S)
            return False
        except LOST:
            self.offering.forget()
            raise
        self._waited("store", self._watch.seconds())
        self.offering.learn(offered, self.store.now_ms())
        self.tally.add("pages_parsed", offered.acknowledged)
        self.tally.add("links:admitted", offered.admitted)
        self.tally.add("links:known", offered.seen)
        return True


def main(settings: Settings, number: int) -> None:
    """Run parser ``number`` until it is stopped."""
    process.follow_parent()
    stop = StopFlag()
    stop.install()
    with process.lock(settings.data / "run" / f"parser-{number}.lock", f"parser {number}"):
        parser = Parser(settings, number, stop)
        parser.guard = guard = PageGuard(settings, number)
        bound_memory()
        try:
            parser.run()
        except Exception as error:
            guard.failed(error)
            raise
    process.notify("STOPPING=1")
