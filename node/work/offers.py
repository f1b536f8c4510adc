"""What a parser found goes into the frontier, and its pages off the spool: one call for both.

While Redis has no memory for links both wait, for as long as ``rules/shed.py`` is patient; nothing has
changed then, and the pages are still the parser's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from redis.exceptions import ResponseError

from node.rules.pressure import Reason
from node.rules.shed import Shortage
from node.store.connection import Store
from node.store.frontier import Frontier, Group, Offered
from node.store.refusals import is_out_of_memory
from node.store.tally import Tally
from node.work.links import Offering
from node.work.stopwatch import Stopwatch

OUT_OF_MEMORY_WAIT_S = 0.5


class Offers:
    """One per parser. ``meanwhile`` is called again and again while there is no memory; what it raises ends
    the wait.
    """

    def __init__(
        self,
        store: Store,
        frontier: Frontier,
        offering: Offering,
        tally: Tally,
        meanwhile: Callable[[], object],
        *,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store = store
        self._frontier = frontier
        self._offering = offering
        self._tally = tally
        self._meanwhile = meanwhile
        self._now_s = now_s
        self._wait = wait
        self._shortage = Shortage()
        self._watch = Stopwatch()
        self.held = False
        """Is there no memory for what is to be offered?"""

    def offer(
        self, groups: Collection[Group], pages: Sequence[bytes], *, near: bytes = b"", run: str = ""
    ) -> None:
        """Offer, and acknowledge ``pages``, the ids of those that were read; see ``Frontier.offer``.

        Raises what Redis answers, but not that it is out of memory: that is waited for.
        """
        self._shortage = self._shortage.remembered(self._now_s())
        try:
            while (offered := self._try(groups, pages, near, run)) is None:
                self._hold()
        except BaseException:
            self._offering.forget()
            raise
        finally:
            self.held = False
        self._shortage = self._shortage.next(self._now_s(), short=offered.short)
        self._offering.learn(offered, self._store.now_ms())
        self._tally.add("pages_parsed", offered.acknowledged)
        self._tally.add("links:admitted", offered.admitted)
        self._tally.add("links:known", offered.seen)

    def _try(
        self, groups: Collection[Group], pages: Sequence[bytes], near: bytes, run: str
    ) -> Offered | None:
        """None: there is no memory for it now."""
        patient = bool(groups) and self._shortage.patient(self._now_s())
        verb = self._frontier.offer(self._store.now_ms(), groups, pages, near=near, run=run, patient=patient)
        self._watch.start()
        try:
            return self._store.call(verb)
        except ResponseError as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            self._waited(Reason.STORE, self._watch.seconds())

    def _hold(self) -> None:
        self._shortage = self._shortage.next(self._now_s(), short=True)
        self._tally.add("refused:parsers:no_memory")
        self.held = True
        self._wait(OUT_OF_MEMORY_WAIT_S)
        self._waited(Reason.NO_MEMORY, OUT_OF_MEMORY_WAIT_S)
        self._meanwhile()

    def _waited(self, reason: Reason, seconds: float) -> None:
        self._tally.add(f"wait_ms:parsers:{reason}", round(1000 * seconds))
