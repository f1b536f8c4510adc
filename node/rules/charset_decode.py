"""Bytes to text where a character takes several bytes, exactly as the Encoding Standard has it.

Python's codecs do the work, at their speed, and this makes up for where they differ from the standard's
algorithms and index tables (encoding.spec.whatwg.org, sections 10 to 13):

- What a codec can't read it hands to a *repairer*, which knows the characters that the codec lacks, and
  otherwise skips as many bytes as the standard does: an ASCII byte is never swallowed with a broken one.
- A character that it reads as another one is exchanged afterwards. That is exact, since the codec makes
  none of those wrong ones of any other bytes; the three that it does are read apart.

The tests hold all of it to the standard's tables and algorithms, malformed input included.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

_LOST = "\ufffd"

Decode = Callable[[bytes], str]
Repair = Callable[[bytes, int], tuple[str, int]]
"""What stands in place of the bytes from a position on, and where to go on."""


def _repairer(name: str, repair: Repair) -> str:
    """Make an error handler of ``repair``; answers the name that ``bytes.decode`` knows it by."""

    def handle(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        return repair(error.object, error.start)

    codecs.register_error(name, handle)
    return name


def _repair_pairs(leads: bytes, known: Callable[[bytes], str | None]) -> Repair:
    """For encodings of one or two bytes: ``leads`` begin a pair, ``known`` reads pairs a codec lacks."""
    is_lead = frozenset(leads)

    def repair(body: bytes, at: int) -> tuple[str, int]:
        if body[at] not in is_lead:
            return _LOST, at + 1
        pair = body[at : at + 2]
        found = known(pair)
        if found is not None:
            return found, at + 2
        return _LOST, at + (1 if pair[1:].isascii() else 2)

    return repair


def _nothing(_pair: bytes) -> None:
    return None


def _bytes(*ranges: tuple[int, int]) -> bytes:
    return bytes(byte for first, last in ranges for byte in range(first, last + 1))


def _exchange(text: str, wrong_to_right: Mapping[str, str]) -> str:
    """No character may stand on both sides."""
    for wrong, right in wrong_to_right.items():
        text = text.replace(wrong, right)
    return text


def _apart(body: bytes, decode: Decode, step: re.Pattern[bytes], special: Mapping[bytes, str]) -> str:
    """Decode, but for the characters in ``special``, which the codec can't tell from others.

    ``step`` matches what the standard's decoder takes as one, be it a character or none.
    """
    parts: list[str] = []
    start = 0
    for found in step.finditer(body):
        char = special.get(found[0])
        if char is not None:
            parts += [decode(body[start : found.start()]), char]
            start = found.end()
    return "".join([*parts, decode(body[start:])])


_LEADS = _bytes((0x81, 0xFE))

# --- Chinese ------------------------------------------------------------------------------------

# Python's table is of the year 2000; the standard's is that of 2005 with what 2022 brought.
_GB18030_WRONG = "\ue5e5\ue7c7ḿ\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796"
_GB18030_RIGHT = "\u3000ḿ\ue7c7︐︒︑︓︔︕︖︗︘︙"
_GB18030_WRONG += "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864"
_GB18030_RIGHT += "龴龵龶龷龸龹龺龻"
_any_wrong_gb18030 = re.compile(f"[{_GB18030_WRONG}]").search
_gb18030_exchange = str.maketrans(_GB18030_WRONG, _GB18030_RIGHT)


def _repair_gb18030(body: bytes, at: int) -> tuple[str, int]:
    lead, second = body[at], body[at + 1 : at + 2]
    if lead == 0x80:
        return "€", at + 1
    if lead == 0xFF:
        return _LOST, at + 1
    if not second.isdigit():
        return _LOST, at + (1 if second.isascii() else 2)
    # Four bytes, of which the second and fourth look like ASCII and aren't swallowed unless all fits.
    third, fourth = body[at + 2 : at + 3], body[at + 3 : at + 4]
    fits = b"\x81" <= (third or b"\x81") <= b"\xfe" and (fourth or b"0").isdigit()
    return _LOST, min(at + 4, len(body)) if fits else at + 1


_BIG5_MISSING = """
877A㡵 877B𡵓 877C𣚞 877D𦀡 877E㻬 87A1𥣞 87A2㫵 87A3竼 87A4龗 87A5𤅡 87A6𨤍 87A7𣇪 87A8𠪊 87A9𣉞 87AA䌊
87AB蒄 87AC龖 87AD鐯 87AE䤰 87AF蘓 87B0墖 87B1靊 87B2鈘 87B3秐 87B4稲 87B5晠 87B6権 87B7袝 87B8瑌 87B9篅
87BA枂 87BB稬 87BC剏 87BD遆 87BE㓦 87BF珄 87C0𥶹 87C1瓆 87C2鿇 87C3垳 87C4䤯 87C5呌 87C6䄱 87C7𣚎 87C8堘
87C9穲 87CA𧭥 87CB讏 87CC䚮 87CD𦺈 87CE䆁 87CF𥶙 87D0箮 87D1𢒼 87D2鿈 87D3𢓁 87D4𢓉 87D5𢓌 87D6鿉 87D7蔄
87D8𣖻 87D9䂴 87DA鿊 87DB䓡 87DC𪷿 87DD拁 87DE灮 87DF鿋 8E69箸 8E6F簆 8E7E糎 8EAB緒 8EB4縝 8ECD者 8ED0耨
8F57菁 8F69蒨 8F6E萏 8FCB覦 8FCC覩 8FFE起 906D都 907A銹 90DC靜 90F1響 91BF鼖 9244蔃 92AF兙 92B0兛 92B1兝
92B2兞 92C8鍮 92D1瑹 9447浧 94CA禛 95D9邗 9644靝 96ED瀞 96FC嬨 9B76爁 9B78矗 9B7B纇 9BC6駖 9BDE釔 9BEC惞
9BF6澶 9C42輶 9C53侻 9C62營 9C68鄄 9C6B鷰 9C77菏 9CBC尐 9CBD秣 9CD0婧 9D57輋 9D5A筑 9DC4拐 9EA9恢 9EEF痹
9EFD汊 9F60鬮 9F66鼗 9FCB僭 9FD8弌 A063蠏 A077拎 A0D5瑨 A0DF煢 A0E4牐 C6CF廴 C6D3无 C6D5癶 C6D7隶 C6DE〃
C6DF仝 FA5F倩 FA66偽 FABD包 FAC5卄 FAD5卿 FB48嘅 FBB8婷 FBF3幵 FBF9廐 FC4F彘 FC6C悤 FCB9撐 FCE2晴 FCF1杞
FDB7沜 FDB8渝 FDBB港 FDF1煮 FE52猪 FE6F瑜 FEAA瓩 FEDD砉
"""
"""Pairs that Python's table of Hong Kong's set lacks: those of 2008, and compatibility characters."""
_big5_missing: dict[bytes, str] = {
    **{bytes.fromhex(each[:4]): each[4:] for each in _BIG5_MISSING.split()},
    **{bytes((0xA3, 0xC0 + control)): chr(0x2400 + control) for control in range(32)},
    b"\xa3\xe0": "␡",
    b"\xa3\xe1": "€",
}


_BIG5_EXCHANGE = dict(zip("•､‾∼♁☉¥¢£", "‧﹑¯～⊕⊙￥￠￡", strict=True))
# Of these Python makes the full-width ones, which other pairs stand for: see ``_apart``.
_BIG5_SLASHES = {b"\xa2A": "∕", b"\xa2B": "﹨"}
_BIG5_STEP = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xff]|.", re.DOTALL)

# --- Japanese -----------------------------------------------------------------------------------

_EUC_JP_EXCHANGE = dict(zip("〜‖−¢£¬", "～∥－￠￡￢", strict=True))
# Of this one, of JIS X 0212, Python makes the tilde of ASCII.
_EUC_JP_TILDE = {b"\x8f\xa2\xb7": "～"}
_EUC_JP_STEP = re.compile(rb"\x8f[\xa1-\xfe][\x80-\xff]|[\x8e\x8f\xa1-\xfe][\x80-\xff]|.", re.DOTALL)
_SHIFT_JIS_EXCHANGE = dict.fromkeys("\uf8f0\uf8f1\uf8f2\uf8f3", _LOST)


def _rows_of_windows(*rows: int) -> dict[bytes, str]:
    """Rows of JIS X 0208 that only Windows has in its Shift_JIS, by their pairs in EUC-JP."""
    found = {}
    for row in rows:
        for cell in range(94):
            lead, trail = divmod((row - 1) * 94 + cell, 188)
            encoded = bytes(
                (lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41))
            )
            with suppress(UnicodeDecodeError):
                found[bytes((0xA0 + row, 0xA1 + cell))] = encoded.decode("cp932")
    return found


# ①, ㈱ and the like by NEC; 髙 and other forms of names by IBM.
_euc_jp_missing = _rows_of_windows(13, 89, 90, 91, 92)
_EUC_JP_LEADS = frozenset(_bytes((0x8E, 0x8F), (0xA1, 0xFE)))


def _repair_euc_jp(body: bytes, at: int) -> tuple[str, int]:
    lead, following = body[at], body[at + 1 : at + 3]
    if lead not in _EUC_JP_LEADS or following[:1].isascii():
        return _LOST, at + 1
    if lead == 0x8F and 0xA1 <= following[0] <= 0xFE:
        return _LOST, at + (2 if following[1:].isascii() else 3)
    return _euc_jp_missing.get(body[at : at + 2], _LOST), at + 2


# ISO-2022-JP is read in stretches between escapes, each in a state of its own.
_ESCAPE = re.compile(rb"\x1b(?:\(([BJI])|\$[@B])")
_JIS_PAIRS = re.compile(rb"((?:[\x21-\x7e]{2})+)|[\x21-\x7e]\x1b|[\x21-\x7e]?.|\Z", re.DOTALL)
_TO_EUC = bytes(byte | 0x80 for byte in range(256))


def _state_table(**other: str) -> str:
    table = [_LOST if byte in (0x0E, 0x0F, 0x1B) else chr(byte) for byte in range(128)]
    table[0x5C], table[0x7E] = other.get("backslash", "\\"), other.get("tilde", "~")
    return "".join(table)


_ISO_2022_JP_STATES = {
    b"B": _state_table(),
    b"J": _state_table(backslash="¥", tilde="‾"),
    b"I": _LOST * 0x21 + "".join(chr(0xFF61 + at) for at in range(0x3F)),
}


def _iso_2022_jp(body: bytes) -> str:
    parts: list[str] = []
    state: bytes | None = b"B"
    position, ends_escape = 0, -1
    while True:
        escape = _ESCAPE.search(body, position)
        stretch = body[position : len(body) if escape is None else escape.start()]
        if state is None:
            parts.append(_jis_pairs(stretch))
        else:
            parts.append(codecs.charmap_decode(stretch, "replace", _ISO_2022_JP_STATES[state])[0])
        if escape is None:
            return _exchange("".join(parts), _EUC_JP_EXCHANGE)
        if escape.start() == ends_escape:
            # Nothing between two escapes is how markup is hidden from who reads another encoding.
            parts.append(_LOST)
        state = escape[1]
        position = ends_escape = escape.end()


def _jis_pairs(stretch: bytes) -> str:
    parts: list[str] = []
    for found in _JIS_PAIRS.finditer(stretch):
        pairs = found[1]
        if pairs:
            parts.append(_euc_jp_by_codec(pairs.translate(_TO_EUC)))
        else:
            # a torn pair is one error, and what begins like an escape another
            parts.append(_LOST * (2 if len(found[0]) == 2 and found[0][1] == 0x1B else bool(found[0])))
    return "".join(parts)


# --- all of them --------------------------------------------------------------------------------

_ON_GB18030 = _repairer("milliarde.gb18030", _repair_gb18030)
_ON_BIG5 = _repairer("milliarde.big5", _repair_pairs(_LEADS, _big5_missing.get))
_ON_EUC_KR = _repairer("milliarde.euc-kr", _repair_pairs(_LEADS, _nothing))
_ON_EUC_JP = _repairer("milliarde.euc-jp", _repair_euc_jp)
_ON_SHIFT_JIS = _repairer("milliarde.shift_jis", _repair_pairs(_bytes((0x81, 0x9F), (0xE0, 0xFC)), _nothing))


def _gb18030(body: bytes) -> str:
    text = body.decode("gb18030", _ON_GB18030)
    return text.translate(_gb18030_exchange) if _any_wrong_gb18030(text) else text


def _big5(body: bytes) -> str:
    text = _big5_by_codec(body)
    if ("／" in text or "＼" in text) and any(pair in body for pair in _BIG5_SLASHES):
        text = _apart(body, _big5_by_codec, _BIG5_STEP, _BIG5_SLASHES)
    return _exchange(text, _BIG5_EXCHANGE)


def _big5_by_codec(body: bytes) -> str:
    return body.decode("big5hkscs", _ON_BIG5)


def _euc_kr(body: bytes) -> str:
    return body.decode("cp949", _ON_EUC_KR)


def _euc_jp(body: bytes) -> str:
    if any(tilde in body for tilde in _EUC_JP_TILDE):
        text = _apart(body, _euc_jp_by_codec, _EUC_JP_STEP, _EUC_JP_TILDE)
    else:
        text = _euc_jp_by_codec(body)
    return _exchange(text, _EUC_JP_EXCHANGE)


def _euc_jp_by_codec(body: bytes) -> str:
    return body.decode("euc_jp", _ON_EUC_JP)


def _shift_jis(body: bytes) -> str:
    return _exchange(body.decode("cp932", _ON_SHIFT_JIS), _SHIFT_JIS_EXCHANGE)


DECODERS: dict[str, Decode] = {
    "big5": _big5,
    "euc-jp": _euc_jp,
    "euc-kr": _euc_kr,
    "gb18030": _gb18030,
    "gbk": _gb18030,
    "iso-2022-jp": _iso_2022_jp,
    "shift_jis": _shift_jis,
}
"""The name of an encoding -> its decoder, for those that take more of Python than naming a codec."""
