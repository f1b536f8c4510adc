"""Which encoding a page is in, by whoever says so, and its text."""

from __future__ import annotations

import codecs
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules.charset import Encoding, decode, detect, sniff
from node.rules.charset_labels import CODECS, LABELS, NOT_ASCII, TABLES
from tests.conftest import Score
from tests.rules.sources import source_package

JAPANESE = "日本語のページです。かなと漢字がまじった文章を三百バイトほど書いておきます。" * 4
CHINESE = "这是一个没有正确声明编码的网页，标题和正文都是简体中文，浏览器只能猜测。" * 4
KOREAN = "이 페이지는 문자 집합을 선언하지 않은 한국어 문서입니다. 추측할 수밖에 없습니다. " * 3
RUSSIAN = "Эта страница не объявляет свою кодировку, и её приходится угадывать по байтам. " * 3
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy, a stránka neříká, v jakém je kódování. " * 3
GERMAN = "Diese Seite nennt ihren Zeichensatz nicht, und so müssen wir ihn an größeren Wörtern erraten. " * 3


def sniffing_cases(folder: Path) -> Iterator[tuple[bytes, str]]:
    for file in sorted(folder.glob("encoding_test*.dat")):
        for case in re.split(rb"(?:\A|\n)#data\n", file.read_bytes()):
            data, mark, encoding = case.partition(b"\n#encoding\n")
            if mark:
                yield data, encoding.strip().decode().lower()


def test_html5lib_sniffing_cases(shared_data: Path, score: Score) -> None:
    """Every case of html5lib's encoding tests comes out as browsers have it."""
    cases = list(sniffing_cases(shared_data))
    wrong = [
        (data[:100], wanted, found)
        for data, wanted in cases
        for found in [sniff(data, None).name]
        if found != LABELS[wanted]
    ]
    score("encoding sniffing (html5lib)", len(cases) - len(wrong), len(cases))
    assert not wrong
    assert len(cases) >= 82


def labelled_texts() -> Iterator[tuple[str, str, bytes]]:
    with tarfile.open(source_package("chardet")) as archive:
        for member in archive:
            found = re.fullmatch(r"[^/]+/tests/([^/]+)/([^/]+)", member.name)
            file = archive.extractfile(member) if found else None
            if found and file:
                # A folder is named ENCODING or ENCODING-LANGUAGE.
                encoding = re.sub(r"-(?!(?:jp|kr|tw|r|sig|\d+)\b)[a-z]+$", "", found[1].lower())
                yield found[2], encoding, file.read()


def agrees(body: bytes, label: str, found: Encoding) -> bool:
    """Is it the encoding the text is labelled with, or does it give the same text?"""
    name = LABELS.get(label, label)
    if found.name in (name, label):
        return True
    try:
        return decode(body, found.name) == body.decode(CODECS.get(name, label)).removeprefix("\ufeff")
    except (LookupError, UnicodeDecodeError):
        return False


def test_labelled_corpus(score: Score) -> None:
    """Real texts in 30 encodings: what we find is what they are, with their declarations and without."""
    count = 0
    wrong = []
    undetected = []
    for name, label, body in labelled_texts():
        count += 1
        if not agrees(body, label, sniff(body, None)):
            wrong.append((name, label))
        if not agrees(body, label, detect(body)):
            undetected.append((name, label))
    score("encoding of real texts (chardet's corpus)", count - len(wrong), count)
    score("encoding of real texts, by detector alone", count - len(undetected), count)
    assert count == 425
    assert len(wrong) <= 0.05 * count, wrong
    assert len(undetected) <= 0.05 * count, undetected


def test_byte_order_mark_beats_the_header() -> None:
    """E01: what the bytes begin with is no matter of opinion."""
    body = b"\xef\xbb\xbf" + "Привет".encode()
    found = sniff(body, "text/html; charset=cp1251")
    assert found == Encoding("utf-8", "utf_8", "bom")
    assert decode(body, found.name) == "Привет"


def test_missing_detector_stops_the_start() -> None:
    """E13: without its detector the module, and so a parser process, does not load."""
    code = "import sys; sys.modules['chardet'] = None; import node.rules.charset"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "chardet" in done.stderr


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_with_and_without_mark(encoding: str) -> None:
    """E11: UTF-16 is read as such, with a mark, and without one by its zero bytes."""
    text = "<urlset><url><loc>http://h.test/1</loc></url></urlset>" * 20
    body = text.encode(encoding)
    assert decode(body, sniff(body, None).name) == text


def test_order_of_the_sources() -> None:
    """Header before meta, meta before the detector, the detector before the fallback."""
    meta = b"<meta charset=koi8-r>"
    assert sniff(meta, "text/html; charset=windows-1251").source == "header"
    assert sniff(meta, "text/html; charset=no-such") == Encoding("koi8-r", "koi8_r", "meta")
    assert sniff(meta, "text/html")[::2] == ("koi8-r", "meta")
    assert sniff("é".encode(), None) == Encoding("utf-8", "utf_8", "detector")
    assert sniff(b"plain", None) == Encoding("windows-1252", "cp1252", "fallback")
    assert sniff(b"", None).source == "fallback"


@pytest.mark.parametrize(
    "header",
    [
        "text/html; charset=utf-8",
        "text/html;charset=UTF-8",
        'text/html; charset="utf-8"',
        "text/html; charset='utf8'",
        "text/html; Charset = utf-8 ; x=y",
        "charset=utf-8",
        "text/html; x=y; charset=utf-8, text/html",
    ],
)
def test_headers_that_name_an_encoding(header: str) -> None:
    """Every way in which servers write the parameter."""
    assert sniff(b"x", header) == Encoding("utf-8", "utf_8", "header")


@pytest.mark.parametrize(
    "header", ["", ";", "text/html", "text/html; charset=", "x; xcharset=utf-8", "x; charset=\xff"]
)
def test_headers_that_name_none(header: str) -> None:
    """E07: a label that is missing or unknown is passed over."""
    assert sniff(b"x", header).source == "fallback"


def test_content_before_http_equiv() -> None:
    """E02: the order of the attributes does not matter."""
    body = b"<meta content='text/html; charset=utf-8' http-equiv=Content-Type>"
    assert sniff(body, None).name == "utf-8"


@pytest.mark.parametrize(
    ("text", "codec", "names"),
    [
        (JAPANESE, "shift_jis", {"shift_jis"}),
        (JAPANESE, "euc_jp", {"euc-jp"}),
        (JAPANESE, "iso2022_jp", {"iso-2022-jp"}),
        (CHINESE, "gbk", {"gbk", "gb18030"}),
        (CHINESE.replace("网", ""), "gb2312", {"gbk", "gb18030"}),
        (KOREAN, "euc_kr", {"euc-kr"}),
        (RUSSIAN, "cp1251", {"windows-1251"}),
        (RUSSIAN, "koi8_r", {"koi8-r", "koi8-u"}),
        (CZECH, "cp1250", {"windows-1250"}),
        (GERMAN, "cp1252", {"windows-1252"}),
    ],
)
def test_undeclared_text_is_detected(text: str, codec: str, names: set[str]) -> None:
    """E04: by its bytes alone, also where a little of it stands in much markup."""
    markup = b"".join(
        b'<div class="item"><a href="/item/%d.html"><img src="/i/%d.jpg"></a></div>\n' % (i, i)
        for i in range(300)
    )
    for body in (text.encode(codec), markup + b"<p>" + text.encode(codec) + b"</p>" + markup):
        found = sniff(body, None)
        assert found.name in names
        assert found.source == "detector"
        assert text in decode(body, found.name)


def test_invalid_declaration_is_none() -> None:
    """E05: a pragma with a misspelled attribute declares nothing, so the bytes are asked."""
    body = b'<meta httpequiv="Content-Type" content="text/html; charset=koi8-r"><title>' + CHINESE.encode(
        "gbk"
    )
    found = sniff(body, None)
    assert found.source == "detector"
    assert CHINESE in decode(body, found.name)


@pytest.mark.parametrize(
    "label", ["windows-1251", "x-cp1251", " CP1251 ", "koi8_r", "no-such", "\0", "utf-7", ""]
)
def test_any_label_can_be_decoded(label: str) -> None:
    """E07: what is found can always be decoded, whatever was declared."""
    body = f'<meta charset="{label}">'.encode() + RUSSIAN.encode("cp1251")
    for header in (None, f"text/html; charset={label}"):
        found = sniff(body, header)
        assert codecs.lookup(found.codec)
        assert decode(body, found.name)


@pytest.mark.parametrize(
    "body",
    [
        b'<meta charset="' + b"x" * 400_000,
        b"<meta " + b"http-equiv " * 50_000,
        b"<" * 300_000 + b"charset",
        b"<!-- " * 60_000 + b"charset",
        b"<a " + b"=" * 300_000 + b"charset",
        b"<meta charset=" + b" " * 300_000,
        b"<a b=c charset>" * 17_000,
        b"<meta http-equiv=content-type content='" + b"charset " * 40_000 + b"'>",
        b"<?xml " + b"encoding" * 40_000,
        b"\xe9" * 250_000,
        b">\xe9<" * 80_000,
        b"\x81" * 250_000,
        b"\0" * 250_000,
        b"\x1b$B" * 80_000,
        bytes(range(256)) * 1_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_hostile_pages_end_soon(body: bytes) -> None:
    """E08: no declaration, closed or not, takes long (under 20 ms here; the bound is lax)."""
    start = time.process_time()
    decode(body, sniff(body, None).name)
    assert time.process_time() - start < 0.5


def test_late_declaration_is_found() -> None:
    """Browsers start over when a meta comes late; so it counts beyond the first 1,024 bytes, too."""
    assert sniff(b"<style>" + b" " * 20_000 + b"</style><meta charset=koi8-r>", None).name == "koi8-r"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'<?xml version="1.0" encoding="koi8-r"?><html>', "koi8-r"),
        (b"<?xml version='1.0' encoding = 'koi8-r' ?>", "koi8-r"),
        (b'<?xml encoding="utf-16"?>', "utf-8"),
        (b'<?xml encoding="koi8-r"?><meta charset=iso-8859-2>', "iso-8859-2"),
        (b'<?xml encoding="koi 8"?>', "windows-1252"),
        (b' <?xml encoding="koi8-r"?>', "windows-1252"),
        ('<?xml version="1.0"?>'.encode("utf-16-le"), "utf-16le"),
        ('<?xml version="1.0"?>'.encode("utf-16-be"), "utf-16be"),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<META CHARSET=KOI8-R>", "koi8-r"),
        (b"<meta charset=koi8-r charset=utf-8>", "koi8-r"),
        (b"<meta/charset=koi8-r/>", "windows-1252"),
        (b"<meta/charset=koi8-r />", "koi8-r"),
        (b"</meta charset=koi8-r>", "windows-1252"),
        (b"<meta name=x content='charset=koi8-r'>", "windows-1252"),
        (b"<meta http-equiv=content-type content='a charsetx charset=koi8-r;'>", "koi8-r"),
    ],
)
def test_declarations(body: bytes, name: str) -> None:
    """The HTML standard's prescan, in what html5lib's cases leave open."""
    assert sniff(body, None).name == name


def test_gb2312_means_gbk() -> None:
    """E10: the label of the small set stands for the large one."""
    assert decode("镕".encode("gbk"), sniff(b"", "text/html; charset=gb2312").name) == "镕"


@pytest.mark.parametrize(
    ("label", "body", "text"),
    [
        ("iso-8859-1", b"\x80\x92\x81", "€’\x81"),
        ("us-ascii", b"\xe9", "é"),
        ("shift_jis", b"\x87\x40\xfb\xfc", "①髙"),
        ("euc-kr", b"\xb0\xa2\x81\x41", "각갂"),
        ("euc-jp", b"\xad\xa1\xa4\xa2", "①あ"),
        ("iso-8859-9", b"\x80\xfe", "€ş"),
        ("tis-620", b"\x80\xa1", "€ก"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("utf-8", b"\xef\xbb\xbfa\xff", "a\ufffd"),
        ("hz-gb-2312", b"~{<:Ky2;~}", "\ufffd"),
        ("big5", b"\x87\x40\xa4\xa4", "䏰中"),
    ],
)
def test_labels_mean_what_browsers_read(label: str, body: bytes, text: str) -> None:
    """The Encoding Standard's labels, where Python's codec of that name would read something else."""
    assert decode(body, LABELS[label]) == text


def test_nearly_utf8_is_utf8() -> None:
    """A page cut within a character, or with a stray byte, is still UTF-8; other text is not."""
    text = "Grüße aus Köln, schöne Tage für alle. " * 20
    assert sniff(text.encode()[:-1] + "ü".encode()[:1], None).name == "utf-8"
    assert sniff(text.encode() + b"\xe9 " + text.encode(), None).name == "utf-8"
    assert sniff(text.encode("cp1252"), None).name == "windows-1252"
    assert sniff("Die Antwort lautet: schön und gut, im Café".encode("cp1252"), None).name != "utf-8"


def test_table_is_complete() -> None:
    """228 labels of 40 encodings, each with a codec that Python has."""
    assert len(LABELS) == 228
    assert len(set(LABELS.values())) == 40
    for name, codec in CODECS.items():
        assert codecs.lookup(codec), name
    assert all(len(table) == 256 and table[:128].isascii() for table in TABLES.values())
    assert not NOT_ASCII & TABLES.keys()


@settings(deadline=None)
@given(st.binary(max_size=300), st.one_of(st.none(), st.text(max_size=40)))
def test_any_bytes_have_a_text(body: bytes, header: str | None) -> None:
    """Nothing raises, and ASCII stays what it is in every encoding that promises so."""
    found = sniff(body, header)
    text = decode(body, found.name)
    if body.isascii() and found.name not in NOT_ASCII and not body.startswith(b"\xef"):
        assert text == body.decode("ascii")


@settings(deadline=None)
@given(st.sampled_from([*CODECS, "no-such"]), st.binary(max_size=100))
def test_decode_never_raises(name: str, body: bytes) -> None:
    """Every encoding reads every bytes, into something that can be written down."""
    assert decode(body, name).encode() is not None


FRAGMENTS = st.sampled_from(
    b"<meta |charset|=|\"|'|utf-8|koi8-r|>|<!--|-->|/| |\n|<a |http-equiv=content-type |content=|;"
    b"|<?xml |encoding|\xef\xbb\xbf|\xe9|\0|\x1b".split(b"|")
)


@settings(deadline=None)
@given(st.lists(FRAGMENTS, max_size=30).map(b"".join))
def test_pieces_of_declarations_raise_nothing(body: bytes) -> None:
    """However a declaration is torn, there is an answer that can be decoded."""
    found = sniff(body, None)
    assert found.codec == CODECS[found.name]
    decode(body, found.name)
