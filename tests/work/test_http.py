"""One request and one response against servers that play bytes: every end of it has a name."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from node.rules.connect_to import ConnectTo
from node.rules.outcome import Outcome
from node.work.answer import Answer
from node.work.connect import Connection
from node.work.http import Client, Fetched, content_encoding, content_type, header_values, location
from node.work.resolve import Resolver
from node.work.tls import TlsContexts
from tests.work.net import Authority, Exchange, Script, Server, dead_port, plays

OK = b"HTTP/1.1 200 OK\r\n"
HTML = b"Content-Type: text/html\r\n"
SOON_S = 0.25
"""A deadline that is meant to be hit."""


def wants_html(kind: str | None) -> bool:
    return kind is None or kind.startswith("text/html")


@asynccontextmanager
async def client_for(*servers: Server, **options: float) -> AsyncIterator[Client]:
    """A client for which h1.test is the first server, h2.test the second ..."""
    rules = [f"h{n}.test::127.0.0.1:{server.port}" for n, server in enumerate(servers, 1)]
    client = Client(
        user_agent="Test/1.0 (+http://me.test/)",
        tls=TlsContexts(verify=False),
        resolver=Resolver(connect_to=ConnectTo(rules)),
        **options,  # type: ignore[arg-type]
    )
    try:
        yield client
    finally:
        await client.close()


def fetch(script: Script, url: str = "http://h1.test/p", **how: object) -> Fetched:
    """What a client of its own makes of ``script``, under uvloop as in production."""

    async def main() -> Fetched:
        async with client_for(server) as client:
            options = {"deadline_s": 5.0, "max_wire_bytes": 1 << 20, "accept": wants_html} | how
            return await client.fetch(url, **options)  # type: ignore[arg-type]

    with Server(script) as server:
        return uvloop.run(main())


def page(body: bytes = b"<p>hello</p>", head: bytes = b"") -> bytes:
    return OK + HTML + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


# -- what is sent, what comes back


def test_a_page() -> None:
    """A page comes back as it was sent, with all that the archive and the log want to know."""
    got: list[bytes] = []

    def script(exchange: Exchange) -> None:
        got.append(exchange.request)
        exchange.send(page(head=b"X-Raw: \xe4\r\nContent-Encoding: GZIP\r\n"))

    fetched = fetch(script, "http://h1.test/a?b=c", cookies="k=v")
    assert fetched.outcome is Outcome.PAGE
    assert (fetched.status, fetched.reason, fetched.http_version) == (200, "OK", "1.1")
    assert fetched.body == b"<p>hello</p>"
    assert fetched.headers == (
        (b"Content-Type", b"text/html"),
        (b"X-Raw", b"\xe4"),
        (b"Content-Encoding", b"GZIP"),
        (b"Content-Length", b"12"),
    )
    assert (content_type(fetched), content_encoding(fetched)) == ("text/html", "gzip")
    assert header_values(fetched, b"x-raw") == ["ä"]
    assert (fetched.truncated, fetched.detail, fetched.ip) == (None, "", "127.0.0.1")
    assert fetched.wire_bytes == len(page(head=b"X-Raw: \xe4\r\nContent-Encoding: GZIP\r\n"))
    assert 0 <= fetched.connect_ms <= fetched.ttfb_ms <= fetched.total_ms < 5_000
    assert got == [fetched.request]
    assert fetched.request == (
        b"GET /a?b=c HTTP/1.1\r\nHost: h1.test\r\nCookie: k=v\r\nUser-Agent: Test/1.0 (+http://me.test/)\r\n"
        b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.1\r\n"
        b"Accept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    )


def test_chunked() -> None:
    """Chunked coding is undone, however the pieces arrive; trailers and extensions don't disturb."""
    head = OK + HTML + b"Transfer-Encoding: chunked\r\n\r\n"
    whole = head + b"5;x=y\r\nhello\r\n1 \r\n \r\n5\r\nworld\r\n0\r\nX-Trailer: 1\r\n\r\n"
    in_bytes = [whole[at : at + 1] for at in range(len(whole))]
    for parts in ([whole], in_bytes):
        fetched = fetch(plays(*parts))
        assert (fetched.outcome, fetched.body, fetched.truncated) == (Outcome.PAGE, b"hello world", None)


def test_until_close() -> None:
    """Without a length the body lasts until the connection closes."""
    fetched = fetch(plays(b"HTTP/1.0 200 OK\r\n\r\n", b"<p>", b"hello"))
    assert (fetched.outcome, fetched.body, fetched.http_version) == (Outcome.PAGE, b"<p>hello", "1.0")
    assert fetched.truncated is None


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (b"204 No Content", Outcome.NO_CONTENT),
        (b"304 Not Modified", Outcome.NO_CONTENT),
        (b"404 Not Found", Outcome.NOT_FOUND),
        (b"429 Slow Down", Outcome.RATE_LIMITED),
        (b"503 Busy", Outcome.UNAVAILABLE),
        (b"999 Denied", Outcome.MALFORMED_HTTP),
        (b"000 Nothing", Outcome.MALFORMED_HTTP),
        (b"101 Switching Protocols", Outcome.MALFORMED_HTTP),
    ],
)
def test_statuses(status: bytes, outcome: Outcome) -> None:
    """The table of outcomes judges the status, also the odd ones."""
    assert fetch(plays(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")).outcome is outcome


def test_informational() -> None:
    """Answers of the 1xx kind come before the real one and are skipped."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    for parts in ([early + page()], [early, page()]):
        fetched = fetch(plays(*parts))
        assert (fetched.status, fetched.body) == (200, b"<p>hello</p>")


def test_redirects() -> None:
    """No redirect is followed; where it points is read from the first Location, or is nowhere (N13, N14)."""
    fetched = fetch(
        plays(b"HTTP/1.1 302 Found\r\nLocation: /\xc3\xa4\r\nLocation: /b\r\nContent-Length: 2\r\n\r\nhi")
    )
    assert (fetched.outcome, location(fetched), fetched.body) == (Outcome.REDIRECTED, "/ä", b"hi")
    fetched = fetch(plays(b"HTTP/1.1 302 Found\r\nContent-Length: 4\r\n\r\nbody"))
    assert (fetched.outcome, location(fetched), fetched.body) == (Outcome.REDIRECTED, None, b"body")


# -- bytes that no standard allows


@pytest.mark.parametrize("line", [b"HTTP/1.1 200\r\n", b"HTTP/1.1 200 \r\n", b"\r\nHTTP/1.1 200 OK\r\n"])
def test_status_line_without_reason(line: bytes) -> None:
    """A status line without reason is accepted (N22)."""
    fetched = fetch(plays(line + HTML + b"Content-Length: 2\r\n\r\nhi"))
    assert (fetched.outcome, fetched.status, fetched.body) == (Outcome.PAGE, 200, b"hi")


@pytest.mark.parametrize("bad", [b"\x01", b"\x00", b"\x7f"])
def test_control_character_in_a_header(bad: bytes) -> None:
    """The header goes, the page stays, and the detail names the header (N05)."""
    fetched = fetch(plays(page(head=b"Set-Cookie: a" + bad + b"b\r\n")))
    assert (fetched.outcome, fetched.body) == (Outcome.PAGE, b"<p>hello</p>")
    assert b"Set-Cookie" not in dict(fetched.headers)
    assert fetched.detail == "dropped: set-cookie"


@pytest.mark.parametrize(
    "length", [b"12\x00", b"abc", b"-1", b"99999999999999999999", b"", b"5\r\nContent-Length: 6"]
)
def test_garbage_in_content_length(length: bytes) -> None:
    """A length that is none is ignored, and the body is read to the close (N07)."""
    fetched = fetch(plays(OK + HTML + b"Content-Length: " + length + b"\r\n\r\n", b"<p>hello"))
    assert (fetched.outcome, fetched.body, fetched.truncated) == (Outcome.PAGE, b"<p>hello", None)
    assert fetched.detail == "dropped: content-length"


def test_garbage_length_is_still_capped() -> None:
    """Reading to the close obeys the cap like everything else (N07)."""

    def script(exchange: Exchange) -> None:
        exchange.send(OK + HTML + b"Content-Length: x\r\n\r\n")
        exchange.pour(b"x" * 1_000)

    fetched = fetch(script, max_wire_bytes=5_000)
    assert (len(fetched.body), fetched.truncated) == (5_000, "length")


@pytest.mark.parametrize(
    "response",
    [
        OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"Content-Length: 500\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"no header at all\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"Content-Length: 5\r\n\r\nhello and more than was said",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n: x\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"Content-Length: 3\r\n\r\nbye",
    ],
)
@pytest.mark.parametrize("pieces", ["whole", "single bytes"])
def test_what_browsers_read(response: bytes, pieces: str) -> None:
    """Faults that every browser reads past don't cost us the page, however they arrive."""
    parts = [response] if pieces == "whole" else [response[at : at + 1] for at in range(len(response))]
    fetched = fetch(plays(*parts))
    assert (fetched.outcome, fetched.body, fetched.truncated) == (Outcome.PAGE, b"hello", None)


@pytest.mark.parametrize(
    "response",
    [
        b"<html>no head</html>\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02F" + b"\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_not_http(response: bytes) -> None:
    """What can't be read as HTTP is malformed_http, by name and with a detail."""
    fetched = fetch(plays(response))
    assert fetched.outcome is Outcome.MALFORMED_HTTP
    assert fetched.detail
    assert fetched.body == b""


def test_large_headers() -> None:
    """Headers of 20 KB are read; endless ones are cut and named, also when they drip."""
    fetched = fetch(plays(page(head=b"X-Big: " + b"x" * 20_000 + b"\r\n")))
    assert fetched.outcome is Outcome.PAGE
    assert len(dict(fetched.headers)[b"X-Big"]) == 20_000

    def endless(exchange: Exchange) -> None:
        exchange.send(OK)
        exchange.pour(b"X-More: " + b"x" * 500 + b"\r\n")

    fetched = fetch(endless)
    assert fetched.outcome is Outcome.MALFORMED_HTTP
    assert "headers" in fetched.detail


# -- answers that end too early, too late, or never


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (OK + HTML + b"Content-Length: 5000\r\n\r\n" + b"x" * 900, b"x" * 900),
        (OK + HTML + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"hello"),
        (OK + HTML + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", b"hel"),
        (OK + HTML + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nmore", b"hello"),
    ],
)
def test_body_ends_early(sent: bytes, body: bytes) -> None:
    """What came of a body is kept and flagged: wrong length, no last chunk (N01, N02)."""
    fetched = fetch(plays(sent))
    assert (fetched.outcome, fetched.body, fetched.truncated) == (Outcome.PAGE, body, "disconnect")
    assert fetched.detail


def test_body_ends_by_reset() -> None:
    """A reset within a body that lasts until the close is no ordinary end."""

    read = threading.Event()

    def script(exchange: Exchange) -> None:
        exchange.send(OK + HTML + b"\r\n<p>hello")
        read.wait(5)
        exchange.reset()

    def accept(_kind: str | None) -> bool:
        read.set()  # what is not read yet would go with the reset
        return True

    fetched = fetch(script, accept=accept)
    assert (fetched.outcome, fetched.body, fetched.truncated) == (Outcome.PAGE, b"<p>hello", "disconnect")


def test_no_body_at_all() -> None:
    """A page of which nothing came is not a page; a status alone is worth keeping."""
    fetched = fetch(plays(OK + HTML + b"Content-Length: 10\r\n\r\n"))
    assert (fetched.outcome, fetched.status) == (Outcome.DISCONNECTED, 200)
    fetched = fetch(plays(b"HTTP/1.1 404 No\r\nContent-Length: 10\r\n\r\n"))
    assert (fetched.outcome, fetched.truncated) == (Outcome.NOT_FOUND, "disconnect")


@pytest.mark.parametrize("sent", [b"", b"HT", OK + b"Content-Ty"])
def test_closed_before_an_answer(sent: bytes) -> None:
    """A connection closed before the headers are complete is disconnected."""
    fetched = fetch(plays(sent))
    assert (fetched.outcome, fetched.status) == (Outcome.DISCONNECTED, None)
    assert "closed" in fetched.detail


def test_reset_before_an_answer() -> None:
    """So is one that is reset."""
    fetched = fetch(lambda exchange: exchange.reset())
    assert fetched.outcome is Outcome.DISCONNECTED


def test_cut_at_the_cap() -> None:
    """A body is cut at the cap and kept, and the connection is closed on an endless one (N19)."""
    ended: list[bool] = []

    def script(exchange: Exchange) -> None:
        exchange.send(OK + HTML + b"\r\n")
        exchange.pour(b"x" * 4_096)
        ended.append(True)

    fetched = fetch(script, max_wire_bytes=100_000)
    assert (fetched.outcome, len(fetched.body), fetched.truncated) == (Outcome.PAGE, 100_000, "length")
    assert fetched.wire_bytes < 1_000_000
    assert ended == [True]


def test_exactly_the_cap() -> None:
    """A body of exactly the cap is whole."""
    fetched = fetch(plays(page(b"x" * 1_000)), max_wire_bytes=1_000)
    assert (len(fetched.body), fetched.truncated) == (1_000, None)


@pytest.mark.parametrize("endless", [b"1;" + b"x" * 4_096, b"0\r\n" + b"X-Trailer: y\r\n" * 300])
def test_framing_is_capped(endless: bytes) -> None:
    """Chunk extensions and trailers without end are no way round the cap."""

    def script(exchange: Exchange) -> None:
        exchange.send(OK + HTML + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + endless)
        exchange.pour(b"x" * 512 if endless[:1] == b"1" else b"X: y\r\n" * 64)

    fetched = fetch(script, max_wire_bytes=10_000)
    assert (fetched.outcome, fetched.body) == (Outcome.PAGE, b"hello")
    assert fetched.truncated in ("length", "disconnect")
    assert fetched.wire_bytes < 1_000_000


def test_tiny_pieces() -> None:
    """A body in thousands of tiny pieces is put together like any other, within bounded memory."""
    pieces = [b"1\r\n%d\r\n" % (at % 10) for at in range(5_000)]
    head = OK + HTML + b"Transfer-Encoding: chunked\r\n\r\n"
    fetched = fetch(plays(head, *pieces, b"0\r\n\r\n"))
    assert (fetched.body, fetched.truncated) == (b"0123456789" * 500, None)


@pytest.mark.parametrize("kind", [b"audio/mpeg", b"image/png", b"application/pdf"])
def test_unwanted_type(kind: bytes) -> None:
    """A type nobody wants is cut at its headers, endless or not (N19)."""

    def script(exchange: Exchange) -> None:
        exchange.send(OK + b"Content-Type: " + kind + b"\r\n\r\n")
        exchange.pour(b"x" * 4_096)

    fetched = fetch(script)
    assert (fetched.outcome, fetched.status, fetched.body) == (Outcome.UNWANTED_TYPE, 200, b"")
    assert content_type(fetched) == kind.decode()


def test_types_are_judged_on_pages_only() -> None:
    """Whoever wants no such pages still learns of an error in another type; None wants everything."""
    response = b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    fetched = fetch(plays(b"HTTP/1.1 404 No\r\n" + response))
    assert (fetched.outcome, fetched.body) == (Outcome.NOT_FOUND, b"{}")
    fetched = fetch(plays(OK + response), accept=None)
    assert (fetched.outcome, fetched.body) == (Outcome.PAGE, b"{}")


@pytest.mark.parametrize(
    ("first", "drip", "outcome", "truncated"),
    [
        (b"", b"", Outcome.TIMEOUT, None),
        (b"", b"H", Outcome.TIMEOUT, None),
        (OK, b"X: y\r\n", Outcome.TIMEOUT, None),
        (OK + HTML + b"\r\n", b"", Outcome.TIMEOUT, "time"),
        (OK + HTML + b"\r\n", b"x", Outcome.PAGE, "time"),
        (b"HTTP/1.1 429 No\r\nContent-Length: 9\r\n\r\n", b"", Outcome.RATE_LIMITED, "time"),
    ],
)
def test_total_deadline(first: bytes, drip: bytes, outcome: Outcome, truncated: str | None) -> None:
    """A drip that keeps every idle timer happy ends at the total deadline; what came is kept (N20)."""

    def script(exchange: Exchange) -> None:
        exchange.send(first)
        if drip:
            exchange.drip(drip, 0.02)
        else:
            exchange.hold()

    fetched = fetch(script, deadline_s=SOON_S)
    assert (fetched.outcome, fetched.truncated) == (outcome, truncated)
    assert fetched.detail
    assert SOON_S * 900 <= fetched.total_ms < SOON_S * 1_000 + 500


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_broken_answers_leave_nothing() -> None:
    """Three hundred answers without their last chunk each end at once, and nothing of them stays (N02)."""

    async def main() -> None:
        async with client_for(server) as client:
            before = open_files()
            for at in range(6):
                fetched = await asyncio.gather(*(get(client, f"/{at}") for _ in range(50)))
                ended = {(f.outcome, f.body, f.truncated) for f in fetched}
                assert ended == {(Outcome.PAGE, b"hello", "disconnect")}
            for _ in range(300):
                assert await asyncio.to_thread(server.gone.acquire, timeout=5)
            gc.collect()
            assert not [thing for thing in gc.get_objects() if isinstance(thing, Answer | Connection)]
            assert open_files() < before + 20

    with Server(plays(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")) as server:
        uvloop.run(main())


# -- no connection


def test_refused() -> None:
    """A port that nobody listens on is refused."""

    async def main(port: int) -> Fetched:
        resolver = Resolver(connect_to=ConnectTo([f"::127.0.0.1:{port}"]))
        client = Client(user_agent="x", tls=TlsContexts(verify=False), resolver=resolver)
        try:
            return await client.fetch("http://h.test/", deadline_s=5, max_wire_bytes=1_000)
        finally:
            await client.close()

    with dead_port() as port:
        fetched = uvloop.run(main(port))
    assert (fetched.outcome, fetched.status, fetched.ip) == (Outcome.REFUSED, None, "127.0.0.1")


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: what comes now is not answered (N29)."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


def test_connect_timeout(full_port: int) -> None:
    """A host that drops our SYN costs the deadline and is told apart from one that answers slowly."""

    async def main() -> Fetched:
        resolver = Resolver(connect_to=ConnectTo([f"::127.0.0.1:{full_port}"]))
        client = Client(user_agent="x", tls=TlsContexts(verify=False), resolver=resolver)
        try:
            return await client.fetch("https://h.test/", deadline_s=SOON_S, max_wire_bytes=1_000)
        finally:
            await client.close()

    assert uvloop.run(main()).outcome is Outcome.CONNECT_TIMEOUT


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://0.0.0.0:{port}/",
    ],
)
def test_private_addresses_are_not_connected_to(url: str) -> None:
    """An address in a URL that is not public never sees a packet (I7)."""
    with Server(plays(page())) as server:

        async def main() -> Fetched:
            client = Client(user_agent="x", tls=TlsContexts(verify=False), resolver=Resolver())
            try:
                return await client.fetch(url.format(port=server.port), deadline_s=5, max_wire_bytes=1_000)
            finally:
                await client.close()

        fetched = uvloop.run(main())
        assert fetched.outcome is Outcome.PRIVATE_ADDRESS
        assert server.connections == 0


@pytest.mark.parametrize("url", ["ftp://h1.test/", "http://h1.test/\r\nX: y", "", "http://h1.test:0/"])
def test_unsendable(url: str) -> None:
    """What is no canonical URL is not sent, and is no exception either."""
    fetched = fetch(plays(page()), url)
    assert fetched.outcome is Outcome.NOT_SENT
    assert fetched.detail
    assert fetched.wire_bytes == 0


def test_requests_are_bounded() -> None:
    """No more than ``max_connections`` are open at once; the rest is refused, and is nobody's fault."""

    async def main() -> list[Fetched]:
        async with client_for(server, max_connections=2) as client:
            many = [
                client.fetch("http://h1.test/", deadline_s=SOON_S, max_wire_bytes=1_000) for _ in range(5)
            ]
            return await asyncio.gather(*many)

    with Server(lambda exchange: exchange.hold()) as server:
        outcomes = sorted(fetched.outcome for fetched in uvloop.run(main()))
        assert outcomes == [Outcome.LOCAL_ERROR] * 3 + [Outcome.TIMEOUT] * 2
        assert server.connections == 2


def test_cancelled() -> None:
    """A cancelled fetch closes its connection and lets nothing but the cancellation through."""

    async def main() -> None:
        async with client_for(server) as client:
            task = asyncio.ensure_future(client.fetch("http://h1.test/", deadline_s=5, max_wire_bytes=1_000))
            assert await asyncio.to_thread(server.asked.acquire, timeout=2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.gone.acquire, timeout=2)

    with Server(lambda exchange: exchange.hold()) as server:
        uvloop.run(main())


def test_closed_client() -> None:
    """Closing the client ends what is under way, with an outcome."""

    async def main() -> Fetched:
        async with client_for(server) as client:
            task = asyncio.ensure_future(client.fetch("http://h1.test/", deadline_s=5, max_wire_bytes=1_000))
            assert await asyncio.to_thread(server.asked.acquire, timeout=2)
            await client.close()
            return await task

    with Server(lambda exchange: exchange.hold()) as server:
        assert uvloop.run(main()).outcome is Outcome.DISCONNECTED


# -- kept connections


def serve_many(exchange: Exchange) -> None:
    """Answer every request on a connection, naming its path in the body."""
    while exchange.request:
        path = exchange.request.split()[1]
        if path == b"/close":
            exchange.send(page(path, b"Connection: close\r\n"))
            return
        exchange.send(page(path))
        if path == b"/last":
            return
        exchange.next_request()


def kept(
    do: Callable[[Client], Awaitable[None]], script: Script = serve_many, idle_s: float = 10.0
) -> Server:
    async def main() -> None:
        async with client_for(server, keep_idle_s=idle_s) as client:
            await do(client)

    with Server(script) as server:
        uvloop.run(main())
    return server


async def get(client: Client, path: str) -> Fetched:
    return await client.fetch(f"http://h1.test{path}", deadline_s=5, max_wire_bytes=1_000)


def test_connections_are_kept() -> None:
    """With keep_idle_s one connection serves one request after the other, and says so."""

    async def do(client: Client) -> None:
        for at in range(3):
            fetched = await get(client, f"/{at}")
            assert (fetched.body, fetched.ip) == (b"/%d" % at, "127.0.0.1")
            assert b"Connection: keep-alive\r\n" in fetched.request

    server = kept(do)
    assert (server.connections, len(server.requests)) == (1, 1)


def test_what_is_not_ours_any_more_is_not_sent() -> None:
    """Asked when the connection stands, a new one or a kept one; the server sees nothing of it."""

    async def do(client: Client) -> None:
        for path in ("/a", "/b"):
            assert (await get(client, path)).body == path.encode()
            withheld = await client.fetch(
                "http://h1.test/never", deadline_s=5, max_wire_bytes=1_000, may_send=lambda: False
            )
            assert (withheld.outcome, withheld.status) == (Outcome.WITHHELD, None)

    server = kept(do)
    assert b"/never" not in b"".join(server.requests)
    assert server.connections == 2, "none is made for what is withheld"


def test_connections_are_not_shared() -> None:
    """Two requests at once have two connections; both are kept."""

    async def do(client: Client) -> None:
        for _ in range(2):
            both = await asyncio.gather(get(client, "/a"), get(client, "/b"))
            assert [fetched.body for fetched in both] == [b"/a", b"/b"]

    assert kept(do).connections == 2


def test_closed_by_the_server() -> None:
    """A kept connection that the server closed is replaced, whether it said so before or not."""

    async def do(client: Client) -> None:
        for path in ("/close", "/last", "/x"):
            assert (await get(client, path)).body == path.encode()

    assert kept(do).connections == 3


def test_idle_connections_expire() -> None:
    """A connection that was idle for too long is not used again."""

    async def do(client: Client) -> None:
        for path in ("/a", "/b"):
            assert (await get(client, path)).body == path.encode()
            await asyncio.sleep(0.02)

    assert kept(do, idle_s=0.01).connections == 2


def test_odd_answers_are_not_kept() -> None:
    """After bytes that nobody asked for, a connection serves no further request (no smuggling)."""

    def script(exchange: Exchange) -> None:
        exchange.send(page(b"first") + page(b"smuggled"))
        exchange.hold()

    async def do(client: Client) -> None:
        for path in ("/a", "/b"):
            assert (await get(client, path)).body == b"first"

    assert kept(do, script).connections == 2


# -- TLS on the way


def test_over_tls(tmp_path: Path) -> None:
    """The same over TLS; a drip in the handshake ends at the deadline as well (N20)."""
    authority = Authority(tmp_path)

    async def main(server: Server) -> Fetched:
        resolver = Resolver(connect_to=ConnectTo([f"::127.0.0.1:{server.port}"]))
        client = Client(user_agent="x", tls=TlsContexts(ca_file=str(authority.ca_file)), resolver=resolver)
        try:
            return await client.fetch("https://h.test/", deadline_s=SOON_S, max_wire_bytes=200_000)
        finally:
            await client.close()

    body = os.urandom(150_000)
    with Server(plays(page(body)), authority.server("h.test")) as server:
        fetched = uvloop.run(main(server))
        assert (fetched.outcome, fetched.body) == (Outcome.PAGE, body)
    with Server(lambda exchange: exchange.hold()) as server:  # never says hello back
        fetched = uvloop.run(main(server))
        assert (fetched.outcome, fetched.status) == (Outcome.TIMEOUT, None)
        assert "TLS" in fetched.detail


def test_endless_over_tls(tmp_path: Path) -> None:
    """An endless answer over TLS is cut without waiting for an orderly end (N19)."""
    authority = Authority(tmp_path)

    def script(exchange: Exchange) -> None:
        exchange.send(OK + HTML + b"\r\n")
        exchange.pour(b"x" * 16_384)

    async def main() -> Fetched:
        resolver = Resolver(connect_to=ConnectTo([f"::127.0.0.1:{server.port}"]))
        client = Client(user_agent="x", tls=TlsContexts(ca_file=str(authority.ca_file)), resolver=resolver)
        try:
            fetched = await client.fetch("https://h.test/", deadline_s=5, max_wire_bytes=50_000)
            assert await asyncio.to_thread(server.gone.acquire, timeout=2)
            return fetched
        finally:
            await client.close()

    with Server(script, authority.server("h.test")) as server:
        fetched = uvloop.run(main())
    assert (fetched.outcome, len(fetched.body), fetched.truncated) == (Outcome.PAGE, 50_000, "length")
