"""robots.txt: from bytes to the few rules that concern us (RFC 9309).

The file is read once, leniently, into ``Rules``: what is for our product token, or for ``*`` where
nobody names us, plus what an operator and the archive want to know (delay, sitemaps, signals).
``Rules.dumps`` is what the store keeps of an origin. Reading lines is in ``robots_read``, matching
paths in ``robots_match``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from enum import StrEnum

from node.rules.robots_match import Matcher, deciding
from node.rules.robots_read import MAX_BODY_BYTES, MAX_SITEMAPS, read
from node.rules.usage import Said
from node.rules.usage_read import InRobots

MAX_TRIES = 8
"""So often is a robots.txt asked for while it can't be had; then its origin waits ``LONG_WAIT_S``."""
FIRST_WAIT_S = 60.0
LONG_WAIT_S = 86_400.0
"""The life of a robots.txt in a cache (RFC 9309 section 2.4): a day later all may be different."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one origin's robots.txt says to us. Values compare by what they say."""

    paths: tuple[str, ...] = ()
    """``+`` (allow) or ``-`` (disallow) and a path pattern; no two alike, as in the file."""
    crawl_delay_s: float | None = None
    """0 < delay ≤ 86,400; None where nothing usable is said."""
    sitemaps: tuple[str, ...] = ()
    """As written: absolute URLs if the site follows the rules."""
    content_signals: tuple[str, ...] = ()
    """``Name: value`` of Content-Signal, Content-Usage and License lines that apply to us."""
    _matcher: list[Matcher] = field(default_factory=list, init=False, repr=False, compare=False)
    _usage: list[InRobots] = field(default_factory=list, init=False, repr=False, compare=False)

    def allows(self, path_and_query: str) -> bool:
        """May this path with its query be fetched? Ask with exactly what would be sent.

        Don't ask for the request that fetches robots.txt: it needs no leave (RFC 9309 section 2.2.2),
        while a *link* to ``/robots.txt`` is a path like others. Never raises.
        """
        if not self.paths:
            return True
        if not self._matcher:
            self._matcher.append(Matcher(self.paths))
        return self._matcher[0].allows(path_and_query)

    def deciding(self, path_and_query: str) -> str | None:
        """The line by which ``allows`` answers, such as ``Disallow: /b``; None where none is about it."""
        rule = deciding(self.paths, path_and_query)
        return None if rule is None else ("Allow: " if rule[0] == "+" else "Disallow: ") + rule[1:]

    def said(self, path_and_query: str) -> Said:
        """What it says about the use of what is at this path; about all purposes, be they ours or not."""
        if not self.content_signals:
            return ()
        if not self._usage:
            self._usage.append(InRobots(self.content_signals))
        return self._usage[0].about(path_and_query)

    def dumps(self) -> bytes:
        """A compact form: empty for "all is allowed", else a line a fact, deflated where that is shorter."""
        lines = list(self.paths)
        if self.crawl_delay_s is not None:
            lines.append(f"~{self.crawl_delay_s!r}")
        lines += [f"@{url}" for url in self.sitemaps]
        lines += [f"={signal}" for signal in self.content_signals]
        plain = "\n".join(lines).encode("utf-8", "surrogatepass")
        if len(plain) < 100:
            return plain
        packed = b"\0" + zlib.compress(plain)
        return packed if len(packed) < len(plain) else plain

    @classmethod
    def loads(cls, packed: bytes) -> Rules:
        """The inverse of ``dumps``. Raises ``ValueError`` for bytes that ``dumps`` did not make."""
        if packed[:1] == b"\0":
            try:
                packed = zlib.decompress(packed[1:])
            except zlib.error as error:
                raise ValueError(f"not the dump of robots rules: {error}") from error
        paths: list[str] = []
        sitemaps: list[str] = []
        signals: list[str] = []
        delay: float | None = None
        for line in packed.decode("utf-8", "surrogatepass").split("\n") if packed else ():
            kind = line[:1]
            if kind in ("+", "-"):
                paths.append(line)
            elif kind == "~":
                delay = float(line[1:])
            elif kind == "@":
                sitemaps.append(line[1:])
            elif kind == "=":
                signals.append(line[1:])
            else:
                raise ValueError(f"not the dump of robots rules: {line[:40]!r}")
        return cls(tuple(paths), delay, tuple(sitemaps), tuple(signals))


ALLOW_ALL = Rules()
DENY_ALL = Rules(("-/",))


def parse(body: bytes, token: str, *, max_sitemaps: int = MAX_SITEMAPS) -> Rules:
    """Read a robots.txt for the crawler whose product token is ``token``.

    Give at least ``MAX_BODY_BYTES`` of the file where it has them: a body of that length or more is
    taken to be cut, and its last, torn line is not believed. Never raises.
    """
    return Rules(*read(body, token, max_sitemaps))


class Access(StrEnum):
    """How a robots.txt answered."""

    READ = "read"
    """It was there and is read."""
    ABSENT = "absent"
    """There is none, or it isn't for us to see: all is allowed (RFC 9309 section 2.3.1.3)."""
    UNAVAILABLE = "unavailable"
    """Nobody knows yet: all is denied for now, and it is asked for again (section 2.3.1.4)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a response to a request for robots.txt means."""

    access: Access
    rules: Rules


_ABSENT = Verdict(Access.ABSENT, ALLOW_ALL)
_UNAVAILABLE = Verdict(Access.UNAVAILABLE, DENY_ALL)


def of_response(status: int | None, body: bytes, token: str) -> Verdict:
    """Judge the last response of a robots.txt's chain of redirects.

    ``status`` None: no whole response came (DNS, refused, time-out, TLS, cut off in the middle). A
    redirect is only judged where it is not followed any further: the sixth, or one without a target.
    429 says "not now", which the RFC, silent on it, would let count as "no rules".
    """
    if status is None or status == 429:
        return _UNAVAILABLE
    if 200 <= status < 300:
        return Verdict(Access.READ, parse(body, token))
    if 400 <= status < 500:
        return _ABSENT
    return _UNAVAILABLE


def retry_after_s(tries: int, jitter: float) -> float:
    """How long to wait before robots.txt is asked for again, after ``tries`` (≥ 1) vain requests.

    ``jitter`` in [0, 1) spreads the wait by a quarter up and down. One minute, doubling to about an
    hour: an overload or a deployment is over in minutes, and eight requests spread over two hours
    burden nobody. After ``MAX_TRIES`` it is a day, so such an origin costs one request a day.
    """
    wait = LONG_WAIT_S if tries >= MAX_TRIES else FIRST_WAIT_S * 2.0 ** (max(tries, 1) - 1)
    return wait * (0.75 + 0.5 * jitter)


__all__ = [
    "ALLOW_ALL",
    "DENY_ALL",
    "MAX_BODY_BYTES",
    "MAX_SITEMAPS",
    "MAX_TRIES",
    "Access",
    "Rules",
    "Verdict",
    "of_response",
    "parse",
    "retry_after_s",
]
