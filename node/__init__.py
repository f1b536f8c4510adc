"""Milliarde: one node of a crawler.

The life of a URL, with the files that make it:

1. A seed list is read and each node keeps its own (``work/seed.py``, ``rules/shard.py``).
2. It is offered to the frontier, and again with every page's links: over budget? seen? else queued by
   priority under its domain (``rules/admit.py``, ``rules/seen.py``, ``store/lua/offer.lua``).
3. A fetcher leases the best URL of many domains that are due (``work/fetcher.py``, ``store/lua/lease.lua``).
4. It visits: robots.txt where due, the page, its hops (``work/visit.py``, ``work/robots.py``,
   ``work/http.py``).
5. What came is written to the archive and flushed, then settled: the lease is dropped, the domain's pace
   adapts, the page's pointer goes to the spool (``store/archive.py``, ``store/lua/settle.lua``).
6. A parser reads the page back, finds its links and offers them; the same call takes the page off the
   spool (``work/parser.py``, ``work/page.py``, ``rules/html.py``). Go on with 2.

Rules decide, store remembers, work acts, the command line speaks; each imports only downwards.
"""

from __future__ import annotations

__version__ = "0.1.0"
