"""Which encoding a page is in, and its text.

In the order that browsers follow (Encoding Standard section 6, HTML section 13.2.3.2): a byte order
mark, the ``charset`` of Content-Type, a ``<meta>`` or XML declaration in the page; with none of them
a guess by the bytes, and where that says nothing, windows-1252.

The detector is imported and tried here, at the top, so that a node where it is missing or broken does
not start, rather than store a sixth of its pages with wrong letters.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Literal, NamedTuple

import chardet

from node.rules.charset_decode import DECODERS
from node.rules.charset_labels import CODECS, LABELS, TABLES
from node.rules.charset_meta import declared

Source = Literal["bom", "header", "meta", "detector", "fallback"]


class Encoding(NamedTuple):
    """An encoding and how it was found."""

    name: str
    """As the Encoding Standard calls it, in lower case (``windows-1252``, ``gbk``)."""
    codec: str
    """The Python codec nearest to it (``cp1252``, ``gb18030``); ``decode`` knows where they differ."""
    source: Source


def _encoding(name: str, source: Source) -> Encoding:
    return Encoding(name, CODECS[name], source)


_BOMS = (
    (b"\xef\xbb\xbf", _encoding("utf-8", "bom")),
    (b"\xfe\xff", _encoding("utf-16be", "bom")),
    (b"\xff\xfe", _encoding("utf-16le", "bom")),
)
_FALLBACK = _encoding("windows-1252", "fallback")
_UTF_8 = _encoding("utf-8", "detector")


def sniff(body: bytes, content_type: str | None) -> Encoding:
    """The encoding of a page: ``body`` decompressed, ``content_type`` the header's value. Never raises."""
    if body.startswith((b"\xef", b"\xfe", b"\xff")):
        for mark, encoding in _BOMS:
            if body.startswith(mark):
                return encoding
    if content_type is not None:
        header = _of_header(content_type)
        if header is not None:
            return header
    label = declared(body)
    if label is not None:
        return _encoding(label, "meta")
    return detect(body)


_CHARSET = re.compile(r"""(?:^|[;,\s])charset\s*=\s*["']?\s*([^"';,\s]+)""", re.IGNORECASE)


@lru_cache(maxsize=1_024)
def _of_header(content_type: str) -> Encoding | None:
    match = _CHARSET.search(content_type)
    name = None if match is None else LABELS.get(match[1].lower())
    return None if name is None else _encoding(name, "header")


# What the detector may answer: codecs as it names them -> ours. All that the web knows (Encoding
# Standard), and the few others with pages in them; leaving the rest out makes it faster, and right
# more often.
_DETECTABLE = {
    "utf-16-be": "utf-16be",
    "utf-16-le": "utf-16le",
    "utf-32-be": "utf-32be",
    "utf-32-le": "utf-32le",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "shift_jis_2004": "shift_jis",
    "cp949": "euc-kr",
    "euc_kr": "euc-kr",
    "euc_jis_2004": "euc-jp",
    "gb18030": "gb18030",
    "iso2022_jp_2": "iso-2022-jp",
    "iso2022_jp_2004": "iso-2022-jp",
    "iso2022_jp_ext": "iso-2022-jp",
    "iso2022_kr": "iso-2022-kr",
    "johab": "johab",
    "cp855": "ibm855",
    "cp866": "ibm866",
    "cp874": "windows-874",
    "tis-620": "windows-874",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "mac-roman": "macintosh",
    "mac-cyrillic": "x-mac-cyrillic",
    "iso8859-1": "windows-1252",
    "iso8859-9": "windows-1254",
    **{f"iso8859-{part}": f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"cp125{digit}": f"windows-125{digit}" for digit in range(9)},
}

SAMPLE_BYTES = 4_096
"""What the detector is shown at most. More changed no answer on 425 labelled texts."""
_TOLERANCE_BYTES = 65_536
_HIGH = re.compile(rb"[\x80-\xff]")
_HIGH_BYTES = bytes(range(0x80, 0x100))


def detect(body: bytes) -> Encoding:
    """Guess by the bytes alone, the cheap and certain cases first. Never raises."""
    if body.isascii():
        # Pure ASCII is the same in all of them, but for those that write letters as escapes or pairs.
        first = body.find(b"\x1b")
        if first < 0 and b"\0" not in body:
            return _FALLBACK
        sample = body[max(first, 0) :][:SAMPLE_BYTES]
    elif _is_utf8(body):
        return _UTF_8
    else:
        sample = body[:SAMPLE_BYTES] if b"\0" in body[:SAMPLE_BYTES] else _text_sample(body)
    found = chardet.detect(
        sample, compat_names=False, include_encodings=_DETECTABLE, no_match_encoding="cp1252"
    )["encoding"]
    name = None if found is None else _DETECTABLE.get(found)
    return _FALLBACK if name is None else _encoding(name, "detector")


def _is_utf8(body: bytes) -> bool:
    """Is it UTF-8, perhaps cut within a character, perhaps with a stray byte in many good ones?"""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and not body[: error.start].isascii():
            return True
    else:
        return True
    head = body[:_TOLERANCE_BYTES]
    high = len(head) - len(head.translate(None, _HIGH_BYTES))
    lost = len(head) - len(head.decode(errors="ignore").encode())
    return lost * 20 < high


def _text_sample(body: bytes) -> bytes:
    """Texts with letters beyond ASCII, without the markup between them.

    A page is mostly markup, in which the detector would see nothing but English.
    """
    texts: list[bytes] = []
    room = SAMPLE_BYTES
    position = 0
    while room > 0 and (match := _HIGH.search(body, position)) is not None:
        at = match.start()
        before = max(position, at - 24)
        start = max(before, body.rfind(b">", before, at) + 1, body.rfind(b"<", before, at) + 1)
        end = body.find(b"<", at, at + room)
        if end < 0:
            end = min(len(body), at + room)
        texts.append(body[start:end])
        room -= end - start
        position = end
    return b"\n".join(texts)


def decode(body: bytes, name: str) -> str:
    """The text of ``body``, a byte order mark removed; what can't be read becomes U+FFFD. Never raises.

    ``name`` as in ``Encoding.name``; one that is unknown is taken for windows-1252.
    """
    table = TABLES.get(name)
    if table is not None:
        return codecs.charmap_decode(body, "replace", table)[0]
    if name == "replacement":
        # Encodings given up for being dangerous: a page in one has no text (Encoding Standard section 14.1).
        return "\ufffd" if body else ""
    decoder = DECODERS.get(name)
    if decoder is not None:
        return decoder(body)
    codec = CODECS.get(name)
    if codec is None:
        return decode(body, _FALLBACK.name)
    return body.decode(codec, "replace").removeprefix("\ufeff")


# The detector loads its models the first time it is asked (80 ms): not on some page's time.
if detect("Пробный текст".encode("cp1251")).name != "windows-1251":
    raise ImportError("it does not know Russian when it sees it", name="chardet")
