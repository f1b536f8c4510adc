"""What became of one request: ONE table.

Each row says what an outcome means for the URL (is it a page, is it tried again), for the
domain's pace (``Signal``), and for the archive. Nothing else in the code asks about a
status code; it asks this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Signal(StrEnum):
    """What an outcome tells about the domain it came from."""

    SUCCESS = "success"
    """The site answered as it should: it may be visited a little sooner."""
    THROTTLE = "throttle"
    """The site asks for, or shows that it needs, fewer requests."""
    DEAD = "dead"
    """Nothing answers there; again and again means: leave it alone for longer."""
    NONE = "none"
    """Says nothing about the site (nothing was sent, or the fault was ours)."""


class Outcome(StrEnum):
    """The name under which a request, or the decision not to send it, is counted."""

    PAGE = "page"
    DUPLICATE = "duplicate"
    SITEMAP = "sitemap"
    UNWANTED_TYPE = "unwanted_type"
    NO_CONTENT = "no_content"
    REDIRECTED = "redirected"
    REDIRECTED_AWAY = "redirected_away"
    REDIRECT_TO_SEEN = "redirect_to_seen"
    REDIRECT_REFUSED = "redirect_refused"
    REDIRECT_LOOP = "redirect_loop"
    BAD_REDIRECT = "bad_redirect"
    NOT_FOUND = "not_found"
    GONE = "gone"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    PAYMENT_REQUIRED = "payment_required"
    CLIENT_ERROR = "client_error"
    RATE_LIMITED = "rate_limited"
    CHALLENGED = "challenged"
    SERVER_ERROR = "server_error"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    CONNECT_TIMEOUT = "connect_timeout"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    DISCONNECTED = "disconnected"
    DNS_FAILED = "dns_failed"
    DNS_TIMEOUT = "dns_timeout"
    DNS_SERVFAIL = "dns_servfail"
    TLS_FAILED = "tls_failed"
    MALFORMED_HTTP = "malformed_http"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    PRIVATE_ADDRESS = "private_address"
    ROBOTS_DENIED = "robots_denied"
    ROBOTS_UNAVAILABLE = "robots_unavailable"
    ROBOTS_OPTED_OUT = "robots_opted_out"
    OPTED_OUT = "opted_out"
    EXCLUDED = "excluded"
    NOT_SENT = "not_sent"
    LOCAL_ERROR = "local_error"
    NO_FILES = "no_files"
    WITHHELD = "withheld"
    LINE_DOWN = "line_down"
    LINE_LOST = "line_lost"
    GATEWAY_LIMITED = "gateway_limited"
    GATEWAY_REFUSED = "gateway_refused"
    GATEWAY_QUOTA = "gateway_quota"
    GATEWAY_UNREACHABLE = "gateway_unreachable"
    GATEWAY_FAILED = "gateway_failed"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    ``retry``: may be tried again, within the retry budget. ``archive``: the response is
    kept in the WARC. ``sent``: a request went out, so the visit is paid for with a delay.
    ``back``: the URL returns to the front of its queue, as if it had not been taken.
    ``ours``: nothing came back, which may be our own line's fault; then it is this instead. ``mute``: not the
    slightest sign of life (rules/line.py).
    """

    signal: Signal
    retry: bool = False
    archive: bool = False
    sent: bool = True
    back: bool = False
    ours: Outcome | None = None
    mute: bool = False


_OK, _THROTTLE, _DEAD, _NONE = Signal.SUCCESS, Signal.THROTTLE, Signal.DEAD, Signal.NONE

TABLE: dict[Outcome, Row] = {
    Outcome.PAGE: Row(_OK, archive=True),
    # A page that its domain has given before, at another URL (work/duplicates.py); archived as a revisit.
    Outcome.DUPLICATE: Row(_OK, archive=True),
    Outcome.SITEMAP: Row(_OK, archive=True),
    Outcome.UNWANTED_TYPE: Row(_OK),
    Outcome.NO_CONTENT: Row(_OK),
    Outcome.REDIRECTED: Row(_OK, archive=True),
    Outcome.REDIRECTED_AWAY: Row(_OK, archive=True),
    Outcome.REDIRECT_TO_SEEN: Row(_OK, archive=True),
    Outcome.REDIRECT_REFUSED: Row(_OK, archive=True),
    Outcome.REDIRECT_LOOP: Row(_OK),
    Outcome.BAD_REDIRECT: Row(_OK, archive=True),
    Outcome.NOT_FOUND: Row(_OK, archive=True),
    Outcome.GONE: Row(_OK, archive=True),
    Outcome.UNAUTHORIZED: Row(_OK, archive=True),
    Outcome.FORBIDDEN: Row(_OK, archive=True),
    Outcome.PAYMENT_REQUIRED: Row(_OK, archive=True),
    Outcome.CLIENT_ERROR: Row(_OK, archive=True),
    Outcome.RATE_LIMITED: Row(_THROTTLE, retry=True),
    # A gate, not the page (rules/challenge.py), about the visitor and not about the URL: a slower one may
    # pass. It stays out of the archive, where it would be taken for what the site had to say.
    Outcome.CHALLENGED: Row(_THROTTLE, retry=True),
    Outcome.SERVER_ERROR: Row(_NONE, retry=True),
    Outcome.UNAVAILABLE: Row(_THROTTLE, retry=True),
    Outcome.TIMEOUT: Row(_THROTTLE, retry=True, ours=Outcome.LINE_LOST),
    Outcome.CONNECT_TIMEOUT: Row(_DEAD, retry=True, ours=Outcome.LINE_DOWN, mute=True),
    Outcome.REFUSED: Row(_DEAD, retry=True, ours=Outcome.LINE_DOWN),
    Outcome.UNREACHABLE: Row(_DEAD, retry=True, ours=Outcome.LINE_DOWN, mute=True),
    Outcome.DISCONNECTED: Row(_THROTTLE, retry=True, ours=Outcome.LINE_LOST),
    Outcome.DNS_FAILED: Row(_DEAD, retry=True, ours=Outcome.LINE_DOWN),
    Outcome.DNS_TIMEOUT: Row(_NONE, retry=True, ours=Outcome.LINE_DOWN, mute=True),
    # The name server is there and can't find out: mostly the domain's own name servers are broken.
    Outcome.DNS_SERVFAIL: Row(_DEAD, retry=True, ours=Outcome.LINE_DOWN, mute=True),
    Outcome.TLS_FAILED: Row(_DEAD, ours=Outcome.LINE_DOWN),
    Outcome.MALFORMED_HTTP: Row(_NONE),
    Outcome.UNSUPPORTED_ENCODING: Row(_NONE),
    Outcome.PRIVATE_ADDRESS: Row(_NONE, sent=False),
    Outcome.ROBOTS_DENIED: Row(_NONE, sent=False),
    Outcome.ROBOTS_UNAVAILABLE: Row(_NONE, sent=False),
    # What a site says about the use of its pages (rules/usage.py) denies the purpose we declare.
    Outcome.ROBOTS_OPTED_OUT: Row(_NONE, sent=False),
    Outcome.OPTED_OUT: Row(_OK),
    Outcome.EXCLUDED: Row(_NONE, sent=False),
    Outcome.NOT_SENT: Row(_NONE, sent=False),
    Outcome.LOCAL_ERROR: Row(_NONE, retry=True),
    # No more files may be open in this process, so it never came to asking.
    Outcome.NO_FILES: Row(_NONE, sent=False, back=True),
    # Once connected it was not ours to ask any more: this process had been stopped, or the host excluded.
    Outcome.WITHHELD: Row(_NONE, sent=False, back=True),
    # Our own line (rules/line.py): nobody's fault but ours. What may have arrived is paid for with a delay.
    Outcome.LINE_DOWN: Row(_NONE, sent=False, back=True),
    Outcome.LINE_LOST: Row(_NONE, back=True),
    # These are about our plan with a gateway (rules/gateway.py), and no site's fault.
    Outcome.GATEWAY_LIMITED: Row(_NONE, sent=False, back=True),
    Outcome.GATEWAY_REFUSED: Row(_NONE, sent=False, back=True),
    Outcome.GATEWAY_QUOTA: Row(_NONE, sent=False, back=True),
    Outcome.GATEWAY_UNREACHABLE: Row(_NONE, sent=False, back=True),
    Outcome.GATEWAY_FAILED: Row(_NONE, retry=True),
}

LINE = frozenset({Outcome.LINE_DOWN, Outcome.LINE_LOST})
"""What requests are while our own line is down."""

_BY_STATUS: dict[int, Outcome] = {
    204: Outcome.NO_CONTENT,
    205: Outcome.NO_CONTENT,
    401: Outcome.UNAUTHORIZED,
    402: Outcome.PAYMENT_REQUIRED,
    403: Outcome.FORBIDDEN,
    404: Outcome.NOT_FOUND,
    410: Outcome.GONE,
    429: Outcome.RATE_LIMITED,
    503: Outcome.UNAVAILABLE,
}

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


def of_status(status: int) -> Outcome:
    """The outcome of a complete response by its status alone (RFC 9110 section 15).

    A redirect is ``REDIRECTED`` here; the visit refines it by its target. Content types
    are judged before the body is read, so a 2xx is a ``PAGE`` here.
    """
    special = _BY_STATUS.get(status)
    if special is not None:
        return special
    if 200 <= status < 300:
        return Outcome.PAGE
    if status in REDIRECT_STATUSES:
        return Outcome.REDIRECTED
    if 300 <= status < 400:
        return Outcome.NO_CONTENT
    if 400 <= status < 500:
        return Outcome.CLIENT_ERROR
    if 500 <= status < 600:
        return Outcome.SERVER_ERROR
    return Outcome.MALFORMED_HTTP
