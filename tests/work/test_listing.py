"""``milliarde links``: what it shows of a page is what a parser sees, and what it leaves out has a reason."""

from __future__ import annotations

import json
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node import cli
from node.cli import which
from node.errors import InputError
from node.rules.charset_labels import LABELS
from node.store.archive_read import ArchiveReader
from node.store.spool import Pointer
from node.store.tally import Tally
from node.work.listing import WORDS, list_links
from node.work.page import PageReader
from tests.conftest import Score
from tests.rules.test_charset import CHINESE, JAPANESE, KOREAN, RUSSIAN, sniffing_cases
from tests.store.responses import response, write
from tests.work.asking import PAGE, left_out, listing, settings, urls

MIXED = """<!doctype html><title>x</title><base href=/b/>
<link rel=canonical href=/c><link rel=next href=n><meta name=robots content=noindex>
<a href=1>one</a> <a href="mailto:a@h.test">mail</a> <a href=2 rel="external nofollow">two</a>
<a href="1#part">one again</a> <a href="//h.test/b/1">and again</a> <map><area href="http://a..test/"></map>
<a href="http://other.test/?é=%7e">other</a><a href=1>and again</a>"""


def test_everything_about_a_page() -> None:
    """What it is written in, what its links are relative to, what it asks, and each link with its fate."""
    assert listing(MIXED, "text/html; charset=utf-8") == {
        "encoding": "utf-8",
        "encoding_source": "header",
        "base": "http://h.test/b/",
        "noindex": True,
        "nofollow": False,
        "canonical": "http://h.test/c",
        "next": "http://h.test/b/n",
        "refresh": None,
        "bytes": len(MIXED.encode()),
        "bytes_read": len(MIXED.encode()),
        "links": [
            {"position": 1, "url": "http://h.test/b/1", "href": "1"},
            {"position": 6, "url": "http://other.test/?%C3%A9=%7e", "href": "http://other.test/?é=%7e"},
        ],
        "left_out": [
            {"position": 2, "url": None, "href": "mailto:a@h.test", "refused": "scheme"},
            {"position": 3, "url": None, "href": "2", "refused": "nofollow"},
            {"position": 4, "url": "http://h.test/b/1", "href": "//h.test/b/1", "refused": "repeated"},
            {"position": 5, "url": None, "href": "http://a..test/", "refused": "bad_host"},
        ],
    }


def test_a_page_that_wants_no_link_followed_gives_none() -> None:
    """With meta nofollow every link is left out for that reason, whatever else there is to it."""
    body = "<meta name=robots content=nofollow><a href=/1><a href=mailto:a@b>"
    assert listing(body)["nofollow"] is True
    assert left_out(body) == [("/1", "nofollow"), ("mailto:a@b", "nofollow")]
    assert urls(body) == []


def test_what_lies_beyond_a_parsers_bounds_is_named() -> None:
    """Of a page too long or with too many links, those that a parser misses are listed with the bound."""
    node = settings(parser={"max_page_bytes": 2_000, "max_links_per_page": 3})
    body = "".join(f"<a href=/{i}>" for i in range(5)) + "<p>" + "x" * 2_000 + "<a href=/far><a href=/1>"
    found = list_links(node, body.encode(), PAGE)
    assert [each.href for each in found.links] == ["/0", "/1", "/2"]
    assert [(each.position, each.href, each.refused) for each in found.left_out] == [
        (4, "/3", "links_cap"),
        (5, "/4", "links_cap"),
        (6, "/far", "page_cap"),
    ]
    assert (found.bytes, found.bytes_read) == (len(body), 2_000)


def test_the_gates_of_a_node_leave_links_out() -> None:
    """With the settings of a node of a fleet, links to the domains of others are left out."""
    node = settings(crawl={"nodes": 3, "me": 0, "scope": "open"})
    body = "".join(f"<a href=http://d{i}.test/>" for i in range(30)).encode()
    found = list_links(node, body, PAGE)
    assert 0 < len(found.links) < 30
    assert {each.refused for each in found.left_out} == {"other_shard"}
    assert len(found.links) + len(found.left_out) == 30


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("content_type", [None, "text/html", "text/html; charset=koi8-r"])
def test_the_parser_sees_the_same(tmp_path: Path, content_type: str | None, follow: bool) -> None:
    """Listed is what a parser takes from the page's record; what it counts as dropped is left out here."""
    bounds = {"max_links_per_page": 12, "max_page_bytes": 3_000}
    parser = bounds | {"follow_canonical": follow, "follow_next": follow}
    node = settings(parser=parser, paths={"data": str(tmp_path)})
    body = (
        MIXED.encode() + "".join(f"<a href=/{i}?привет>" for i in range(20)).encode("koi8-r") + b"x" * 3_000
    )
    headers = () if content_type is None else ((b"Content-Type", content_type.encode()),)
    (position,) = write(node.warc_folder, response(PAGE, body, headers=headers))
    tally = Tally("parsers")
    reader = PageReader(node, ArchiveReader(node.warc_folder), tally)
    seen = [url for url, _depth in reader.links(Pointer(position, 1, PAGE))]
    found = list_links(node, body, PAGE, content_type)
    assert [each.url for each in found.links] == seen
    assert ("http://h.test/c" in seen) is follow
    counts = {
        name.removeprefix("drop:"): int(n) for _, _, name, n in tally.take() if name.startswith("drop:")
    }
    listed = [each.refused for each in found.left_out if each.refused != "repeated"]
    assert counts == {name: listed.count(name) for name in set(listed)}
    assert set(listed) == {"scheme", "nofollow", "bad_host", "links_cap"}


# --- small inputs that broke other crawlers -----------------------------------------------------


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ('<a href="\n\t  http://h.test/x\n">', ["http://h.test/x"]),  # U01
        (r'<a href="/\other.test/x">', ["http://other.test/x"]),  # U05
        (r'<a href="\dir2\y">', ["http://h.test/dir2/y"]),
        ('<a href="http://a..test/"><a href="http://Las%20Vegas/"><a href=/ok>', ["http://h.test/ok"]),  # U11
        ('<img src="data:image/png,AA" SRCSET="/w=1,h=2/a.jpg 8w"><a href=/x>', ["http://h.test/x"]),  # U26
        (" " * 5_000 + '<base href="http://other.test/"><a href=x>', ["http://other.test/x"]),  # U28
        ('<!-- <base href="http://evil.test/"> --><a href=x>', ["http://h.test/dir/x"]),  # U29
        ('<script>"<base href=\'http://evil.test/\'>"</script><a href=x>', ["http://h.test/dir/x"]),
        ('<a href="/p#a"><a href="/p#b">', ["http://h.test/p"]),  # U34
        ('<a href="/v?&amp;amp;p=2">', ["http://h.test/v?&amp;p=2"]),  # U35
        (b"<a href=/1>\x00<a href=/2>", ["http://h.test/1", "http://h.test/2"]),  # H01
        (b'<link href="file:///C:x\x001.xml" rel=a><a href=/2>', ["http://h.test/2"]),  # H02
        ("<div>" * 300 + "<a href=/deep>", ["http://h.test/deep"]),  # H04
        ("<!- - x ><a href=/1>1</a><!-- c -->", ["http://h.test/1"]),  # H05
        ("<!-- <a href=/old> --><a href=/new>", ["http://h.test/new"]),  # H07
        ("<a href=/1>one <a href=/2>two", ["http://h.test/1", "http://h.test/2"]),  # H08
        ('<meta http-equiv=refresh content="0; URL=\n http://h.test/i">', ["http://h.test/i"]),  # H10
        ("<meta " + "http-equiv " * 20_000 + "><a href=/2>", ["http://h.test/2"]),  # H11
    ],
    ids=lambda value: repr(value[:25]) if isinstance(value, str | bytes) else None,
)  # fmt: skip
def test_what_links_a_page_has(body: str | bytes, wanted: list[str]) -> None:
    """U, H: the links are those that a browser would find, soon, and no others."""
    start = time.process_time()
    assert urls(body) == wanted
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        (b"\xef\xbb\xbf" + "Привет".encode(), "text/html; charset=cp1251", "utf-8"),  # E01
        (b'<meta content="text/html; charset=utf-8" http-equiv=Content-Type>', None, "utf-8"),  # E02
        (JAPANESE.encode("shift_jis"), None, "shift_jis"),  # E04
        (b"<meta httpequiv=x content='charset=koi8-r'>" + CHINESE.encode("gbk"), None, "gb18030"),  # E05
        (b"<meta charset=cp1251>" + RUSSIAN.encode("cp1251"), "x; charset=x-none", "windows-1251"),  # E07
        (b'<meta charset="' + b"x" * 400_000, None, "windows-1252"),  # E08
        ("镕".encode("gbk"), "text/html; charset=gb2312", "gbk"),  # E10
        ("<p>x</p>".encode("utf-16"), None, "utf-16le"),  # E11
    ],
    ids=lambda value: repr(value[:25]) if isinstance(value, str | bytes) else None,
)  # fmt: skip
def test_what_a_page_is_written_in(body: bytes, content_type: str | None, encoding: str) -> None:
    """E: byte order mark, header, declaration, detector, in this order; nothing unknown, nothing endless."""
    assert listing(body, content_type)["encoding"] == encoding


@pytest.mark.parametrize(
    ("text", "codec", "query"),
    [
        ("/日本?日本", "shift_jis", "%93%FA%96{"),
        ("/한국?한국", "euc_kr", "%C7%D1%B1%B9"),
        ("/中文?中文", "gbk", "%D6%D0%CE%C4"),
        ("/привет?привет", "cp1251", "%EF%F0%E8%E2%E5%F2"),
    ],
)
def test_links_in_the_encoding_of_their_page(text: str, codec: str, query: str) -> None:
    """Paths are UTF-8 whatever the page is, queries are as the page is: so browsers send them."""
    sample = {"shift_jis": JAPANESE, "euc_kr": KOREAN, "gbk": CHINESE, "cp1251": RUSSIAN}[codec]
    body = f"<p>{sample}</p><a href='{text}'>".encode(codec)
    (url,) = urls(body)
    assert url.partition("?")[2] == query
    assert url == urls(f"<a href='{text.partition('?')[0]}'>")[0] + "?" + query


def test_html5lib_sniffing_cases(shared_data: Path, score: Score) -> None:
    """The command names the encoding that html5lib's cases expect."""
    everything = list(sniffing_cases(shared_data))
    wrong = [each for each in everything if listing(each[0])["encoding"] != LABELS[each[1]]]
    score("links: encoding sniffing (html5lib)", len(everything) - len(wrong), len(everything))
    assert not wrong


@given(st.binary(max_size=300), st.none() | st.text(max_size=30))
def test_any_bytes_are_listed(body: bytes, content_type: str | None) -> None:
    """Nothing raises, every reason has words, and positions count the links of the page."""
    found = list_links(settings(), body, PAGE, content_type)
    positions = [each.position for each in found.links] + [each.position for each in found.left_out]
    assert sorted(positions) == list(range(1, len(positions) + 1))
    assert all(each.refused in WORDS for each in found.left_out)


# --- the command itself -------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page in a folder without a node."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(which.CONFIG_VARIABLE, raising=False)
    monkeypatch.setattr(which, "CONFIG_PLACES", ())
    file = tmp_path / "page.html"
    file.write_text(MIXED)
    return file


def test_a_page_in_lines(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator sees the links in their order, and below what the reasons mean."""
    assert cli.main(["links", str(page), "--base", PAGE, "--content-type", "text/html; charset=utf-8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "encoding   utf-8 (by its Content-Type)"
    assert "asks for   noindex" in lines
    assert "links      2 followed, 4 left out" in lines
    at = lines.index("       1   http://h.test/b/1")
    assert lines[at + 1] == "       2   - scheme: 'mailto:a@h.test'"
    assert lines[at + 5] == "       6   http://other.test/?%C3%A9=%7e"
    assert "repeated   Leads where an earlier one leads." in lines


def test_json_and_stdin(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may come from another program, and the list go to one."""
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(page.read_bytes())))
    assert cli.main(["links", "-", "--base", PAGE, "--json"]) == 0
    piped = json.loads(capsys.readouterr().out)
    assert cli.main(["links", str(page), "--base", PAGE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == piped == listing(MIXED)


def test_what_can_not_be_listed(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file and no address of a page are told in a sentence each, with the exit code for bad input."""
    assert cli.main(["links", "none.html", "--base", PAGE]) == 4
    assert cli.main(["links", str(page.parent), "--base", PAGE]) == 4
    assert cli.main(["links", str(page), "--base", "page.html"]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line[:17] for line in captured.err.splitlines()] == ["milliarde links: "] * 3
    with pytest.raises(InputError, match="bad_host"):
        list_links(settings(), b"", "http://a..test/")
