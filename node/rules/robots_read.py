"""Reads the lines of a robots.txt for one product token (RFC 9309 section 2.2).

As the RFC says: groups of one agent are merged, agents and keys know no case, an error in a line
costs that line. Lenient where sites are sloppy: a BOM (even a torn one), UTF-16, CR alone, a
missing colon, the usual misspellings of ``Disallow``. Lines other than rules (``Sitemap``,
``Crawl-delay``, anything unknown) never end a list of agents, nor do empty lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from node.rules.robots_match import spell_rule

MAX_BODY_BYTES = 512 * 1024
"""What is read of a robots.txt (RFC 9309 section 2.5 asks for at least 500 KiB). What follows the
last whole line before it is as if it weren't there."""
MAX_LINE_BYTES = 16 * 1024
"""A longer line is ignored: no URL that we would fetch is that long."""
MAX_WILDCARD_BYTES = 64 * 1024
"""Rules with a star, for all agents that concern us, take at most this much together; those after it
are ignored, so that no file makes a look-up slow. The most in 4,231 real files is 25 KB."""
MAX_DELAY_S = 86_400.0
MAX_SITEMAPS = 50
MAX_SITEMAP_CHARS = 2_048
MAX_SIGNALS = 64
"""Lines of Content-Usage, Content-Signal and License; each may be about a path of its own."""
MAX_SIGNAL_CHARS = 512


class Facts(NamedTuple):
    """What a robots.txt says to us; the fields are those of ``robots.Rules``."""

    paths: tuple[str, ...]
    crawl_delay_s: float | None
    sitemaps: tuple[str, ...]
    content_signals: tuple[str, ...]


# What a key asks for; the two kinds of rule are named by what ``Rules.paths`` marks them with.
_ALLOW, _DISALLOW = "+", "-"
_AGENT, _DELAY, _SITEMAP, _SIGNAL, _LICENSE = "agent", "delay", "sitemap", "signal", "license"
_RULES = frozenset({_ALLOW, _DISALLOW})

_KEYS: dict[bytes, str] = {
    b"user-agent": _AGENT,
    b"useragent": _AGENT,
    b"user agent": _AGENT,
    b"allow": _ALLOW,
    b"disallow": _DISALLOW,
    b"dissallow": _DISALLOW,
    b"dissalow": _DISALLOW,
    b"disalow": _DISALLOW,
    b"diasllow": _DISALLOW,
    b"disallaw": _DISALLOW,
    b"crawl-delay": _DELAY,
    b"crawldelay": _DELAY,
    b"sitemap": _SITEMAP,
    b"site-map": _SITEMAP,
    b"content-signal": _SIGNAL,
    b"content-usage": _SIGNAL,
    b"license": _LICENSE,
}
# The spellings nearly everybody uses are found without folding the case first.
_KEYS |= {spelling: key for name, key in _KEYS.items() for spelling in (name.title(), name.capitalize())}

_BLANK = b" \t\x0b\x0c\x00"
_COMMENT = re.compile(rb"#[^\r\n]*+")
_MARK = re.compile(rb"\A\xef(?:\xbb\xbf?)?")
_TOKEN = re.compile(rb"[A-Za-z_-]+")
_NUMBER = re.compile(rb"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read(body: bytes, token: str, max_sitemaps: int) -> Facts:
    """What the file ``body`` says to the crawler named ``token``. Never raises.

    By the RFC a product token is letters, ``_`` and ``-``; with anything else in it, ``token`` is
    never named, and the groups for ``*`` hold.
    """
    reader = _Reader(token)
    text = _text(body)
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    reader.read(filter(None, text.splitlines()))
    return reader.facts(max_sitemaps)


def _text(body: bytes) -> bytes:
    """The whole lines of the first ``MAX_BODY_BYTES``, without byte order mark."""
    text = body[:MAX_BODY_BYTES]
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = text.decode("utf-16", "replace").encode()
    else:
        text = _MARK.sub(b"", text, count=1)
    if len(body) >= MAX_BODY_BYTES:
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    return text


def _delay(value: bytes) -> float | None:
    """A usable number of seconds: above zero, at most a day; None for anything else."""
    if _NUMBER.fullmatch(value) is None:
        return None
    seconds = float(value)  # 1e999 becomes infinity here; it is a number all the same
    return min(seconds, MAX_DELAY_S) if seconds > 0 else None


class _Said:
    """What a file says to one agent, its groups merged."""

    __slots__ = ("delay_s", "paths", "signals")

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        self.signals: dict[str, None] = {}
        self.delay_s: float | None = None


class _Reader:
    """The state between lines: whom the group at hand is for, and what was said to us so far."""

    def __init__(self, token: str) -> None:
        self._token = token.encode("utf-8", "surrogatepass").lower()
        self._us = _Said()
        self._anybody = _Said()
        self._named = False
        """Some group names us, so what is said to ``*`` is not for us."""
        self._audience: tuple[_Said, ...] = ()
        """Whom the group at hand is for, as far as we care."""
        self._in_rules = False
        """The group has a rule: the next agent begins another one."""
        self._before_groups = True
        self._wildcard_bytes = 0
        self._sitemaps: dict[str, None] = {}
        self._general_signals: dict[str, None] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        """Take the lines in, in order."""
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                words = line.split()
                if len(words) != 2:
                    continue
                name, value = words
            key = _KEYS.get(name) or _KEYS.get(name.strip(_BLANK).lower())
            if key is None or len(line) > MAX_LINE_BYTES:
                continue
            if key in _RULES:
                self._in_rules = True
                if self._audience:
                    self._rule(key, value.strip(_BLANK))
            else:
                self._other(key, name, value.strip(_BLANK))

    def _rule(self, key: str, value: bytes) -> None:
        # A rule that starts with neither can match no path: "Disallow: http://…" and the empty one.
        if not value.startswith((b"/", b"*")):
            return
        if b"*" in value:
            self._wildcard_bytes += len(value)
            if self._wildcard_bytes > MAX_WILDCARD_BYTES:
                return
        rule = key + spell_rule(value)
        for said in self._audience:
            said.paths[rule] = None

    def _other(self, key: str, name: bytes, value: bytes) -> None:
        if key == _AGENT:
            self._agent(value)
        elif key == _DELAY:
            self._crawl_delay(value)
        elif key == _SITEMAP:
            url = value.decode("utf-8", "replace")
            if 0 < len(url) <= MAX_SITEMAP_CHARS:
                self._sitemaps[url] = None
        else:
            self._signal(key, name, value)

    def _agent(self, value: bytes) -> None:
        if self._in_rules:
            self._audience = ()
            self._in_rules = False
        self._before_groups = False
        if value == b"*" or (value[:1] == b"*" and value[1:2].isspace()):
            said = self._anybody
        else:
            # What counts is the product token the value starts with, and the whole of it.
            token = _TOKEN.match(value)
            if token is None or token[0].lower() != self._token:
                return
            said = self._us
            self._named = True
        if said not in self._audience:
            self._audience += (said,)

    def _crawl_delay(self, value: bytes) -> None:
        """Holds for the agents named above it in its group; of several, the longest."""
        seconds = _delay(value)
        if seconds is not None:
            for said in self._audience:
                said.delay_s = max(said.delay_s or 0.0, seconds)

    def _signal(self, key: str, name: bytes, value: bytes) -> None:
        """A signal belongs to its group; before the first group, and a licence always, to the site."""
        label = name.strip(_BLANK).decode("ascii", "replace").title()
        text = f"{label}: {value.decode('utf-8', 'replace')}"[:MAX_SIGNAL_CHARS]
        if self._before_groups or key == _LICENSE:
            self._general_signals[text] = None
        for said in self._audience:
            said.signals[text] = None

    def facts(self, max_sitemaps: int) -> Facts:
        said = self._us if self._named else self._anybody
        denies = any(rule[0] == _DISALLOW for rule in said.paths)
        signals = dict.fromkeys([*said.signals, *self._general_signals])
        return Facts(
            tuple(said.paths) if denies else (),
            said.delay_s,
            tuple(self._sitemaps)[:max_sitemaps],
            tuple(signals)[:MAX_SIGNALS],
        )
