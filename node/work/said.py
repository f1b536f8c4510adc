"""What a page in hand says about its use, before a parser sees it: for crawls that declare a purpose."""

from __future__ import annotations

from node.rules.usage import Said
from node.rules.usage_read import LOOK_BYTES, in_page
from node.store.decode import decode_body
from node.work.http import Fetched, content_encoding


def said_in_page(fetched: Fetched, token: str) -> Said:
    """What the metas in its first kilobytes say that could deny anything. ``token``: our product token.

    Half a look at the page by itself, so it is not for everybody.
    """
    coding, start = content_encoding(fetched), fetched.body[:LOOK_BYTES]
    if coding:
        start, _ = decode_body(start, coding, LOOK_BYTES)
    return in_page(start, token)
