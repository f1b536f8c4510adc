"""One request, and the means to answer it: properly, or byte by byte as a broken server would."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from tests.web.pages import compress

MAX_HEAD_BYTES = 65_536
HTML = "text/html; charset=utf-8"

Headers = tuple[tuple[str, str], ...]


class BadRequest(Exception):
    """What came isn't an HTTP/1.x request for a path."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request. Header names are lower case; of a repeated header the first counts."""

    scheme: str
    host: str
    """Lower case, without port."""
    method: str
    target: str
    version: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def steps(self) -> list[str]:
        """The path's segments, percent-decoded."""
        return [unquote(step) for step in self.path.split("/")[1:]]

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants the connection kept (RFC 9112 section 9.3)."""
        wish = self.headers.get("connection", "").lower()
        return wish == "keep-alive" if self.version == "HTTP/1.0" else "close" not in wish

    def accepts(self, coding: str) -> bool:
        """Whether Accept-Encoding names a content coding without refusing it."""
        for item in self.headers.get("accept-encoding", "").lower().split(","):
            name, _, weight = item.partition(";")
            if name.strip() in (coding, "*"):
                return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
        return False


async def read_request(reader: asyncio.StreamReader, scheme: str) -> Request | None:
    """The next request of a connection; None where the client hung up before sending one.

    Raises ``BadRequest`` for anything that isn't the head of an HTTP/1.x request.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if cut.partial.strip():
            raise BadRequest("the request ends in the middle of its head") from cut
        return None
    except asyncio.LimitOverrunError as long:
        raise BadRequest(f"the head is longer than {MAX_HEAD_BYTES} bytes") from long
    first, *lines = head.decode("latin-1").strip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
        raise BadRequest(f"not a request line: {first[:100]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    host = headers.get("host", "").lower()
    host = host.partition(":")[0] if not host.startswith("[") else host.partition("]")[0] + "]"
    return Request(scheme, host, words[0], words[1], words[2], headers)


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    A handler either calls ``answer`` once, or sends whatever it likes with ``send``. Everything
    sent is counted for the log. A handler that leaves the connection in a state that no further
    request could be told apart in, sets ``keep`` to False (``send`` does so by itself).
    """

    request: Request
    writer: asyncio.StreamWriter
    memory: dict[str, Any]
    """What this domain remembers between requests; lives as long as the server."""
    keep: bool = True
    status: int | None = None
    sent_bytes: int = 0
    _headers: list[tuple[str, str]] = field(default_factory=list)

    def header(self, name: str, value: str) -> None:
        """Add a header to the answer to come."""
        self._headers.append((name, value))

    async def answer(
        self,
        status: int = 200,
        body: bytes = b"",
        *,
        kind: str | None = HTML,
        chunked: bool = False,
        coding: str | None = None,
    ) -> None:
        """A proper response. ``kind`` is the Content-Type (None: none is sent).

        ``coding`` only labels: the body is already coded so. See ``answer_compressed``.
        """
        self.keep = self.keep and self.request.keeps_alive
        headers = [("Server", "miniature")]
        headers += [
            (name, value) for name, value in (("Content-Type", kind), ("Content-Encoding", coding)) if value
        ]
        headers += self._headers
        bodiless = status in (204, 304)
        if not bodiless:
            headers.append(
                ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(body)))
            )
        headers.append(("Connection", "keep-alive" if self.keep else "close"))
        data = head(status, tuple(headers))
        if self.request.method != "HEAD" and not bodiless:
            data += chunks(body) if chunked else body
        self.status = status
        await self._write(data)

    async def answer_compressed(
        self, status: int, body: bytes, *, kind: str = HTML, chunked: bool = False
    ) -> None:
        """``answer``, gzip-coded where the client accepts that."""
        self.header("Vary", "Accept-Encoding")
        if self.request.accepts("gzip"):
            await self.answer(status, compress(body), kind=kind, chunked=chunked, coding="gzip")
        else:
            await self.answer(status, body, kind=kind, chunked=chunked)

    async def redirect(self, location: str, status: int = 302) -> None:
        """A proper redirect to ``location``, sent as it is given."""
        self.header("Location", location)
        await self.answer(status, b"<!DOCTYPE html><title>Moved</title><p>Moved.\n")

    async def send(self, data: bytes, status: int | None = None) -> None:
        """Raw bytes, after which the connection can't be kept. ``status`` is for the log."""
        self.keep = False
        if status is not None:
            self.status = status
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Drop the connection with a TCP RST instead of a FIN."""
        self.keep = False
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def head(status: int, headers: Headers) -> bytes:
    """A status line and headers, as bytes."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Whatever"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def chunks(body: bytes, size: int = 16_000, *, end: bool = True) -> bytes:
    """``body`` in the chunked transfer coding; ``end=False`` leaves the last chunk out."""
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    coded = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return coded + (b"0\r\n\r\n" if end else b"")
