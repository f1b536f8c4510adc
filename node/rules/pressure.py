"""When a stage tells the one before it to wait: ONE table.

Each row says who waits for that reason, which stage is behind it, and what ends it. Fetchers and parsers
account the time they wait under these names (``wait_ms:STAGE:REASON``), people are shown the words, and
``rules/advice.py`` tells from the same rows which stage sets the pace. A reason that is not in the table
does not exist.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum

BLOCKED_SHARE = 0.1
"""A stage blocked for this share of its time has another one to thank for it."""
IDLE_SHARE = 0.5
"""Waiting for work is ordinary; for more than this share of the time it says something."""


class Reason(StrEnum):
    """Why a process takes no (more) work."""

    PAUSED = "paused"
    STOPPING = "stopping"
    LINE_DOWN = "line_down"
    DISK_LOW = "disk_low"
    DISK_SLOW = "disk_slow"
    NO_STORE = "no_store"
    STORE_SLOW = "store_slow"
    STORE = "store"
    NO_FILES = "no_files"
    GATEWAY = "gateway"
    SPOOL_FULL = "spool_full"
    PAGES_REACHED = "pages_reached"
    BUSY = "busy"
    NO_WORK = "no_work"
    NO_LANES = "no_lanes"
    NO_PAGES = "no_pages"


class Waits(StrEnum):
    """Who waits. Whatever is not named here goes on."""

    FETCHERS = "fetchers"
    """All fetchers of the node: no URL is handed out."""
    FETCHER = "fetcher"
    """The one fetcher that meets it; its siblings judge for themselves."""
    PARSER = "parser"
    """The one parser that meets it."""


class Stage(StrEnum):
    """What sets the pace of a node."""

    OPERATOR = "operator"
    LIMIT = "limit"
    POLITENESS = "politeness"
    FETCHERS = "fetchers"
    PARSERS = "parsers"
    DISK = "disk"
    STORE = "redis"
    GATEWAY = "gateway"
    LINE = "line"
    FILES = "files"
    STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    ``by``: the stage that is behind it. ``words``: why, as people are told. ``ends``: what ends it.
    ``share``: of its time that a stage must have waited for it before that stage is said to set the pace;
    1 = it never is. ``holds``: a crawl does not end for want of work while it lasts.
    """

    waits: Waits
    by: Stage
    words: str
    ends: str
    share: float = BLOCKED_SHARE
    holds: bool = False


TABLE: dict[Reason, Row] = {
    Reason.PAUSED: Row(
        Waits.FETCHERS,
        Stage.OPERATOR,
        "paused",
        "the operator resumes",
        share=IDLE_SHARE,
        holds=True,
    ),
    Reason.STOPPING: Row(
        Waits.FETCHERS,
        Stage.OPERATOR,
        "stopping",
        "the next start",
        share=IDLE_SHARE,
    ),
    Reason.LINE_DOWN: Row(
        Waits.FETCHER,
        Stage.LINE,
        "our own line or resolver is down",
        "a probe is answered",
        holds=True,
    ),
    Reason.DISK_LOW: Row(
        Waits.FETCHER,
        Stage.DISK,
        "the disk is nearly full",
        "there is room again",
        holds=True,
    ),
    Reason.DISK_SLOW: Row(
        Waits.FETCHER,
        Stage.DISK,
        "the disk is slow",
        "what waits is written, and writes take less time again",
        holds=True,
    ),
    Reason.NO_STORE: Row(
        Waits.FETCHER,
        Stage.STORE,
        "Redis is away",
        "Redis answers",
    ),
    Reason.STORE_SLOW: Row(
        Waits.FETCHER,
        Stage.STORE,
        "Redis is slow",
        "its answers take less time again",
        holds=True,
    ),
    Reason.STORE: Row(
        Waits.PARSER,
        Stage.STORE,
        "waiting for Redis",
        "Redis answers",
        share=IDLE_SHARE,
    ),
    Reason.NO_FILES: Row(
        Waits.FETCHER,
        Stage.FILES,
        "no more files may be open",
        "a visit ends",
    ),
    Reason.GATEWAY: Row(
        Waits.FETCHER,
        Stage.GATEWAY,
        "waiting for its turn at the gateway",
        "the limiter's next turn; a stop: its reset time, or the operator resumes",
    ),
    Reason.SPOOL_FULL: Row(
        Waits.FETCHERS,
        Stage.PARSERS,
        "the parsers are behind",
        "pages are parsed",
    ),
    Reason.PAGES_REACHED: Row(
        Waits.FETCHERS,
        Stage.LIMIT,
        "enough pages are under way",
        "a page that is under way turns out to be none",
    ),
    Reason.NO_WORK: Row(
        Waits.FETCHER,
        Stage.POLITENESS,
        "no domain is due",
        "a domain is due",
        share=IDLE_SHARE,
    ),
    Reason.NO_LANES: Row(
        Waits.FETCHER,
        Stage.POLITENESS,
        "waiting for its share of domains",
        "another fetcher gives up a lane",
        share=IDLE_SHARE,
    ),
    Reason.BUSY: Row(
        Waits.FETCHER,
        Stage.FETCHERS,
        "at its limit",
        "a visit ends, or the event loop is in time again",
        share=1.0,
    ),
    Reason.NO_PAGES: Row(
        Waits.PARSER,
        Stage.FETCHERS,
        "no page to parse",
        "a page is fetched",
        share=1.0,
    ),
}
"""In the order of judgement: the first stage whose rows' time waited is over its share sets the pace."""

HOLDING = frozenset({reason for reason, row in TABLE.items() if row.holds})
"""While a process waits for one of these, a crawl does not end for want of work."""


def foremost(holding: Container[Reason]) -> Reason | None:
    """Of several reasons that hold at once the one that is told: the first in the table."""
    return next((reason for reason in TABLE if reason in holding), None)


def spool_bound(pages_per_busy_s: float, parsers: int, tolerated_s: float, floor: int) -> int:
    """Most pages that may wait for the parsers: what they can do in the delay we tolerate.

    ``pages_per_busy_s`` is measured over the time a parser works, not over the wall's, else slow
    visits would spiral the bound down. 0 = not measured yet.
    """
    return max(floor, int(pages_per_busy_s * parsers * tolerated_s))
