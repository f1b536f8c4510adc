"""What a gateway passes on, made into the site's own answer: its status, its headers, and nobody's key."""

from __future__ import annotations

import time
from dataclasses import replace
from http import HTTPStatus

from node.rules.address import is_public, literal
from node.rules.gateway import Signs
from node.rules.outcome import Outcome, of_status
from node.settings import Gateway
from node.store.decode import decode_body
from node.work.answer import Accept
from node.work.http import Fetched, content_encoding, content_type
from node.work.secret import Secret

MAX_CHECKED_BYTES = 4_194_304
"""Of a decoded body, what is searched for the key."""

_Headers = tuple[tuple[bytes, bytes], ...]
_OF_BODY = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Headers about the body as it came from the gateway; the site's may have come otherwise."""


def signs_of(settings: Gateway) -> Signs:
    """How the gateway of these settings shows what it means."""
    quota, colon, value = settings.quota_header.lower().encode("ascii").partition(b":")
    return Signs(
        target_status=_name(settings.target_status_header),
        error=_name(settings.error_header),
        quota_statuses=frozenset(settings.quota_statuses),
        quota=quota.strip(),
        quota_value=value.strip() if colon else None,
    )


def _name(header: str) -> bytes:
    return header.lower().encode("ascii")


def is_private(host: str) -> bool:
    """Does a URL with this host spell out an address that is not public (I7)? Names are not looked up."""
    name = host.rstrip(".")
    address = literal(name)
    if address is not None:
        return not is_public(address)
    return name == "localhost" or name.endswith(".localhost")


def no_answer(outcome: Outcome, detail: str) -> Fetched:
    """Nothing that is the site's, and why."""
    return Fetched(outcome, None, "", "", (), b"", None, None, time.time(), 0, 0, 0, detail, 0, b"")


def of_target(
    fetched: Fetched, accept: Accept | None, settings: Gateway, signs: Signs, secret: Secret | None
) -> Fetched:
    """An answer about the site as it would have come from the site."""
    if fetched.status is None:
        return fetched
    status = signs.status_of_target(fetched.status, fetched.headers)
    outcome, reason = fetched.outcome, fetched.reason
    if status != fetched.status:
        outcome, reason = of_status(status), _reason(status)
    own = signs.names | {_name(settings.reset_header)}
    headers = _headers_of_target(fetched.headers, own, _name(settings.target_header_prefix))
    fetched = replace(fetched, outcome=outcome, status=status, reason=reason, headers=headers)
    if outcome is Outcome.PAGE and accept is not None and not accept(content_type(fetched)):
        fetched.outcome = Outcome.UNWANTED_TYPE
    return fetched if secret is None else _without(secret, fetched)


def _headers_of_target(headers: _Headers, own: frozenset[bytes], prefix: bytes) -> _Headers:
    """The site's headers: those with the prefix, or all but the gateway's ``own``."""
    kept = []
    for name, value in headers:
        low = name.lower()
        if not prefix or low in _OF_BODY:
            if low not in own:
                kept.append((name, value))
        elif low.startswith(prefix) and low[len(prefix) :] not in _OF_BODY:
            kept.append((name[len(prefix) :], value))
    return tuple(kept)


def _without(secret: Secret, fetched: Fetched) -> Fetched:
    """The answer without the key; where the key was under a content coding, without the coding, too."""
    headers = secret.cut_out_of(fetched.headers)
    body, coding = fetched.body, content_encoding(fetched)
    if not coding:
        body = secret.cut_out(body)
    elif body:
        decoded, _ = decode_body(body, coding, MAX_CHECKED_BYTES)
        if secret.is_in(decoded):
            body = secret.cut_out(decoded)
            headers = tuple(header for header in headers if header[0].lower() not in _OF_BODY)
    return replace(
        fetched, headers=headers, body=body, reason=secret.cut_out(fetched.reason.encode()).decode()
    )


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
