"""Our client against servers that nobody here wrote: httpbin, and that of the web-platform-tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import uvloop

from node.rules.connect_to import ConnectTo
from node.rules.outcome import Outcome
from node.store.decode import decode_body
from node.work.http import Client, Fetched, content_encoding, location
from node.work.resolve import Resolver
from node.work.tls import TlsContexts
from tests.work.strangers import stranger

SLOW_S = 0.6
"""A deadline that is meant to be hit."""
LARGE = b"<p>" + b"a" * 100_000


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Both servers, as hosts of their names."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "page.html").write_bytes(b"<p>hello, world")
    (folder / "large.html").write_bytes(LARGE)
    (folder / "song.mp3").write_bytes(b"\xff\xfb" * 50_000)
    (folder / "odd.asis").write_bytes(
        b"HTTP/1.1 200\r\nContent-Type: text/html\r\nX-Odd: \xff\x01\r\nno header\r\n\r\n<p>as it is"
    )
    (folder / "raw-location.asis").write_bytes(
        b"HTTP/1.1 302 Moved\r\nLocation: /\xc3\xa4\r\nLocation: /b\r\n\r\n"
    )
    (folder / "short.asis").write_bytes(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<p>short"
    )
    (folder / "garbage.asis").write_bytes(b"\x00\x01 no HTTP\r\n\r\n")
    (folder / "huge-head.asis").write_bytes(
        b"HTTP/1.1 200 OK\r\n" + b"X-More: and more\r\n" * 5_000 + b"\r\n<p>"
    )
    with stranger("httpbin", folder) as httpbin, stranger("wptserve", folder) as wptserve:
        yield {"httpbin.test": httpbin, "wpt.test": wptserve}


def fetch(ports: dict[str, int], url: str, *, deadline_s: float = 20.0, cap: int = 1 << 20) -> Fetched:
    """One request as a fetcher makes it."""

    async def main() -> Fetched:
        rules = [f"{host}::127.0.0.1:{port}" for host, port in ports.items()]
        client = Client(
            user_agent="Test/1.0 (+http://me.test/)",
            tls=TlsContexts(verify=False),
            resolver=Resolver(connect_to=ConnectTo(rules)),
        )
        try:
            return await client.fetch(
                f"http://{url}",
                deadline_s=deadline_s,
                max_wire_bytes=cap,
                accept=lambda kind: kind is None or not kind.startswith(("audio/", "image/")),
            )
        finally:
            await client.close()

    return uvloop.run(main())


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/html", Outcome.PAGE),
        ("/image/png", Outcome.UNWANTED_TYPE),
        ("/deny", Outcome.PAGE),
        *((f"/status/{code}", Outcome.PAGE) for code in (200, 201, 203, 206)),
        ("/status/204", Outcome.NO_CONTENT),
        *((f"/status/{code}", Outcome.REDIRECTED) for code in (301, 302, 303, 307)),
        ("/status/304", Outcome.NO_CONTENT),
        ("/status/400", Outcome.CLIENT_ERROR),
        ("/status/401", Outcome.UNAUTHORIZED),
        ("/status/402", Outcome.PAYMENT_REQUIRED),
        ("/status/403", Outcome.FORBIDDEN),
        ("/status/404", Outcome.NOT_FOUND),
        ("/status/410", Outcome.GONE),
        ("/status/418", Outcome.CLIENT_ERROR),
        ("/status/429", Outcome.RATE_LIMITED),
        ("/status/500", Outcome.SERVER_ERROR),
        ("/status/503", Outcome.UNAVAILABLE),
        ("/basic-auth/user/password", Outcome.UNAUTHORIZED),
    ],
)
def test_httpbin_statuses(ports: dict[str, int], path: str, outcome: Outcome) -> None:
    """Statuses and types as a service that all clients are tested with sends them."""
    fetched = fetch(ports, f"httpbin.test{path}")
    body_expected = outcome is Outcome.PAGE and path in ("/html", "/deny")
    assert (fetched.outcome, fetched.truncated) == (outcome, None)
    assert bool(fetched.body) or not body_expected


@pytest.mark.parametrize(
    ("path", "coding", "says"),
    [
        ("/gzip", "gzip", b'"gzipped": true'),
        ("/deflate", "deflate", b'"deflated": true'),
        ("/brotli", "br", b'"brotli": true'),
    ],
)
def test_httpbin_codings(ports: dict[str, int], path: str, coding: str, says: bytes) -> None:
    """Bodies come back as received; we undo their coding, two of them never asked for."""
    fetched = fetch(ports, f"httpbin.test{path}")
    assert (fetched.outcome, content_encoding(fetched)) == (Outcome.PAGE, coding)
    assert says in decode_body(fetched.body, coding, 100_000).body


def test_httpbin_redirects_are_told_and_not_followed(ports: dict[str, int]) -> None:
    """Relative and absolute targets come back as they were written, for the visit to judge."""
    assert location(fetch(ports, "httpbin.test/relative-redirect/3")) == "/relative-redirect/2"
    absolute = fetch(ports, "httpbin.test/absolute-redirect/2")
    assert location(absolute) == "http://httpbin.test/absolute-redirect/1"
    assert absolute.outcome is Outcome.REDIRECTED


def test_httpbin_streams_and_ranges(ports: dict[str, int]) -> None:
    """Chunks, ranges and bytes of any length arrive whole."""
    assert len(fetch(ports, "httpbin.test/stream-bytes/50000?chunk_size=7").body) == 50_000
    assert len(fetch(ports, "httpbin.test/range/9000?chunk_size=100&duration=0").body) == 9_000
    assert fetch(ports, "httpbin.test/stream/20").body.count(b"\n") == 20


def test_httpbin_waits(ports: dict[str, int]) -> None:
    """Late headers and a dripping body end at the total deadline, under the name for it."""
    late = fetch(ports, "httpbin.test/delay/8", deadline_s=SLOW_S)
    assert (late.outcome, late.status) == (Outcome.TIMEOUT, None)
    drip = fetch(ports, "httpbin.test/drip?duration=8&numbytes=40&delay=0", deadline_s=2.0)
    assert (drip.outcome, drip.status, drip.truncated) == (Outcome.PAGE, 200, "time")
    assert 1 <= len(drip.body) < 40


def test_wptserve_pages(ports: dict[str, int]) -> None:
    """A plain file, one whose length nobody tells, one that is packed; a type that nobody wants."""
    plain = fetch(ports, "wpt.test/page.html")
    assert (plain.outcome, plain.body, plain.truncated) == (Outcome.PAGE, b"<p>hello, world", None)
    packed = fetch(ports, "wpt.test/page.html?pipe=gzip")
    assert content_encoding(packed) == "gzip"
    assert decode_body(packed.body, "gzip", 1_000).body == b"<p>hello, world"
    assert fetch(ports, "wpt.test/song.mp3").outcome is Outcome.UNWANTED_TYPE
    assert fetch(ports, "wpt.test/missing.html").outcome is Outcome.NOT_FOUND
    assert fetch(ports, "wpt.test/page.html?pipe=status(451)").outcome is Outcome.CLIENT_ERROR


def test_wptserve_trickles(ports: dict[str, int]) -> None:
    """A body in pieces with pauses is whole where there is time, and cut and marked where there is not."""
    whole = fetch(ports, "wpt.test/page.html?pipe=trickle(3:d0.02:r2)")
    assert (whole.body, whole.truncated) == (b"<p>hello, world", None)
    cut = fetch(ports, "wpt.test/page.html?pipe=trickle(3:d3:r2)", deadline_s=1.5)
    assert (cut.outcome, cut.body, cut.truncated) == (Outcome.PAGE, b"<p>", "time")
    late = fetch(ports, "wpt.test/page.html?pipe=trickle(d5)", deadline_s=SLOW_S)
    assert late.outcome is Outcome.TIMEOUT


def test_wptserve_over_the_cap(ports: dict[str, int]) -> None:
    """A page larger than the cap is kept up to it, marked."""
    fetched = fetch(ports, "wpt.test/large.html", cap=50_000)
    assert (fetched.outcome, fetched.body, fetched.truncated) == (Outcome.PAGE, LARGE[:50_000], "length")


def test_wptserve_odd_heads(ports: dict[str, int]) -> None:
    """Heads as they are: what can be read is, what is none is named, and so is too much of it."""
    odd = fetch(ports, "wpt.test/odd.asis")
    assert (odd.outcome, odd.body) == (Outcome.PAGE, b"<p>as it is")
    assert "x-odd" in odd.detail
    moved = fetch(ports, "wpt.test/raw-location.asis")
    assert (moved.outcome, location(moved)) == (Outcome.REDIRECTED, "/ä")
    short = fetch(ports, "wpt.test/short.asis")
    assert (short.outcome, short.body, short.truncated) == (Outcome.PAGE, b"<p>short", "disconnect")
    assert fetch(ports, "wpt.test/garbage.asis").outcome is Outcome.MALFORMED_HTTP
    assert fetch(ports, "wpt.test/huge-head.asis").outcome is Outcome.MALFORMED_HTTP
