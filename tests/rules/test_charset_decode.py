"""Decoders of the Encoding Standard, each held against the whole of the standard's own tables."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import pytest

from node.rules.charset import decode
from node.rules.charset_decode import DECODERS
from node.rules.charset_labels import LABELS

# SHA-256 (first half) of the text of every sample below. Computed from the index files and decoder
# algorithms of encoding.spec.whatwg.org as of May 2026, not from our code.
TEXTS: dict[str, str] = {
    "big5": "cb4197d899f3eb84",
    "euc-jp": "e8ef8c00141bc91f",
    "euc-kr": "8c0903b0156e7f42",
    "gb18030": "e1563063b2518a87",
    "gbk": "3286abc313c06db7",
    "ibm866": "5a856a1cc72f92ff",
    "iso-2022-jp": "3a9e816783e04ba5",
    "iso-8859-10": "34e36339240c8d8b",
    "iso-8859-13": "3bac58e9cc8e52cd",
    "iso-8859-14": "ec2339ae801d5107",
    "iso-8859-15": "e3f0667fe89309a7",
    "iso-8859-16": "c68ff962b68531cb",
    "iso-8859-2": "5e9a0811bf08daf5",
    "iso-8859-3": "6555258335579b89",
    "iso-8859-4": "08e4e0f402fac588",
    "iso-8859-5": "df3e28bbb226e1cd",
    "iso-8859-6": "ac5e5b97608b416e",
    "iso-8859-7": "9f68204513e94f00",
    "iso-8859-8": "16b842dbf1779d83",
    "iso-8859-8-i": "16b842dbf1779d83",
    "koi8-r": "e18c51434de748aa",
    "koi8-u": "09ca3df06fe07cf2",
    "macintosh": "a6af4ef8837ca7fc",
    "shift_jis": "371bfed0e66ffa1d",
    "utf-16be": "3b5c66d66a81b42b",
    "utf-16le": "fb5146da51693331",
    "utf-8": "ab7d28538efd56a9",
    "windows-1250": "697d3e9c20631e29",
    "windows-1251": "046cabf3dd731926",
    "windows-1252": "b45da48fcc29fa51",
    "windows-1253": "b86ba26ea99fb622",
    "windows-1254": "233441a35d0b7823",
    "windows-1255": "63cacbae4c945413",
    "windows-1256": "8f0f0e8f96c6e90c",
    "windows-1257": "a2e34bb97e73154a",
    "windows-1258": "7ab8842d941a6717",
    "windows-874": "328a1a499919669e",
    "x-mac-cyrillic": "b84eb464bfafed28",
    "x-user-defined": "87337a75680cce3d",
}


def samples(name: str) -> Iterator[bytes]:
    """Every byte; where characters take several, every pair, many fours, and much that is malformed."""
    for byte in range(256):
        yield bytes((byte,))
    if name not in DECODERS and name not in ("utf-8", "utf-16be", "utf-16le"):
        return
    for pair in range(0x10000):
        yield pair.to_bytes(2, "big")
    if name == "euc-jp":
        for pair in range(0x8080, 0x10000):
            yield b"\x8f" + pair.to_bytes(2, "big")
    if name == "gb18030":
        for pointer in range(0, 126 * 12_600, 37):
            lead, second, third, fourth = pointer // 12_600, pointer // 1_260, pointer // 10, pointer
            yield bytes((lead + 0x81, second % 10 + 0x30, third % 126 + 0x81, fourth % 10 + 0x30))
    if name == "iso-2022-jp":
        for pair in range(0x10000):
            yield b"\x1b$B" + pair.to_bytes(2, "big")
        for byte in range(256):
            for escape in (b"\x1b(J", b"\x1b(I", b"\x1b$@!", b"\x1b$", b"\x1b("):
                yield escape + bytes((byte,)) + escape + bytes((byte,))
    # bytes at which something begins or ends, in no order
    edges = bytes.fromhex(
        "001b242842494a40217e3039415c7f8081848e8f90a0a1a2b7bfc2c6d8dce0edeff0f4f9fcfdfeff1b24"
    )
    for number in range(3_000):
        dice = hashlib.sha256(b"%d" % number).digest()
        yield bytes(edges[byte % len(edges)] for byte in dice[: 3 + number % 20])


@pytest.mark.parametrize("name", TEXTS)
def test_a_decoder_is_the_standards(name: str) -> None:
    """Not one character is read otherwise than a browser does, whole, torn or wrong."""
    digest = hashlib.sha256()
    for sample in samples(name):
        digest.update(decode(sample, name).encode() + b"\n")
    assert digest.hexdigest()[:16] == TEXTS[name]


def test_all_encodings_are_held_to_it() -> None:
    """None of the standard's encodings is left out, but for the one that has no text at all."""
    assert TEXTS.keys() == {*LABELS.values()} - {"replacement"}


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("koi8-u", b"\xae\xbe", "ўЎ"),
        ("windows-1255", b"\xca", "\u05ba"),
        ("gbk", b"\xa3\xa0\xa6\xd9\xa8\xbc\xfe\x59\x80", "\u3000︐ḿ龴€"),
        ("gb18030", b"\x81\x35\xf4\x37\x81\x30<", "\ue7c7\ufffd0<"),
        ("big5", b"\x87\x7a\xa1\x45\xa1\xfe\xa2\x41\xa2\x42\xf9\xfe\x88\x62", "㡵‧／∕﹨￭Ê̄"),
        ("euc-jp", b"\xa1\xc1\xa1\xdd\xad\xa1\xfc\xfe\x8f\xa2\xb7~", "～－①＂～~"),
        ("iso-2022-jp", b"\x1b$B-!!A\x1b(J\\~\x1b(I1\x1b(B\x0e", "①～¥‾ｱ\ufffd"),
        ("shift_jis", b"\xa0\xfd\x81\x60\x81<", "\ufffd\ufffd～\ufffd<"),
        ("euc-kr", b"\x81<\xc9\xfe\xff", "\ufffd<\ufffd\ufffd"),
    ],
)
def test_where_python_knows_otherwise(name: str, body: bytes, text: str) -> None:
    """What the digests hold, in a few words: letters that came later, and markup that is not swallowed."""
    assert decode(body, name) == text


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(
    "piece",
    [
        b"\x81",
        b"\xff",
        b"\x81<",
        b"\x8f\xa2\xb7",
        b"\xad\xa1",
        b"\xa1\xfe\xa2\x41",
        b"\x1b$B",
        b"\x1b$B!\x1b",
    ],
)
def test_no_page_takes_long(name: str, piece: bytes) -> None:
    """A quarter of a megabyte of nothing but what Python can't read ends soon (0.2 s; the bound is lax)."""
    body = piece * (250_000 // len(piece))
    start = time.process_time()
    decode(body, name)
    assert time.process_time() - start < 3
