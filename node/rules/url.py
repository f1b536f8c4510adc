"""Text to canonical URL, or the named reason it was refused (WHATWG URL Standard).

Three things are told apart:

- the **canonical URL**, which is what is fetched, logged and checked against robots.txt: the parsed
  href without fragment and userinfo, otherwise never "improved";
- the **dedup key**, which only decides whether two addresses are the same: it may be improved;
- the **parsed href** of ``parse``, which is the standard's answer for any scheme.

``ada_url`` does the parsing. Most links need none: a ``Joiner`` recognises those whose canonical
form follows from their characters alone; a property test holds this short way to the long one.
"""

from __future__ import annotations

import re

import ada_url

from node.rules.query import encode_query
from node.rules.refusal import Refusal

MAX_URL_BYTES = 2048
"""A longer canonical URL is a trap."""
MAX_SEGMENTS = 20
"""So is a path of more segments (empty ones aside) ..."""
MAX_SEGMENT_REPEATS = 3
"""... or one in which a segment, be it an empty one, occurs more often than this."""

_WEB_PREFIXES = ("http://", "https://")
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.\-\t\n\r]*):")
_TABS_AND_NEWLINES = {0x09: None, 0x0A: None, 0x0D: None}
_SURROGATE = re.compile("[\ud800-\udfff]")


# --- parsing ------------------------------------------------------------------------------------


def parse(href: str, base: str | None = None) -> str | None:
    """The parsed and serialised URL, of any scheme, as a browser has it; ``None`` if it is none.

    Surrogates, which a web page can't hold but JSON can, count as the characters they make in pairs,
    and as U+FFFD alone.
    """
    href = _without_surrogates(href)
    try:
        return ada_url.normalize_url(href) if base is None else ada_url.join_url(base, href)
    except ValueError:
        return None


def _without_surrogates(text: str) -> str:
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def canonical(href: str, base: str | None = None, encoding: str = "utf-8") -> str | Refusal:
    """The address to fetch, or why there is none.

    ``base``: what ``href`` is relative to. ``encoding``: that of the page it stands on, by its name in
    the Encoding Standard, lower case; it shows in the query of a link only.
    """
    found = _SCHEME.match(href)
    if found is not None and found[1].translate(_TABS_AND_NEWLINES).lower() not in ("http", "https"):
        return Refusal.SCHEME
    parsed = parse(_with_query_in(encoding, href), base)
    return Refusal.BAD_URL if parsed is None else _fetchable(parsed)


def document_base(page: str, href: str | None, encoding: str = "utf-8") -> str:
    """What a document's links are relative to (HTML Standard, "frozen base URL").

    ``page``: its canonical URL; ``href``: that of its first ``base`` element which has one, if any.
    """
    base = None if href is None else parse(_with_query_in(encoding, href), page)
    return page if base is None or base.startswith(("data:", "javascript:")) else base


def _with_query_in(encoding: str, href: str) -> str:
    """The link with what is not ASCII in its query encoded as a page of ``encoding`` has it."""
    if encoding == "utf-8" or href.isascii():
        return href
    before, hash_mark, fragment = _without_surrogates(href).partition("#")
    before, question_mark, query = before.partition("?")
    query = encode_query(query.translate(_TABS_AND_NEWLINES), encoding)
    return before + question_mark + query + hash_mark + fragment


def _fetchable(parsed: str) -> str | Refusal:
    """From a parsed href to the address to fetch."""
    if not parsed.startswith(_WEB_PREFIXES):
        return Refusal.SCHEME
    url = _bare(parsed)
    path_at = url.index("/", 8)
    if url[:path_at] not in _known_origins:
        if not _can_resolve(host(url)):
            return Refusal.BAD_HOST
        _remember_origin(url[:path_at])
    return Refusal.TRAP if _is_trap(url) else url


def _bare(parsed: str) -> str:
    """A web address without its fragment and userinfo."""
    url = parsed.partition("#")[0]
    path_at = url.index("/", 8)
    at_sign = url.rfind("@", 0, path_at)
    return url if at_sign < 0 else url[: url.index("/") + 2] + url[at_sign + 1 :]


def _can_resolve(name: str) -> bool:
    """Whether the DNS could hold a host: labels of 1 to 63 bytes, 253 in all (RFC 1035, 2.3.4)."""
    if name[0] == "[":
        return True
    name = name.removesuffix(".")
    return len(name) <= 253 and all(1 <= len(label) <= 63 for label in name.split("."))


def _is_trap(url: str) -> bool:
    if len(url) > MAX_URL_BYTES:
        return True
    if url.count("/") <= 2 + MAX_SEGMENT_REPEATS:
        return False
    # To occur too often takes as many duplicates as are allowed. Scheme, host and query among the
    # segments can only make more of them, so most URLs need no closer look.
    segments = url.split("/")
    duplicates = len(segments) - len(set(segments))
    if duplicates < MAX_SEGMENT_REPEATS and len(segments) <= 3 + MAX_SEGMENTS:
        return False
    segments = path_and_query(url).partition("?")[0].split("/")[1:]
    if not segments[-1]:  # the path ends with a slash
        segments.pop()
    return len(segments) - segments.count("") > MAX_SEGMENTS or any(
        segments.count(segment) > MAX_SEGMENT_REPEATS for segment in set(segments)
    )


# --- the links of a page ------------------------------------------------------------------------

# ASCII that neither a path nor a query changes. A path changes controls, space and "#<>?^`{}\ and
# a query changes controls, space and "#'<> (URL Standard, percent-encode sets).
_UNCHANGED = bytes(range(0x21, 0x7F)).translate(None, b"\"#'<>^`{}\\")

# Origins seen to be canonical, "https://example.com". They are remembered since a link that begins
# with one needs no look at its host. About 100 bytes each.
_known_origins: set[str] = set()
_MAX_KNOWN_ORIGINS = 16_384


def _remember_origin(known: str) -> None:
    if len(_known_origins) >= _MAX_KNOWN_ORIGINS:
        _known_origins.clear()
    _known_origins.add(known)


class Joiner:
    """Turns the links of one page into canonical URLs: ``canonical`` with base and encoding given.

    ``base`` is what ``document_base`` gave.
    """

    __slots__ = ("_base", "_directories", "_encoding", "_itself", "_origin", "_path", "_scheme")

    def __init__(self, base: str, encoding: str = "utf-8") -> None:
        self._base = base
        self._encoding = encoding
        # With no origin, links can't be joined by their characters.
        self._origin = self._scheme = self._path = ""
        self._itself: str | Refusal = Refusal.SCHEME
        self._directories: list[str] = []
        parsed = parse(base)
        if parsed is not None and parsed.startswith(_WEB_PREFIXES):
            url = _bare(parsed)
            self._itself = _fetchable(parsed)
            if self._itself is not Refusal.BAD_HOST:
                self._origin = origin(url)
                self._scheme = url[: url.index("/")]
                self._path = url.partition("?")[0]
                self._directories = _directories(self._path, len(self._origin))

    def join(self, href: str) -> str | Refusal:
        """The canonical URL of one link, or why there is none."""
        cut = href.find("#")
        link = href if cut < 0 else href[:cut]
        if self._origin and link.isascii() and not link.encode().translate(None, _UNCHANGED):
            if not link:
                return self._itself
            url = self._join_unchanged(link)
            if url:
                return Refusal.TRAP if _is_trap(url) else url
        return canonical(href, self._base, self._encoding)

    def _join_unchanged(self, link: str) -> str:
        """Join a link none of whose characters changes; empty where that takes the whole parser.

        That is left to it whenever a segment might be "." or ".." (which can be written with %2e), an
        authority is new, or a colon might end a scheme.
        """
        first = link[:1]
        if first == ".":
            up = 0
            while True:
                if link.startswith("../"):
                    up += 1
                    link = link[3:]
                elif link.startswith("./"):
                    link = link[2:]
                else:
                    break
            if link[:1] == "." or link[:2] == "%2" or "/." in link or "/%2" in link:
                return ""
            return self._directories[min(up, len(self._directories) - 1)] + link
        if "/." in link or "/%2" in link:
            return ""
        if first == "/":
            if link[1:2] != "/":
                return self._origin + link
            link = self._scheme + link
        elif not link.startswith(_WEB_PREFIXES):
            if ":" in link or link[:2] == "%2":
                return ""
            return (self._path if first == "?" else self._directories[0]) + link
        path_at = link.find("/", 8)
        return link if path_at > 0 and link[:path_at] in _known_origins else ""


def _directories(path: str, origin_length: int) -> list[str]:
    """What "./", "../", "../../" and so on lead to; the last is the root."""
    directories = []
    end = len(path)
    while end > origin_length:
        end = path.rindex("/", 0, end)
        directories.append(path[: end + 1])
    return directories


# --- the dedup key ------------------------------------------------------------------------------

# A triplet that is not the end of a cut-off one: "%2%64" must not become "%2d".
_TRIPLET = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Session ids that servers put into URLs by themselves: Java's, PHP's, ASP's and ASP.NET's.
_SESSION_IN_PATH = re.compile(r";jsessionid=[^/;]*|/\([SAFX]\([^/()]*\)\)(?=/)", re.IGNORECASE)
_is_session = re.compile(
    r"(?:jsessionid|phpsessid|aspsessionid[a-z]*|asp\.net_sessionid)=", re.IGNORECASE
).match


def dedup_key(url: str) -> str:
    """What a canonical URL is remembered by: equal for addresses that lead to the same.

    The host loses its trailing dot; percent-encoded unreserved characters are decoded and the other
    triplets written in upper case (RFC 3986, 6.2.2). The session ids go that servers write into URLs by
    themselves, a new one with each page. Nothing is sorted or folded: that would merge what differs.
    ``dedup_key(dedup_key(url)) == dedup_key(url)``.
    """
    if "%" in url:
        url = _TRIPLET.sub(_normal_triplet, url)
    if "./" in url or ".:" in url:
        path_at = url.index("/", 8)
        authority = url[:path_at].replace(".:", ":").removesuffix(".")
        url = authority + url[path_at:]
    # Most URLs hold none of these, and those with a session id hold one, as servers spell it.
    if ";" in url or "))/" in url or ("?" in url and ("SESS" in url or "sess" in url or "Sess" in url)):
        return _without_session_ids(url)
    return url


def _normal_triplet(found: re.Match[str]) -> str:
    triplet = found[0].upper()
    char = chr(int(triplet[1:], 16))
    return char if char in _UNRESERVED else triplet


def _without_session_ids(url: str) -> str:
    path, question_mark, query = url.partition("?")
    path = _SESSION_IN_PATH.sub("", path)
    arguments = query.split("&")
    kept = [argument for argument in arguments if not _is_session(argument)]
    return path + question_mark + "&".join(kept) if kept else path


# --- parts of canonical URLs --------------------------------------------------------------------


def origin(url: str) -> str:
    """``scheme://host[:port]`` of a canonical URL."""
    return url[: url.index("/", 8)]


def host(url: str) -> str:
    """The host of a canonical URL: ASCII, lower case, IPv6 in brackets, a trailing dot if it has one."""
    name = url[url.index("/") + 2 : url.index("/", 8)]
    if ":" not in name:
        return name
    return name[: name.index("]") + 1] if name[0] == "[" else name[: name.index(":")]


def path_and_query(url: str) -> str:
    """What follows the origin of a canonical URL; begins with a slash."""
    return url[url.index("/", 8) :]
