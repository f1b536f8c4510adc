"""What a text on a page means as an address, held against other people's cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.rules import url
from node.rules.refusal import Refusal
from tests.conftest import Score

BASE = "http://h.test/dir/page.html"


def cases(file: Path) -> list[dict[str, Any]]:
    """The cases of a file of the web platform tests, its comments left out."""
    return [case for case in json.loads(file.read_text()) if isinstance(case, dict)]


# --- outside expectations -----------------------------------------------------------------------


def test_every_standard_case_parses_to_the_same_href(shared_data: Path, score: Score) -> None:
    """Other people's expectations for 891 URLs of all schemes are met, each to the letter."""
    wrong = []
    all_cases = cases(shared_data / "url_urltestdata.json")
    for case in all_cases:
        expected = None if case.get("failure") else case["href"]
        got = url.parse(case["input"], case.get("base"))
        if got != expected:
            wrong.append((case["input"], case.get("base"), expected, got))
    score("URLs, parsed href", len(all_cases) - len(wrong), len(all_cases))
    assert len(all_cases) == 891
    assert not wrong


@pytest.mark.parametrize("name", ["url_toascii.json", "url_IdnaTestV2.json"])
def test_every_host_name_becomes_the_same_ascii(shared_data: Path, score: Score, name: str) -> None:
    """International host names come out as in browsers: UTS 46, non-transitional.

    One case of url_IdnaTestV2.json is the empty name, which no URL can hold: ``https:///x`` means host x.
    """
    wrong = []
    all_cases = [case for case in cases(shared_data / name) if case["input"]]
    for case in all_cases:
        # What would end the host early is percent-encoded, so that it reaches the host parser.
        text = "".join(f"%{ord(char):02X}" if char in ":/?#\\" else char for char in case["input"])
        expected = None if case["output"] is None else f"https://{case['output']}/x"
        got = url.parse(f"https://{text}/x")
        if got != expected:
            wrong.append((case["input"], expected, got))
    score(f"host names, {name}", len(all_cases) - len(wrong), len(all_cases))
    assert not wrong


# --- small inputs that broke other crawlers -----------------------------------------------------


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        # whitespace around and inside (U01, U02, U04)
        ("\n\t  http://h.test/x\n", "http://h.test/x"),
        ("\n   /feeds/a.xml\n  ", "http://h.test/feeds/a.xml"),
        ("http://h.test/p ", "http://h.test/p"),
        ("\u0000\u001f/x", "http://h.test/x"),
        ("/a\r\n\tb", "http://h.test/ab"),
        ("ht\ntp://h.test/x", "http://h.test/x"),
        # but these are no whitespace to a URL
        ("\u00a0/x", "http://h.test/dir/%C2%A0/x"),
        ("/a b", "http://h.test/a%20b"),
        # backslashes (U05)
        ("/\\other.test/x", "http://other.test/x"),
        ("\\dir2\\y", "http://h.test/dir2/y"),
        ("http:\\\\other.test\\a?b\\c", "http://other.test/a?b\\c"),
        # percent signs are neither decoded nor encoded (U07, U08, U35)
        ("http://h.test/d/Dia%25", "http://h.test/d/Dia%25"),
        ("http://h.test/a%20b%20%2376#x", "http://h.test/a%20b%20%2376"),
        ("/v?&amp;amp;p=2", "http://h.test/v?&amp;amp;p=2"),
        ("/100%", "http://h.test/100%"),
        ("/%zz%2", "http://h.test/%zz%2"),
        ("/%c3%BC%7e", "http://h.test/%c3%BC%7e"),
        # userinfo is dropped (U10)
        ("http://%25u:%25p@h.test/", "http://h.test/"),
        ("http://u@v:p@h.test:81/@x", "http://h.test:81/@x"),
        ("http://@h.test/x@y", "http://h.test/x@y"),
        # international hosts are one host (U13), ß stays itself
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("http://BÜCHER.test/", "http://xn--bcher-kva.test/"),
        ("http://xn--bcher-kva.test/", "http://xn--bcher-kva.test/"),
        ("http://faß.test/", "http://xn--fa-hia.test/"),
        ("http://日本｡test/", "http://xn--wgv71a.test/"),
        # hosts written oddly (U17)
        ("http://h%2Etest/a", "http://h.test/a"),
        ("http://H.TEST/A", "http://h.test/A"),
        ("http://h.test./a", "http://h.test./a"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::0001]:80/", "http://[::1]/"),
        # ports (U16)
        ("http://h.test:8443/a", "http://h.test:8443/a"),
        ("https://h.test:8443/a", "https://h.test:8443/a"),
        ("https://h.test:443/a", "https://h.test/a"),
        ("http://h.test:443/a", "http://h.test:443/a"),
        ("http://h.test:/a", "http://h.test/a"),
        # dot segments (U20)
        ("http://h.test/web/../../../../f.jpg", "http://h.test/f.jpg"),
        ("../../../x", "http://h.test/x"),
        ("a/./b/../c", "http://h.test/dir/a/c"),
        ("/a/%2e%2E/b", "http://h.test/b"),
        ("/a/.%2e", "http://h.test/"),
        ("/..a/...", "http://h.test/..a/..."),
        # relative links (U22)
        ("c.html", "http://h.test/dir/c.html"),
        ("?p=3", "http://h.test/dir/page.html?p=3"),
        ("", "http://h.test/dir/page.html"),
        (".", "http://h.test/dir/"),
        ("//other.test", "http://other.test/"),
        ("///other.test/x", "http://other.test/x"),
        ("http:x", "http://h.test/dir/x"),
        ("https:x", "https://x/"),
        ("www.other.test/p/", "http://h.test/dir/www.other.test/p/"),
        ("./a:b", "http://h.test/dir/a:b"),
        # fragments are one page (U34)
        ("/p#a", "http://h.test/p"),
        ("/p#b?c", "http://h.test/p"),
        ("#", "http://h.test/dir/page.html"),
        # nothing is improved (U31, U32)
        ("http://h.test/?WikiPage", "http://h.test/?WikiPage"),
        ("http://h.test/?", "http://h.test/?"),
        ("http://h.test/?2=A&1=b&2=0", "http://h.test/?2=A&1=b&2=0"),
        ("http://h.test//a//", "http://h.test//a//"),
        ("/index.html;jsessionid=1", "http://h.test/index.html;jsessionid=1"),
        # what lies beyond ASCII
        ("/könyvek/", "http://h.test/k%C3%B6nyvek/"),
        ("/\ud83d\ude00\ud83d", "http://h.test/%F0%9F%98%80%EF%BF%BD"),
    ],
)
def test_what_a_link_leads_to(href: str, expected: str) -> None:
    """A link leads where a browser would take it, and the way of joining makes no difference."""
    assert url.canonical(href, BASE) == expected
    assert url.Joiner(BASE).join(href) == expected


@pytest.mark.parametrize(
    ("base", "href", "expected"),
    [
        ("http://h.test/app/p?next=/foo/bar", "api/x", "http://h.test/app/api/x"),  # U23
        ("http://h.test/b/c", "d", "http://h.test/b/d"),  # U40
        ("http://h.test/a?x#y", "", "http://h.test/a?x"),
        ("http://h.test/a?x", "?", "http://h.test/a?"),
        ("http://u:p@h.test/a/b", "c", "http://h.test/a/c"),
        ("http://u:p@h.test/a/b", "/c", "http://h.test/c"),
        ("https://h.test/a", "//i.test/x", "https://i.test/x"),
        ("https://h.test:8080/a//b/c", "../x", "https://h.test:8080/a//x"),
        ("https://h.test/a//b", "../x", "https://h.test/a/x"),
        ("http://h.test", "x", "http://h.test/x"),
        ("http://[::1]:81/a/b", "c", "http://[::1]:81/a/c"),
    ],
)
def test_what_a_link_is_relative_to(base: str, href: str, expected: str) -> None:
    """Only the path of the base counts as a place, not its query, its fragment or who asks."""
    assert url.canonical(href, base) == expected
    assert url.Joiner(base).join(href) == expected


@pytest.mark.parametrize(
    ("href", "why"),
    [
        ("http://Las%20Vegas/", Refusal.BAD_URL),
        ("http://", Refusal.BAD_URL),
        ("http://[::1/x", Refusal.BAD_URL),
        ("http://h.test:99999/", Refusal.BAD_URL),
        ("http://1.2.3.4.5/", Refusal.BAD_URL),
        ("http://a<b>.test/", Refusal.BAD_URL),
        ("http://a..test/", Refusal.BAD_HOST),
        ("http://.test/", Refusal.BAD_HOST),
        ("http://./", Refusal.BAD_HOST),
        ("http://h.test../", Refusal.BAD_HOST),
        ("http://" + "a" * 64 + ".test/", Refusal.BAD_HOST),
        ("http://" + "a." * 126 + "tt/", Refusal.BAD_HOST),
        ("data:image/png;base64,AAAA", Refusal.SCHEME),  # U25
        ("javascript:void(0)", Refusal.SCHEME),
        (" Java\tScript:alert('http://h.test/')", Refusal.SCHEME),
        ("mailto:a@h.test", Refusal.SCHEME),
        ("ftp://h.test/x", Refusal.SCHEME),
        ("file:///C:x\x001.xml", Refusal.SCHEME),
        ("blob:http://h.test/1", Refusal.SCHEME),
        ("h.test:80/x", Refusal.SCHEME),
    ],
)
def test_what_is_refused_and_why(href: str, why: Refusal) -> None:
    """A link that can't be fetched is refused by name, and does not raise (U11)."""
    assert url.canonical(href, BASE) is why
    assert url.Joiner(BASE).join(href) is why


@pytest.mark.parametrize(
    ("path", "trap"),
    [
        ("/" + "x" * (2048 - len("http://h.test/")), False),
        ("/" + "x" * (2049 - len("http://h.test/")), True),
        ("/" + "é" * 400, True),
        ("/?" + "x" * 2048, True),
        ("/a/a/a", False),
        ("/a/a/a/", False),
        ("/a/a/a/a", True),
        ("/a/b/a/b/a/b/a/b", True),
        ("/www.other.test/p/" * 4, True),  # U37
        ("/www.other.test/p/" * 3, False),
        ("/a/a/a?b=/a/a/a", False),
        ("/a/b/c/d?next=//x//y//z", False),
        ("/a//b//c//d", False),
        ("/a//b//c//d/", False),
        ("/a//b//c//d//e", True),
        ("/////", True),
        ("".join(f"/{i}" for i in range(20)), False),
        ("".join(f"/{i}" for i in range(20)) + "/", False),
        ("".join(f"/{i}" for i in range(21)), True),
    ],
)
def test_traps(path: str, trap: bool) -> None:
    """URLs that grow or repeat without end are refused; those at the limits are not."""
    link = "http://h.test" + path
    got = url.canonical(link)
    assert (got is Refusal.TRAP) is trap
    assert url.Joiner(BASE).join(link) == got
    if not path.startswith("//"):  # which would name a host
        assert url.Joiner(BASE).join(path) == got


def test_a_scheme_less_link_stops_growing() -> None:
    """A page at every address that links to ``www.other.test/p/`` is followed a few times only (U37)."""
    at: str | Refusal = "http://h.test/"
    followed = 0
    while not isinstance(at, Refusal):
        at = url.Joiner(at).join("www.other.test/p/")
        followed += 1
    assert at is Refusal.TRAP
    assert followed == 4


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        (None, "http://h.test/a/b"),
        ("http://other.test/x/y", "http://other.test/x/y"),
        ("../c/", "http://h.test/c/"),
        ("//other.test", "http://other.test/"),
        ("http://[::1", "http://h.test/a/b"),
        ("data:text/html,x", "http://h.test/a/b"),
        ("JavaScript:x", "http://h.test/a/b"),
        ("file:///x", "file:///x"),
        ("http://u:p@other.test/", "http://u:p@other.test/"),
    ],
)
def test_the_base_of_a_document(href: str | None, expected: str) -> None:
    """A base element moves all links of its page, unless it is none or makes them data or script."""
    assert url.document_base("http://h.test/a/b", href) == expected


def test_links_under_a_base_that_is_not_of_the_web() -> None:
    """With a base of another scheme, relative links are refused by that and absolute ones stand."""
    joiner = url.Joiner("file:///x/y")
    assert joiner.join("z") is Refusal.SCHEME
    assert joiner.join("") is Refusal.SCHEME
    assert joiner.join("http://h.test/z") == "http://h.test/z"


@pytest.mark.parametrize(
    ("encoding", "href", "expected"),
    [
        ("utf-8", "/é?é", "/%C3%A9?%C3%A9"),
        ("windows-1252", "/é?é=ü#é", "/%C3%A9?%E9=%FC"),
        ("windows-1252", "?q=\u20ac'\" <>", "/dir/page.html?q=%80%27%22%20%3C%3E"),
        ("windows-1252", "?q=日", "/dir/page.html?q=%26%2326085%3B"),
        ("windows-1252", "?q=\ud83d\ude00", "/dir/page.html?q=%26%23128512%3B"),
        ("windows-1251", "?q=Привет", "/dir/page.html?q=%CF%F0%E8%E2%E5%F2"),
        ("shift_jis", "?q=表&r=ｶ", "/dir/page.html?q=%95\\&r=%B6"),
        ("euc-jp", "?q=日本", "/dir/page.html?q=%C6%FC%CB%DC"),
        ("iso-2022-jp", "?a=日&b=1", "/dir/page.html?a=%1B$BF|%1B(B&b=1"),
        ("euc-kr", "?q=한\n국", "/dir/page.html?q=%C7%D1%B1%B9"),
        ("gbk", "?q=镕€", "/dir/page.html?q=%E9F%80"),
        ("gb18030", "?q=镕€😀", "/dir/page.html?q=%E9F%A2%E3%949%FC6"),
        ("big5", "?q=中文", "/dir/page.html?q=%A4%A4%A4%E5"),
        ("utf-16le", "?q=é", "/dir/page.html?q=%C3%A9"),
        ("koi8-r", "?q=%D0é", "/dir/page.html?q=%D0%26%23233%3B"),
        ("windows-1252", "//xn--bcher-kva.test/?é", "//xn--bcher-kva.test/?%E9"),
    ],
)
def test_the_query_is_in_the_encoding_of_the_page(encoding: str, href: str, expected: str) -> None:
    """A server that expects windows-1252 gets ``%E9`` for é; path and host are UTF-8 whatever the page."""
    whole = "http:" + expected if expected.startswith("//") else "http://h.test" + expected
    assert url.canonical(href, BASE, encoding) == whole
    assert url.Joiner(BASE, encoding).join(href) == whole


# --- the dedup key ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("canonical", "key"),
    [
        ("http://h.test./a", "http://h.test/a"),  # U14
        ("http://h.test.:81/a./b", "http://h.test:81/a./b"),
        ("http://h.test/p%2d1/?q=f", "http://h.test/p-1/?q=f"),  # U19
        ("http://h.test/%7Eu/%41%5a?%30", "http://h.test/~u/AZ?0"),
        ("http://h.test/%c3%bc%2f?%3d", "http://h.test/%C3%BC%2F?%3D"),
        ("http://h.test/a%2e./b%2", "http://h.test/a../b%2"),
        ("http://h.test/%2%64", "http://h.test/%2%64"),
        ("http://h.test/%%36%31", "http://h.test/%%361"),
        ("http://h.test/?b=1&a=2", "http://h.test/?b=1&a=2"),
        ("http://h.test/a;v=1", "http://h.test/a;v=1"),
        ("http://[::1]:81/", "http://[::1]:81/"),
    ],
)
def test_what_a_url_is_remembered_by(canonical: str, key: str) -> None:
    """Spellings that every server treats alike share a key; whatever may differ keeps its own."""
    assert url.dedup_key(canonical) == key
    assert url.dedup_key(key) == key


@pytest.mark.parametrize(
    ("canonical", "key"),
    [
        ("http://h.test/a;jsessionid=1", "http://h.test/a"),  # U38
        ("http://h.test/a;JSESSIONID=A.b1!2?x=1", "http://h.test/a?x=1"),
        ("http://h.test/a;jsessionid=1;v=2/b", "http://h.test/a;v=2/b"),
        ("http://h.test/?PHPSESSID=0a", "http://h.test/"),
        ("http://h.test/?a=1&PHPSESSID=0a", "http://h.test/?a=1"),
        ("http://h.test/?PHPSESSID=0a&a=1", "http://h.test/?a=1"),
        ("http://h.test/?a=1&jsessionid=0a&b=2", "http://h.test/?a=1&b=2"),
        ("http://h.test/?aspsessionidqqabc=0a", "http://h.test/"),
        ("http://h.test/(S(abc123))/a.aspx", "http://h.test/a.aspx"),
        ("http://h.test/?session=1", "http://h.test/?session=1"),
        ("http://h.test/?p=1&j=2&asp=3", "http://h.test/?p=1&j=2&asp=3"),
        ("http://h.test/?", "http://h.test/?"),
        ("http://h.test/?a&", "http://h.test/?a&"),
        ("http://h.test/a?x=;jsessionid=1", "http://h.test/a?x=;jsessionid=1"),
    ],
)
def test_session_ids_are_no_part_of_a_key(canonical: str, key: str) -> None:
    """The endless copies that a session id in the URL makes are one page; what only looks alike is kept."""
    assert url.dedup_key(canonical) == key
    assert url.dedup_key(key) == key


# --- properties ---------------------------------------------------------------------------------

# Pieces whose order decides everything, and a few characters of each kind that is treated in its own way.
WORDS = """
    http:// https: HTTP:// mailto: data: // / ? # : @ . .. /. ../ ./ %2e %2E. % %2 %41 %c3 :80 :8080
    h.test H.Test other.test bücher.test 1.2 a b page.html &amp; ;jsessionid=1 = ! ' < ^ { | [ ~ é 日
"""
PIECES = [*WORDS.split(), " ", "\t", "\n", "\x00", "\\", '"', "\ud800", "x" * 70]
BASES = f"""
    {BASE} https://h.test/ http://h.test/a//b/c.html?x=/y/z http://u:p@h.test:8080/a/ about:blank
    https://other.test/a/b/c/d/e#f http://h.test/a/a/a/ http://a..test/x file:///x/y
"""
links = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)
bases = st.sampled_from(BASES.split())
encodings = st.sampled_from(["utf-8", "windows-1252", "shift_jis", "iso-2022-jp", "gbk", "utf-16be"])


def remember_origins() -> None:
    """Make the origins of the pieces known, so that absolute links take the short way too."""
    for known in ("http://h.test/", "https://h.test/", "http://other.test/", "https://other.test/"):
        assert url.canonical(known) == known


@settings(max_examples=500, deadline=None)
@given(links, bases, encodings)
@example("http://h.test/./a", BASE, "utf-8")
@example("..", BASE, "utf-8")
@example("../%2e/x", BASE, "utf-8")
@example("..//../x", BASE, "utf-8")
@example("./../../../..", BASE, "utf-8")
@example("%2e%2e/x", BASE, "utf-8")
@example("http://h.test?x/y", BASE, "utf-8")
@example("//h.test:", BASE, "utf-8")
@example("http://h.test@", BASE, "utf-8")
@example("a:b", BASE, "utf-8")
@example("/a #b", BASE, "utf-8")
def test_the_short_way_is_the_long_way(href: str, base: str, encoding: str) -> None:
    """A joiner gives what the whole parser gives, for whatever stands in a page."""
    remember_origins()
    assert url.Joiner(base, encoding).join(href) == url.canonical(href, base, encoding)


@settings(deadline=None)
@given(links, bases, encodings)
def test_a_canonical_url_stays_what_it_is(href: str, base: str, encoding: str) -> None:
    """Canonical is final: ASCII, of the web, bare, bounded, its own canonical form, the sum of its parts."""
    got = url.canonical(href, base, encoding)
    if isinstance(got, Refusal):
        return
    assert url.canonical(got) == got == url.parse(got)
    assert got.isascii()
    assert got.startswith(("http://", "https://"))
    assert "#" not in got
    assert len(got) <= url.MAX_URL_BYTES
    assert url.origin(got) + url.path_and_query(got) == got
    scheme, _, authority = url.origin(got).partition("://")
    assert "@" not in authority
    name, port = url.host(got), authority.removeprefix(url.host(got))
    assert scheme in ("http", "https")
    assert name
    assert not port or int(port[1:]) <= 65535


@settings(deadline=None)
@given(links, bases)
def test_a_key_is_its_own_key(href: str, base: str) -> None:
    """The key of a key is the key; nothing raises."""
    got = url.canonical(href, base)
    if isinstance(got, Refusal):
        return
    key = url.dedup_key(got)
    assert url.dedup_key(key) == key


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["a", "/", "%2", "%2%", "/../", "http://", " ", "a:", "\t", ";jsessionid=", "é", "&x="]
)
def test_giant_links_take_bounded_time(piece: str) -> None:
    """A megabyte of anything in an attribute is dealt with in well under a second."""
    giant = piece * (1_000_000 // len(piece))
    for href in (giant, "http://h.test/" + giant, "?" + giant):
        url.Joiner(BASE, "windows-1252").join(href)
        url.dedup_key("http://h.test/" + giant)


@pytest.mark.parametrize(
    "template", ["/a{}b", "/a{}", "/{}", "{}", "{}a", "a{}", "?a{}b", "a?{}", "/a/{}/b", "//h.test/{}"]
)
def test_every_ascii_character_takes_the_right_way(template: str) -> None:
    """No character is taken for one that stays as it is, wherever it stands."""
    remember_origins()
    for base in (BASE, "https://u@other.test:81/a/b"):
        joiner = url.Joiner(base)
        for code in range(128):
            href = template.format(chr(code))
            assert joiner.join(href) == url.canonical(href, base), href


def test_remembered_origins_are_bounded() -> None:
    """However many hosts a crawl comes across, no more origins than stated are kept."""
    for number in range(url._MAX_KNOWN_ORIGINS + 10):
        assert url.canonical(f"http://h{number}.test/") == f"http://h{number}.test/"
    assert len(url._known_origins) <= url._MAX_KNOWN_ORIGINS
    assert url.Joiner(BASE).join("http://h0.test/x") == "http://h0.test/x"
