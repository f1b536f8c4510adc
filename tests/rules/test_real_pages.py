"""Real pages: what we read from them is what an independent reader does, and soon.

A sample of four documentation trees of Debian; all pages of seven with ``MILLIARDE_REAL_PAGES=all``.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter

import pytest

from node.rules.page import Reading, read
from node.rules.refusal import Refusal
from node.rules.url import MAX_URL_BYTES
from node.settings import Parser
from tests.conftest import Score
from tests.rules import real_pages

pytestmark = pytest.mark.timeout(3_600 if real_pages.WHOLE else 120)

BOUNDS = Parser()
MOST_CPU_S = 0.050


def reading(url: str, body: bytes, max_links: int) -> Reading:
    return read(body, url, content_type=None, robots_tags=(), token="us", max_links=max_links)


def followed(url: str, body: bytes) -> tuple[list[str], Counter[Refusal]]:
    """The links that would be followed had a page no bounds, and how many are not for which reason."""
    targets = reading(url, body, 1_000_000).targets.values()
    urls = dict.fromkeys(target for target in targets if not isinstance(target, Refusal))
    return list(urls), Counter(target for target in targets if isinstance(target, Refusal))


def test_links_are_those_of_an_independent_reader(score: Score) -> None:
    """On every page the same links in the same order, but for what is told apart here, one by one.

    ``trap``: an address longer than we fetch; the other reader knows no bound. (All those of rust-doc, 57
    on 47 pages, carry a program in their query.)
    """
    count = equal = traps = 0
    unexplained = []
    for url, body in real_pages.pages():
        count += 1
        ours, refused = followed(url, body)
        theirs = real_pages.links(url, body)
        if ours == theirs:
            equal += 1
            continue
        short = [target for target in theirs if len(target) <= MAX_URL_BYTES]
        too_long = len(theirs) - len(short)
        traps += too_long
        if ours != short or refused[Refusal.TRAP] < too_long:
            unexplained.append((url, set(ours) ^ set(theirs)))
    score(f"real pages, links as lxml has them{'' if real_pages.WHOLE else ' (sample)'}", equal, count)
    assert not unexplained, unexplained[:3]
    assert count > 1_200
    assert count - equal <= traps


def test_no_page_takes_long() -> None:
    """As a parser reads it, cut at its bound, no page takes 50 ms (the median of three, where one did)."""
    slow = []
    for url, body in real_pages.pages():
        part = body[: BOUNDS.max_page_bytes]
        if cpu_s(url, part) > MOST_CPU_S:
            took = statistics.median(cpu_s(url, part) for _ in range(3))
            if took > MOST_CPU_S:
                slow.append((url, took))
    assert not slow


def cpu_s(url: str, body: bytes) -> float:
    begun = time.process_time()
    reading(url, body, BOUNDS.max_links_per_page)
    return time.process_time() - begun
