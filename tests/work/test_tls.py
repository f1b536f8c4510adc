"""TLS: whom we believe, and that a second visit resumes (by the server's own log)."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from node.errors import SettingsError
from node.rules.connect_to import ConnectTo
from node.rules.outcome import Outcome
from node.work.http import Client, Fetched
from node.work.resolve import Resolver
from node.work.tls import TlsContexts
from tests.work.net import Authority, Exchange, Server, plays

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both event loops hand the session in: uvloop as in production, asyncio as the fall-back."""
    return uvloop.run if request.param == "uvloop" else asyncio.run


def visit(run: Run, server: Server, tls: TlsContexts, do: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        resolver = Resolver(connect_to=ConnectTo([f"::127.0.0.1:{server.port}"]))
        client = Client(user_agent="x", tls=tls, resolver=resolver)
        try:
            return await do(client)
        finally:
            await client.close()

    return run(main())


async def get(client: Client, host: str = "h.test") -> Fetched:
    return await client.fetch(f"https://{host}/", deadline_s=5, max_wire_bytes=1_000)


def fetch_one(server: Server, tls: TlsContexts, host: str = "h.test") -> Fetched:
    result = visit(uvloop.run, server, tls, lambda client: get(client, host))
    assert isinstance(result, Fetched)
    return result


# -- what a connection holds


def _waiting(client: ssl.SSLContext, server: ssl.SSLContext, asks: type[ssl.SSLObject]) -> ssl.SSLObject:
    """The client's side of a connection that has met its tickets, has asked, and waits for the answer."""
    client.sslobject_class = asks
    to_client, to_server, from_client, from_server = (ssl.MemoryBIO() for _ in range(4))
    ours = client.wrap_bio(to_client, from_client, False, "h.test")
    theirs = server.wrap_bio(to_server, from_server, True)
    for _ in range(3):
        for side in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            to_server.write(from_client.read())
            to_client.write(from_server.read())
    assert ours.version() == "TLSv1.3"
    ours.write(b"GET / HTTP/1.1")
    assert to_client.pending > 0
    with pytest.raises(ssl.SSLWantReadError):
        ours.read(1 << 18)
    return ours


def test_a_connection_that_waits_holds_little(authority: Authority) -> None:
    """OpenSSL 3.0 would keep 16 KB each to write from, having met a ticket."""
    contexts = TlsContexts(ca_file=str(authority.ca_file))
    server = authority.server("h.test")
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("this C library does not tell what is taken")
    libc.mallinfo2.restype = _MallInfo

    def taken(asks: type[ssl.SSLObject]) -> float:
        """KB of the heap for a connection."""
        _waiting(contexts.client, server, asks)
        before = libc.mallinfo2()
        held = [_waiting(contexts.client, server, asks) for _ in range(30)]
        after = libc.mallinfo2()
        return float(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / len(held) / 1000

    ours, plain = taken(contexts.client.sslobject_class), taken(ssl.SSLObject)
    if ssl.OPENSSL_VERSION_INFO < (3, 2):
        assert plain - ours > 14, f"{ours:.1f} KB where it would be {plain:.1f}"
    assert ours < plain + 1


def test_what_comes_in_many_records_is_whole(authority: Authority) -> None:
    """A call gives no more than one of them."""
    body = bytes(range(256)) * 600
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    tls = TlsContexts(ca_file=str(authority.ca_file))
    with Server(plays(answer), authority.server("h.test")) as server:
        result = visit(
            uvloop.run,
            server,
            tls,
            lambda client: client.fetch("https://h.test/", deadline_s=5, max_wire_bytes=1_000_000),
        )
    assert result.outcome is Outcome.PAGE
    assert bytes(result.body) == body


class _MallInfo(ctypes.Structure):
    _fields_ = [
        *((f"not_asked_{number}", ctypes.c_size_t) for number in range(4)),
        ("hblkhd", ctypes.c_size_t),
        *((f"not_asked_{number}", ctypes.c_size_t) for number in range(4, 6)),
        ("uordblks", ctypes.c_size_t),
        *((f"not_asked_{number}", ctypes.c_size_t) for number in range(6, 8)),
    ]


# -- whom we believe


def test_verified(authority: Authority) -> None:
    """A certificate under the given authority is believed for the names it has."""
    tls = TlsContexts(ca_file=str(authority.ca_file))
    with Server(plays(PAGE), authority.server("h.test", "*.sub.test")) as server:
        for host in ("h.test", "h.test.", "a.sub.test"):
            assert fetch_one(server, tls, host).outcome is Outcome.PAGE


@pytest.mark.parametrize(
    ("host", "expired", "detail"),
    [
        ("other.test", False, "Hostname mismatch"),
        ("127.0.0.1", False, "IP address mismatch"),
        ("h.test", True, "certificate has expired"),
    ],
)
def test_not_believed(authority: Authority, host: str, expired: bool, detail: str) -> None:
    """A wrong name and an expired certificate end as tls_failed, and say why; nothing is sent."""
    tls = TlsContexts(ca_file=str(authority.ca_file))
    with Server(plays(PAGE), authority.server("h.test", expired=expired)) as server:
        fetched = fetch_one(server, tls, host)
        assert (fetched.outcome, fetched.status) == (Outcome.TLS_FAILED, None)
        assert detail in fetched.detail
        assert server.requests == []


def test_unknown_authority(authority: Authority) -> None:
    """Without the authority its certificates are not believed; with verify off they are, as is any name."""
    with Server(plays(PAGE), authority.server("h.test")) as server:
        fetched = fetch_one(server, TlsContexts())
        assert fetched.outcome is Outcome.TLS_FAILED
        assert fetched.detail.startswith("certificate:")
        assert fetch_one(server, TlsContexts(verify=False), "other.test").outcome is Outcome.PAGE


def test_old_protocols(authority: Authority) -> None:
    """TLS 1.1 is not spoken."""
    context = authority.server("h.test")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with Server(plays(PAGE), context) as server:
        assert fetch_one(server, TlsContexts(verify=False)).outcome is Outcome.TLS_FAILED


@pytest.mark.parametrize(
    ("said", "outcome"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", Outcome.TLS_FAILED), (b"", Outcome.DISCONNECTED)],
)
def test_no_tls_at_all(said: bytes, outcome: Outcome) -> None:
    """A server that answers in plain text, or closes in the handshake, is told apart."""

    def script(exchange: Exchange) -> None:
        exchange.send(said)
        exchange.finish()

    with Server(script, listens=False) as server:
        fetched = fetch_one(server, TlsContexts(verify=False))
    assert (fetched.outcome, fetched.status) == (outcome, None)
    assert "TLS" in fetched.detail


@pytest.mark.parametrize("host", ["a..test", "x" * 64 + ".test"])
def test_impossible_names(authority: Authority, host: str) -> None:
    """A name that no certificate can have is an outcome, not an exception."""
    with Server(plays(PAGE), authority.server("h.test")) as server:
        assert (
            fetch_one(server, TlsContexts(ca_file=str(authority.ca_file)), host).outcome is Outcome.TLS_FAILED
        )


@pytest.mark.parametrize(
    "content", [None, b"", b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"]
)
def test_ca_file(tmp_path: Path, content: bytes | None) -> None:
    """An authority file that can't be used stops the start, by name."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"tls\.ca_file .*ca\.pem"):
        TlsContexts(ca_file=str(path))


# -- resumption


def log_of(server: Server) -> list[bool]:
    return [shaken.reused for shaken in server.handshakes]


@pytest.mark.parametrize("version", VERSIONS)
def test_second_visit_resumes(run: Run, authority: Authority, version: str) -> None:
    """From the second visit on the handshake is resumed, on a new connection each (server's log)."""
    context = authority.server("h.test")
    context.minimum_version = context.maximum_version = VERSIONS[version]
    tls = TlsContexts(ca_file=str(authority.ca_file))

    async def four(client: Client) -> None:
        for _ in range(4):
            assert (await get(client)).outcome is Outcome.PAGE

    with Server(plays(PAGE), context) as server:
        visit(run, server, tls, four)
    assert {shaken.version for shaken in server.handshakes} == {version}
    assert log_of(server) == [False, True, True, True]
    assert (tls.full, tls.resumed) == (1, 3)


def test_sessions_belong_to_a_host(authority: Authority) -> None:
    """A session is never offered to another host name, where its certificate might not be good."""
    tls = TlsContexts(ca_file=str(authority.ca_file))

    async def both(client: Client) -> list[Outcome]:
        return [
            (await get(client, host)).outcome for host in ("h.test", "other.test", "h.test", "other.test")
        ]

    with Server(plays(PAGE), authority.server("h.test")) as server:
        outcomes = visit(uvloop.run, server, tls, both)
        assert outcomes == [Outcome.PAGE, Outcome.TLS_FAILED] * 2
    assert log_of(server) == [False, True]


def test_sessions_are_bounded(authority: Authority) -> None:
    """The cache holds no more hosts than it may; the least recently used goes first."""
    tls = TlsContexts(ca_file=str(authority.ca_file), max_sessions=2)

    async def do(client: Client) -> None:
        for host in ("a.s.test", "b.s.test", "a.s.test", "c.s.test", "a.s.test", "b.s.test"):
            await get(client, host)

    with Server(plays(PAGE), authority.server("*.s.test")) as server:
        visit(uvloop.run, server, tls, do)
    assert log_of(server) == [False, False, True, False, True, False]
    assert len(tls) == 2


def test_sessions_of_kept_connections(authority: Authority) -> None:
    """Many responses on one connection count as one handshake, and leave one session to resume."""
    tls = TlsContexts(ca_file=str(authority.ca_file))

    def script(exchange: Exchange) -> None:
        for _ in range(5):
            exchange.send(PAGE)
            exchange.next_request()

    async def main() -> None:
        resolver = Resolver(connect_to=ConnectTo([f"::127.0.0.1:{server.port}"]))
        client = Client(user_agent="x", tls=tls, resolver=resolver, keep_idle_s=10)
        for _ in range(10):
            assert (await get(client)).outcome is Outcome.PAGE
        await client.close()

    with Server(script, authority.server("h.test")) as server:
        uvloop.run(main())
    assert log_of(server) == [False, True]
    assert (tls.full, tls.resumed) == (1, 1)


def test_a_restarted_server(authority: Authority) -> None:
    """A session that a server no longer knows costs nothing but a full handshake, and is replaced."""
    tls = TlsContexts(ca_file=str(authority.ca_file))

    async def do(client: Client) -> None:
        for at in range(5):
            if at == 2:
                server.tls = authority.server("h.test")  # new keys: all tickets are void
            assert (await get(client)).outcome is Outcome.PAGE

    with Server(plays(PAGE), authority.server("h.test")) as server:
        visit(uvloop.run, server, tls, do)
    assert log_of(server) == [False, True, False, True, True]


def test_sessions_are_renewed(authority: Authority) -> None:
    """A session is used again and again, and past half its life replaced by the latest (7,200 s here)."""
    now = [0.0]
    tls = TlsContexts(ca_file=str(authority.ca_file), clock=lambda: now[0])

    async def do(client: Client) -> None:
        sessions = []
        for passing_s in (0, 3_599, 2, 3_599, 2):
            now[0] += passing_s
            await get(client)
            session = tls.session("h.test")
            assert session is not None
            sessions.append(session)
        first, second, third, fourth, fifth = sessions
        assert first is second
        assert third is fourth
        assert len({first.id, third.id, fifth.id}) == 3

    with Server(plays(PAGE), authority.server("h.test")) as server:
        visit(uvloop.run, server, tls, do)
    assert log_of(server) == [False, True, True, True, True]


def test_a_server_without_sessions(authority: Authority) -> None:
    """A server that gives no sessions is served all the same, and we stop asking for them."""
    context = authority.server("h.test")
    context.num_tickets = 0
    tls = TlsContexts(ca_file=str(authority.ca_file))

    async def do(client: Client) -> None:
        for _ in range(4):
            assert (await get(client)).outcome is Outcome.PAGE
        context.num_tickets = 2  # too late: this host is asked no more
        for _ in range(2):
            assert (await get(client)).outcome is Outcome.PAGE

    with Server(plays(PAGE), context) as server:
        visit(uvloop.run, server, tls, do)
    assert log_of(server) == [False] * 6
