"""``milliarde crawl``: settings, seeds, a whole node, live progress, and an end that is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from node.errors import InputError, MilliardeError, StoreError
from node.rules.pressure import HOLDING
from node.rules.seeds import Junk, Seed
from node.settings import Settings
from node.store import index, keys
from node.store.connection import LOST
from node.store.frontier import Frontier
from node.store.snapshot import Snapshot
from node.work import exclusion_list, seed, summary
from node.work.crawl_plan import CONFIG, Plan, default_split, make_folders, settings_for, write_config
from node.work.identity import signer_of, user_agent
from node.work.local import REDIS_AGAIN, TICK_S, LocalNode, data_lock
from node.work.patience import patiently
from node.work.progress import WORDS, Progress, show_summary
from node.work.recovery import take_over_absent
from node.work.watch import port_is_free

T = TypeVar("T")


def _seeds(plan: Plan) -> Iterator[Seed | Junk]:
    yield from seed.given(plan.urls)
    for path in plan.lists:
        yield from seed.read(path)


class _Interrupt:
    """Ctrl-C and SIGTERM as a flag; a second Ctrl-C means: now."""

    def __init__(self) -> None:
        self.asked = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True


def run(plan: Plan) -> dict[str, object]:
    """Crawl until an end is reached; answers the summary.

    Raises ``MilliardeError`` of the fitting kind where it can't begin or go on.
    """
    settings = settings_for(plan)
    user_agent(settings)  # says at once if a fleet doesn't say who it is
    signer_of(settings)
    for text in plan.urls:
        found = next(seed.given([text]))
        if isinstance(found, Junk):
            raise InputError(f"{text!r} can't be crawled: {found.why}")
    for path in plan.lists:
        next(iter(seed.read(path)), None)  # says at once if it can't be read
    interrupt = _Interrupt()
    interrupt.install()
    make_folders(settings)
    fetchers, parsers = default_split(os.cpu_count() or 1)
    with data_lock(settings), Progress() as progress:
        port_is_free(settings)
        node = LocalNode(
            settings,
            settings.data / CONFIG,
            fetchers=plan.fetchers or fetchers,
            parsers=plan.parsers or parsers,
            watch=True,
        )
        crawl = _Crawl(plan, settings, node, progress, interrupt)
        try:
            told = crawl.run()
        except LOST as error:
            raise StoreError(f"Redis went away and did not come back: {error}") from None
        finally:
            node.kill_children()
            node.close()
    show_summary(told)
    return told


class _Crawl:
    def __init__(
        self, plan: Plan, settings: Settings, node: LocalNode, progress: Progress, interrupt: _Interrupt
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.node = node
        self.progress = progress
        self.interrupt = interrupt
        self.frontier = Frontier(settings)
        self.idle_s = plan.idle_s if plan.idle_s is not None else max(120.0, 3 * settings.crawl.delay_s)
        self._next_look = 0.0

    def run(self) -> dict[str, object]:
        begun = self.node.start()
        write_config(self.settings)
        self._announce(begun.how)
        if begun.how != "first":
            self._patiently(lambda: asyncio.run(take_over_absent(self.settings, self.node.fetchers)))
        self._patiently(lambda: self.node.tell(pages=self.settings.crawl.pages))
        self._patiently(self._exclude)
        self.node.start_children()
        self._patiently(self._sow)
        reason = self._until_the_end()
        return self._finish(reason)

    def _patiently(self, step: Callable[[], T]) -> T:
        """Do what may be done twice, though Redis goes away meanwhile."""
        return patiently(step, self._mend_redis)

    def _mend_redis(self) -> None:
        if self.node.mend_redis():
            self.progress.say(REDIS_AGAIN)

    def _announce(self, how: str) -> None:
        say = self.progress.say
        if self.node.redis.mended:
            say(self.node.redis.mended)
        if how == "clean":
            say(f"going on with the crawl in {self.settings.data}")
        elif how == "unclean":
            say(
                f"going on with the crawl in {self.settings.data}, which was cut off; every domain is "
                f"left in peace for its delay first"
            )
        rules = self.settings.dns.connect_to
        if rules:
            say(f"connect-to {' '.join(rules)} (addresses there are not checked)")
        if not self.settings.tls.verify:
            say("certificates are not verified")

    # -- who is not visited

    def _exclude(self) -> None:
        """Put the list of excluded names in force before anything is fetched."""
        if self.plan.exclude_list is None:
            return
        self.progress.note = "reading the excluded names"
        report = exclusion_list.put_in_force(self.settings, self.plan.exclude_list, "given to crawl")
        self._say_junk(report.junk, report.junk_lines)
        self.progress.say(f"{report.names:,} hosts and domains are excluded by {self.plan.exclude_list}")
        if not report.unchanged:
            for change in (exclusion_list.purge, exclusion_list.bring_back):
                for _ in change(self.node.store, self.frontier, self.settings):
                    self._look_if_due()
        self.progress.note = ""

    def _say_junk(self, shown: Sequence[Junk], count: int) -> None:
        for junk in shown:
            self.progress.say(f"{junk.where}, line {junk.line}: {junk.why}; passed over")
        if count > len(shown):
            self.progress.say(f"... and {count - len(shown):,} more lines that can't be used")

    # -- seeds

    def _sow(self) -> None:
        self.progress.note = "reading seeds"
        report = seed.sow(
            self.node.store,
            self.frontier,
            seed.gate(self.settings),
            self._until_interrupted(_seeds(self.plan)),
            on_batch=self._look_if_due,
        )
        self._say_junk(report.junk, report.junk_lines)
        for why, count in report.refused.items():
            self.progress.say(f"{count:,} seeds are not for us: {why}")
        if self.interrupt.asked:
            return  # before the first usable line, maybe
        if not report.seeds and (self.plan.urls or self.plan.lists):
            raise InputError("there is no usable line among the seeds")
        if not self.node.look().count("admitted"):
            raise InputError("there is nothing to crawl: give URLs, domains or --seeds FILE")
        self.progress.note = ""

    def _until_interrupted(self, seeds: Iterable[Seed | Junk]) -> Iterator[Seed | Junk]:
        for each in seeds:
            if self.interrupt.asked:
                return
            yield each

    # -- the loop

    def _look_if_due(self) -> Snapshot | None:
        now = time.monotonic()
        if now < self._next_look:
            return None
        self._next_look = now + TICK_S
        try:
            for news in self.node.look_after():
                self.progress.say(news)
            self.node.book_time()
            look = self.node.look()
        except LOST:
            return None
        self.progress.show(look)
        return look

    def _until_the_end(self) -> str:
        begun_ms = self.node.store.now_ms()
        while True:
            if self.interrupt.asked:
                return "interrupted"
            look = self._look_if_due()
            if look is not None:
                if not any(name.startswith("fetcher") for name in look.procs):
                    begun_ms = self.node.store.now_ms()  # who has not begun is not idle
                reason = self._ended(look, begun_ms)
                if reason is not None:
                    return reason
            time.sleep(0.02)

    def _ended(self, look: Snapshot, begun_ms: int) -> str | None:
        crawl = self.settings.crawl
        if crawl.pages is not None and look.pages >= crawl.pages:
            return "pages"
        if crawl.seconds is not None and look.tally.get("active_ms", 0) >= 1000 * crawl.seconds:
            return "time"
        if look.open_urls == 0:
            return "finished"
        if look.control.get("pause"):
            self.progress.note = f"paused: {look.control['pause']}"
            return None
        held = {report.waiting for report in look.procs.values()} & HOLDING
        if held:
            self.progress.note = " and ".join(WORDS[reason] for reason in sorted(held))
            return None
        self.progress.note = ""
        last_work_ms = max(begun_ms, look.count("last_lease"))
        quiet = look.count("leased") == 0 and look.count("spooled") == 0
        if quiet and self.node.store.now_ms() - last_work_ms > 1000 * self.idle_s:
            return "idle"
        return None

    # -- the end

    def _finish(self, reason: str) -> dict[str, object]:
        self.progress.note = "stopping"
        self._patiently(lambda: self.node.store.calls([], extra=[("HSET", keys.CONTROL, "stop", reason)]))
        self.node.stop(drain_spool=reason != "interrupted", on_tick=lambda: self._show())
        self._patiently(self.node.book_time)
        look = self._patiently(self.node.look)
        told = summary.summarise(look, reason=reason, folder=self.plan.out)
        self._patiently(self.node.ended_cleanly)
        self.node.close()
        self.progress.note = "writing the index"
        index.build(
            self.settings.log_folder,
            self.settings.data / "index.cdxj",
            warc_folder=self.settings.warc_folder,
            only_here=self.settings.archive.keep == "spool",
        )
        summary.write(told, self.settings.data / "summary.json")
        if look.ledger_gap:
            raise MilliardeError(
                f"the ledger does not add up ({look.ledger_gap} URLs): please report this, with "
                f"{self.settings.data / 'summary.json'}"
            )
        return told

    def _show(self) -> None:
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + TICK_S
            with contextlib.suppress(*LOST):
                self.progress.show(self.node.look())
