"""The bad afternoon: nine fetchers and six parsers work on 200 domains, and then things go wrong.

One site serves giant pages, then nothing but 429; one parser works a tenth of the time. ``Afternoon`` runs
it and looks twice a second, from outside: Redis, /proc, and the web's own log.
``python -m tests.whole.afternoon`` draws the run into docs/images/afternoon.svg.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from node import settings
from node.errors import MilliardeError
from node.store import domain_record, keys, snapshot
from node.store.connection import LOST, Store
from node.store.snapshot import Snapshot
from tests.web.log import Entry, now_ms
from tests.web.running import MiniWeb
from tests.web_test.client import ask
from tests.whole import manners
from tests.whole.crawl import Crawl, until

DOMAINS = 200
DELAY_S = 1.0
FETCHERS, PARSERS = 9, 6
TROUBLED = "moody.test"
LOOK_EVERY_S = 0.5
BACK, BACK_S = 0.95, 20.0
"""All is well again when healthy sites had this part of their calm rate for so many seconds."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look; ``at_ms`` on the web's clock. ``delay_ms``: of the troubled site; ``rss_mb``: by process;
    ``idle`` and ``cpu``: of the machine since its start, in ticks."""

    at_ms: float
    counts: Snapshot
    delay_ms: int
    rss_mb: dict[str, float]
    idle: int
    cpu: int

    @property
    def total_rss_mb(self) -> float:
        return sum(self.rss_mb.values())

    @property
    def spool_max(self) -> int:
        return int(self.counts.control.get("spool_max", "0"))


@dataclass(frozen=True, slots=True)
class Phase:
    """A named stretch of time, in ms of the web's clock."""

    name: str
    start_ms: float
    end_ms: float


@dataclass
class Afternoon:
    """What was seen. ``entries``: the web's log."""

    crawl: Crawl
    web: MiniWeb
    looks: list[Look] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    lost_ms: list[float] = field(default_factory=list)
    """When Redis could not be asked."""

    def phase(self, name: str) -> Phase:
        return next(each for each in self.phases if each.name == name)

    def during(self, name: str) -> list[Look]:
        phase = self.phase(name)
        return [each for each in self.looks if phase.start_ms <= each.at_ms < phase.end_ms]

    def idle_share(self, name: str) -> float:
        """Of the machine's processors, in a phase. Where it is next to nothing, they were the limit."""
        looks = self.during(name)
        return (looks[-1].idle - looks[0].idle) / max(1, looks[-1].cpu - looks[0].cpu)

    def rate(self, name: str, wanted: Callable[[str], bool], *, last_s: float | None = None) -> float:
        """Requests a second in a phase (or in its last seconds), to domains that are ``wanted``."""
        phase = self.phase(name)
        start = phase.start_ms if last_s is None else phase.end_ms - 1_000 * last_s
        there = [
            each
            for each in self.entries
            if each.host is not None
            and start <= each.t_ms < phase.end_ms
            and wanted(manners.domain_of(each.host))
            and not (each.path or "").startswith("/-/")
        ]
        return len(there) / ((phase.end_ms - start) / 1_000)

    # -- running

    @contextmanager
    def running(self) -> Iterator[None]:
        """The crawl at work, and the looks at it."""
        ask(self.web, f"https://{TROUBLED}/-/mood/busy")
        stop = threading.Event()
        with self.crawl:
            self.crawl.start()
            until(self.crawl.config.exists, "the node's settings are written")
            watcher = threading.Thread(target=self._watch, args=(stop,))
            watcher.start()
            try:
                until(lambda: self.looks and self.looks[-1].counts.pages > DOMAINS, "the crawl has begun")
                yield
            finally:
                stop.set()
                watcher.join()
            self.entries = self.web.requests()
            self.crawl.interrupt()

    def go_through(self, name: str, seconds: float, during: Callable[[], None] | None = None) -> None:
        """One phase: ``during`` is done at its start."""
        start = now_ms()
        if during is not None:
            during()
        time.sleep(max(0.0, seconds - (now_ms() - start) / 1_000))
        self.phases.append(Phase(name, start, now_ms()))

    def recover(self, name: str, within_s: float) -> None:
        """The last phase: until healthy sites are visited as when all was calm, and the troubled one at about
        its old pace, or until ``within_s`` are over."""
        start = now_ms()
        self.phases.append(Phase(name, start, start))
        while True:
            time.sleep(5)
            now = now_ms()
            self.phases[-1] = Phase(name, start, now)
            over_s = (now - start) / 1_000
            if over_s >= within_s:
                return
            if over_s >= BACK_S + 5 and self.looks[-1].delay_ms <= 1_100 * DELAY_S:
                self.entries = self.web.requests()
                if self.rate(name, healthy, last_s=BACK_S) >= BACK * self.rate("calm", healthy):
                    return

    def mood(self, name: str) -> None:
        ask(self.web, f"https://{TROUBLED}/-/mood/{name}")

    @contextmanager
    def slow_parser(self) -> Iterator[None]:
        """Parser 1 is stopped nine tenths of the time."""
        done = threading.Event()
        pid = self.crawl.children().get("parser 1")
        assert pid is not None, f"parser 1 is not there: {self.crawl.said[-3_000:]}"

        def hold() -> None:
            while not done.is_set():
                os.kill(pid, signal.SIGSTOP)
                done.wait(0.9)
                os.kill(pid, signal.SIGCONT)
                done.wait(0.1)

        holder = threading.Thread(target=hold)
        holder.start()
        try:
            yield
        finally:
            done.set()
            holder.join()

    def _watch(self, stop: threading.Event) -> None:
        store: Store | None = None
        while not stop.wait(LOOK_EVERY_S):
            try:
                if store is None:
                    store = Store(settings.load(self.crawl.config))
                    store.begin()
                self.looks.append(self._look(store))
            except (*LOST, MilliardeError, OSError):
                self.lost_ms.append(now_ms())
        if store is not None:
            store.close()

    def _look(self, store: Store) -> Look:
        *answers, packed = store.calls([], extra=[*snapshot.COMMANDS, ("GET", keys.domain(TROUBLED))])
        record = domain_record.unpack(packed) if packed else None
        delay = max(round(1_000 * DELAY_S), record.slowed_ms if record is not None else 0)
        rss = {name: rss_mb(pid) for name, pid in self.crawl.children().items()}
        return Look(now_ms(), snapshot.decode(answers), delay, rss, *_ticks())


def _ticks() -> tuple[int, int]:
    """Idle, and all, of the machine's processors."""
    fields = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def rss_mb(pid: int) -> float:
    """Resident memory now, without what is shared with a parent's pages on disk."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def median_rss(looks: list[Look]) -> float:
    """Of all processes together, in MB."""
    return statistics.median(each.total_rss_mb for each in looks)


def healthy(domain: str) -> bool:
    """Is it one of the sites that never do anything wrong?"""
    return domain != TROUBLED


def troubled(domain: str) -> bool:
    """Is it the other one?"""
    return domain == TROUBLED


@contextmanager
def afternoon(folder: Path, tls_dir: Path, *set_to: str, out: Path | None = None) -> Iterator[Afternoon]:
    """A web of 200 domains with more pages than can be visited, and a crawl of it, not started yet."""
    with MiniWeb(
        folder / "web", domains=DOMAINS, pages_per_domain=300, mean_bytes=6_000, tls_dir=tls_dir
    ) as web:
        seeds = folder / "seeds.txt"
        seeds.write_text(web.ordinary_seeds.read_text() + f"https://{TROUBLED}/\n")
        crawl = Crawl(
            out or folder / "out",
            web,
            *("--delay", str(DELAY_S), "--seeds", seeds),
            *("--fetchers", str(FETCHERS), "--parsers", str(PARSERS)),
            settings=["crawl.hop_gap_s=0.1", "crawl.max_urls_per_domain=300", *set_to],
        )
        yield Afternoon(crawl, web)


def run(
    day: Afternoon,
    *,
    begun: Callable[[], object] = lambda: None,
    fault: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """All of it: calm, giants, limits, calm again. ``begun`` is done first, once the crawl has begun;
    ``fault``: another thing that goes wrong meanwhile."""
    with day.running():
        begun()
        day.go_through("warm-up", 25)
        day.go_through("calm", 20)
        with day.slow_parser(), fault():
            day.go_through("giants", 15, lambda: day.mood("giant"))
            day.go_through("limits", 20, lambda: day.mood("limiting"))
        day.mood("busy")
        day.recover("after", 60)


def describe(day: Afternoon) -> str:
    """A line for each phase."""
    lines = []
    for phase in day.phases:
        looks = day.during(phase.name)
        queued = looks[-1].counts.count("queued")
        redis = max(int(each.counts.redis["used_memory"]) for each in looks) / 1e6
        spooled = max(each.counts.count("spooled") + each.counts.count("leased") for each in looks)
        lines.append(
            f"{phase.name:8} {day.rate(phase.name, healthy):6.1f} requests/s of healthy sites, "
            f"{day.rate(phase.name, troubled):5.2f} of the troubled one; delay there up to "
            f"{max(each.delay_ms for each in looks) / 1000:g} s; {median_rss(looks):.0f} MB, "
            f"{redis:.1f} of it used by Redis; {spooled} of {looks[-1].spool_max} leased or spooled; "
            f"{queued:,} queued; processors idle {day.idle_share(phase.name):.0%}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run it, say what was seen, and draw it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with afternoon(folder, folder / "tls") as day:
            run(day)
            sys.stdout.write(describe(day) + "\n")
            drawing.draw(day, drawing.PICTURE)
    return 0


if __name__ == "__main__":
    from tests.whole import drawing

    sys.exit(main())
