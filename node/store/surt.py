"""The key of a URL in a CDXJ index: its SURT, ``https://www.a.com/B?y&x`` -> ``com,a)/b?x&y``.

Sort-friendly URI Reordering Transform, with the canonicalisation that the Internet Archive's tools and pywb
apply before a look-up: scheme, user, ``www.``, fragment, well-known session ids, a trailing slash and the
order of the query don't count, nor does case. So several URLs may share a key; the URL itself stands in the
entry. Our URLs are canonical already (WHATWG); what those tools do to others is of no concern here.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[^/?#]*@)?([^/?#]*)([^?#]*)\??([^#]*)", re.IGNORECASE)
_WWW: Final = re.compile(r"www\d*\.(?=.)")
_PORT: Final = re.compile(r":(\d*)$")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_SIMPLE: Final = re.compile(r"[A-Za-z0-9/._~=&;,+-]*")
"""Characters that neither decoding nor encoding changes."""
_SLASHES: Final = re.compile(r"//+")
_ESCAPED: Final = re.compile(rb"[\x00-\x20\x7f-\xff%#]")

# Session ids, of Java, PHP, anybody, ASP, ColdFusion: in each pass the last one in the query goes.
_SESSIONS: Final = [
    re.compile(f"(.*){name_and_value}(?:&|$)")
    for name_and_value in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=[^&]+&cftoken=[^&]+",
    )
]
_COOKIELESS: Final = re.compile(r"/\((?:[a-z]\([0-9a-z]{24}\))+\)(?=/.+\.aspx)")
"""ASP.NET's cookieless session in the path: ``/(S(…24 characters…))/page.aspx``."""


def surt(url: str) -> str:
    """The key of an absolute URL. Only visible ASCII comes out, whatever goes in."""
    parts = _URL.match(url)
    if parts is None:
        return _encode(url.encode("utf-8", "surrogatepass"))
    scheme, authority, path, query = parts.groups()
    key = f"{_host(authority.lower(), scheme.lower())}){_path(path)}"
    return f"{key}?{text}" if query and (text := _query(query)) else key


def _host(authority: str, scheme: str) -> str:
    port = _PORT.search(authority)
    name = authority[: port.start()] if port else authority
    if name.startswith("["):
        key = name.strip("[]")
    else:
        labels = _WWW.sub("", name.rstrip("."), count=1) if name.startswith("www") else name.rstrip(".")
        key = ",".join(reversed(labels.split(".")))
    if port and port[1] and port[1] != _DEFAULT_PORTS.get(scheme):
        key += f":{port[1]}"
    return (
        key
        if key.isascii() and key.isprintable() and " " not in key
        else _encode(key.encode("utf-8", "surrogatepass"))
    )


def _path(path: str) -> str:
    text = _respelled(path)
    if "/." in text:
        text = _without_dots(text)
    text = _SLASHES.sub("/", text)
    if ".aspx" in text:
        text = _COOKIELESS.sub("", text, count=1)
    return text[:-1] if len(text) > 1 and text.endswith("/") else text or "/"


def _without_dots(path: str) -> str:
    """Dot segments that come to light only when ``%2F`` is decoded; one that climbs above the root stays."""
    kept: list[str] = []
    for segment in path.removeprefix("/").split("/"):
        if segment == ".." and kept:
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/" + "/".join(kept)


def _query(query: str) -> str:
    text = _respelled(query)
    if "id" in text:
        for session in _SESSIONS:
            if found := session.match(text):
                text = found[1] + text[found.end() :]
    # By name, then by value: "a=1" comes before "a-b=0", though "-" sorts before "=".
    return "&".join(sorted(text.split("&"), key=lambda pair: pair.partition("=")))


def _respelled(text: str) -> str:
    """In lower case and in one spelling: decoded until nothing is left to decode, then encoded once."""
    if _SIMPLE.fullmatch(text):
        return text.lower()
    octets = text.encode("utf-8", "surrogatepass")
    while (further := unquote_to_bytes(octets)) != octets:
        octets = further
    return _encode(octets.lower())


def _encode(octets: bytes) -> str:
    return _ESCAPED.sub(lambda found: b"%%%02x" % found[0][0], octets).decode("ascii")
