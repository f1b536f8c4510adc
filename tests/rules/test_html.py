"""What is read from a page: links as browsers have them, base, refresh, and what it asks of robots."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from node.rules import html_flat
from node.rules.html import Extracted, extract, refresh_target
from node.rules.robots_directives import robots_header
from node.rules.url import Joiner, canonical

PAGE = "http://h.test/dir/page.html"


def read(body: bytes | str, encoding: str = "utf-8", **options: int) -> Extracted:
    raw = body if isinstance(body, bytes) else body.encode()
    return extract(raw, PAGE, encoding, "us", **options)


def links(body: bytes | str, encoding: str = "utf-8") -> list[str]:
    return list(read(body, encoding).links)


def urls(body: bytes | str, encoding: str = "utf-8") -> list[str]:
    found = read(body, encoding)
    join = Joiner(found.base, encoding).join
    return [str(join(href)) for href in found.links]


def test_nul_ends_nothing() -> None:
    """H01: what follows a NUL is still read."""
    assert links(b"<a href=/1>\x00<a href=/2>") == ["/1", "/2"]


def test_nul_in_an_attribute() -> None:
    """H02: a link element is not followed, garbage in it or not."""
    assert links(b'<link href="file:///C:x\x001.xml" rel=a><a href=/2>') == ["/2"]


@pytest.mark.parametrize("depth", [300, 1_000, 40_000])
def test_deep_nesting(depth: int) -> None:
    """H04: a link is found however deep it stands, and in good time (a tree of 40,000 takes seconds)."""
    start = time.process_time()
    assert links("<div>" * depth + "<a href=/deep>") == ["/deep"]
    assert time.process_time() - start < 1.0


def test_bogus_comment_ends_at_the_first_bracket() -> None:
    """H05: a misspelled comment swallows no section."""
    assert links("<!- - x ><a href=/1>1</a><!-- c -->") == ["/1"]


def test_comments_hold_no_links() -> None:
    """H07: neither whole ones nor one that never ends."""
    assert links("<!-- <a href=/old> --><a href=/new><!-- <a href=/x>") == ["/new"]


def test_unclosed_anchor() -> None:
    """H08: an anchor ends where the next one begins."""
    assert links("<a href=/1>one <a href=/2>two") == ["/1", "/2"]


def test_newline_in_refresh() -> None:
    """H10: white space around a refresh's target is none of it."""
    found = read('<meta http-equiv=refresh content="0; URL=\n http://h.test/i">')
    assert list(found.links) == [found.refresh] == ["http://h.test/i"]


def test_endless_meta() -> None:
    """H11: a tag of 50,000 attributes is read in linear time, distinct names or not."""
    for attribute in ("http-equiv ", "a{} "):
        body = "<a href=/1><meta " + "".join(attribute.format(i) for i in range(50_000))
        start = time.process_time()
        assert links(body) == ["/1"]
        assert links(body + "><a href=/2>") == ["/1", "/2"]
        assert time.process_time() - start < 1.0


def test_images_are_not_links() -> None:
    """U25, U26: neither src nor srcset is followed, however spelled; upper case anchors are."""
    body = '<img src="data:image/png;base64,AAAA" SRCSET="/w=1,h=2/a.jpg 800w, /b.jpg 2x"><A HREF="/x">'
    assert links(body) == ["/x"]


def test_base_far_down() -> None:
    """U28: a base is found wherever it stands."""
    assert urls(" " * 5_000 + '<base href="http://other.test/"><a href=x>') == ["http://other.test/x"]


def test_base_in_comment_or_script() -> None:
    """U29: what is no element sets no base."""
    base = "<base href='http://evil.test/'>"
    body = f'<!-- {base} --><script>"{base}"</script><a href=x>'
    assert urls(body) == ["http://h.test/dir/x"]


@pytest.mark.parametrize(
    ("bases", "url"),
    [
        ("<base href=/a/>", "http://h.test/a/x"),
        ("<base target=_top><base href=/a/><base href=/b/>", "http://h.test/a/x"),
        ("<base href=''><base href=/b/>", "http://h.test/dir/x"),
        ("<base href='http://['><base href=/b/>", "http://h.test/dir/x"),
        ("<base href='data:text/plain,a'>", "http://h.test/dir/x"),
        ("<base href='../up/p?q'>", "http://h.test/up/x"),
        ("<a href=x></a><base href=/late/>", "http://h.test/late/x"),
    ],
)
def test_first_base_with_href_counts(bases: str, url: str) -> None:
    """HTML Standard: the first base element with an href, and where that is no use, the page itself."""
    assert urls(bases + "<a href=x>") == [url]


def test_links_in_order_each_once() -> None:
    """Anchors and areas as they stand in the page; a repeated address is one link."""
    body = "<a href=/2><map><area href=/1></map><a href='/2'><a><a name=x><a href=/3><area href=/4><a href>"
    assert links(body) == ["/2", "/1", "/3", "/4", ""]


def test_nofollow() -> None:
    """A link may not be followed if every mention of it says so, in any case and among other words."""
    body = (
        "<a href=/1 rel='NoFollow external'><a href=/2 rel=nofollow><a href=/2><a href=/3>"
        "<a href=/3 rel=nofollow><area href=/4 rel='ugc\tnofollow'><a href=/5 rel=nofollowed>"
    )
    assert read(body).links == {"/1": True, "/2": False, "/3": False, "/4": True, "/5": False}


def test_links_are_bounded() -> None:
    """No page gives more links than asked for; the rest is counted."""
    found = read("".join(f"<a href=/{i}>" for i in range(100)), max_links=10)
    assert list(found.links) == [f"/{i}" for i in range(10)]
    assert found.links_cut == 90


def test_fragments_are_no_links_of_their_own() -> None:
    """U34: a page full of anchors into itself and one other has two links, and a bound leaves both."""
    body = "".join(f"<a href='#{i}'><a href='/p#{i}' rel=nofollow>" for i in range(100)) + "<a href='/p#x'>"
    found = read(body, max_links=2)
    assert found.links == {"": False, "/p": False}
    assert found.links_cut == 0


@pytest.mark.parametrize("href", ["/p #x", "/p\t#x", "/p\x01#x", " #x", "/p\u00a0#x", "/p##", "/p?a#?b", "#"])
def test_a_fragment_leaves_its_address_as_it_was(href: str) -> None:
    """White space before a fragment is part of the address, at the end of one it is not."""
    assert urls(f"<a href='{href}'>") == [canonical(href, "http://h.test/dir/page.html")]


def test_entities_are_decoded_once() -> None:
    """U35: &amp;amp; is &amp;, and a name without its semicolon is left alone before = and letters."""
    assert links("<a href='/v?&amp;amp;p=2&copy=1&copy;&notit;&#x41;&#0;&lt'>") == [
        "/v?&amp;p=2&copy=1©&notit;A\ufffd<"
    ]


def test_hidden_places() -> None:
    """Text that is not markup holds no links; noscript does, as for a browser without scripts."""
    body = (
        "<title><a href=/1></title><textarea><a href=/2></textarea><script>'<a href=/3>'</script>"
        "<style><a href=/4></style><xmp><a href=/5></xmp><iframe><a href=/6></iframe>"
        "<template><a href=/7></template>"
        "<noscript><a href=/yes></noscript><svg><a href=/svg></a><a xlink:href=/8></a></svg>"
    )
    assert links(body) == ["/yes", "/svg"]


def test_canonical_and_next_stand_apart() -> None:
    """Link elements are reported, not followed; the first of a kind counts."""
    body = (
        "<link rel='shortcut icon' href=/i><link REL='x Canonical' href=/c><link rel=canonical href=/d>"
        "<link rel=next href=/n><link rel=next href=/m><link rel=prefetch><link href=/e><link rel=canonical>"
    )
    found = read(body)
    assert (found.canonical, found.next, found.links) == ("/c", "/n", {})
    assert read("<p>").canonical is read("<p>").next is None


@pytest.mark.parametrize(
    ("content", "target"),
    [
        *[
            ("5; url=/a", "/a"),
            ("0;URL='/a'", "/a"),
            ('0; url = "/a" x', "/a"),
            ("0,/a", "/a"),
            ("0 /a", "/a"),
        ],
        *[("0;/a", "/a"), ("1.5; url=/a", "/a"), (".5;url=/a", "/a"), (" 0 ; url=/a ", "/a ")],
        *[("0; '/a'b", "/a"), ("0; url='/a", "/a"), ("0; url=/a'b", "/a'b"), ("0;\turl\n=\n/a", "/a")],
        *[("0; urls=/a", "urls=/a"), ("0; ur", "ur"), ("5 ; ; url=/a", "; url=/a")],
        *[("5", None), ("5;", None), ("5; url=", None), ("5; url=''", None), ("url=/a", None)],
        *[("; url=/a", None), ("x; url=/a", None), ("5x; url=/a", None), ("-1; url=/a", None), ("", None)],
    ],
)
def test_refresh_targets(content: str, target: str | None) -> None:
    """HTML Standard, "shared declarative refresh steps"."""
    assert refresh_target(content) == target


def test_first_refresh_with_a_target() -> None:
    """A refresh that only reloads leads nowhere; another meta is none."""
    body = (
        "<meta http-equiv=refresh content=30><meta name=refresh content='0;url=/x'><meta http-equiv=refresh>"
        "<noscript><meta http-equiv=Refresh content='0;url=/a'></noscript>"
        "<meta http-equiv=refresh content='0;url=/b'>"
    )
    found = read(body)
    assert (found.refresh, found.links) == ("/a", {"/a": False, "/b": False})


@pytest.mark.parametrize(
    ("metas", "noindex", "nofollow"),
    [
        ("<meta name=robots content=noindex>", True, False),
        ("<META NAME=ROBOTS CONTENT='NOINDEX, NOFOLLOW'>", True, True),
        ("<meta name=robots content=none>", True, True),
        ("<meta name=robots content='index,follow'>", False, False),
        ("<meta name=robots content='all, max-image-preview: none, max-snippet:-1'>", False, False),
        ("<meta name=robots content='noindex nofollow'>", True, True),
        ("<meta name=us content=nofollow>", False, True),
        ("<meta name=US content=noindex><meta name=robots content=nofollow>", True, True),
        ("<meta name=robots content=noindex><meta name=us content=index>", True, False),
        ("<meta name=googlebot content=noindex><meta name=description content=nofollow>", False, False),
        ("<meta name=robots content=noindexed><meta name=robots><meta content=noindex>", False, False),
        ("<body><meta name='robots ' content='noarchive;noindex'>", True, False),
    ],
)
def test_meta_robots(metas: str, noindex: bool, nofollow: bool) -> None:
    """General and our own directives add up, others' are not ours, values are no directives."""
    found = read(metas)
    assert (found.noindex, found.nofollow) == (noindex, nofollow)


@pytest.mark.parametrize(
    ("values", "noindex", "nofollow"),
    [
        ([], False, False),
        (["noindex"], True, False),
        (["NoIndex, NoFollow"], True, True),
        (["noarchive", "none"], True, True),
        (["us: noindex"], True, False),
        (["US : nofollow, noindex"], True, True),
        (["googlebot: noindex, nofollow"], False, False),
        (["googlebot: noindex, us: nofollow"], False, True),
        (["googlebot: noindex", "nofollow"], False, True),
        (["nofollow, googlebot: noindex"], False, True),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST"], False, False),
        (["unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT, noindex"], True, False),
        (["max-image-preview: none, nofollow"], False, True),
        (["max-snippet:0", ": noindex", ",,"], True, False),
    ],
)
def test_robots_header(values: list[str], noindex: bool, nofollow: bool) -> None:
    """X-Robots-Tag: a name holds for what follows it in its header; values are no directives."""
    assert robots_header(values, "us") == (noindex, nofollow)


@pytest.mark.parametrize(
    ("encoding", "codec", "text"),
    [
        ("shift_jis", "cp932", "/表/ソ.html"),
        ("euc-kr", "cp949", "/한국어"),
        ("gbk", "gb18030", "/中文/镕"),
        ("windows-1252", "cp1252", "/é?ü=’"),
        ("windows-1251", "cp1251", "/привет"),
        ("utf-16le", "utf-16-le", "/ü"),
        ("iso-2022-jp", "iso2022_jp", "/日本"),
        ("utf-8", "utf-8", "/ü"),
    ],
)
def test_links_of_any_encoding(encoding: str, codec: str, text: str) -> None:
    """Links come out as the letters they are, whatever bytes spell them."""
    assert links(f"<p>x</p><a href='{text}'>".encode(codec), encoding) == [text]


def test_byte_order_mark_is_no_text() -> None:
    """A BOM before the first tag changes nothing."""
    assert urls(b"\xef\xbb\xbf<base href=/b/><a href=1>") == ["http://h.test/b/1"]


def test_bad_bytes_become_replacement_characters() -> None:
    """As in browsers; and the links beside it are whole."""
    assert links(b"<a href='/\xff\xe9'><a href=/ok>") == ["/\ufffd\ufffd", "/ok"]


@pytest.mark.parametrize(
    "body",
    [
        "<div>" * 50_000,
        "<ul><li>" * 30_000,
        "<b>" * 3_000 + "</i>" * 50_000,
        "<p>" + "".join(f"<b id={i}>" for i in range(12_000)) + "<p>x" * 30_000,
        "<a href=/1><div>" * 15_000,
        "<a " + "".join(f"a{i}=1 " for i in range(30_000)) + "href=/1>",
        "<!-" * 80_000,
        "<!--" * 60_000,
        "<a href='" * 28_000,
        "<a href=\"'>" * 23_000,
        "<" * 250_000,
        "</" * 120_000,
        "<script>" * 30_000,
        "<template>" * 25_000,
        "<a =" * 60_000,
        "<a href=&" * 27_000,
        "<a href=" + "&amp" * 60_000 + ">",
        "\0" * 250_000,
        "<meta http-equiv=refresh content='" + "0." * 120_000 + "'>",
        "<meta name=robots content='" + "a-" * 120_000 + "'>",
    ],
    ids=lambda body: body[:20].replace("\0", "NUL"),
)
def test_hostile_pages_end_soon(body: str) -> None:
    """250 KB of anything take well under a second and little memory."""
    start = time.process_time()
    read(body)
    assert time.process_time() - start < 1.0


def test_out_of_memory_is_survived() -> None:
    """Where a tree would outgrow the memory a parser process may have, the page is read without one."""
    code = (
        "import resource; from node.rules.html import extract; "
        "bold = ''.join(f'<b id={i}>' for i in range(900)); "
        "body = f'<p>{bold}</p>' + '<p>x</p>' * 20_000 + '<a href=/x>'; "
        "resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)); "
        "print(extract(body.encode(), 'http://h.test/', 'utf-8', 'us').links)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "{'/x': False}\n"), done.stderr


def flat(body: str) -> list[tuple[str, dict[str, str | None]]]:
    return [(tag, attributes) for tag, attributes in html_flat.tags(body) if "href" in attributes]


PIECES = st.sampled_from(
    [
        *[
            "<a ",
            "<A\t",
            "<a/",
            "</a>",
            "<area ",
            "<b>",
            "<div ",
            "</div>",
            "<p",
            ">",
            "/>",
            "<",
            "-",
            "é",
            "\0",
        ],
        *[" ", "\n", "\f", "\r\n", "=", "href=", "HREF='", 'href="', "rel=", "x=", "'", '"', "/x"],
        *["&amp;", "&copy", "&#65", "&#x", "&;", "<!--", "-->", "--!>", "<!", "<?", "</ "],
        *["<script>", "</script >", "<title>", "</title>"],
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
@example("<a href=1 ='><a href=2>")
@example("<a href='1'rel=x><a href=\"2\"/><a href=3/>")
@example("<title><a href=1></titlex></title/><a href=2>")
@example("<!--><a href=1>--><!---><a href=2><!--x--!><a href=3>")
def test_flat_reader_sees_what_the_tree_holds(body: str) -> None:
    """Without a tree, the same links come out in the same order."""
    assert [attributes["href"] or "" for _tag, attributes in flat(body)] == tree(body)


def tree(body: str) -> list[str]:
    """Every a[href] and area[href] as lexbor has them, repetitions included."""
    nodes = LexborHTMLParser(body.encode()).css("a[href],area[href]")
    return [node.attributes["href"] or "" for node in nodes]


def test_lopsided_pages() -> None:
    """Ordinary pages get a tree; mostly script, or badly out of balance, they don't."""
    ordinary = b"<div class=item><a href=/1>one</a><p>text text <i>text</i></p></div>" * 2_000
    assert not html_flat.is_lopsided(ordinary)
    assert not html_flat.is_lopsided(b"<div>" * 300)
    assert html_flat.is_lopsided(b"<div>" * 5_000)
    assert html_flat.is_lopsided(b"<div>" + b"</x>" * 5_000)
    assert html_flat.is_lopsided(b"<script>" + b"x" * 100_000 + b"</script>")
    assert html_flat.is_lopsided(ordinary + b"<div>" * 20_000)


@settings(deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from(["utf-8", "windows-1252", "utf-16le", "shift_jis", "replacement"]),
)
def test_any_bytes_are_a_page(body: bytes, encoding: str) -> None:
    """Nothing raises, and what comes out can be written down."""
    found = read(body, encoding)
    assert found.base.startswith("http://h.test/") or b"base" in body.lower()
    assert all(href.encode() is not None for href in found.links)
