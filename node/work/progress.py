"""Live progress of a crawl: a table that is redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from node.rules.pressure import TABLE
from node.store.snapshot import Snapshot
from node.work.summary import human_bytes, human_seconds, lines

LINE_EVERY_S = 10.0
RATE_OVER_S = 10.0
WORDS: dict[str, str] = {"": "working"} | {reason: row.words for reason, row in TABLE.items()}
"""What a process says it waits for -> for people."""
GOOD = frozenset(
    {"page", "sitemap", "redirected", "redirected_away", "redirect_to_seen", "unwanted_type", "no_content"}
)


class Progress:
    """Shows snapshots as they come; ``note`` is what is going on beside (seeding, stopping)."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._live: Live | None = None
        self._history: deque[tuple[float, int]] = deque()
        self._last_line = 0.0
        self.note = ""

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def rate(self) -> float:
        """Pages per second over the last seconds."""
        if len(self._history) < 2:
            return 0.0
        (then, before), (now, after) = self._history[0], self._history[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def show(self, look: Snapshot) -> None:
        now = time.monotonic()
        self._history.append((now, look.pages))
        while now - self._history[0][0] > RATE_OVER_S:
            self._history.popleft()
        if self._live is not None:
            self._live.update(self.table(look), refresh=True)
        elif now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            self.say(self._line(look))

    def say(self, text: str) -> None:
        """One line of talk, above the table if there is one. Text is shown as it is, never as markup."""
        self.console.print(Text(text), highlight=False, soft_wrap=True)

    def _line(self, look: Snapshot) -> str:
        in_flight = sum(r.in_hand for name, r in look.procs.items() if name.startswith("fetcher"))
        errors = sum(n for name, n in look.outcomes.items() if name not in GOOD)
        return (
            f"{human_seconds(look.tally.get('active_ms', 0) / 1000)}: {look.pages:,} pages "
            f"({self.rate():.1f}/s), {human_bytes(look.tally.get('bytes', 0))}, "
            f"{look.count('queued'):,} queued, {in_flight} in flight, {look.count('spooled')} to parse, "
            f"{errors:,} errors" + (f", {self.note}" if self.note else "")
        )

    def table(self, look: Snapshot) -> RenderableType:
        head = Table.grid(padding=(0, 2))
        for label, value in self._figures(look):
            head.add_row(Text(label, style="dim"), Text(value))
        stages = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
        for title in ("process", "in hand", "limit", "lag", "memory", "state"):
            stages.add_column(title, justify="left" if title in ("process", "state") else "right")
        for name, report in look.procs.items():
            stages.add_row(
                name,
                str(report.in_hand),
                str(report.limit or ""),
                f"{report.lag_ms:.0f} ms" if name.startswith("fetcher") else "",
                f"{report.rss_mb} MB",
                WORDS.get(report.waiting, report.waiting),
            )
        return Group(head, Text(), stages)

    def _figures(self, look: Snapshot) -> Iterator[tuple[str, str]]:
        seconds = look.tally.get("active_ms", 0) / 1000
        yield "pages", f"{look.pages:,}   {self.rate():.1f}/s now"
        yield "time", human_seconds(seconds) + (f"   {self.note}" if self.note else "")
        yield "received", human_bytes(look.tally.get("bytes", 0))
        yield (
            "frontier",
            (
                f"{look.count('queued'):,} queued   {look.count('leased'):,} leased   "
                f"{look.count('spooled'):,} to parse   {look.count('domains'):,} domains"
            ),
        )
        errors = {name: n for name, n in look.outcomes.items() if name not in GOOD}
        if errors:
            worst = sorted(errors.items(), key=lambda pair: -pair[1])[:6]
            yield "errors", "  ".join(f"{name} {n:,}" for name, n in worst)
        if look.dropped:
            worst = sorted(look.dropped.items(), key=lambda pair: -pair[1])[:5]
            yield "not visited", "  ".join(f"{name} {n:,}" for name, n in worst)


def show_summary(summary: dict[str, object], console: Console | None = None) -> None:
    """The end of a crawl, for people."""
    console = console or Console(stderr=True)
    table = Table.grid(padding=(0, 2))
    for label, text in lines(summary):
        table.add_row(Text(label, style="bold"), Text(text))
    console.print(table)
    sys.stderr.flush()
