"""Sitemaps as they are: whole and well-formed, or cut, unclosed, mislabelled and hostile."""

from __future__ import annotations

import gzip
import time
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.refusal import Refusal
from node.rules.sitemap import may_be_sitemap
from node.rules.sitemap_read import MAX_URLS, Sitemap, read

URL = "http://h.test/maps/sitemap.xml"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def parse(
    body: bytes | str, content_type: str | None = None, *, whole: bool = True, most: int = 50
) -> Sitemap:
    data = body.encode() if isinstance(body, str) else body
    return read(data, URL, content_type=content_type, whole=whole, max_sitemaps=most)


def pages(body: bytes | str, content_type: str | None = None, *, whole: bool = True) -> list[str]:
    """The pages found, with no sitemaps among them."""
    found = parse(body, content_type, whole=whole)
    assert not found.sitemaps
    return [url for url in found.pages.values() if not isinstance(url, Refusal)]


def sitemaps(body: str) -> list[str]:
    """The sitemaps found, with no pages among them."""
    found = parse(body)
    assert not found.pages
    return [url for url in found.sitemaps.values() if not isinstance(url, Refusal)]


def urlset(*urls: str) -> str:
    items = "".join(
        f"<url><loc>{escape(url)}</loc><lastmod>2026-01-01</lastmod><priority>0.5</priority></url>\n"
        for url in urls
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{NAMESPACE}">\n{items}</urlset>\n'


ONE, TWO, THREE = (f"http://h.test/{n}" for n in (1, 2, 3))


def test_what_a_set_and_an_index_name() -> None:
    """Pages of a ``urlset``, sitemaps of a ``sitemapindex``; dates and priorities are no addresses."""
    assert pages(urlset(ONE, TWO)) == [ONE, TWO]
    index = f"<sitemapindex xmlns='{NAMESPACE}'><sitemap><loc>{ONE}.xml</loc></sitemap></sitemapindex>"
    assert sitemaps(index) == [ONE + ".xml"]


def test_an_unclosed_item_glues_nothing() -> None:
    """S01: two addresses in one ``sitemap`` that never ends are two."""
    assert sitemaps(f"<sitemap><loc>{ONE}</loc><loc>{TWO}</loc>") == [ONE, TWO]
    assert pages(f"<urlset><url><loc>{ONE}<loc>{TWO}</url><url><loc>{THREE}</urlset>") == [ONE, TWO, THREE]


@pytest.mark.parametrize(
    "body",
    [
        f"<s:urlset xmlns:s='{NAMESPACE}'><s:url><s:loc>{ONE}</s:loc></s:url></s:urlset>",
        f"<urlset xmlns:x='{NAMESPACE}'><x:url><x:loc>{ONE}</x:loc></x:url></urlset>",
        f"<urlset><url><loc>{ONE}</loc></url></urlset>",
        f"<urlset xmlns='http://www.google.com/schemas/sitemap/0.84'><url><loc>{ONE}</loc></url></urlset>",
        f"<URLSET><URL><LOC>{ONE}</LOC></URL></URLSET>",
        f"<url><loc>{ONE}</loc></url>",
        f"<loc>{ONE}</loc>",
        f"\n\n \ufeff<?xml version='1.0'?><!-- by hand -->\n<urlset>\n<url\n><loc\n>\n{ONE}\n</loc\n></url>",
        f'<urlset a="b>c" d=\'e">\'><url><loc x="1">{ONE}</loc></url></urlset>',
        f"<urlset><url><loc><![CDATA[{ONE}]]></loc></url></urlset>",
        f"<urlset><url><loc><!-- here: -->{ONE}<?x y?></loc></url></urlset>",
        f"Warning: something in line 3<br />\n<urlset><url><loc>{ONE}</loc></url></urlset>",
    ],
)
def test_prefixes_and_wrappings(body: str) -> None:
    """S02: any namespace prefix or none, any namespace, CDATA, white space, and what stands before."""
    assert pages(body) == [ONE]


def test_an_image_is_no_page() -> None:
    """An extension's ``loc`` is passed over, by whatever prefix it is known."""
    for image in (
        "<image:image><image:loc>http://h.test/i.jpg</image:loc></image:image>",
        "<i:image><i:loc>http://h.test/i.jpg</i:loc><i:title>x</i:title></i:image>",
        "<image xmlns='x'><loc>http://h.test/i.jpg</loc></image>",
        "<image:image><image:loc>http://h.test/i.jpg</image:loc>",
        "<video:video><video:content_loc>http://h.test/v.mp4</video:content_loc></video:video><image/>",
        "<xhtml:link rel='alternate' hreflang='de' href='http://h.test/de'/>",
    ):
        body = f"<urlset><url>{image}<lastmod/></url><url><loc>{ONE}</loc></url>{image}</urlset>"
        assert pages(body) == [ONE], image
        within = f"<urlset><url><loc>{ONE}</loc>{image}</url><url><loc>{TWO}</loc></url></urlset>"
        assert pages(within) == [ONE, TWO], image


@pytest.mark.parametrize("written", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [urlset(ONE, TWO).replace(' encoding="UTF-8"', ""), f"{ONE}\n{TWO}\n"])
def test_encodings(text: str, written: str) -> None:
    """E11: UTF-16 is read as such, with its mark and without."""
    if written in ("utf-16-le", "utf-16-be") and text.startswith("http"):
        text *= 10  # without a mark and markup it takes a detector, and that some text
    assert pages(text.encode(written)) == [ONE, TWO]


def test_a_declared_encoding_counts() -> None:
    """What the XML declaration says, or the header before it."""
    body = '<?xml version="1.0" encoding="iso-8859-1"?><url><loc>http://h.test/é</loc></url>'.encode(
        "latin-1"
    )
    assert pages(body) == ["http://h.test/%C3%A9"]
    body = "<url><loc>http://h.test/ж?ж</loc></url>".encode("cp1251")
    assert pages(body, "text/xml; charset=windows-1251") == ["http://h.test/%D0%B6?%D0%B6"]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_that_is_cut_keeps_what_was_whole(cut: int) -> None:
    """S04: wherever it ends, addresses before that are found, and the torn one isn't made up."""
    body = urlset(ONE, TWO, THREE, THREE + "/very/long/address/that/gets/torn")
    torn = body[: body.rindex("</loc>") - cut]
    assert pages(torn, whole=False) == [ONE, TWO, THREE]


def test_damage_in_the_middle_costs_what_it_hits() -> None:
    """Zeros, stray brackets and torn tags lose no address but their own."""
    body = f"<urlset><url><loc>{ONE}</loc></url>\0\0<<url<url><lo c>x</loc><url><loc>{TWO}</loc></url>"
    assert pages(body) == [ONE, TWO]


def test_text_is_an_address_a_line() -> None:
    """Whatever ends a line; lines that are no addresses are no addresses. Only a cut tears the last one."""
    body = f"# our pages\n{ONE}\r\n  {TWO}  \r/relative\nftp://h.test/x\nHTTP://H.test/3"
    assert pages(body) == [ONE, TWO, THREE]
    assert pages(body, whole=False) == [ONE, TWO]
    assert pages(body + "\n", whole=False) == [ONE, TWO, THREE]


def test_addresses_are_decoded_once() -> None:
    """XML's five entities and numbers, each once; HTML's names and what a file declares itself stay."""
    body = (
        "<url><loc>http://h.test/?a=1&amp;b=&lt;&#50;&#x33;&quot;</loc></url>"
        "<url><loc>http://h.test/?a=1&copy=2</loc></url><url><loc>http://h.test/?a&amp;amp;b</loc></url>"
        "<url><loc>http://h.test/&#0;&#xD800;&#x110000;</loc></url><url><loc>http://h.test/&mine;</loc></url>"
    )
    assert pages(body) == [
        "http://h.test/?a=1&b=%3C23%22",
        "http://h.test/?a=1&copy=2",
        "http://h.test/?a&amp;b",
        "http://h.test/" + "%EF%BF%BD" * 3,
        "http://h.test/&mine;",
    ]


def test_nothing_is_declared_expanded_or_fetched() -> None:
    """No billion laughs, no file of ours, and no address that only a declaration holds."""
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 20))
    body = (
        f'<!DOCTYPE urlset [<!ENTITY l0 "lol">{laughs}<!ENTITY x SYSTEM "file:///etc/passwd">'
        f'<!ENTITY u "<url><loc>http://h.test/hidden</loc></url>"> <!-- ]> it\'s --> ]>'
        f"<urlset><url><loc>http://h.test/&x;</loc></url>&u;<url><loc>&l19;</loc></url></urlset>"
    )
    assert pages(body) == ["http://h.test/&x;", "http://h.test/maps/&l19;"]


def test_addresses_pass_the_gates_of_links() -> None:
    """Relative ones are joined, others refused with the reason a link would be."""
    found = parse(
        "<urlset>" + "".join(f"<url><loc>{x}</loc></url>" for x in ("../a", "mailto:x", "http://["))
    )
    assert found.pages == {"../a": "http://h.test/a", "mailto:x": Refusal.SCHEME, "http://[": Refusal.BAD_URL}
    assert pages("<url><loc></loc><loc/><loc> </loc></url>") == []


def test_bounds() -> None:
    """No more than 50,000 addresses of a file and the sitemaps of an index that are asked for."""
    many = parse(urlset(*(f"http://h.test/{n}" for n in range(MAX_URLS + 5))))
    assert (len(many.pages), many.cut) == (MAX_URLS, 1)
    index = "".join(f"<sitemap><loc>{n % 9}.xml</loc></sitemap>" for n in range(20))
    few = parse(f"<sitemapindex>{index}</sitemapindex>", most=7)
    assert (len(few.sitemaps), few.cut) == (7, 4)
    long = "http://h.test/" + "x" * 20_000
    assert pages(urlset(long, ONE)) == pages(f"{long}\n{ONE}\n") == [ONE]


@pytest.mark.parametrize(
    "piece",
    [
        *("<", "<loc>", "<url>", "<loc>x</loc>", "<loc><", "<loc><!--x-->", "<loc>'\"<", "<image>", "&#65;"),
        *("<!--", "<![CDATA[", "<?", "<!DOCTYPE [", "<!DOCTYPE [<!--", '<!DOCTYPE a "', '<url a="', "<a '"),
        *("<" + "a" * 70 + ":", "a:", "http://h.test/\n", "\n", "\r \t", "<loc>" + "x" * 9_000),
    ],
)
def test_hostile_files_end_soon(piece: str) -> None:
    """Time grows with the length alone (a megabyte takes up to 0.4 s; the bound is lax)."""
    body = (piece * (300_000 // len(piece))).encode()
    start = time.process_time()
    parse(body)
    parse(b"<!DOCTYPE [" + body)
    parse(b"<url><loc>" + body)
    assert time.process_time() - start < 3


def test_html_in_its_place_is_no_sitemap() -> None:
    """A page that says "not found" with a 200 names nothing."""
    page = (
        f"<!DOCTYPE html><html><head><link href='{ONE}'><title>x</title></head><a href='{TWO}'>{THREE}</a>\n"
    )
    assert pages(page + THREE + "\n</html>") == []


def test_types() -> None:
    """XML, text, gzip and no type at all are worth reading; pictures and PDFs are not."""
    good = ["", "text/xml", "application/xml", "application/rss+xml", "text/plain", "text/html"]
    assert all(map(may_be_sitemap, [*good, "application/x-gzip", "application/octet-stream"]))
    assert not any(map(may_be_sitemap, ["image/png", "application/pdf", "video/mp4", "application/json"]))


@given(
    st.lists(
        st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x2FFF, exclude_categories=["Cs"]))
    )
)
def test_what_is_written_is_read(tails: list[str]) -> None:
    """Any address comes back as it was, once, through the escapes of XML and however much of it there is."""
    addresses = list(dict.fromkeys("http://h.test/" + tail.strip() for tail in tails))
    assert list(parse(urlset(*addresses)).pages) == addresses


FRAGMENTS = st.sampled_from(
    b"<urlset>|<sitemapindex>|<url>|</url>|<sitemap>|<loc>|</loc>|<s:loc|http://h.test/1|>|<![CDATA[|]]>|<!--|-->"
    b"|<!DOCTYPE|[|]|&amp;|&#x41;|<image:image>|<?xml |?>|\"|'|\n|\0|\xff\xfe|\xe9|\x1f\x8b".split(b"|")
)


@given(st.one_of(st.binary(max_size=400), st.lists(FRAGMENTS, max_size=60).map(b"".join)), st.booleans())
def test_nothing_raises(body: bytes, whole: bool) -> None:
    """Whatever comes, there is an answer within the bounds."""
    found = parse(body, whole=whole, most=2)
    assert len(found.sitemaps) <= 2
    parse(gzip.compress(body), whole=whole)
