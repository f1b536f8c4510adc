"""What the log of a web that only the control namespace serves proves of a fleet."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from tests.web.log import Entry
from tests.whole import manners


class Tail:
    """A web's access log, of which each line is read once, however often one asks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._entries: list[Entry] = []
        self._last_ms: dict[str | None, float] = {}

    def requests(self) -> list[Entry]:
        """All so far, in the order of their lines."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._read_bytes += len(text)
        for line in text.splitlines():
            entry = Entry(**json.loads(line))
            if entry.method is not None:
                self._entries.append(entry)
                self._last_ms[entry.peer] = max(entry.t_ms, self._last_ms.get(entry.peer, 0.0))
        return self._entries

    def last_ms(self, address: str) -> float:
        """When the last request from an address came; 0 if none did."""
        self.requests()
        return self._last_ms.get(address, 0.0)


def callers(requests: Iterable[Entry]) -> dict[str, set[str | None]]:
    """Domain -> the addresses that its requests came from."""
    found: dict[str, set[str | None]] = defaultdict(set)
    for entry in requests:
        found[manners.domain_of(entry.host or "")].add(entry.peer)
    return found


def visits(requests: list[Entry], delay_s: float) -> list[list[Entry]]:
    """The requests of one domain by visits: robots.txt belongs to what follows, a hop to its redirect.

    What comes a whole delay after a redirect, or later, is no hop of it: its target was known already.
    """
    out: list[list[Entry]] = []
    robots: list[Entry] = []
    for request in requests:
        robots.append(request)
        if manners.is_robots(request):
            continue
        last = out[-1][-1] if out else request
        if last.status in (301, 302) and robots[0].t_ms - last.t_ms < 1000 * delay_s and out:
            out[-1] += robots
        else:
            out.append(robots)
        robots = []
    return out


def broken_gaps(requests: Iterable[Entry], delay_s: float, hop_gap_s: float) -> Iterator[str]:
    """Where two visits to a domain, or two requests of one, came too soon, in words.

    From arrival to arrival, which is less than from the end of one to the beginning of the next. Two requests
    to robots.txt in a row, the first of which was broken off, count as a visit each.
    """
    for domain, entries in manners.by_domain(requests).items():
        found = visits(entries, delay_s)
        for visit in found:
            for before, after in pairwise(visit):
                gap_ms = after.t_ms - before.t_ms
                if gap_ms < 1000 * hop_gap_s:
                    yield f"{domain}: {before.url} -> {after.url} in one visit: {gap_ms:.0f} ms"
        for before_visit, after_visit in pairwise(found):
            gap_ms = after_visit[0].t_ms - before_visit[-1].t_ms
            owed_ms = 1000 * delay_s * (1 + manners.hops(before_visit))
            if gap_ms < owed_ms:
                yield (
                    f"{domain}: {before_visit[-1].url} -> {after_visit[0].url}: "
                    f"{gap_ms:.0f} of {owed_ms:.0f} ms"
                )
