"""Fetching through a gateway: what its answers mean, and the law of the one limiter on calls to it.

A gateway is a scraping API or a forward proxy: somebody's service, with a plan and a key. What it says
for itself is about our plan and never about the site that was asked for, so the two must be told apart.
Where the settings name headers for it, those decide; else the gateway is believed to speak for itself
with 401, 403, 407, 429 and its quota statuses, and to pass everything else through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, StrEnum, auto
from urllib.parse import quote

from node.rules import headers as headers_of
from node.rules.headers import Headers
from node.rules.retry_after import http_date

OWN_STATUSES = frozenset({401, 403, 407, 429})
REFUSALS = frozenset({401, 403, 407})
NO_SITES = frozenset({407, 509})
"""Statuses that sites don't have."""
NOT_A_PROXY = frozenset({400, 404, 405, 501})
"""What a web server, which is no proxy, answers to CONNECT."""


class Speaker(Enum):
    """Who may have given an answer, or have failed to."""

    TARGET = auto()
    """The site: asked directly, or through a tunnel to it."""
    GATEWAY = auto()
    """The gateway: there was no way to the site yet."""
    EITHER = auto()
    """The gateway, for itself or for the site."""


class Told(StrEnum):
    """What an answer is about."""

    TARGET = "target"
    """The site: it is to be judged as the site's own."""
    LIMITED = "limited"
    """Too many calls for our plan, for now."""
    REFUSED = "refused"
    """The key or the configuration: no call can succeed."""
    QUOTA = "quota"
    """The plan is used up."""
    FAILED = "failed"
    """The gateway could not do it; nobody knows whose fault that is."""
    UNREACHABLE = "unreachable"
    """There is no gateway to be had just now."""


@dataclass(frozen=True, slots=True)
class Signs:
    """How a gateway shows what it means. Header names in lower case; empty = none is named."""

    target_status: bytes = b""
    """Header with the site's status; without it an answer is the gateway's own."""
    error: bytes = b""
    """Header that only the gateway's own errors have."""
    quota_statuses: frozenset[int] = frozenset({509})
    quota: bytes = b""
    quota_value: bytes | None = None
    """The quota header means "used up" with this value; None: with any."""

    def told(self, speaker: Speaker, status: int, headers: Headers) -> Told:
        """What an answer with this status and these headers is about."""
        if not self._own(speaker, status, headers):
            return Told.TARGET
        if status in self.quota_statuses or self.quota_spent(headers):
            return Told.QUOTA
        if status == 429:
            return Told.LIMITED
        if status in REFUSALS or 300 <= status < 400:
            return Told.REFUSED
        if speaker is Speaker.GATEWAY and status in NOT_A_PROXY:
            return Told.REFUSED
        if speaker is Speaker.EITHER and self.target_status and status in (404, 405):
            return Told.REFUSED  # there is no such service at that address
        return Told.FAILED

    def _own(self, speaker: Speaker, status: int, headers: Headers) -> bool:
        if speaker is Speaker.GATEWAY:
            return True
        if self.error and headers_of.first(headers, self.error) is not None:
            return True
        if self.target_status:
            return headers_of.first(headers, self.target_status) is None
        if speaker is Speaker.TARGET:
            return False
        if self.error:
            return status in NO_SITES
        return status in OWN_STATUSES or status in self.quota_statuses

    def quota_spent(self, headers: Headers) -> bool:
        """Does the quota header say that the plan is used up? It may come with the last good answer."""
        value = headers_of.first(headers, self.quota) if self.quota else None
        return value is not None and self.quota_value in (None, value.strip().lower())

    def status_of_target(self, status: int, headers: Headers) -> int:
        """The site's status in an answer about the site."""
        value = headers_of.first(headers, self.target_status) if self.target_status else None
        if value is None or not value.strip().isdigit():
            return status
        return int(value[:9])

    @property
    def names(self) -> frozenset[bytes]:
        """Headers that are the gateway's and no site's."""
        return frozenset({self.target_status, self.error, self.quota} - {b""})


# -- when a quota begins anew

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
MAX_RESET_S = 400 * 86_400
"""A reset further away than this is a misunderstanding."""


def reset_in_s(value: str, form: str, now_unix_s: float) -> float | None:
    """Seconds until the quota begins anew; None where ``value`` does not say so in the ``form`` agreed on.

    ``form``: ``seconds`` from now, ``unix`` time in seconds, or ``date`` (HTTP's, or ISO 8601).
    """
    text = value.strip()
    seconds: float | None = None
    if form == "date":
        moment = http_date(text, now_unix_s)
        seconds = (_iso_date(text) if moment is None else moment) - now_unix_s
    elif _NUMBER.fullmatch(text):
        seconds = float(text) - (now_unix_s if form == "unix" else 0.0)
    return seconds if seconds is not None and 0 < seconds <= MAX_RESET_S else None


def _iso_date(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return float("nan")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# -- where calls go


def expand(template: str, url: str, key: str) -> str:
    """The address of a call: ``{url}`` and ``{key}`` of the template, percent-encoded."""
    return template.replace("{key}", quote(key, safe="")).replace("{url}", quote(url, safe=""))


# -- the limiter

START_SHARE = 0.5
"""Of the ceiling, where a crawl begins."""
FLOOR_SHARE = 0.01
"""Of the ceiling, which the rate never goes below."""
GROW_S = 60.0
"""Seconds of successful calls that bring the rate from nothing to the ceiling."""
MAX_WAIT_S = 20.0
"""A call whose turn is further away than this is not waited for."""
MISSES = 20
"""Calls in a row that failed at the gateway, after which everything pauses ..."""
UNREACHABLE_MISSES = 4
"""(one that found no gateway at all counts for so many) ..."""
PAUSE_MS = 10_000
"""... for so long, twice as long each time it is in vain, up to ..."""
MAX_PAUSE_MS = 300_000


@dataclass(frozen=True, slots=True)
class Calls:
    """The limiter's state. Moments are the crawl's clock (ms), ``rate`` is calls per second.

    ``next_ms``: no call before; ``hold_ms``: none before that, by the gateway's own wish; ``cut_ms``: when
    the rate was cut last. ``misses``: failures of the gateway in a row, and ``pauses``: how often they made
    everything stop since a call got through, the last time at ``since_ms``.
    """

    rate: float
    next_ms: float = 0.0
    hold_ms: float = 0.0
    cut_ms: float = -1.0
    misses: int = 0
    pauses: int = 0
    since_ms: float = -1.0

    def succeeded(self, calls: int, ceiling: float) -> Calls:
        """So many calls got through: the rate grows by as much a second, however fast they come."""
        rate = min(ceiling, self.rate + calls * ceiling / (GROW_S * self.rate))
        return replace(self, rate=rate, misses=0, pauses=0) if calls else self

    def limited(self, now_ms: float, sent_ms: float, wait_ms: float, ceiling: float) -> Calls:
        """A call let go at ``sent_ms`` was too much: half the rate, once for all calls of one cut.

        ``wait_ms``: the gateway's Retry-After.
        """
        rate, cut_ms = self.rate, self.cut_ms
        if sent_ms > cut_ms:
            rate, cut_ms = max(ceiling * FLOOR_SHARE, rate / 2), now_ms
        return replace(self, rate=rate, cut_ms=cut_ms, hold_ms=max(self.hold_ms, now_ms + wait_ms))

    def failed(self, now_ms: float, sent_ms: float, misses: int) -> tuple[Calls, float]:
        """A call let go at ``sent_ms`` failed at the gateway, which counts for so many ``misses``.

        With the state, how long everything pauses (ms), or 0. Calls that were under way when a pause
        began say nothing new.
        """
        if sent_ms <= self.since_ms:
            return self, 0.0
        misses += self.misses
        if misses < MISSES:
            return replace(self, misses=misses), 0.0
        pause_ms = min(MAX_PAUSE_MS, PAUSE_MS * 2.0 ** min(self.pauses, 10))
        return replace(self, misses=MISSES - 1, pauses=self.pauses + 1, since_ms=now_ms), pause_ms

    def turn(self, now_ms: float, max_wait_ms: float) -> tuple[Calls, float | None]:
        """The moment of the next call, which is then taken; None where that is too far away."""
        at = max(now_ms, self.next_ms, self.hold_ms)
        if at - now_ms > max_wait_ms:
            return self, None
        return replace(self, next_ms=at + 1000 / self.rate), at
