"""Answers that come slowly, never end, or are far too large."""

from __future__ import annotations

import asyncio
import zlib
from functools import cache

from tests.web.pages import small_page
from tests.web.wire import HTML, Exchange, head

FIRST_BYTE_SECONDS = 2.0
_BLOCK = b"<p>" + b"and so on, " * 5_800 + b"</p>\n"
_BLOCK_EVERY_SECONDS = 0.005
"""Endless bodies come at some 13 MB/s: more than any cap wants, less than would starve the others."""
GIANT_BYTES = 30_000_000
BOMB_BYTES = 100_000_000


async def slow(x: Exchange) -> None:
    """First byte after two seconds, or after as many as ``/wait/SECONDS`` says."""
    steps = x.request.steps
    seconds = FIRST_BYTE_SECONDS
    if len(steps) == 2 and steps[0] == "wait":
        try:
            seconds = min(float(steps[1]), 3600.0)
        except ValueError:
            await x.answer(404, small_page("Not found"))
            return
    await asyncio.sleep(seconds)
    await x.answer(200, small_page("Slow", ("/wait/0.5", "/wait/1", "/wait/3")))


async def drip(x: Exchange) -> None:
    """A body of one byte a second for ever; ``/head`` starts dripping within the head."""
    start = head(200, (("Content-Type", HTML), ("Content-Length", "1000000")))
    links = small_page("Drip", ("/head",))
    if x.request.path == "/head":
        await x.send(b"HTTP/1.1 200 OK\r\nX-Drip: ", 200)
    else:
        await x.send(start + links, 200)
    while True:
        await x.send(b".")
        await asyncio.sleep(1)


async def endless(x: Exchange) -> None:
    """An HTML body without end, without a declared length."""
    await _endless(x, HTML, small_page("Endless", ("/other",)) + _BLOCK, _BLOCK)


async def endless_audio(x: Exchange) -> None:
    """A radio station: audio/mpeg without end; the home page links to it."""
    if x.request.path == "/":
        await x.answer(200, small_page("Radio", ("/live.mp3",)))
        return
    frame = bytes.fromhex("fffb9064") + bytes(413)
    await _endless(x, "audio/mpeg", frame, frame * 40)


async def _endless(x: Exchange, kind: str, first: bytes, block: bytes) -> None:
    await x.send(head(200, (("Content-Type", kind), ("Connection", "close"))) + first, 200)
    while True:
        await x.send(block)
        await asyncio.sleep(_BLOCK_EVERY_SECONDS)


async def giant(x: Exchange) -> None:
    """A page of 30 MB with one link at its beginning and one at its end."""
    if x.request.path == "/":
        await giant_body(x, GIANT_BYTES)
    else:
        await x.answer(200, small_page(x.request.path))


async def giant_body(x: Exchange, size: int) -> None:
    """``size`` bytes of HTML: a link to /early at the start, one to /late just before the end."""
    start, end = small_page("Giant", ("/early",)), b'<p><a href="/late">late</a></p>\n'
    await x.send(
        head(200, (("Content-Type", HTML), ("Content-Length", str(size)), ("Connection", "close"))), 200
    )
    if x.request.method == "HEAD":
        return
    left = size - len(start) - len(end)
    await x.send(start)
    while left > 0:
        await x.send(_BLOCK[:left])
        left -= min(left, len(_BLOCK))
        await asyncio.sleep(0)
    await x.send(end)


@cache
def _bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1_000_000)
    return b"".join(packer.compress(zeros) for _ in range(BOMB_BYTES // len(zeros))) + packer.flush()


async def bomb(x: Exchange) -> None:
    """100 KB of gzip that hold 100 MB of zeros; ``/nested`` is that within another gzip."""
    body = await asyncio.to_thread(_bomb)
    if x.request.path == "/nested":
        await x.answer(200, zlib.compress(body, wbits=31), coding="gzip, gzip")
    else:
        await x.answer(200, body, coding="gzip")
