"""What signing a request and reading a site's wishes cost: ``python -m tests.bench.per_request``.

Microseconds of CPU time a call, the least of nine rounds.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from node.rules.outcome import Outcome
from node.rules.request import target_of
from node.rules.robots import parse
from node.rules.usage_read import in_headers
from node.work.gateway_answer import no_answer
from node.work.http import Fetched
from node.work.said import said_in_page
from node.work.signing import Signer, make_key

US = "Milliarde"
HEADERS = tuple(
    (name.encode(), b"a value of ordinary length")
    for name in (
        *("Date", "Content-Type", "Transfer-Encoding", "Connection", "Vary", "Cache-Control", "ETag"),
        *("Strict-Transport-Security", "X-Frame-Options", "Set-Cookie", "CF-RAY", "Link", "Alt-Svc"),
        *("Expires", "Last-Modified", "X-Powered-By", "Server"),
    )
)
SIGNALS = ((b"Content-Usage", b"train-ai=n"), (b"TDM-Reservation", b"1"))
ROBOTS = b"User-agent: *\nDisallow: /x\nContent-Signal: search=yes, ai-train=no\n"
HEAD = b"<!doctype html><head><title>A page</title>" + b'<meta name="x" content="y">' * 20 + b"</head><body>"


def _us(call: Callable[[], object], rounds: int) -> float:
    return min(timeit.repeat(call, number=rounds, repeat=9, timer=time.process_time)) / rounds * 1e6


def _page(body: bytes, *headers: tuple[bytes, bytes]) -> Fetched:
    fetched = no_answer(Outcome.PAGE, "")
    fetched.headers, fetched.body = headers, body
    return fetched


def costs() -> Iterator[tuple[str, float]]:
    """(what, µs)."""
    with tempfile.TemporaryDirectory() as folder:
        signer = Signer(make_key(Path(folder) / "key.pem"), "https://bot.example.org", 300)
    target, minute = target_of("https://www.example.com/a"), count(1)
    yield "signing a request, made anew", _us(lambda: signer.lines(target, 1e9 + 300 * next(minute)), 1_000)
    yield "signing a request, signature kept", _us(lambda: signer.lines(target, 1e9), 20_000)
    yield "headers that say nothing of use", _us(lambda: in_headers(HEADERS, US), 5_000)
    yield "headers with two signals", _us(lambda: in_headers(HEADERS + SIGNALS, US), 5_000)
    silent, said = parse(b"User-agent: *\nDisallow: /x\n", US), parse(ROBOTS, US)
    paths = parse(ROBOTS + b"Content-Usage: /a train-ai=n\nContent-Usage: /b train-ai=n\n", US)
    yield "robots.txt that says nothing of use", _us(lambda: silent.said("/a"), 20_000)
    yield "robots.txt with a signal", _us(lambda: said.said("/a"), 20_000)
    yield "robots.txt with signals for two paths", _us(lambda: paths.said("/a"), 5_000)
    text = b"".join(
        b'<p class="c%d">Words and <a href="/%d">links</a></p>\n' % (n % 7, n) for n in range(3_000)
    )
    plain = _page(HEAD + text)
    packed = _page(gzip.compress(HEAD + text), (b"Content-Encoding", b"gzip"))
    yield "with a purpose: the head of a page", _us(lambda: said_in_page(plain, US), 500)
    yield "with a purpose: the head of a compressed page", _us(lambda: said_in_page(packed, US), 500)


def main() -> int:
    for what, us in costs():
        sys.stdout.write(f"{what:<48} {us:8.2f} µs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
