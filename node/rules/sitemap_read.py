"""A sitemap, from its bytes to the pages and further sitemaps it names (sitemaps.org, protocol 0.9).

XML (``urlset`` and ``sitemapindex``, whatever their namespace prefix) or plain text with a URL a line, in
any encoding. Real ones are cut, unclosed and badly escaped, where a validating reader gives up with the
first error; and a reader of XML in full can be made to fetch what a file names or to multiply it. So this
is a tokenizer for the few tags that matter: it expands no entity but XML's own five, fetches nothing, and
its time grows with the length of the file alone. URLs before a damage are kept, and those after it where
they can be told; one that the end of the file tears is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from node.rules import charset
from node.rules.charset import Encoding
from node.rules.refusal import Refusal
from node.rules.url import Joiner

MAX_URLS = 50_000
"""What the protocol allows in one file. What follows is not read."""
MAX_TAGS = 10 * MAX_URLS
"""Nor is what follows so many tags of those that matter."""
MAX_LOCATION_CHARS = 8_192
"""An address that takes more, as it is written, is passed over."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What one file names: address as written -> the canonical URL it leads to, or why it is refused."""

    encoding: Encoding
    pages: dict[str, str | Refusal]
    sitemaps: dict[str, str | Refusal]
    cut: int
    """Addresses beyond the bounds; of those after the ``MAX_URLS`` that are read only one is counted."""


def read(body: bytes, url: str, *, content_type: str | None, whole: bool, max_sitemaps: int) -> Sitemap:
    """Read a sitemap. Never raises.

    ``body``: decompressed and cut by the caller; ``whole``: not cut, by nobody. ``url``: its canonical
    URL. ``content_type``: the value of the header. ``max_sitemaps``: how many sitemaps are taken.
    """
    encoding = charset.sniff(body, content_type)
    join = Joiner(url).join
    pages: dict[str, str | Refusal] = {}
    sitemaps: dict[str, str | Refusal] = {}
    cut = 0
    text = charset.decode(body, encoding.name)
    locations = _of_xml(text) if _is_xml(text) else _of_lines(text, whole=whole)
    for number, (address, is_sitemap) in enumerate(locations):
        if number >= MAX_URLS:
            cut += 1
            break
        into, most = (sitemaps, max_sitemaps) if is_sitemap else (pages, MAX_URLS)
        if not address or address in into:
            continue
        if len(into) < most:
            into[address] = join(address)
        else:
            cut += 1
    return Sitemap(encoding, pages, sitemaps, cut)


# --- text ---------------------------------------------------------------------------------------

_LINE = re.compile(r"(?:\A|[\r\n])[ \t]*+(https?://[^\r\n]*+)", re.IGNORECASE)


def _of_lines(text: str, *, whole: bool) -> Iterator[tuple[str, bool]]:
    for line in _LINE.finditer(text):
        address = line[1].rstrip()
        if len(address) <= MAX_LOCATION_CHARS and (whole or line.end() < len(text)):
            yield address, False


# --- XML ----------------------------------------------------------------------------------------

_PREFIX = r"(?:[^\s<>/:!?]{1,64}+:)?+"
_ROOT = re.compile(rf"<{_PREFIX}(?:urlset|sitemapindex|url|sitemap|loc)[\s/>]", re.IGNORECASE)
_MARKUP = re.compile(
    r"<(?:(?P<special>!--|!\[CDATA\[|\?)|(?P<doctype>!DOCTYPE)"
    rf"|{_PREFIX}(?P<name>urlset|sitemapindex|url|sitemap|loc|image|video)(?=[\s/>])"
    rf"|/{_PREFIX}(?P<end>image|video)(?=[\s/>]))",
    re.IGNORECASE,
)
# The rest of a tag. A "<" is in no tag, so however many never end, each is looked at up to the next.
_TAG_REST = re.compile(r"""(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+>|[^<>]*+>""")
_TAG = re.compile(r"</?+[^\s<>/!?][^<>]*+>")
_DOCTYPE = re.compile(
    r"""<!DOCTYPE(?:[^\[>"']++|"[^"]*+"|'[^']*+')*+"""
    r"""(?:\[(?:[^\]"'<]++|"[^"]*+"|'[^']*+'|<!--(?:(?!-->).)*+(?:-->|\Z)|<)*+\]\s*+)?+>""",
    re.IGNORECASE | re.DOTALL,
)
_ENDS = {"!--": "-->", "![CDATA[": "]]>", "?": "?>"}
_REFERENCE = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(?:([0-9]{1,10})|[xX]([0-9A-Fa-f]{1,8})));")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def _is_xml(text: str) -> bool:
    return text[:1_024].lstrip("\ufeff\t\n\f\r ").startswith("<") or _ROOT.search(text) is not None


def _of_xml(text: str) -> Iterator[tuple[str, bool]]:
    """The text of each ``loc`` and whether it names a sitemap, which the tag before it tells."""
    in_sitemap = foreign = had_doctype = False
    position = 0
    for _ in range(MAX_TAGS):
        markup = _MARKUP.search(text, position)
        if markup is None:
            return
        special, doctype, name, end = markup.groups()
        if special:
            position = _after(text, markup.end(), _ENDS[special.upper()])
            if position < 0:
                return
            continue
        if doctype and not had_doctype:
            # What it declares is passed over with it, however much of a sitemap it looks like.
            had_doctype = True
            declared = _DOCTYPE.match(text, markup.start())
            if declared is None:
                return
            position = declared.end()
            continue
        rest = _TAG_REST.match(text, markup.end()) if name else None
        position = markup.end() if rest is None else rest.end()
        if end:
            foreign = False
        elif rest is None:
            continue
        elif name.lower() == "loc":
            if not foreign and text[position - 2] != "/":
                address, position = _value(text, position)
                yield address, in_sitemap
        elif name.lower() in ("image", "video"):
            # The ``loc`` of an extension is a picture's.
            foreign = text[position - 2] != "/"
        else:
            in_sitemap, foreign = name.lower().startswith("sitemap"), False


def _after(text: str, position: int, ends: str) -> int:
    end = text.find(ends, position)
    return -1 if end < 0 else end + len(ends)


def _value(text: str, start: int) -> tuple[str, int]:
    """The text from ``start`` to the next tag, and where that is; empty where it can't be an address."""
    parts: list[str] = []
    position = start
    while position - start <= MAX_LOCATION_CHARS:
        markup = text.find("<", position)
        if markup < 0:
            return "", len(text)
        parts.append(_REFERENCE.sub(_dereference, text[position:markup]))
        if _TAG.match(text, markup) is not None:
            return "".join(parts).strip(), markup
        special = _MARKUP.match(text, markup)
        if special is None or not special["special"]:
            parts.append("<")
            position = markup + 1
            continue
        ends = _ENDS[special["special"].upper()]
        position = _after(text, special.end(), ends)
        if position < 0:
            return "", len(text)
        if ends == "]]>":
            parts.append(text[special.end() : position - len(ends)])
    return "", position


def _dereference(match: re.Match[str]) -> str:
    name, decimal, hexadecimal = match.groups()
    if name is not None:
        return _PREDEFINED[name]
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    is_char = 0 < code < 0xD800 or 0xE000 <= code < 0x110000
    return chr(code) if is_char else "\ufffd"
