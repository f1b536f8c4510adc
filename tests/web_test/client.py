"""A raw client that sees what really came over the wire, however broken."""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit


class Site(Protocol):
    """What a client must know of a web: ``MiniWeb`` and ``Nginx`` both do."""

    @property
    def connect_to(self) -> Sequence[str]: ...
    @property
    def ca(self) -> Path: ...


@dataclass(slots=True)
class Answer:
    """All bytes that came, and how it ended: ``eof``, ``reset``, ``silence``, ``enough``, or ``cut``.

    ``cut`` is an end of the TCP connection without one of TLS.
    """

    raw: bytes = b""
    end: str = "eof"
    context: ssl.SSLContext | None = field(default=None, repr=False)
    session: ssl.SSLSession | None = field(default=None, repr=False)
    """To be resumed, which only works through the same context."""
    resumed: bool = False
    certificate: bytes = field(default=b"", repr=False)
    """The server's own, DER."""

    @property
    def status(self) -> int:
        """The status of a well-formed status line."""
        return int(self.raw.split(b" ", 2)[1])

    @property
    def head(self) -> str:
        """Status line and headers."""
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        """The body as sent, framing included."""
        return self.raw.partition(b"\r\n\r\n")[2]

    def headers(self, name: str) -> list[str]:
        """All values of a header."""
        lines = (line.partition(":") for line in self.head.split("\r\n")[1:])
        return [value.strip() for key, _, value in lines if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next(iter(self.headers(name)), None)

    @property
    def content(self) -> bytes:
        """The body without chunked framing and gzip."""
        body = self.body
        if self.header("Transfer-Encoding") == "chunked":
            whole = b""
            while True:
                size, _, rest = body.partition(b"\r\n")
                if int(size, 16) == 0:
                    body = whole
                    break
                whole, body = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        return zlib.decompress(body, 31) if self.header("Content-Encoding") == "gzip" else body


def address(web: Site, host: str, port: int) -> tuple[str, int]:
    """Where ``connect_to`` sends a connection: the first entry that matches, as curl does."""
    for entry in web.connect_to:
        wanted_host, wanted_port, there, port_there = entry.split(":")
        if wanted_host in ("", host) and int(wanted_port) == port:
            return there, int(port_there)
    raise LookupError(f"nothing in connect_to for {host}:{port}")


class Connection:
    """A TCP connection, with TLS done over buffers so that every way in which it ends can be told apart."""

    def __init__(
        self, plain: socket.socket, tls: ssl.SSLContext | None, host: str, session: ssl.SSLSession | None
    ):
        self._plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = tls.wrap_bio(self._in, self._out, server_hostname=host, session=session) if tls else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the TCP connection, without ceremony."""
        self._plain.close()

    def handshake(self) -> None:
        """Do the TLS handshake, if there is one to do."""
        while self.tls is not None:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._exchange()
            finally:
                self._plain.sendall(self._out.read())

    def _exchange(self) -> None:
        self._plain.sendall(self._out.read())
        data = self._plain.recv(262_144)
        if not data:
            raise EOFError("TCP ended before TLS did")
        self._in.write(data)

    def send(self, data: bytes) -> None:
        """Send all of ``data``."""
        if self.tls is not None:
            self.tls.write(data)
            data = self._out.read()
        self._plain.sendall(data)

    def receive(self) -> bytes:
        """Some bytes; none at the proper end. Raises ``EOFError`` where TCP ends and TLS doesn't."""
        while self.tls is not None:
            try:
                return self.tls.read(262_144)
            except ssl.SSLWantReadError:
                self._exchange()
        return self._plain.recv(262_144)


def _trusting(ca: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13's default
    return context


def connect(web: Site, url: str, timeout: float = 5, resume: Answer | None = None) -> Connection:
    """A connection to the host of ``url``, with TLS verified against the web's authority.

    ``resume``: offer the TLS session that this earlier answer came over.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    earlier = resume or Answer()
    context = (earlier.context or _trusting(web.ca)) if secure else None
    plain = socket.create_connection(address(web, host, 443 if secure else 80), timeout)
    connection = Connection(plain, context, host, earlier.session)
    try:
        connection.handshake()
    except BaseException:
        connection.close()
        raise
    return connection


def request_bytes(
    url: str, *, method: str = "GET", close: bool = True, headers: Mapping[str, str] | None = None
) -> bytes:
    """A request for ``url``; underscores in header names stand for hyphens."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.hostname}", "User-Agent: probe"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in (headers or {}).items()]
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode()


def read(connection: Connection, enough: int | None = None) -> tuple[bytes, str]:
    """Everything until the connection ends, falls silent, or ``enough`` bytes are there."""
    parts: list[bytes] = []
    size = 0
    while enough is None or size < enough:
        try:
            part = connection.receive()
        except ConnectionResetError:
            return b"".join(parts), "reset"
        except EOFError:
            return b"".join(parts), "cut"
        except TimeoutError:
            return b"".join(parts), "silence"
        if not part:
            return b"".join(parts), "eof"
        parts.append(part)
        size += len(part)
    return b"".join(parts), "enough"


def ask(
    web: Site,
    url: str,
    *,
    method: str = "GET",
    enough: int | None = None,
    timeout: float = 5,
    resume: Answer | None = None,
    **headers: str,
) -> Answer:
    """Ask for ``url`` on a connection of its own, and read until it ends."""
    with connect(web, url, timeout, resume) as connection:
        connection.send(request_bytes(url, method=method, headers=headers))
        raw, end = read(connection, enough)
        answer = Answer(raw, end)
        if (tls := connection.tls) is not None:
            answer.context, answer.session, answer.resumed = (
                tls.context,
                tls.session,
                bool(tls.session_reused),
            )
            answer.certificate = tls.getpeercert(binary_form=True) or b""
    return answer
