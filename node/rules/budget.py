"""How many URLs a domain can ever use, and what a frontier full of them weighs."""

from __future__ import annotations

from math import ceil

SLACK = 1.25
"""Queue a quarter more than the time left allows visits for: some URLs will be refused by
robots.txt, redirect to one another or turn out to be known, and cost no delay."""

LIFE_CAPS = 4
"""A domain's life in queue caps; see ``life_cap``."""


def queue_cap(max_urls_per_domain: int, base_delay_s: float, time_left_s: float | None) -> int:
    """Most URLs that may wait for one domain: what it can still use, and never less than one.

    ``time_left_s``: seconds until the crawl ends; none where it has no horizon. Without a horizon or
    without a delay, arithmetic sets no bound and ``max_urls_per_domain`` alone does.
    """
    if max_urls_per_domain < 1:
        raise ValueError(f"a domain must be allowed at least one URL, not {max_urls_per_domain}")
    if time_left_s is None or base_delay_s <= 0:
        return max_urls_per_domain
    usable = SLACK * max(time_left_s, 0.0) / base_delay_s
    return max(1, ceil(min(max_urls_per_domain, usable)))


def life_cap(initial_queue_cap: int) -> int:
    """Most URLs ever admitted to a domain: ``LIFE_CAPS`` times its queue cap at the start.

    A queue that is full goes on admitting better URLs in the place of worse ones, and each marks the
    seen filter. Unbounded, a site that keeps showing new links of high priority would grow its filter,
    and keep Redis shuffling, without one more page fetched. Visits use up one cap at most; the other
    three are for displacement: a URL moves up by at most seven priority levels, and where the best
    four caps of a domain's links have been admitted, one more is hardly ever worth a visit.
    """
    return LIFE_CAPS * initial_queue_cap


def frontier_bytes(domains: int, cap: int, bytes_per_url: float) -> int:
    """Most memory the queues of a node can take, whatever links to its domains.

    A day at 70 s and a million domains on 12 nodes: 83,000 domains x 1,543 URLs x 67 bytes = 8.6 GB;
    on 4 nodes 26 GB. ``bytes_per_url`` is measured: 67 for 64-character URLs in full queues (lists,
    one per priority level), 95 to 137 in short ones.
    """
    return ceil(domains * cap * bytes_per_url)
