"""Cookies of one redirect chain (RFC 6265 section 5, what a chain needs of it).

Some sites answer only who brings back the cookie they set one hop earlier. A jar lives as long as
its visit and is never stored; expiry dates therefore don't matter, deletions do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_COOKIES = 50
MAX_COOKIE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class _Cookie:
    value: str
    host: str
    host_only: bool
    path: str
    secure: bool


def _default_path(path: str) -> str:
    cut = path.rfind("/")
    return path[:cut] if cut > 0 else "/"


def _path_matches(path: str, cookie_path: str) -> bool:
    return path == cookie_path or (
        path.startswith(cookie_path) and (cookie_path.endswith("/") or path[len(cookie_path)] == "/")
    )


class ChainJar:
    """Cookies set by the responses of one visit, given back to the hosts they belong to.

    ``domain`` is the registrable domain: no cookie is taken for anything wider.
    """

    __slots__ = ("_cookies", "_domain")

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._cookies: dict[tuple[str, str, str], _Cookie] = {}

    def take(self, set_cookie_values: Iterable[str], host: str, path: str) -> bool:
        """Store what a response from ``host`` set; True if that changed anything."""
        before = dict(self._cookies)
        for line in set_cookie_values:
            self._take_one(line, host, path.partition("?")[0])
        return self._cookies != before

    def _take_one(self, line: str, host: str, path: str) -> None:
        if len(line) > MAX_COOKIE_BYTES or not line.isprintable():
            return
        pair, *attributes = line.split(";")
        name, equals, value = pair.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name:
            return
        scope, host_only, cookie_path, secure, expired = host, True, _default_path(path), False, False
        for attribute in attributes:
            key, _, argument = attribute.partition("=")
            key, argument = key.strip().lower(), argument.strip()
            if key == "domain" and argument:
                wanted = argument.lstrip(".").lower()
                if not (host == wanted or host.endswith("." + wanted)):
                    return
                if not (wanted == self._domain or wanted.endswith("." + self._domain)):
                    return
                scope, host_only = wanted, False
            elif key == "path" and argument.startswith("/"):
                cookie_path = argument
            elif key == "secure":
                secure = True
            elif key == "max-age" and (argument.startswith("-") or argument == "0"):
                expired = True
        key_of = (name, scope, cookie_path)
        if expired:
            self._cookies.pop(key_of, None)
        elif key_of in self._cookies or len(self._cookies) < MAX_COOKIES:
            self._cookies[key_of] = _Cookie(value, scope, host_only, cookie_path, secure)

    def header(self, host: str, path: str, *, https: bool) -> str | None:
        """The Cookie header for a request, or None; longer paths first."""
        path = path.partition("?")[0]
        fitting = [
            (name, cookie)
            for (name, _scope, _path), cookie in self._cookies.items()
            if (host == cookie.host or (not cookie.host_only and host.endswith("." + cookie.host)))
            and _path_matches(path, cookie.path)
            and (https or not cookie.secure)
        ]
        fitting.sort(key=lambda pair: -len(pair[1].path))
        return "; ".join(f"{name}={cookie.value}" for name, cookie in fitting) or None
