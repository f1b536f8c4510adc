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
_SLASHES: Final = re.compile(rb"//+")
_ESCAPED: Final = re.compile(rb"[\x00-\x20\x7f-\xff%#]")

# Session ids, of Java, PHP, anybody, ASP, ColdFusion: in each pass the last one in the query goes.
_SESSIONS: Final = [
    re.compile(rb"(.*)" + name_and_value + rb"(?:&|$)", re.DOTALL)
    for name_and_value in (
        rb"jsessionid=[0-9a-z]{32}",
        rb"phpsessid=[0-9a-z]{32}",
        rb"sid=[0-9a-z]{32}",
        rb"aspsessionid[a-z]{8}=[a-z]{24}",
        rb"cfid=[^&]+&cftoken=[^&]+",
    )
]
_COOKIELESS: Final = re.compile(rb"/\((?:[a-z]\([0-9a-z]{24}\))+\)(?=/.+\.aspx)")
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
    return key if key.isascii() and key.isprintable() and " " not in key else _encode(key.encode())


def _path(path: str) -> str:
    if _SIMPLE.fullmatch(path) and "//" not in path:
        lower = path.lower()
    else:
        octets = _SLASHES.sub(b"/", _decode(path).lower())
        if b".aspx" in octets:
            octets = _COOKIELESS.sub(b"", octets, count=1)
        lower = _encode(octets)
    return lower[:-1] if len(lower) > 1 and lower.endswith("/") else lower or "/"


def _query(query: str) -> str:
    octets = query.lower().encode() if _SIMPLE.fullmatch(query) else _decode(query).lower()
    if b"id" in octets:
        for session in _SESSIONS:
            if found := session.match(octets):
                octets = found[1] + octets[found.end() :]
    # By name, then by value: "a=1" comes before "a-b=0", though "-" sorts before "=".
    return "&".join(sorted(_encode(octets).split("&"), key=lambda pair: pair.partition("=")))


def _decode(text: str) -> bytes:
    """Percent-decoded until there is nothing more to decode, so that all spellings meet."""
    octets = text.encode("utf-8", "surrogatepass")
    while (further := unquote_to_bytes(octets)) != octets:
        octets = further
    return octets


def _encode(octets: bytes) -> str:
    return _ESCAPED.sub(lambda found: b"%%%02x" % found[0][0], octets).decode("ascii")
