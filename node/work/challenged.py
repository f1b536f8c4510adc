"""A look at a response: is it what was asked for, or a gate in front of it?"""

from __future__ import annotations

from node.rules import challenge
from node.rules.headers import first
from node.store.decode import decode_body
from node.work.http import Fetched, content_encoding


def challenge_in(fetched: Fetched) -> str | None:
    """Whose challenge or block page this is (``Cloudflare challenge``, ``captcha``), or None.

    For an ordinary page this is a look at its headers and at its size: a microsecond or two. Only what is
    small, or refused, is decoded, and of that only the first kilobytes.
    """
    status = fetched.status
    if status is None or (status == 402 and first(fetched.headers, b"crawler-price") is not None):
        return None  # whoever names a price has understood who asks
    found = challenge.by_headers(status, fetched.headers)
    size = len(fetched.body)
    if found is not None or not challenge.worth_a_look(status, size, coded=False):
        return found
    coding, start = content_encoding(fetched), fetched.body[: challenge.LOOK_BYTES]
    if coding:
        if not challenge.worth_a_look(status, size, coded=True):
            return None
        start, _ = decode_body(start[: challenge.LOOK_CODED_BYTES], coding, challenge.LOOK_BYTES)
    return challenge.by_body(status, start)
