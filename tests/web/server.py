"""The server: its doors on loopback, one task per connection, one log line per request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from tests.web.behaviours.table import TABLE, Certificate, Door, behaviour_of
from tests.web.certs import Authority
from tests.web.log import AccessLog, Entry, now_ms
from tests.web.ordinary import OrdinaryWeb
from tests.web.pages import small_page
from tests.web.wire import MAX_HEAD_BYTES, BadRequest, Exchange, Request, read_request

IDLE_SECONDS = 30.0
"""A kept connection without a request is closed after so long."""
_TLS_SECONDS = 60.0
_MOST_CONTEXTS = 4096
_BACKLOG = 4096
_ACCEPT_RETRY_SECONDS = 0.05

_sni: ContextVar[list[str]] = ContextVar("sni")
"""Where the connection being set up wants the SNI name put: the transport's callbacks run in the
context of the task that made it, so the callback of the (shared) TLS context finds its connection."""

_Talk = Callable[[socket.socket, Entry], Awaitable[None]]
"""What is said on an accepted connection; the entry is that of its first request, or of none."""


class Server:
    """One miniature web at one address, by default loopback's. Ports are known after ``start``."""

    def __init__(
        self, web: OrdinaryWeb, authority: Authority, log: AccessLog, address: str = "127.0.0.1"
    ) -> None:
        self._web = web
        self._address = address
        self._authority = authority
        self._log = log
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()
        self._memories: dict[str, dict[str, Any]] = {row.name: {} for row in TABLE}
        # The context every connection begins with; all sessions are resumed by its ticket keys.
        self._front = self._context("localhost")
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []
        self._connections = 0
        self.https_port = self.http_port = 0
        self._special_ports: dict[tuple[str, int], int] = {}

    async def start(self, https_port: int = 0, http_port: int = 0) -> None:
        """Open all doors. Raises ``OSError`` where a port is taken."""
        self.https_port = self._open("https", self._talk_tls, https_port)
        self.http_port = self._open("http", self._talk_plain, http_port)
        for row in TABLE:
            for port, door in ((443, row.https), (80, row.http)):
                if door is not Door.OPEN:
                    self._special_ports[row.name, port] = self._open_special(
                        row.name, "https" if port == 443 else "http", door
                    )

    def _open_special(self, name: str, scheme: str, door: Door) -> int:
        """A port of its own, for a domain that won't listen to which host it is asked for."""

        async def say_nothing(connection: socket.socket, first: Entry) -> None:
            first.host = name
            await self._until_hung_up(connection)

        async def drip(connection: socket.socket, first: Entry) -> None:
            first.host = name
            await self._drip_tls(connection)

        match door:
            case Door.SILENT:
                return self._open(scheme, say_nothing)
            case Door.DRIP:
                return self._open(scheme, drip)
            case _:
                # Bound but not listening: connections are refused, and nobody else can take the port.
                closed = socket.socket()
                closed.bind((self._address, 0))
                self._sockets.append(closed)
                return int(closed.getsockname()[1])

    @property
    def connect_to(self) -> list[str]:
        """curl's ``--connect-to`` entries for this web; the first that matches counts."""
        at = self._address
        special = [f"{name}:{port}:{at}:{real}" for (name, port), real in self._special_ports.items()]
        return [*special, f":443:{at}:{self.https_port}", f":80:{at}:{self.http_port}"]

    async def stop(self) -> None:
        """Close everything; answers under way are broken off, and logged."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()

    # Connections

    def _open(self, scheme: str, talk: _Talk, port: int = 0) -> int:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._sockets.append(listener)
        self._spawn(self._accept(listener, scheme, talk))
        return int(listener.getsockname()[1])

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket, scheme: str, talk: _Talk) -> None:
        loop = asyncio.get_running_loop()
        port = listener.getsockname()[1]
        while True:
            try:
                connection, (peer, *_) = await loop.sock_accept(listener)
            except OSError:  # out of file descriptors, or the client was gone again
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            # asyncio does this for its own sockets; without it, TLS answers wait for the peer's delayed ACK.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections += 1
            first = Entry(t_ms=now_ms(), conn=self._connections, scheme=scheme, port=port, peer=peer)
            self._spawn(self._guard(connection, first, talk))

    async def _guard(self, connection: socket.socket, first: Entry, talk: _Talk) -> None:
        """Let one connection live and end; whatever it was, it is in the log."""
        try:
            await talk(connection, first)
        except (OSError, ssl.SSLError, EOFError):
            pass  # the client hung up, or didn't like our certificate: part of the game
        finally:
            connection.close()
            if first.method is None:
                first.ms = now_ms() - first.t_ms
                self._log.write(first)

    async def _talk_plain(self, connection: socket.socket, first: Entry) -> None:
        await self._talk(connection, first, None)

    async def _talk_tls(self, connection: socket.socket, first: Entry) -> None:
        await self._talk(connection, first, self._front)

    async def _talk(self, connection: socket.socket, first: Entry, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        names: list[str] = []
        _sni.set(names)
        timing: dict[str, Any] = (
            {"ssl_handshake_timeout": _TLS_SECONDS, "ssl_shutdown_timeout": 1.0} if context else {}
        )
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context, **timing
            )
        finally:
            first.host = first.sni = names[0] if names else None
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            if context is not None:
                first.resumed = bool(writer.get_extra_info("ssl_object").session_reused)
            await self._serve(reader, writer, first)
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: Entry) -> None:
        """Answer the requests of one connection, one after the other."""
        entry, keep = first, True
        while keep:
            try:
                request = await asyncio.wait_for(read_request(reader, first.scheme), IDLE_SECONDS)
            except TimeoutError:
                return
            except BadRequest as error:
                writer.write(f"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{error}\n".encode())
                await writer.drain()
                return
            if request is None:
                return
            if entry.method is not None:
                entry = Entry(
                    first.t_ms,
                    first.conn,
                    first.scheme,
                    first.port,
                    first.peer,
                    sni=first.sni,
                    resumed=first.resumed,
                )
            keep = await self._exchange(request, writer, entry)

    async def _exchange(self, request: Request, writer: asyncio.StreamWriter, entry: Entry) -> bool:
        """Answer one request and log it. Whether the connection can be used again."""
        entry.t_ms = now_ms()
        entry.host, entry.method, entry.path = request.host, request.method, request.target
        for name in ("user_agent", "accept_encoding", "cookie", "referer"):
            setattr(entry, name, request.headers.get(name.replace("_", "-")))
        row = behaviour_of(request.host)
        x = Exchange(request, writer, self._memories[row.name] if row else {})
        try:
            await self._answer(x)
        finally:
            entry.status, entry.bytes, entry.ms = x.status, x.sent_bytes, now_ms() - entry.t_ms
            self._log.write(entry)
        return x.keep

    async def _answer(self, x: Exchange) -> None:
        """Find who is responsible for a request, and let it answer."""
        request = x.request
        if request.method not in ("GET", "HEAD") or "content-length" in request.headers:
            x.keep = False  # a body may follow, which nobody reads
            await x.answer(405, small_page("Only GET and HEAD"))
            return
        row = behaviour_of(request.host)
        if row is not None:
            if request.scheme == "http" and not row.serves_http:
                await x.redirect(f"https://{request.host}{request.target}", 301)
            elif request.path == "/robots.txt" and row.robots is not None:
                await x.answer(200, row.robots.encode(), kind="text/plain")
            else:
                await row.handler(x)
            return
        place = self._web.find(x)
        if place is None:
            await x.answer(404, small_page("No such host"))
        else:
            await self._web.answer(x, place)

    async def _drip_tls(self, connection: socket.socket) -> None:
        """The header of a large handshake record, and then its bytes, one a second."""
        loop = asyncio.get_running_loop()
        gone = loop.create_task(self._until_hung_up(connection))
        try:
            for byte in b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb\x03\x03" + bytes(16_000):
                await loop.sock_sendall(connection, bytes((byte,)))
                await asyncio.wait((gone,), timeout=1)
                if gone.done():
                    return
        finally:
            gone.cancel()

    async def _until_hung_up(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        while await asyncio.get_running_loop().sock_recv(connection, 65_536):
            pass

    # TLS

    def _context(self, name: str) -> ssl.SSLContext:
        """The TLS context for a server name, from a bounded cache."""
        domain = ".".join(name.rsplit(".", 2)[-2:])
        context = self._contexts.get(domain)
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._chain_file(domain))
            context.set_alpn_protocols(["http/1.1"])
            context.sni_callback = self._choose
            self._contexts[domain] = context
            if len(self._contexts) > _MOST_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(domain)
        return context

    def _chain_file(self, domain: str) -> Path:
        row = behaviour_of(domain)
        match row.certificate if row else Certificate.GOOD:
            case Certificate.OTHER:
                return self._authority.leaf("somebody-else.test")
            case Certificate.SELF_SIGNED:
                return self._authority.self_signed(domain)
            case Certificate.EXPIRED:
                return self._authority.expired(domain)
        return self._authority.leaf(domain)

    def _choose(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        """OpenSSL's server-name callback: pick the certificate."""
        _sni.get().append(name or "")
        if name is None or not name.endswith(".test"):
            return None
        tls.context = self._context(name.lower())
        return None
