"""Encoders of the Encoding Standard, each held against the whole of the standard's own table."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules.query import char_encoder, encode_query

# SHA-256 (first half) of what each encoder gives for every character from U+0080 to U+FFFF, and for
# the Chinese ones also U+1F000 to U+2FFFF: length and bytes, or FF where there is none. Computed from
# the index files and encoder algorithms of encoding.spec.whatwg.org as of May 2026, not from our code.
TABLES = {
    "big5": "ab42ba19ebeaf65c",
    "euc-jp": "090b6574103038a8",
    "euc-kr": "2d25e7b1f9f18b1e",
    "gb18030": "7a3c75b2635f9da0",
    "gbk": "642ef9b114f79055",
    "ibm866": "f336b5480b8b0bee",
    "iso-8859-10": "ed61ba037ac293f4",
    "iso-8859-13": "e6e2d20650041c2d",
    "iso-8859-14": "628cd31bf423cd79",
    "iso-8859-15": "29102ed1b27beaef",
    "iso-8859-16": "6da1b8a39c9d7e78",
    "iso-8859-2": "2e8911833b5bdd28",
    "iso-8859-3": "57f7c8bf99899d2b",
    "iso-8859-4": "fd60b639c2fd7cfb",
    "iso-8859-5": "9c27ff6799edc8bb",
    "iso-8859-6": "11256a9e9fa69501",
    "iso-8859-7": "4a9fe22243ccfe8c",
    "iso-8859-8": "826a130791cb5323",
    "iso-8859-8-i": "826a130791cb5323",
    "koi8-r": "77a517b96ada68de",
    "koi8-u": "5b2128e62cb2c9f6",
    "macintosh": "f1ed8f3b06216145",
    "shift_jis": "bd9bea5d9edd228a",
    "windows-1250": "a2f003a9776f2502",
    "windows-1251": "2a6f3cd241fe7490",
    "windows-1252": "e7776ffaab04403c",
    "windows-1253": "13b7242ac37bb2ac",
    "windows-1254": "d109c6da4f880abe",
    "windows-1255": "087cb7e32766a144",
    "windows-1256": "40f123ab53d470c5",
    "windows-1257": "9067c484fe5db394",
    "windows-1258": "4cc9af66a25c58d8",
    "windows-874": "4cba4c0b125a0cea",
    "x-mac-cyrillic": "20f2de614c91202f",
    "x-user-defined": "eceda9961d100c02",
}
BASIC_PLANE = [*range(0x80, 0xD800), *range(0xE000, 0x10000)]
BEYOND = range(0x1F000, 0x30000)


@pytest.mark.parametrize("name", TABLES)
def test_an_encoder_is_the_standards(name: str) -> None:
    """Not one character is encoded otherwise than a browser does, where Python's codec differs too."""
    encode = char_encoder(name)
    assert encode is not None
    digest = hashlib.sha256()
    for code in [*BASIC_PLANE, *(BEYOND if name in ("big5", "gbk", "gb18030") else ())]:
        encoded = encode(chr(code))
        digest.update(b"\xff" if encoded is None else bytes([len(encoded)]) + encoded)
    assert digest.hexdigest()[:16] == TABLES[name]


@pytest.mark.parametrize(
    ("query", "encoded"),
    [
        ("日本", "%1B$BF|K\\%1B(B"),
        ("日#\"'<>本", None),  # ASCII ends the run, so there are two
        ("a¥b~¥‾", "a%1B(J\\b%1B(B~%1B(J\\~%1B(B"),
        ("ﾊﾞｶ", "%1B$B%O!+%%+%1B(B".replace("%%", "%")),
        ("é日é", "%26%23233%3B%1B$BF|%1B(B%26%23233%3B"),
        ("日\x1b", "%1B$BF|%1B(B%26%2365533%3B"),
        ("−", "%1B$B!]%1B(B"),
    ],
)
def test_iso_2022_jp_switches_and_switches_back(query: str, encoded: str | None) -> None:
    """The encoding with a state says when it changes, and ends where it began."""
    got = encode_query(query, "iso-2022-jp")
    if encoded is None:
        encoded = "%1B$BF|%1B(B%23%22%27%3C%3E%1B$BK\\%1B(B"
    assert got == encoded


@pytest.mark.parametrize(
    "name", ["utf-8", "utf-16le", "utf-16be", "replacement", "utf-32le", "iso-2022-kr", "x"]
)
def test_where_urls_are_utf_8(name: str) -> None:
    """Encodings that no form is sent in, and names that are none, leave the query to the parser's UTF-8."""
    assert encode_query("é=日", name) == "é=日"


@settings(deadline=None)
@given(st.text(), st.sampled_from([*TABLES, "iso-2022-jp"]))
def test_any_query_becomes_ascii(query: str, name: str) -> None:
    """Whatever a page holds, what goes into the URL is ASCII, and ASCII is left alone but in ISO-2022-JP."""
    encoded = encode_query(query, name)
    assert encoded.isascii()
    if query.isascii():
        assert encoded == query
