"""Does a call cost more where more is queued? Leases, settles and offers against frontiers of several sizes.

Each frontier is filled through the real offer (seen filters and all), with the append-only file off; then it
is switched on, as on a node. Nine fetchers take turns to lease 50 domains a call. Time is driven: 1,000
visits a second, whatever the size, so each frontier has the delay at which its domains allow just that (81 s
for 83,000), and ``ready`` holds nearly all of them, spread over the delay. Visits take half a second; then
they are settled as pages, 50 a call, read from the spool, and their links are offered, 16 pages a call, 20
links a page that reach Redis (one new, 14 known of the same domain, 5 known of others).

Redis's time is the CPU time of its process, parsing and answering included; beside it stands what its own
command statistics say of the scripts alone, by the wall's clock: on a machine with other work that is longer.
"""

from __future__ import annotations

import contextlib
import gc
import random
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import redis

from node.rules.entry import Entry, Lease
from node.rules.outcome import Signal
from node.rules.shard import LANES, lane_of
from node.rules.url import dedup_key
from node.settings import Settings
from node.store import keys, spool
from node.store.connection import Store
from node.store.frontier import Frontier, Group, Kind, Settlement
from node.store.spool import Pointer
from node.store.warc import Position
from node.work.redis_server import RedisServer
from tests.bench import crawls
from tests.bench.beside import Fairness, Rewrite, Waits, rewritten
from tests.bench.calls import Calls, Cost
from tests.bench.frontier import URL_LENGTH
from tests.bench.plan import Size
from tests.bench.processes import RunError

FETCHERS = 9
VISITS_A_SECOND = 1_000
URLS_A_DOMAIN = 1_234
"""What the horizon allows a domain, so that caps and filters are those of a day at 70 s."""
A_CALL = 50
"""Domains leased, and visits settled, in a call."""
CALLS_A_ROUND = 20
PAGES_AN_OFFER = 16
VISIT_MS = 500
CYCLE_S = 1.6
"""From a domain's due time to the end of its visit, at most: a visit and a round of leases, and some room."""
WARM_UP_ROUNDS = 5
_URLS_AN_OFFER = 2_000
_KNOWN_HERE, _KNOWN_ELSEWHERE = 14, 5
_LEVEL = 2


@dataclass(frozen=True, slots=True)
class Point:
    """What calls cost at one size.

    ``pages_us``: Redis's CPU time for a page (lease, settle, read, offer), of each round.
    """

    domains: int
    queued: int
    redis_bytes: int
    lease: Cost
    settle: Cost
    offer: Cost
    pages_us: tuple[float, ...]
    waits: Waits
    rewrite: Rewrite

    @property
    def page_us(self) -> float:
        """Median over the rounds."""
        return median(self.pages_us)


def measure(work: Path, sizes: Sequence[Size], rounds: int, say: Callable[[str], None]) -> list[Point]:
    """A Redis for each size, all filled; then they are asked in turns, since the machine's speed drifts."""
    with contextlib.ExitStack() as stack:
        benches = []
        for size in sizes:
            begun = time.monotonic()
            benches.append(stack.enter_context(_opened(work / f"scale-{size.domains}-{size.urls}", size)))
            benches[-1].fill()
            say(f"{size.urls:,} URLs of {size.domains:,} domains offered in {time.monotonic() - begun:.0f} s")
        gc.collect()
        for number in range(-WARM_UP_ROUNDS, rounds):
            if number == 0:
                for bench in benches:
                    bench.forget()
            for bench in benches:
                bench.round()
        return [bench.point() for bench in benches]


@contextlib.contextmanager
def _opened(folder: Path, size: Size) -> Iterator[_Bench]:
    shutil.rmtree(folder, ignore_errors=True)
    delay_s = size.domains / VISITS_A_SECOND - CYCLE_S
    settings = crawls.settings(folder, crawl={"delay_s": delay_s, "horizon_s": URLS_A_DOMAIN * delay_s})
    server = RedisServer(settings)
    server.start()
    store, look = Store(settings), redis.Redis(unix_socket_path=settings.paths.redis_socket)
    try:
        store.begin()
        yield _Bench(settings, store, look, size)
    finally:
        store.close()
        look.close()
        server.stop()
        shutil.rmtree(folder)


class _Bench:
    """A frontier of one size, and nine fetchers and a parser that use it."""

    def __init__(self, settings: Settings, store: Store, look: Any, size: Size) -> None:
        self.store, self.look, self.size = store, look, size
        self.frontier = Frontier(settings)
        self.per_domain = size.urls // size.domains
        self.now_ms = store.now_ms()
        self.delay_ms = 1_000 * settings.crawl.delay_s
        self.horizon_s = settings.crawl.horizon_s
        self.lanes: list[list[int]] = []
        self.out: deque[tuple[int, Lease]] = deque()
        self.fresh = self.per_domain
        """Number of the next URL that no domain has seen."""
        self.dice = random.Random(1)
        self.turn = 0
        self.clock = float(self.now_ms)
        self.filled_bytes = 0
        self.fairness = Fairness()
        self.forget()

    def forget(self) -> None:
        """What was measured so far was warming up."""
        self.leases, self.settles, self.offers, self.reads = (Calls(self.look) for _ in range(4))
        self.pages_us: list[float] = []
        self.fairness.forget()

    def point(self) -> Point:
        """What was measured since."""
        self._check(self.settles.calls * A_CALL)
        return Point(
            self.size.domains,
            int(self.look.hget(keys.LEDGER, "queued")),
            self.filled_bytes,
            self.leases.cost(),
            self.settles.cost(),
            self.offers.cost(),
            tuple(self.pages_us),
            self.fairness.waits(),
            rewritten(self.look, self.round),
        )

    def _check(self, pages: int) -> None:
        """A measurement counts only where there was as much as was wanted, and every lease found its 50."""
        queued = int(self.look.hget(keys.LEDGER, "queued"))
        if abs(queued + len(self.out) - self.size.urls) > 0.05 * self.size.urls:
            raise RunError(f"{queued:,} URLs are queued, and {self.size.urls:,} were wanted")
        if pages < 0.9 * self.leases.calls * A_CALL:
            raise RunError(f"{self.leases.calls} leases gave {pages:,} pages: domains were not due")

    # -- before

    def fill(self) -> None:
        """Offer all URLs, a few domains a call; the domains come due one after the other within a delay."""
        self.look.config_set("appendonly", "no")
        empty = self._memory()
        a_call = max(1, _URLS_AN_OFFER // self.per_domain)
        for first in range(0, self.size.domains, a_call):
            numbers = range(first, min(first + a_call, self.size.domains))
            self.store.call(
                self.frontier.offer(self.now_ms, self._groups(numbers), time_left_s=self.horizon_s)
            )
        self.filled_bytes = self._memory() - empty
        self.look.config_set("appendonly", "yes")
        self._wait_for_rewrite()
        self.look.hset(keys.CONTROL, "spool_max", 10**6)
        self._join()

    def _groups(self, numbers: range) -> Iterator[Group]:
        for number in numbers:
            due = self.now_ms + self.delay_ms * number / self.size.domains
            group = _group(number, due)
            self.fairness.due(group.domain, due)
            for k in range(self.per_domain):
                self._add(group, number, k)
            yield group

    def _add(self, group: Group, domain: int, number: int) -> None:
        url = _url(domain, number)
        group.entries.append(Entry(url, _LEVEL, _LEVEL).pack())
        group.slots += self.frontier.slots(dedup_key(url))

    def _memory(self) -> int:
        return int(self.look.info("memory")["used_memory"])

    def _wait_for_rewrite(self) -> None:
        """Until the append-only file holds what was written without it."""
        while True:
            state = self.look.info("persistence")
            if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
                return
            time.sleep(0.1)

    def _join(self) -> None:
        """Beats until nine fetchers share the lanes evenly."""
        for _ in range(FETCHERS + 2):
            self.lanes = [self._beat(number) for number in range(1, FETCHERS + 1)]
        if sorted(lane for lanes in self.lanes for lane in lanes) != list(range(LANES)):
            raise RunError("the lanes are not shared out")

    def _beat(self, number: int) -> list[int]:
        return self.store.call(self.frontier.beat(int(self.clock), number, "x"))

    # -- one round

    def round(self) -> None:
        """Leases, and what follows from them."""
        for number in range(1, FETCHERS + 1):
            self._beat(number)
        lease_us = self.leases.round(self._lease)
        settled = self.settles.calls
        settle_us = self.settles.round(self._settle)
        settled = self.settles.calls - settled
        pages: list[spool.Page] = []
        read_us = self.reads.round(lambda: self._read(pages))
        offer_us = self.offers.round(lambda: self._offer(pages))
        if settled:
            self.pages_us.append((lease_us + settle_us + read_us + offer_us) / (settled * A_CALL))

    def _lease(self) -> int:
        for _ in range(CALLS_A_ROUND):
            self.clock += 1_000 * A_CALL / VISITS_A_SECOND
            self.turn += 1
            number = self.turn % FETCHERS
            lanes, tag = self.lanes[number], f"{number + 1}.x"
            verb = self.frontier.lease(int(self.clock), tag, lanes, A_CALL, self.turn % LANES)
            for lease in self.leases.timed(self.store, verb).leases:
                self.fairness.visited(lease.domain, self.clock)
                self.out.append((int(self.clock) + VISIT_MS, lease))
        return CALLS_A_ROUND

    def _settle(self) -> int:
        calls = 0
        while len(self.out) >= A_CALL and self.out[A_CALL - 1][0] <= self.clock:
            batch = [_settled(self.out.popleft()[1]) for _ in range(A_CALL)]
            for each in batch:
                self.fairness.due(each.lease.domain, int(self.clock) + self.delay_ms)
            self.settles.timed(self.store, self.frontier.settle(int(self.clock), batch, {}, 0.5))
            calls += 1
        return calls

    def _read(self, pages: list[spool.Page]) -> int:
        calls = 0
        while True:
            (answer,) = self.store.calls([], extra=[spool.read_new("p1", 80, 1)])
            found = spool.pages_read(answer)
            if not found:
                return calls
            pages += found
            calls += 1

    def _offer(self, pages: list[spool.Page]) -> int:
        calls = 0
        for start in range(0, len(pages), PAGES_AN_OFFER):
            batch = pages[start : start + PAGES_AN_OFFER]
            groups: dict[int, Group] = {}
            for page in batch:
                domain = int(page.pointer.url[19:26])
                self._link(groups, domain, self.fresh)
                self.fresh += 1
                for _ in range(_KNOWN_HERE):
                    self._link(groups, domain, self.dice.randrange(self.per_domain))
                for _ in range(_KNOWN_ELSEWHERE):
                    other = self.dice.randrange(self.size.domains)
                    self._link(groups, other, self.dice.randrange(self.per_domain))
            verb = self.frontier.offer(int(self.clock), groups.values(), [page.id for page in batch])
            self.offers.timed(self.store, verb)
            calls += 1
        return calls

    def _link(self, groups: dict[int, Group], domain: int, number: int) -> None:
        group = groups.get(domain)
        if group is None:
            group = groups[domain] = _group(domain, self.clock)
        self._add(group, domain, number)


def _name(domain: int) -> str:
    return f"weight-{domain:07d}.test"


def _group(domain: int, due_ms: float) -> Group:
    name = _name(domain)
    return Group(name, lane_of(name), due_ms)


def _url(domain: int, number: int) -> str:
    """A URL of 64 characters, all different."""
    start = f"https://www.{_name(domain)}/article-{number:x}"
    return start + "-" * max(0, URL_LENGTH - len(start) - 5) + ".html"


def _settled(lease: Lease) -> Settlement:
    pointer = Pointer(Position("f01-000001.warc.gz", 123_456_789, 30_000), lease.entry.depth, lease.entry.url)
    return Settlement(
        lease, Kind.PAGE, "page", Signal.SUCCESS, sent=True, pointer=pointer.pack(), crawl_delay_ms=0
    )
