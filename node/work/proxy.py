"""Connections through a forward proxy: absolute form for http, a tunnel (CONNECT) for https.

TLS runs end to end, through the tunnel, and is verified as if there were no proxy. The site's name is
looked up by the proxy, not by us: here is no guard against private addresses but for those that a URL
spells out.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time

from node.rules.gateway import Speaker
from node.rules.outcome import Outcome
from node.rules.request import Target
from node.work.connect import Connection, Connector, Progress, Reader
from node.work.failure import Failure, failure_of, words
from node.work.resolve import Resolver
from node.work.tls import TlsContexts

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
MAX_REPLY_BYTES = 16_384
"""The proxy's answer to CONNECT may be this long."""


class ProxyConnector(Connector):
    """Connects to sites by way of ``proxy``. ``headers`` are lines for the proxy alone, with CRLF."""

    def __init__(self, proxy: Target, resolver: Resolver, tls: TlsContexts, headers: bytes) -> None:
        super().__init__(resolver, tls)
        self._proxy = proxy
        self._headers = headers

    async def connect(
        self, target: Target, request: bytes, reader: Reader, progress: Progress
    ) -> Connection | Failure:
        """See ``Connector.connect``. What the proxy answers to CONNECT, if it makes no tunnel, goes to
        ``reader``; ``progress.speaker`` tells that the site has not said it.
        """
        if not target.https:
            progress.speaker = Speaker.EITHER
            line, rest = request.split(b"\r\n", 1)
            method, _, path = line.partition(b" ")
            whole = b"%b http://%b%b\r\n%b%b" % (
                method,
                target.authority.encode("ascii"),
                path,
                self._headers,
                rest,
            )
            return await super().connect(self._proxy, whole, reader, progress)
        progress.speaker = Speaker.GATEWAY
        where = await self._resolver.resolve(self._proxy.host, self._proxy.port)
        failure = Failure(where.outcome or Outcome.DNS_FAILED, words(where.detail))
        for ip, port in where.found:
            progress.ip = ip
            try:
                sock = await _tcp(ip, port)
            except OSError as error:
                failure = failure_of(error, progress.step())
                continue
            progress.connected = time.monotonic()  # to the proxy, for now
            return await self._through(sock, target, request, reader, progress)
        return failure

    async def _through(
        self, sock: socket.socket, target: Target, request: bytes, reader: Reader, progress: Progress
    ) -> Connection | Failure:
        """Ask for a tunnel on ``sock``, and for the page through it. The socket is closed if it fails."""
        loop = asyncio.get_running_loop()
        name = target.host.strip("[]").rstrip(".")
        connection: Connection | None = None
        try:
            reply = await self._ask_for_tunnel(sock, target)
            match = _STATUS_LINE.match(reply)
            if match is None or not 200 <= int(match[1]) < 300:
                reader.feed(reply)
                sock.close()
                return Failure(Outcome.MALFORMED_HTTP, "the proxy makes no tunnel")
            progress.speaker, progress.connected = Speaker.TARGET, None
            progress.handshake = handshake = self._tls.handshake(name)
            connection = Connection(progress.ip or "", handshake)
            connection.ask(request, reader)
            self._busy.add(connection)
            made = connection
            await loop.create_connection(lambda: made, sock=sock, ssl=handshake.context, server_hostname=name)
        except OSError as error:
            self._give_up(sock, connection)
            return failure_of(error, progress.step())
        except BaseException:
            self._give_up(sock, connection)
            raise
        progress.connected = time.monotonic()
        return connection

    async def _ask_for_tunnel(self, sock: socket.socket, target: Target) -> bytes:
        """The proxy's answer to CONNECT, up to the end of its head."""
        loop = asyncio.get_running_loop()
        where = f"{target.host}:{target.port}".encode("ascii")
        await loop.sock_sendall(
            sock, b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (where, where, self._headers)
        )
        reply = b""
        while b"\r\n\r\n" not in reply and len(reply) < MAX_REPLY_BYTES:
            more = await loop.sock_recv(sock, 4_096)
            if not more:
                if not reply:
                    raise ConnectionResetError
                break
            reply += more
        return reply

    def _give_up(self, sock: socket.socket, connection: Connection | None) -> None:
        if connection is not None:
            self.drop(connection)
        sock.close()


async def _tcp(ip: str, port: int) -> socket.socket:
    """A connected socket. Raises ``OSError``; cancelling closes it."""
    sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (ip, port))
    except BaseException:
        sock.close()
        raise
    return sock
