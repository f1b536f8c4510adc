"""One line of a list of hosts and domains that are not to be visited.

Such lists come from many hands. A line is a host or a domain, as people write them: in any case, with
umlauts or as ``xn--``, as ``*.example.com`` or ``.example.com`` (which mean ``example.com``: what is under a
name is always excluded with it), or as a URL, of which the host counts. ``#`` begins a comment.
"""

from __future__ import annotations

import re

from node.rules import url as urls
from node.rules.domain import is_address
from node.rules.refusal import Refusal
from node.rules.seeds import Junk

MAX_HOST = 253
"""Characters of a host's name (RFC 1035 section 2.3.4, as text)."""
_PLAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z-]*[a-z])?")
"""What nearly every line is; nothing in it needs the URL standard."""


def parse_line(text: str, number: int, where: str) -> str | Junk | None:
    """The host that a line names, as ``covers`` is asked about it; None for an empty line or a comment."""
    text = text.partition("#")[0].strip("\ufeff \t\r\n").lower()
    if not text:
        return None
    text = text.removeprefix("*").removeprefix(".")
    if len(text) <= MAX_HOST and _PLAIN.fullmatch(text):
        return text
    if not text or any(mark in text for mark in " \t,;"):
        return Junk(where, number, "neither a domain nor a host nor a URL")
    parsed = urls.canonical(text if "://" in text else f"https://{text}/")
    if isinstance(parsed, Refusal):
        return Junk(where, number, f"refused as {parsed}")
    host = urls.host(parsed).removesuffix(".")
    if len(host) > MAX_HOST:
        return Junk(where, number, "longer than the name of a host can be")
    if "*" in host:
        return Junk(where, number, "an asterisk can only stand for all that is under a name, in front of it")
    if "." not in host and not is_address(host):
        # one stray word in a list of millions must not end a crawl of all .com
        return Junk(where, number, "a whole top-level domain: name it to 'exclude' if that is meant")
    return host
