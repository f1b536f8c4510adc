"""Pages that end parsers, and pages that nobody can read: charged, tried by others, given up.

A page is charged alone for what it did, whatever else its parser held. At ``parser.max_deaths`` it becomes a
dead letter, with the reason; an operator may requeue it.
"""

from __future__ import annotations

import sys

from node.settings import Settings
from node.store import spool
from node.store.archive_read import BadRecordError, RecordGoneError
from node.store.connection import Store
from node.store.found import page_gone
from node.store.frontier import Frontier
from node.store.spool import Fate, Page
from node.store.tally import Tally
from node.work.page_guard import PageGuard, Unguarded


class Charging:
    """What one parser, ``consumer`` of the spool, does about such pages. Raises what ``Store.call`` does."""

    def __init__(self, settings: Settings, store: Store, consumer: str, tally: Tally) -> None:
        self._most = settings.parser.max_deaths
        self._store = store
        self._consumer = consumer
        self._tally = tally
        self._frontier = Frontier(settings)

    def unreadable(self, page: Page, error: BadRecordError) -> None:
        """It can't be read by anybody: a dead letter at once; or, if its record is not in the archive any
        more, its URL is to be visited again."""
        if not isinstance(error, RecordGoneError):
            self._book(self._store.call(spool.give_up(page.id, str(error))))
            return
        if self._store.call(page_gone(self._frontier, self._store.now_ms(), page.id, page.pointer.entry)):
            sys.stderr.write(f"{error}; {page.pointer.url} is to be visited again\n")

    def charge(self, page: bytes, why: str) -> None:
        """It ended a parser, or its links can't be taken. Others are to try it, or it is given up."""
        self._tally.add("pages_charged")
        self._book(self._store.call(spool.charge(page, why, self._consumer, self._most)))

    def what_was_left(self, guard: Unguarded) -> bool:
        """Charge the page over which the parser died that was here before, if it was over one."""
        if not isinstance(guard, PageGuard):
            return False
        left, why = guard.left_behind, guard.reason
        if left is not None:
            self.charge(left.page, why)
            sys.stderr.write(f"the parser before this one {why}, over page {left.page.decode()}\n")
        elif guard.last_words:
            sys.stderr.write(f"the parser before this one {why}, with no page in hand\n")
        guard.settled()
        return left is not None

    def _book(self, fate: Fate) -> None:
        if fate is Fate.GIVEN_UP:
            self._tally.add("dead_letters")
