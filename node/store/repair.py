"""Putting right what ``check`` finds broken: by verbs, a domain at a time, on a node where nobody is at work.

What was lost can't be brought back: it is accounted for (``drop:lost``), so that the ledger adds up and says
how much it was. What is there is kept, in one place. Doing it twice is harmless, and so is breaking it off.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from node.errors import InUseError
from node.rules.shard import lane_of
from node.rules.url import dedup_key
from node.store import keys
from node.store.check import check
from node.store.check_addresses import miscounted, recount
from node.store.check_places import latest
from node.store.connection import Store
from node.store.findings import Findings
from node.store.found import page_gone
from node.store.frontier import Frontier
from node.store.scripts import Verb
from node.store.spool import Pointer

_pack = msgspec.msgpack.Encoder().encode
_NAMED: Final = 3
"""Subjects named for each thing that was done."""
_MARKED_AT_ONCE: Final = 1_000

WORDS: Final = {
    "type": "keys of another type than they must be were removed",
    "state": "domains' states were made anew around what waits; these are due a delay from now",
    "due": "domains had a time that no domain has; they are due a delay from now",
    "width": "domains had a width that no domain has; it is what it was in the beginning",
    "no_entry": "entries of queues that are none were removed",
    "twice": "URLs were taken from a second place where they stood",
    "moved": "URLs were put into the list of their priority",
    "endless": "leases that would not have run out do so now",
    "given_up": "URLs of domains that had been given up were dropped",
    "filter": "filters of URLs seen were made anew, with what waits; what was visited may be visited again",
    "counts": "domains' counts were set to what is there",
    "lowest": "domains are searched from their first URL on again",
    "ready": "domains were put where they belong in ready, or taken out of it",
    "brought": "members of lanes were brought to the lane they belong to",
    "removed": "members of lanes that are nobody's were removed",
    "no_page": "entries of the spool that are no pages were removed",
    "page_gone": "pages whose record is gone were taken off the spool; their URLs are queued again",
    "counter": "counters were set to what is there",
    "address": "addresses have as many visits under way as leases are out there",
    "lost": "URLs are nowhere; they are counted as dropped (lost)",
}
"""What may be done, in the words of a line that says how often it was."""


class Repaired:
    """What was done: by its name in ``WORDS``, how often, and the first it was done to."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.subjects: dict[str, list[str]] = defaultdict(list)

    def note(self, what: str, subject: str, many: int = 1) -> None:
        self.counts[what] += many
        if len(self.subjects[what]) < _NAMED and subject not in self.subjects[what]:
            self.subjects[what].append(subject)

    def lines(self) -> Iterator[str]:
        """For a reader at a terminal: a line for each thing done."""
        for what, words in WORDS.items():
            if self.counts[what]:
                more = ", ..." if self.counts[what] > len(self.subjects[what]) else ""
                yield f"{self.counts[what]:,} {words}: {', '.join(self.subjects[what])}{more}"


def repair(store: Store, warc_folder: Path) -> tuple[Repaired, Findings]:
    """Put right what is broken; answers what was done, and what a check says after it.

    Nobody may be at work on the node; raises ``InUseError`` where somebody turns out to be.
    """
    menders = _Menders(store)
    check(store, every_url=True, warc_folder=warc_folder, mender=menders)
    _reckon(store, menders.done)
    _recount(store, menders.done)
    return menders.done, check(store, every_url=True, warc_folder=warc_folder)


class _Menders:
    """Mends what a check tells it of (``check_places.Mender``)."""

    def __init__(self, store: Store) -> None:
        self.done = Repaired()
        self._store = store
        self._frontier = Frontier(store.settings)
        self._latest = latest(store)
        self._spooled: Mapping[str, list[str]] = {}

    def domain(self, name: str) -> None:
        lane, frontier, now_ms = lane_of(name), self._frontier, self._store.now_ms()
        plan = frontier.plan
        times = (self._latest.due_ms, self._latest.lease_ms)
        options = [frontier.base_delay_ms, frontier.wire_plan, plan.bits_set, *times]
        spooled = _pack(self._spooled.get(name, []))
        verb = Verb("mend", (now_ms, lane, name, _pack(options), spooled), _pairs)
        done = self._store.call(verb)
        for what, many in done.items():
            self.done.note(what, name, many)
        if "filter" in done:
            self._mark(name, lane)

    def _mark(self, name: str, lane: int) -> None:
        """What is there of a domain's URLs is marked as seen in its new filter."""
        frontier, store = self._frontier, self._store
        entries = [entry[3:] for entry in store.call(frontier.trim(store.now_ms(), name, lane, 0))]
        (leases,) = store.calls([], extra=[("ZRANGE", keys.leases(lane), 0, -1)])
        for _token, _hops, domain, entry in (lease.decode().split(" ", 3) for lease in leases):
            if domain == name:
                entries.append(entry[3:])
        entries += self._spooled.get(name, [])
        options = _pack([frontier.base_delay_ms, frontier.wire_plan])
        for start in range(0, len(entries), _MARKED_AT_ONCE):
            part = entries[start : start + _MARKED_AT_ONCE]
            slots = b"".join(frontier.slots(dedup_key(url)) for url in part)
            store.call(Verb("mark", (store.now_ms(), lane, name, options, slots), int))

    def on_spool(self, urls: Mapping[str, list[str]]) -> None:
        self._spooled = urls

    def member(self, kind: str, lane: int, member: bytes, belongs: int | None) -> None:
        to = "" if belongs is None else str(belongs)
        if self._store.call(Verb("move", (kind, lane, member, to), int)):
            self.done.note("removed" if belongs is None else "brought", f"{kind}:{lane}")

    def page(self, id_: bytes, pointer: Pointer | None) -> None:
        if pointer is None:
            self._store.calls([], extra=[("XACK", keys.SPOOL, keys.PARSERS, id_), ("XDEL", keys.SPOOL, id_)])
            self.done.note("no_page", id_.decode())
            return
        if self._store.call(page_gone(self._frontier, self._store.now_ms(), id_, pointer.entry)):
            self.done.note("page_gone", pointer.url)


def _recount(store: Store, done: Repaired) -> None:
    """Set what is counted at addresses to what is there."""
    for wrong in miscounted(store, check(store).at_address):
        recount(store, wrong)
        done.note("address", wrong.key)


def _reckon(store: Store, done: Repaired) -> None:
    """Set the counters of I1 to what is there. Raises ``InUseError`` where they change meanwhile."""
    found = check(store)
    if not found.totals_compared:
        raise InUseError("somebody is at work on this node (seeds, exclusions?): repair it again after that")
    (flat,) = store.calls([], extra=[("HGETALL", keys.LEDGER)])
    verb = Verb("reckon", (found.queued, found.domains, *flat), _changes)
    for name, before, after in store.call(verb):
        if name == "moved":
            raise InUseError("somebody went to work on this node: repair it again after that")
        lost = name == "drop:lost"
        done.note("lost" if lost else "counter", f"{name} {before} -> {after}", after - before if lost else 1)


def _pairs(answer: list[Any]) -> dict[str, int]:
    return {answer[i].decode(): int(answer[i + 1]) for i in range(0, len(answer), 2)}


def _changes(answer: list[bytes]) -> list[tuple[str, int, int]]:
    if answer == [b"moved"]:
        return [("moved", 0, 0)]
    texts = [each.decode(errors="replace") for each in answer]
    return [
        (texts[i], int(texts[i + 1]) if texts[i + 1].lstrip("-").isdigit() else 0, int(texts[i + 2]))
        for i in range(0, len(texts), 3)
    ]
