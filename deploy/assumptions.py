"""What ``milliarde-fleet plan`` takes for granted, each with where it comes from; most have an option."""

from __future__ import annotations

from deploy.prices import GB

# -- Between a request and a page, as shares of all requests. From Common Crawl's crawl of May 2026
# (CC-MAIN-2026-21, https://commoncrawl.github.io/cc-crawl-statistics/): of 2,599 million requests that were
# sent 84 % were pages. It visits many URLs that it knows; a first crawl may fare worse, a pilot shows how.
ERROR_SHARE = 0.074
"""404, 410, 403, and no answer at all: 192 million. URLs that robots.txt denies cost no request."""
REDIRECT_SHARE = 0.084
"""218 million. A hop is paid for with a delay like any other request."""
RETRY_SHARE = 0.023
"""Second tries: as many as found no answer at first, 59 million. A crawl allows itself a tenth."""

BUSY_SHARE = 0.8
"""Of the live domains, those that at any time have a URL left and keep to the delay that was asked for. An
assumption: sites run out of pages, slow down, and ask for more patience."""
ORIGINS_PER_DOMAIN = 2.0
"""Each has a robots.txt, read once a day. An assumption: with www and without."""
PAGE_BYTES = 31_000.0
"""A page in the archive, still compressed, with what else is kept there. An assumption: a pilot shows it."""
QUEUE_CAP = 2_000
"""``milliarde_max_urls_per_domain`` of the playbooks."""

# -- What a machine can be asked for
UTILISATION = 0.7
"""Of CPU and network; above, event loops are late and sites seem slow. The rest is the kernel's."""
CORE_SHARE = {1: 1.0, 2: 0.65}
"""What a vCPU does of an idle core, by threads of a core: two threads do at best 1.3 times the work of one
(Intel's own figure for Hyper-Threading)."""
REDIS_UTILISATION = 0.85
"""Of the thread that Redis is. Callers batch and can wait: at this load a call of 1 ms takes about 7."""
REDIS_FETCH_SHARE = 0.45
"""Of what a page costs Redis, what every request costs (lease, settle); the rest is links, of pages alone.
From the stages in docs/performance.md."""
REDIS_MEMORY_SHARE = 0.35
"""Of a node's memory, as the playbooks have it: rewriting its log can take as much again."""
SYSTEM_BYTES = 3 * GB
"""The system, journald and exporters. An assumption."""
RESOLVER_SHARE = 1 / 32
"""Of memory: twice what the playbooks let it cache."""
FILE_SYSTEM_SHARE = 0.98
"""Of a disk, what its file system leaves. An assumption."""
DISK_RESERVE_BYTES = 1 * GB
"""``archive.disk_reserve_bytes``: under this fetching pauses."""
REDIS_DISK_FACTOR = 3.0
"""Its log grows to twice its contents before it is rewritten beside itself."""

# -- What else a request and a page take
VISIT_S = 1.2
"""3,500 visits in flight at 2,900 pages/s. An assumption: sites differ."""
VISIT_BYTES = 64_000.0
"""418 MB were measured for 6,500 visits, TLS included."""
REQUEST_BYTES = 5_000.0
"""Certificates and headers, either way. An assumption."""
LOG_BYTES = 330.0
"""A line of the fetch log, a request; measured in a crawl of the miniature web."""
INDEX_BYTES = 250.0
"""A line of the index, a page; measured there, too."""
OPEN_FILE_BYTES = 1 * GB
"""``archive.rotate_bytes``: each fetcher has a file open, and one just closed."""
COLLECTED_AFTER_S = 3600.0
"""Files that are collected and freed while the crawl runs: how long the collector may be away."""
