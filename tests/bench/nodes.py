"""Does a node cost more where there are more of them? Several on one machine, each with its shard of one web.

Nodes never talk to each other, so the CPU time for a page should be the same however many there are. Starts
are not counted: what is compared is the CPU time of all processes of all nodes from when each has some pages
until the first of them comes to its end, divided by the pages stored meanwhile.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.crawls import CONTACT
from tests.bench.figures import Figure, Goal
from tests.bench.looking import counters, cpu_by_role
from tests.bench.plan import IN_FLIGHT
from tests.bench.processes import RunError
from tests.bench.report import number, table
from tests.bench.served import Web
from tests.whole.crawl import Crawl

COUNTS = (1, 2, 4, 12)
ROUNDS = 3
FLAT = 1.05
_BEGUN_PAGES = 20
"""Of each node, before it counts."""
_LOOK_EVERY_S = 0.25
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Ran:
    """Some nodes at once: what they stored while they were looked at, and what it cost, by role."""

    nodes: int
    pages: int
    cpu_s: Mapping[str, float]

    @property
    def ms_per_page(self) -> float:
        """Of all processes together."""
        return 1000 * sum(self.cpu_s.values()) / self.pages


def measure(web: Web, work: Path, say: Callable[[str], None]) -> list[Ran]:
    """Each number of nodes, in turns."""
    ran = []
    for _ in range(ROUNDS):
        for count in COUNTS:
            ran.append(_run(web, work / "nodes", count))
            say(f"{count} nodes: {ran[-1].pages:,} pages at {ran[-1].ms_per_page:.2f} ms")
    return ran


def _run(web: Web, work: Path, count: int) -> Ran:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with ExitStack() as stack:
        server = stack.enter_context(web.serve())
        crawls = []
        for me in range(count):
            own = (f"crawl.nodes={count}", f"crawl.me={me}", f"fetcher.in_flight={IN_FLIGHT}", "watch.port=0")
            words = ("--seeds", web.tree.seeds, "--delay", "0", "--idle", "20", "--contact", CONTACT)
            few = ("--fetchers", "1", "--parsers", "1")
            crawl = Crawl(work / f"{me}", server.nginx, *words, *few, settings=own)
            crawls.append(stack.enter_context(crawl))
            crawl.start()
        ran = _watched(crawls)
        for crawl in crawls:
            crawl.interrupt()
    shutil.rmtree(work)
    return ran


def _watched(crawls: Sequence[Crawl]) -> Ran:
    """From when all have some pages until the first one has no more to do."""
    give_up = time.monotonic() + _PATIENCE_S
    first: tuple[int, Counter[str]] | None = None
    last: tuple[int, Counter[str]] | None = None
    while time.monotonic() < give_up:
        time.sleep(_LOOK_EVERY_S)
        looks = [_look(crawl) for crawl in crawls]
        if any(crawl.process is None or crawl.process.poll() is not None for crawl in crawls):
            raise RunError(f"a node ended: {crawls[0].said[-1_000:]}")
        if any(pages < _BEGUN_PAGES for pages, _ in looks):
            continue
        now = sum(pages for pages, _ in looks), _cpu(crawls)
        first = first or now
        if any(not more for _, more in looks):
            last = now
            break
    if first is None or last is None or last[0] <= first[0]:
        raise RunError(f"{len(crawls)} nodes stored nothing that could be measured")
    return Ran(len(crawls), last[0] - first[0], {role: last[1][role] - first[1][role] for role in last[1]})


def _look(crawl: Crawl) -> tuple[int, bool]:
    """(pages stored, is there more to do)"""
    told = counters(crawl, "pages", "queued", "leased", "spooled")
    if told is None:
        return 0, True
    pages, *more = told
    return pages, any(more)


def _cpu(crawls: Sequence[Crawl]) -> Counter[str]:
    """CPU seconds of all their processes so far, by role."""
    taken: Counter[str] = Counter()
    for crawl in crawls:
        taken.update(cpu_by_role(crawl))
    return taken


def figures(ran: Sequence[Ran]) -> list[Figure]:
    """Each number of nodes against one, round by round."""
    rows = []
    rounds = [ran[start : start + len(COUNTS)] for start in range(0, len(ran), len(COUNTS))]
    for at, count in enumerate(COUNTS[1:], 1):
        values = [each[at].ms_per_page / each[0].ms_per_page for each in rounds]
        rows.append(
            Figure(
                f"nodes_{count}",
                f"CPU per page, {count} nodes on one machine, to that of one",
                median(values),
                min(values),
                max(values),
                None,
                Goal(FLAT, least=False),
            )
        )
    return rows


def nodes_table(ran: Sequence[Ran]) -> str:
    """What each number of nodes took, and which of their processes."""
    roles = sorted({role for each in ran for role in each.cpu_s})
    rows = []
    for count in COUNTS:
        mine = [each for each in ran if each.nodes == count]
        ms = [each.ms_per_page for each in mine]
        of_roles = [median(1000 * each.cpu_s.get(role, 0.0) / each.pages for each in mine) for role in roles]
        pages = median(each.pages for each in mine)
        spread = f"{number(min(ms))} – {number(max(ms))}"
        rows.append((f"{count}", number(median(ms)), spread, *map(number, of_roles), number(pages)))
    return table(("nodes", "CPU per page, ms, median", "lowest – highest", *roles, "pages looked at"), rows)
