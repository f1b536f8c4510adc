"""Answers that break HTTP: cut off, mislabelled, contradicting themselves."""

from __future__ import annotations

import asyncio

import brotli
import zstandard

from tests.web.pages import compress, small_page
from tests.web.wire import HTML, Exchange, chunks, head

_TYPE = ("Content-Type", HTML)
_CLOSE = ("Connection", "close")
_FILLING = b"<p>Some more text, to make it longer.</p>\n" * 250


async def reset(x: Exchange) -> None:
    """A TCP RST after ten of fifty promised kilobytes."""
    await x.send(head(200, (_TYPE, ("Content-Length", "50000"))), 200)
    await x.send((small_page("Reset", ("/again",)) + _FILLING)[:10_000])
    await asyncio.sleep(0.05)  # so that the bytes are read before the reset throws them away
    x.reset()


async def truncated(x: Exchange) -> None:
    """A Content-Length of 50,000, a tenth of it, and a clean end of the connection."""
    body = small_page("Truncated", ("/page",)) + _FILLING
    await x.send(head(200, (_TYPE, ("Content-Length", "50000"), _CLOSE)) + body[:5000], 200)


async def no_chunk_end(x: Exchange) -> None:
    """Chunked without the last chunk; ``/bad-size`` has a chunk size that is no number."""
    body = small_page("No end", ("/bad-size",)) + _FILLING
    coded = chunks(body, end=False)
    if x.request.path == "/bad-size":
        coded += b"zzz\r\nrubbish\r\n0\r\n\r\n"
    await x.send(head(200, (_TYPE, ("Transfer-Encoding", "chunked"), _CLOSE)) + coded, 200)


_MALFORMED = (
    "/garbage",
    "/content-length/abc",
    "/content-length/-1",
    "/content-length/12%00",
    "/content-length/99999999999999999999",
    "/double-content-length",
    "/length-and-chunked",
    "/control-in-header",
    "/no-reason",
    "/no-status",
    "/http-2",
    "/folded",
    "/bare-lf",
    "/nothing",
)


async def malformed(x: Exchange) -> None:
    """Heads that a strict parser refuses, one a path; the home page is proper and links to them."""
    body = small_page(f"Malformed {x.request.path}")
    size = ("Content-Length", str(len(body)))
    steps = x.request.steps
    match steps:
        case ["content-length", value]:
            await x.send(
                head(200, (_TYPE, _CLOSE))[:-2] + f"Content-Length: {value}\r\n\r\n".encode() + body, 200
            )
        case ["garbage"]:
            await x.send(b"\x00\x01\xfe\xff this is not HTTP\r\n\r\n" + body)
        case ["double-content-length"]:
            await x.send(head(200, (_TYPE, size, ("Content-Length", str(len(body) + 7)), _CLOSE)) + body, 200)
        case ["length-and-chunked"]:
            await x.send(
                head(200, (_TYPE, size, ("Transfer-Encoding", "chunked"), _CLOSE)) + chunks(body), 200
            )
        case ["control-in-header"]:
            await x.send(head(200, (_TYPE, size, ("Set-Cookie", "a=\x01b"), _CLOSE)) + body, 200)
        case ["no-reason"]:
            await x.send(head(200, (_TYPE, size, _CLOSE)).replace(b" OK\r\n", b"\r\n", 1) + body, 200)
        case ["no-status"]:
            await x.send(body)
        case ["http-2"]:
            await x.send(head(200, (_TYPE, size, _CLOSE)).replace(b"HTTP/1.1", b"HTTP/2", 1) + body, 200)
        case ["folded"]:
            await x.send(head(200, (_TYPE, size, ("X-Long", "one\r\n two"), _CLOSE)) + body, 200)
        case ["bare-lf"]:
            await x.send(head(200, (_TYPE, size, _CLOSE)).replace(b"\r\n", b"\n") + body, 200)
        case ["nothing"]:
            await x.send(b"")
        case [""]:
            await x.answer(200, small_page("Malformed", _MALFORMED))
        case _:
            await x.answer(404, small_page("Not found"))


async def big_headers(x: Exchange) -> None:
    """20 KB of headers: forty of them; one (``/one``); or more and more (``/endless``)."""
    body = small_page("Big headers", ("/one", "/endless"))
    if x.request.path == "/one":
        x.header("Content-Security-Policy", "default-src " + "https://cdn.test " * 1200)
    elif x.request.path == "/endless":
        await x.send(b"HTTP/1.1 200 OK\r\n", 200)
        while True:
            await x.send(b"X-More: and more\r\n" * 500)
            await asyncio.sleep(0.01)
    else:
        for number in range(40):
            x.header(f"X-Filling-{number}", "so much to say " * 34)
    await x.answer(200, body)


async def not_gzip(x: Exchange) -> None:
    """Labelled gzip, and plain; ``/cut`` is gzip that ends in the middle."""
    body = small_page("Not gzip", ("/cut",))
    if x.request.path == "/cut":
        packed = compress(small_page("Cut", ("/kept",)) + _FILLING + bytes(range(256)) * 8)
        await x.send(
            head(200, (_TYPE, ("Content-Encoding", "gzip"), ("Content-Length", "90000"), _CLOSE)), 200
        )
        await x.send(packed[: len(packed) * 2 // 3])
    else:
        await x.answer(200, body, coding="gzip")


async def brotli_unasked(x: Exchange) -> None:
    """Brotli, whatever the client accepts; ``/zstd`` likewise."""
    body = small_page("Unasked coding", ("/zstd",))
    if x.request.path == "/zstd":
        await x.answer(200, zstandard.ZstdCompressor().compress(body), coding="zstd")
    else:
        await x.answer(200, brotli.compress(body), coding="br")
