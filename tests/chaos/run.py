"""One run of chaos: strikes by the schedule, looks on, and starts the command again where it was killed.

The test plays systemd for the command and for nothing else: what the command has started is its own to look
after. Where it ends without having been killed, that is noted, and a fault of ours.
"""

from __future__ import annotations

import heapq
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from node import settings
from node.errors import ExitCode, MilliardeError
from node.store import snapshot
from node.store.connection import LOST, Store
from tests.chaos.place import DISK_MB, RESERVE_MB, Place
from tests.chaos.plan import Fault, Kind, Plan, schedule
from tests.chaos.strikes import MAXMEMORY_MB, Missed, Strikes, Undo
from tests.whole.afternoon import rss_mb
from tests.whole.crawl import Crawl, until

LOOK_EVERY_S = 0.5
_TICK_S = 0.05
_LOADED_S = 4.0
_REFUSED_S = 1.0
"""A start that was refused is tried again after so long."""
_TRIES, _AGAIN_S = 10, 2.0
"""A fault whose target is not there, such as a visit while all domains wait, comes again."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the node. ``rss_mb`` by process; without ``counts`` where Redis said nothing."""

    at_s: float
    counts: snapshot.Snapshot | None
    rss_mb: dict[str, float]


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that was met: when, and when it was over."""

    fault: Fault
    at_s: float
    until_s: float


@dataclass
class Run:
    """A run and all that was seen of it."""

    plan: Plan
    place: Place
    crawl: Crawl
    struck: list[Struck] = field(default_factory=list)
    missed: list[tuple[Fault, str]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    ended_alone: list[str] = field(default_factory=list)
    """What the command said where it ended without being killed, before it was through."""
    code: int | None = None
    seconds: float = 0.0
    began_unix_s: float = 0.0
    """When the faults began, by the wall clock."""
    loading: int = 0
    refused_starts: int = 0
    """Starts of the command that were refused because the disk was full."""
    deaths: Counter[str] = field(default_factory=Counter)

    def over(self) -> bool:
        """Has the command come to an end, or ended by itself too often?"""
        return self.code is not None

    def counts(self) -> Counter[Kind]:
        """How often each kind struck."""
        return Counter(each.fault.kind for each in self.struck)


@contextmanager
def prepared(plan: Plan, folder: Path, tls_dir: Path) -> Iterator[Run]:
    """A place and a crawl, not started yet."""
    with Place(folder, tls_dir, domains=plan.domains, pages_per_domain=plan.pages_per_domain) as place:
        crawl = Crawl(
            place.disk / "out",
            place,
            *("--seeds", place.web.ordinary_seeds, "--delay", str(plan.delay_s)),
            *("--fetchers", str(plan.fetchers), "--parsers", str(plan.parsers)),
            settings=[
                "crawl.hop_gap_s=0.1",
                "fetcher.deadline_s=3",
                "fetcher.lease_s=23",
                "parser.claim_after_s=5",
                # small, so that files are closed, and begun, in the middle of it all
                "archive.rotate_bytes=500000",
                f"archive.disk_reserve_bytes={RESERVE_MB}000000",
                f"redis.maxmemory_mb={MAXMEMORY_MB}",
                # few addresses for many sites: their limit is another test's
                *("addresses.visits_per_s=0", "addresses.visits_at_once=0"),
                f'dns.servers=["{place.name_server}"]',
                *("dns.ttl_floor_s=1", "dns.ttl_ceiling_s=1", "dns.negative_ttl_s=1", "dns.timeout_s=1"),
            ],
            talk=folder / "crawl.stderr",
        )
        with crawl:
            yield Run(plan, place, crawl)


def keep(run: Run, folder: Path) -> Path:
    """Copy what the crawl left from its disk, which goes, to where it stays, with what was seen of it."""
    kept = Path(shutil.copytree(run.crawl.out, folder / "kept", ignore=shutil.ignore_patterns("*.sock")))
    with (kept / "looks.jsonl").open("w") as out:
        for look in run.looks:
            seen = look.counts and {"ledger": dict(look.counts.ledger), "control": dict(look.counts.control)}
            line = {"at_unix_s": run.began_unix_s + look.at_s, "rss_mb": look.rss_mb, "counts": seen}
            out.write(json.dumps(line) + "\n")
    return kept


class _Engine:
    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self.run = run
        self.say = say
        self.strikes = Strikes(run.crawl, run.place)
        self._undo: list[tuple[float, int, Undo]] = []
        self._numbers = count()
        self._began = time.monotonic()
        self._next_look = 0.0
        self._start_at = 0.0
        self._ended_s: float | None = None
        """When the command was first seen to have ended, since it was started last."""
        self._store: Store | None = None

    def now(self) -> float:
        return time.monotonic() - self._began

    def go(self) -> None:
        """The whole run."""
        run = self.run
        run.crawl.inside = run.place.inside
        run.crawl.start()
        until(lambda: len(run.place.web.requests()) > run.plan.domains, "the crawl has begun")
        self._began, run.began_unix_s = time.monotonic(), time.time()
        waiting = [(fault.at_s, at, 1, fault) for at, fault in enumerate(schedule(run.plan))]
        while waiting and not run.over():
            at_s, number, tries, fault = heapq.heappop(waiting)
            self._until(at_s)
            if not run.over() and not self._strike(fault, last=tries == _TRIES):
                heapq.heappush(waiting, (self.now() + _AGAIN_S, number, tries + 1, fault))
        while self._undo and not run.over():
            self._until(self._undo[0][0])
        self._undo_all()

    def _undo_all(self) -> None:
        while self._undo:
            heapq.heappop(self._undo)[2]()

    def finish(self, patience_s: float) -> None:
        """Leave it in peace until it has ended."""
        give_up = time.monotonic() + patience_s
        while not self.run.over() and time.monotonic() < give_up:
            self._tick()
        self.run.seconds = self.now()
        self.run.loading = self.strikes.loading

    def _until(self, at_s: float) -> None:
        self._tick()
        while self.now() < at_s and not self.run.over():
            self._tick()

    def _strike(self, fault: Fault, *, last: bool) -> bool:
        """False: its target is not there, try again. ``last``: then it is missed."""
        try:
            undo = self.strikes.strike(fault)
        except Missed as error:
            if last:
                self.run.missed.append((fault, str(error)))
                self.say(f"{self.now():6.1f} s  missed: {fault.kind.value}: {error}")
            return last
        at_s = self.now()
        for_s = fault.for_s
        if fault.kind in (Kind.CRAWL_KILL, Kind.POWER_CUT):
            self._start_at, for_s = at_s + fault.for_s, fault.for_s
        elif fault.kind is Kind.REDIS_LOADING:
            for_s = _LOADED_S
        heapq.heappush(self._undo, (at_s + for_s, next(self._numbers), undo))
        self.run.struck.append(Struck(fault, at_s, at_s + fault.for_s))
        self.say(f"{at_s:6.1f} s  {fault.kind.value} {fault.target} {fault.for_s or ''}")
        return True

    # -- all the time

    def _tick(self) -> None:
        while self._undo and self._undo[0][0] <= self.now():
            heapq.heappop(self._undo)[2]()
        self._look_after()
        if self.now() >= self._next_look:
            self._next_look = self.now() + LOOK_EVERY_S
            self.run.looks.append(self._look())
        time.sleep(_TICK_S)

    def _look_after(self) -> None:
        """Start the command again where it was killed, as systemd would."""
        crawl = self.run.crawl
        assert crawl.process is not None
        code = crawl.process.poll()
        if code is None:
            return
        if self._ended_s is None:
            self._ended_s = self.now()
        if self.strikes.killed:
            if self.now() < self._start_at:
                return
        elif code == 0:
            self.run.code = 0
            return
        elif code == ExitCode.NOT_WRITABLE and self._disk_was_short(self._ended_s):
            # said in words, before it has begun anything: systemd would try again, too
            if self.now() < self._start_at:
                return
            self._start_at = self.now() + _REFUSED_S
            self.run.refused_starts += 1
        else:
            self.run.ended_alone.append(f"exit code {code}: {crawl.said[-3_000:]}")
            self.say(f"{self.now():6.1f} s  the command ended by itself: {crawl.said[-3_000:]}")
            if len(self.run.ended_alone) > 3:
                self.run.code = code
                return
        self._note_deaths()
        self.strikes.killed = False
        crawl.inside = self.run.place.inside
        self._ended_s = None
        crawl.start()

    def _disk_was_short(self, at_s: float) -> bool:
        """Was it then, or just before?"""
        disk = (Kind.DISK_LOW, Kind.DISK_FULL)
        return any(each.until_s + _REFUSED_S > at_s for each in self.run.struck if each.fault.kind in disk)

    def _note_deaths(self) -> None:
        self.run.deaths.update(line for line in self.run.crawl.said.splitlines() if " died" in line)

    def _look(self) -> Look:
        counts = None
        try:
            if self._store is None:
                self._store = Store(settings.load(self.run.crawl.config), timeout_s=0.5)
            counts = snapshot.take(self._store)
        except (*LOST, MilliardeError, OSError):
            pass  # that is what it is about
        crawl = self.run.crawl
        there = crawl.process is not None and crawl.process.poll() is None
        sizes = {name: rss_mb(pid) for name, pid in crawl.children().items()} if there else {}
        return Look(self.now(), counts, sizes)

    def close(self) -> None:
        self._undo_all()
        self._note_deaths()
        if self._store is not None:
            self._store.close()


def go(run: Run, say: Callable[[str], None], *, patience_s: float = 120.0) -> None:
    """From the start of the crawl to its end, or until patience is lost after the last fault."""
    say(f"{run.plan.faults} faults in {run.plan.seconds:g} s; seed {run.plan.seed}; {DISK_MB} MB of disk")
    engine = _Engine(run, say)
    try:
        engine.go()
        say(f"{engine.now():6.1f} s  no more faults")
        engine.finish(patience_s)
        say(f"{engine.now():6.1f} s  the crawl has ended with {run.code}")
    finally:
        engine.close()
