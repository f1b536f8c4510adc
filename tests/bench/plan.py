"""How large a run is."""

from __future__ import annotations

from dataclasses import dataclass

SEED = 1
"""Of the made-up pages: the same pages on every machine."""
IN_FLIGHT = 64
"""Requests at once, ours and Scrapy's alike."""
PER_DOMAIN = 32
"""Most of them to one domain; the ceiling of our own width."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a frontier: ``urls`` queued in all, spread evenly over ``domains``."""

    domains: int
    urls: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One kind of run. ``rounds``: how often the two sides alternate."""

    name: str
    domains: int
    pages_per_domain: int
    rounds: int
    like_for_like: bool
    """Also one Scrapy run that follows links, deduplicates and schedules them, as a crawl must."""
    frontier_domains: int
    """Domains whose queues are filled."""
    false_probes: int
    """URLs never seen that each of their filters is asked for."""
    stage_pages: int
    """Pages to note the stages of, after the first few of each domain."""
    handshake_rounds: int
    """How often the home pages of all domains are fetched for the handshakes' sake, twice each."""
    scale: tuple[Size, ...]
    """Frontiers whose calls are held against each other, the smallest first."""
    scale_rounds: int
    """Rounds of calls on each of them."""

    @property
    def pages(self) -> int:
        return self.domains * self.pages_per_domain


SMALL = Size(2_000, 10_000)
QUICK = Plan("quick", 40, 25, 1, False, 40, 1_500, 400, 2, (SMALL, Size(20_000, 200_000)), 10)
DEFAULT = Plan("default", 120, 42, 2, False, 150, 2_000, 2_000, 4, (SMALL, Size(83_000, 1_000_000)), 20)
FULL_SCALE = (
    SMALL,
    Size(20_000, 200_000),
    Size(83_000, 1_000_000),
    Size(83_000, 10_000_000),
    Size(250_000, 10_000_000),
)
SCALE_ROUNDS = 60
FULL = Plan("full", 120, 42, 5, True, 300, 3_000, 4_000, 8, FULL_SCALE, SCALE_ROUNDS)
