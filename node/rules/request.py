"""From a canonical URL to the bytes of a request."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PORTS = {"http": 80, "https": 443}
_UNSENDABLE = re.compile(r"[^\x21-\x7e]")
_UNSENDABLE_IN_VALUE = re.compile(r"[^\x20-\x7e\x80-\xff]")


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL says about where to connect and what to ask for.

    ``host`` is the name (or the address, IPv6 in brackets) without port, ``authority`` the value of
    the Host header, ``path`` the request target with its query.
    """

    https: bool
    host: str
    port: int
    authority: str
    path: str


def target_of(url: str) -> Target:
    """Take a canonical URL apart (``rules.url`` makes them: ASCII, host in lower case).

    A fragment and user information are not sent. Raises ``ValueError`` for what can't be sent at all.
    """
    scheme, _, rest = url.partition("://")
    default_port = _PORTS.get(scheme)
    if default_port is None:
        raise ValueError("neither http nor https")
    rest = rest.partition("#")[0]
    authority, slash, path = rest.partition("/")
    if "?" in authority:
        authority, _, query = rest.partition("?")
        path = "/?" + query
    else:
        path = slash + path if slash else "/"
    authority = authority.rpartition("@")[2]
    if _UNSENDABLE.search(authority) or _UNSENDABLE.search(path):
        raise ValueError("not a canonical URL")
    host, colon, digits = authority.rpartition(":")
    if not colon or digits.endswith("]"):
        host, port = authority, default_port
    else:
        if not digits.isdigit() or len(digits) > 5 or not 0 < int(digits) < 65_536:
            raise ValueError("no such port")
        port = int(digits)
        authority = host if port == default_port else authority
    if not host:
        raise ValueError("no host")
    return Target(scheme == "https", host, port, authority, path)


def head(target: Target, fixed: bytes, cookies: str | None) -> bytes:
    """The bytes of a GET request. ``fixed`` is what all requests share, each line with its CRLF."""
    cookie = ""
    if cookies:
        # each character is one byte, as the cookie came; nothing in it may end the line
        cookie = f"Cookie: {_UNSENDABLE_IN_VALUE.sub('', cookies)}\r\n"
    start = f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n{cookie}"
    return start.encode("latin-1") + fixed + b"\r\n"
