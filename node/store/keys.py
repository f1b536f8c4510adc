"""Every key of a node's Redis: its name, its type, its life. Built here and nowhere else.

(The Lua verbs build the same names from their data; their prelude says so, and
``tests/store/test_keys.py`` holds the two together.)

===================  ======  ==========================================================
key                  type    what, and how it is bounded
===================  ======  ==========================================================
meta                 hash    fingerprint, run id, boot id, clock base, schema ...; 8 fields
clock                string  the greatest time any verb has seen (ms)
epoch                string  after an unclean start: no domain before this + its delay
control              hash    pause, stop, pages_max, spool_max, shed; advice for the operator
ledger               hash    the counters of I1, kept by the verbs themselves
retries              hash    the node's budget of retries (``rules/retry.py``); 3 fields
outcomes             hash    results of visits by name; bounded by ``rules/outcome.py``
tally                hash    metrics; bounded by the names in the code
lanes                hash    lane -> fetcher.instance; 64 fields
beats                hash    fetcher -> instance and last heartbeat
procs                hash    process -> its last report; one field per process
deaths               hash    process -> how often it died (``deaths.py``); one field per process
serial               string  makes lease tokens unique
ready:{lane}         zset    domain -> due (ms); one member per workable domain
later:{lane}         zset    URLs with a time of their own; at most ``LATER_MAX``
leases:{lane}        zset    lease -> expiry (ms); bounded by what fetchers ask for
d:{domain}           string  state of one domain, packed (``domain_record.py``)
q:{level}:{domain}   list    URLs waiting; the levels together at most the domain's cap
s:{layer}:{domain}   string  one layer of the seen filter; bounded by the budget
ip:{address}         string  what an IP address bears now; there while it is in use (``_address.lua``)
near:{domain}        string  kinds of its pages met last; only where pages are compared
robots:{domain}      hash    origin -> robots rules; at most ``max_origins_per_domain``
sitemaps:{domain}    string  sitemap files visited; only where there are any
spool                stream  pointers to pages not parsed yet; at most ``spool_max``
dead                 stream  pages given up by the parsers; trimmed to ``DEAD_MAX``
suspects             hash    pages of the spool -> parsers they ended; tidied with each new one
excluded             set     hosts and domains that are not to be visited
included             set     what is visited though it is under an excluded name, or on the list
excluded:version     string  goes up with every change of ``excluded`` or ``included``
scope                set     domains of the seeds, for scope ``seeds``
scope:version        string  goes up with every change of ``scope``
archive              hash    WARC file -> durable offset; one field per file
gateway              hash    limiter on calls to the gateway, its stop, counters; 18 fields
===================  ======  ==========================================================
"""

from __future__ import annotations

META = "meta"
CLOCK = "clock"
EPOCH = "epoch"
CONTROL = "control"
LEDGER = "ledger"
RETRIES = "retries"
OUTCOMES = "outcomes"
TALLY = "tally"
LANES = "lanes"
BEATS = "beats"
PROCS = "procs"
DEATHS = "deaths"
SPOOL = "spool"
DEAD = "dead"
SUSPECTS = "suspects"
EXCLUDED = "excluded"
INCLUDED = "included"
EXCLUDED_VERSION = "excluded:version"
ARCHIVE = "archive"
GATEWAY = "gateway"
SCOPE = "scope"
SCOPE_VERSION = "scope:version"

PARSERS = "parsers"
"""The consumer group of the spool."""
LEVELS = 8
"""Priority levels of a domain's queue: 0 = seed, then depth."""
LATER_MAX = 20_000
"""Most URLs of one lane that wait for a time of their own."""
DEAD_MAX = 100_000
"""Most dead letters kept; the oldest go first."""
SCHEMA = "4"
"""Version of this layout; a Redis with another one is refused."""


def ready(lane: int) -> str:
    return f"ready:{lane}"


def later(lane: int) -> str:
    return f"later:{lane}"


def leases(lane: int) -> str:
    return f"leases:{lane}"


def domain(name: str) -> str:
    return f"d:{name}"


def queue(level: int, name: str) -> str:
    return f"q:{level}:{name}"


def seen(layer: int, name: str) -> str:
    return f"s:{layer}:{name}"


def sitemaps(name: str) -> str:
    return f"sitemaps:{name}"


def address(name: str) -> str:
    return f"ip:{name}"


def near(name: str) -> str:
    return f"near:{name}"


def robots(name: str) -> str:
    return f"robots:{name}"
