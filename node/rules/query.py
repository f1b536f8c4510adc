"""The query string of a link, in the encoding of the page it stands on.

A browser sends ``?q=é`` of a windows-1252 page as ``?q=%E9``, not ``%C3%A9``, and a server of such a
site understands nothing else. The encoders are those of the Encoding Standard (encoding.spec.whatwg.org),
made of Python's codecs and of the places where these differ from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from unicodedata import normalize

from node.rules.charset_labels import TABLES

CharEncoder = Callable[[str], "bytes | None"]
"""From one non-ASCII character to its bytes; ``None`` where the encoding has none."""

# What stays as it is in the query of a special URL: printable ASCII but these (URL Standard,
# special-query percent-encode set). A trail byte of a Shift_JIS character may well be one that stays.
_KEPT = frozenset(range(0x21, 0x7F)) - frozenset(b"\"#<>'")
_PERCENT = [chr(byte) if byte in _KEPT else f"%{byte:02X}" for byte in range(256)]


def encode_query(query: str, encoding: str) -> str:
    """Percent-encode the non-ASCII characters of a query as its page's encoding says.

    ``encoding`` is a name of the Encoding Standard, in lower case. A character it lacks becomes a
    percent-encoded ``&#NNN;``, as in browsers. ASCII is left to the URL parser, which treats it
    alike in all encodings (except in ISO-2022-JP, where it is part of the whole).

    The query of a UTF-16 page is UTF-8 (Encoding Standard, "get an output encoding"). So it is where
    the name is not in the standard, for no browser could read such a page and no server relies on one.
    """
    if query.isascii():
        return query
    if encoding == "iso-2022-jp":
        return _iso_2022_jp(query)
    encode = char_encoder(encoding)
    return (
        query
        if encode is None
        else "".join(char if char < "\x80" else _escape(encode(char), char) for char in query)
    )


def _escape(encoded: bytes | None, char: str) -> str:
    if encoded is None:
        return f"%26%23{ord(char)}%3B"
    return "".join([_PERCENT[byte] for byte in encoded])


@cache
def char_encoder(name: str) -> CharEncoder | None:
    """The encoder of an encoding that has no state; ``None`` where URLs are UTF-8."""
    if name in _MULTI_BYTE:
        return _MULTI_BYTE[name]
    if name in TABLES:
        return {char: bytes((byte,)) for byte, char in enumerate(TABLES[name]) if char != "\ufffd"}.get
    return None


def _codec(codec: str) -> CharEncoder:
    def encode(char: str) -> bytes | None:
        try:
            return char.encode(codec)
        except UnicodeEncodeError:
            return None

    return encode


def _overriding(encode: CharEncoder, differences: dict[str, bytes | None]) -> CharEncoder:
    return lambda char: differences[char] if char in differences else encode(char)


def _two_byte(lead: int, trails: str) -> list[bytes]:
    """Characters of one row: ``trails`` are hexadecimal bytes."""
    return [bytes((lead, trail)) for trail in bytes.fromhex(trails)]


# --- Chinese ------------------------------------------------------------------------------------

# Python's gb18030 is of 2000; the standard follows the revisions of 2005 and 2022.
_gb18030 = _overriding(
    _codec("gb18030"),
    {
        "\ue5e5": None,
        "\ue7c7": b"\x81\x35\xf4\x37",
        "ḿ": b"\xa8\xbc",
        **dict(zip("︐︒︑︓︔︕︖︗︘︙", _two_byte(0xA6, "D9DADBDCDDDEDFECEDF3"), strict=True)),
        **dict(zip("龴龵龶龷龸龹龺龻", _two_byte(0xFE, "596166676D7E90A0"), strict=True)),
    },
)


def _gbk(char: str) -> bytes | None:
    if char == "€":
        return b"\x80"
    encoded = _gb18030(char)
    return encoded if encoded is not None and len(encoded) == 2 else None


def _hkscs(char: str) -> bytes | None:
    """Big5 with the Hong Kong characters, of which the standard encodes those of rows A1 and up."""
    try:
        encoded = char.encode("big5hkscs")
    except UnicodeEncodeError:
        return None
    return encoded if encoded[0] >= 0xA1 else None


def _cp950(chars: str) -> dict[str, bytes | None]:
    """Characters for which Microsoft's Big5 is the one that the web took over."""
    return {char: char.encode("cp950") for char in chars}


_big5 = _overriding(
    _hkscs,
    {
        **_cp950("¯‧€∕⊕⊙╭╮╯╰\ufe51\ufe68\uff0f\uff3c\uff5e\uffe0\uffe1\uffe5"),
        **dict.fromkeys("¢£¥•‾∼☉♁\uff64"),
        **{chr(0x2400 + i): bytes((0xA3, 0xC0 + i)) for i in range(32)},
        "␡": b"\xa3\xe0",
        **dict(zip("仝廴无癶隶", _two_byte(0xC6, "DFCFD3D5D7"), strict=True)),
        **dict(zip("嘅廐", _two_byte(0xFB, "48F9"), strict=True)),
        "悤": b"\xfc\x6c",
        "猪": b"\xfe\x52",
    },
)

# --- Japanese -----------------------------------------------------------------------------------

_IBM_EXTENSIONS = {
    encoded.decode("cp932"): encoded
    for lead, trail in [(lead, trail) for lead in (0xFC, 0xFB, 0xFA) for trail in range(0xFC, 0x3F, -1)]
    if trail != 0x7F and not (lead == 0xFC and trail > 0x4B)
    for encoded in [bytes((lead, trail))]
}
"""Characters in the rows of Shift_JIS that IBM added. NEC had put the same ones elsewhere (ED, EE)."""


def _cp932(char: str) -> bytes | None:
    """Shift_JIS by Microsoft's table: only what also comes back as it was, and nothing private."""
    if char == "\u2212":  # the minus sign, which is the full-width hyphen here
        char = "\uff0d"
    if "\ue000" <= char <= "\uf8ff":
        return None
    try:
        encoded = char.encode("cp932")
    except UnicodeEncodeError:
        return None
    return encoded if encoded.decode("cp932") == char else None


def _shift_jis(char: str) -> bytes | None:
    if char in "¥‾":
        return b"\\" if char == "¥" else b"~"
    encoded = _cp932(char)
    if encoded is not None and encoded[0] in (0xED, 0xEE):
        return _IBM_EXTENSIONS[char]
    return encoded


def _jis_0208(char: str) -> tuple[int, int] | None:
    """Row and cell, from 0, of a character in JIS X 0208 with NEC's and IBM's additions."""
    encoded = _cp932(char)
    if encoded is None or len(encoded) != 2:
        return None
    lead, trail = encoded
    if lead >= 0xF0:  # IBM's additions lie beyond the 94 rows; none is without a twin inside
        return None
    lead -= 0x81 if lead < 0xA0 else 0xC1
    return divmod(lead * 188 + trail - (0x40 if trail < 0x7F else 0x41), 94)


def _euc_jp(char: str) -> bytes | None:
    if char in "¥‾":
        return b"\\" if char == "¥" else b"~"
    if "\uff61" <= char <= "\uff9f":  # half-width katakana
        return bytes((0x8E, ord(char) - 0xFF61 + 0xA1))
    place = _jis_0208(char)
    return None if place is None else bytes((place[0] + 0xA1, place[1] + 0xA1))


def _iso_2022_jp(query: str) -> str:
    """The one encoding with a state, so it takes a whole query, ASCII and all."""
    to_ascii, to_roman, to_jis = b"\x1b(B", b"\x1b(J", b"\x1b$B"
    state, parts = to_ascii, []

    def emit(wanted: bytes, encoded: bytes) -> None:
        nonlocal state
        if state != wanted:
            parts.append(_escape(wanted, ""))
            state = wanted
        parts.append(_escape(encoded, ""))

    for char in query:
        if char in "\x0e\x0f\x1b":  # what switches states is refused, lest it be mistaken for ours
            if state == to_jis:
                emit(to_ascii, b"")
            parts.append(_escape(None, "\ufffd"))
        elif char < "\x80":
            emit(to_roman if state == to_roman and char not in "\\~" else to_ascii, char.encode())
        elif char in "¥‾":
            emit(to_roman, b"\\" if char == "¥" else b"~")
        else:
            place = _jis_0208(_full_width(char))
            if place is not None:
                emit(to_jis, bytes((place[0] + 0x21, place[1] + 0x21)))
            else:
                if state == to_jis:
                    emit(to_ascii, b"")
                parts.append(_escape(None, char))
    if state != to_ascii:
        emit(to_ascii, b"")
    return "".join(parts)


def _full_width(char: str) -> str:
    """Half-width katakana has no place in JIS X 0208: its full-width twin goes instead."""
    if char in "\uff9e\uff9f":  # sound marks: NFKC would make combining ones of them
        return "\u309b" if char == "\uff9e" else "\u309c"
    return normalize("NFKC", char) if "\uff61" <= char <= "\uff9d" else char


_MULTI_BYTE: dict[str, CharEncoder] = {
    "big5": _big5,
    "euc-jp": _euc_jp,
    "euc-kr": _codec("cp949"),
    "gb18030": _gb18030,
    "gbk": _gbk,
    "shift_jis": _shift_jis,
}
