"""Connections: made to checked addresses only, kept for the next request where that is wanted.

What fails on the way is a ``Failure``; no exception of the operating system, of ``ssl`` or of the event
loop gets past this file.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol, cast

from node.rules.gateway import Speaker
from node.rules.outcome import Outcome
from node.rules.request import Target
from node.work.failure import Failure, Step, failure_of, words
from node.work.resolve import Resolver
from node.work.tls import Handshake, TlsContexts


@dataclass(slots=True)
class Progress:
    """How far a request has come; kept up to date so that a deadline can tell where it hit."""

    ip: str | None = None
    handshake: Handshake | None = None
    connected: float | None = None
    """``time.monotonic()`` when the connection (with TLS) stood."""
    speaker: Speaker = Speaker.TARGET
    """Who has the word: the site, but where a proxy stands in between."""

    def step(self) -> Step:
        """What is being waited for."""
        if self.connected is not None:
            return Step.ANSWER
        if self.ip is None:
            return Step.DNS
        if self.handshake is not None and self.handshake.ssl_object is not None:
            return Step.TLS
        return Step.CONNECT


class Reader(Protocol):
    """Takes what arrives on a connection. No method raises."""

    def may_ask(self) -> bool:
        """Whether the request may go out, asked when the connection stands: making it can take long, and a
        process may be stopped meanwhile."""

    def feed(self, data: bytes) -> bool:
        """More bytes; True when nothing more is wanted."""

    def end(self, error: BaseException | None) -> None:
        """The connection is gone, by an error or by the other side's ordinary close."""


class Connection(asyncio.Protocol):
    """One connection, which serves one request at a time. ``closed`` once it is of no more use."""

    __slots__ = ("_reader", "_request", "_transport", "closed", "done", "handshake", "idle_since", "ip")

    def __init__(self, ip: str, handshake: Handshake | None) -> None:
        self.ip = ip
        self.handshake = handshake
        self.closed = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the reader of the request under way wants nothing more."""
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._reader: Reader | None = None
        self._request = b""

    def ask(self, request: bytes, reader: Reader) -> None:
        """Send ``request`` as soon as connected, and give what comes back to ``reader``."""
        self._reader = reader
        self._request = request
        if self.done.done():
            self.done = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._send(self._transport)

    def abort(self) -> None:
        """Close at once. An endless answer would keep an orderly TLS shutdown waiting for its end."""
        self.closed = True
        self._reader = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def cut(self) -> None:
        """Close at once; whoever reads is told that the connection is gone."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self.connection_lost(None)

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            self.abort()  # nobody asked for anything
        elif self._reader.feed(data):
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._transport = None
        if self._reader is not None:
            self._reader.end(exc)
            self._finish()

    def _send(self, transport: asyncio.Transport) -> None:
        if self._reader is not None and self._reader.may_ask():
            transport.write(self._request)
        else:
            self.abort()
            self._finish()

    def _finish(self) -> None:
        self._reader = None
        if not self.done.done():
            self.done.set_result(None)


class Connector:
    """Makes connections, and keeps idle ones for ``keep_idle_s`` (0 = none is kept)."""

    def __init__(self, resolver: Resolver, tls: TlsContexts, *, keep_idle_s: float = 0.0) -> None:
        self._resolver = resolver
        self._tls = tls
        self._keep_idle_s = keep_idle_s
        self._idle: dict[tuple[bool, str, int], list[Connection]] = {}
        self._next_sweep = 0.0
        self._busy: set[Connection] = set()

    def idle(self, target: Target) -> Connection | None:
        """A kept connection to ``target``, or None."""
        if not self._keep_idle_s:
            return None
        waiting = self._idle.get(_key(target), [])
        oldest = time.monotonic() - self._keep_idle_s
        while waiting:
            connection = waiting.pop()
            if not connection.closed and connection.idle_since >= oldest:
                self._busy.add(connection)
                return connection
            connection.abort()
        return None

    async def connect(
        self, target: Target, request: bytes, reader: Reader, progress: Progress
    ) -> Connection | Failure:
        """A new connection to ``target``, on which ``request`` goes out as soon as it stands.

        Several addresses are tried in turn, as long as they refuse. Cancelling closes what is half made.
        """
        where = await self._resolver.resolve(target.host, target.port)
        if where.outcome is not None:
            return Failure(where.outcome, words(where.detail))
        failure = Failure(Outcome.DNS_FAILED, "no address")
        for ip, port in where.found:
            progress.ip = ip
            made = await self._connect_one(target, ip, port, request, reader, progress)
            if isinstance(made, Connection):
                progress.connected = time.monotonic()
                return made
            failure = made
            if failure.outcome not in (Outcome.REFUSED, Outcome.UNREACHABLE, Outcome.CONNECT_TIMEOUT):
                break
            self._resolver.demote(target.host, ip)
        return failure

    async def _connect_one(
        self,
        target: Target,
        ip: str,
        port: int,
        request: bytes,
        reader: Reader,
        progress: Progress,
    ) -> Connection | Failure:
        loop = asyncio.get_running_loop()
        name = target.host.strip("[]").rstrip(".")
        handshake = self._tls.handshake(name) if target.https else None
        progress.handshake = handshake
        connection = Connection(ip, handshake)
        connection.ask(request, reader)
        self._busy.add(connection)
        try:
            # ``ip`` is an address, so nothing is looked up here: we connect to what was checked
            if handshake is None:
                await loop.create_connection(lambda: connection, ip, port)
            else:
                await loop.create_connection(
                    lambda: connection, ip, port, ssl=handshake.context, server_hostname=name
                )
        except OSError as error:
            self.drop(connection)
            return failure_of(error, progress.step())
        except asyncio.CancelledError:
            self.drop(connection)
            if progress.step() is Step.CONNECT:  # the deadline, most likely: next time the other one
                self._resolver.demote(target.host, ip)
            raise
        except BaseException:
            self.drop(connection)
            raise
        return connection

    def keep(self, target: Target, connection: Connection) -> None:
        """Keep a connection, whose answer was read to its end, for the next request."""
        if not self._keep_idle_s or connection.closed:
            self.drop(connection)
            return
        self._busy.discard(connection)
        connection.idle_since = time.monotonic()
        self._idle.setdefault(_key(target), []).append(connection)
        if connection.idle_since >= self._next_sweep:
            self._next_sweep = connection.idle_since + self._keep_idle_s
            self._sweep(connection.idle_since - self._keep_idle_s)

    def _sweep(self, oldest: float) -> None:
        """Close what has been idle for too long; so what is kept is bounded by what was just used."""
        for key, waiting in list(self._idle.items()):
            fresh = [c for c in waiting if not c.closed and c.idle_since >= oldest]
            for connection in set(waiting) - set(fresh):
                connection.abort()
            if fresh:
                self._idle[key] = fresh
            else:
                del self._idle[key]

    def drop(self, connection: Connection) -> None:
        """Close a connection."""
        connection.abort()
        self._busy.discard(connection)

    def close(self) -> None:
        """Close all connections; who waits for an answer finds it cut."""
        for waiting in self._idle.values():
            for connection in waiting:
                connection.abort()
        self._idle.clear()
        for connection in list(self._busy):
            connection.cut()
        self._busy.clear()


def _key(target: Target) -> tuple[bool, str, int]:
    return target.https, target.host, target.port
