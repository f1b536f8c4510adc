"""What is in the body: other types, other encodings, and pages that say how they want to be read."""

from __future__ import annotations

import zlib
from urllib.parse import quote

from tests.web.pages import sentences, small_page
from tests.web.shape import generator
from tests.web.wire import Exchange

_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
_PDF += b"trailer<</Root 1 0 R>>\n%%EOF\n"


def _png() -> bytes:
    def part(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    header = part(b"IHDR", (1).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0)))
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(bytes(4))) + part(b"IEND", b"")


def pdf(title: str) -> bytes:
    """A tiny PDF."""
    return _PDF + b"% " + title.encode() + b"\n"


_FILES: dict[str, tuple[str | None, bytes]] = {
    "/paper.pdf": ("application/pdf", pdf("paper")),
    "/picture.png": ("image/png", _png()),
    "/data.json": ("application/json", b'{"link": "https://wrongtype.test/from-json"}\n'),
    "/notes.txt": ("text/plain", b"https://wrongtype.test/from-text\n"),
    "/style.css": ("text/css", b"a { background: url(/from-css) }\n"),
    "/page.bin": ("application/octet-stream", small_page("Says it isn't HTML", ("/from-binary",))),
    "/notype": (None, small_page("No Content-Type", ("/from-notype",))),
    "/strict.xhtml": ("application/xhtml+xml", small_page("XHTML", ("/from-xhtml",))),
    "/SHOUTING": ("TEXT/HTML;CHARSET=UTF-8", small_page("Loud", ("/from-shouting",))),
    "/picture.html": ("text/html", _png()),
    "/empty": ("text/html", b""),
}


async def wrong_type(x: Exchange) -> None:
    """Files of many types, some mislabelled; the home page links to them all."""
    path = x.request.path
    if path in _FILES:
        kind, body = _FILES[path]
        await x.answer(200, body, kind=kind)
    elif path == "/":
        await x.answer(200, small_page("Types", tuple(_FILES)))
    elif path in ("/from-xhtml", "/from-notype", "/from-shouting"):
        await x.answer(200, small_page(path))
    else:
        await x.answer(404, small_page("Not found"))


_ENCODED = {
    "sjis.test": (
        "shift_jis",
        "日本語のページ",
        "東京の天気",
        "今日は良い天気ですね。明日も晴れるでしょう。",
    ),
    "euckr.test": ("euc-kr", "한국어 페이지", "서울 날씨", "오늘은 날씨가 좋습니다. 내일도 맑겠습니다."),
    "windows1251.test": (
        "windows-1251",
        "Русская страница",
        "Погода",
        "Сегодня хорошая погода, и завтра тоже.",
    ),
    "gbk.test": ("gbk", "中文网页", "北京天气", "今天天气很好，明天也是晴天。朱镕基。"),
}
"""Host -> encoding, title, the word in its links, some text."""


def encoded_targets(host: str) -> tuple[str, str]:
    """The two targets that the home page of an encoded site links to, as a browser asks for them.

    A path is percent-encoded as UTF-8, a query in the encoding of the page (URL standard, section
    on the query state).
    """
    codec, _, word, _ = _ENCODED[host]
    return f"/{quote(word, safe='')}/1.html", f"/find?q={quote(word, safe='', encoding=codec)}"


async def encoded(x: Exchange) -> None:
    """A site in a legacy encoding, declared in the header, in a meta, the old way, or (gbk) not at all."""
    host = x.request.host.removeprefix("www.")
    codec, title, word, text = _ENCODED[host]
    if x.request.target == "/":
        links = f'<a href="/{word}/1.html">{word}</a> <a href="/find?q={word}">{word}</a>'
    elif x.request.target in encoded_targets(host):
        links = '<a href="/">home</a>'
    else:
        await x.answer(404, small_page("Not found"))
        return
    meta = {
        "euc-kr": '<meta charset="euc-kr">',
        "windows-1251": '<meta content="text/html; charset=windows-1251" http-equiv=Content-Type>',
    }.get(codec, "")
    kind = "text/html; charset=Shift_JIS" if codec == "shift_jis" else "text/html"
    top = f"<!DOCTYPE html><html><head>{meta}<title>{title}</title></head>"
    page = f"{top}<body><p>{text * 8}</p>{links}</body></html>\n"
    await x.answer(200, page.encode(codec), kind=kind)


async def nofollow(x: Exchange) -> None:
    """Links with ``rel=nofollow`` lead to /hidden/, the one without to /open."""
    if x.request.path == "/":
        page = (
            '<!DOCTYPE html><title>Nofollow</title><a rel="nofollow" href="/hidden/1">1</a>'
            '<a href="/hidden/2" rel="external NoFollow noopener">2</a><a href="/open">3</a>\n'
        )
        await x.answer(200, page.encode())
    else:
        await x.answer(200, small_page(x.request.path))


_META = {
    "/nofollow": ('<meta name="robots" content="nofollow">', ""),
    "/none": ('<META NAME="ROBOTS" CONTENT="none">', ""),
    "/noindex": ('<meta name="robots" content="noindex, follow">', ""),
    "/header-nofollow": ("", "nofollow"),
    "/header-noindex": ("", "noindex"),
    "/other-bot": ('<meta name="otherbot" content="nofollow">', "otherbot: nofollow"),
}


async def meta_robots(x: Exchange) -> None:
    """Pages with robots instructions in a meta or in X-Robots-Tag; each links to ``/after`` + its path."""
    path = x.request.path
    if path in _META:
        meta, header = _META[path]
        if header:
            x.header("X-Robots-Tag", header)
        await x.answer(200, small_page(path, (f"/after{path}",), head=meta))
    elif path == "/":
        await x.answer(200, small_page("Meta robots", tuple(_META)))
    else:
        await x.answer(200, small_page(path))


async def base(x: Exchange) -> None:
    """Relative links with a ``<base href>``: right ones are under /deep/folder/, wrong ones are not there."""
    match x.request.path:
        case "/":
            fake = '<!-- <base href="/wrong/"> --><script>"<base href=\'/wrong/\'>"</script>'
            real = '<base href="/deep/folder/"><base href="/second/">'
            await x.answer(
                200, small_page("Base", ("page.html", "../up.html", "/root.html"), head=fake + real)
            )
        case "/deep/folder/page.html" | "/deep/up.html" | "/root.html" as path:
            await x.answer(200, small_page(path))
        case _:
            await x.answer(404, small_page("Not found"))


async def big(x: Exchange) -> None:
    """One page with 5,000 different links, each to a small page."""
    if x.request.path == "/":
        text = sentences(generator("many"), 20)
        await x.answer_compressed(200, small_page("Links", tuple(f"/n/{n}" for n in range(5000)), text=text))
    elif len(x.request.steps) == 2 and x.request.steps[0] == "n":
        await x.answer(200, small_page(x.request.path))
    else:
        await x.answer(404, small_page("Not found"))
