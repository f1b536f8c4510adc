"""A TLS server that lets everybody wait: ``python -m tests.bench.waiting FOLDER HOLD_S``; prints its port.

Under every name it has a chain of that name's own (``tests/web/certs.py``, made in FOLDER), answers
robots.txt at once, and a page of 30 KB after HOLD_S, half of it more or less; then it closes. It ends
when its standard input does.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import sys
from functools import cache
from pathlib import Path
from typing import cast

import uvloop

from tests.web.certs import Authority

_HOST = re.compile(rb"\r\nhost: *([^\r:]*)", re.IGNORECASE)
_PAGE = b"<p>" + b"Nothing happens here, and it takes its time. " * 650 + b"</p>"
_DICE = random.Random(1)
_NO_ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Connection(asyncio.Protocol):
    """Answers one request, and closes."""

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass

    def data_received(self, data: bytes) -> None:
        self._said += data
        if b"\r\n\r\n" not in self._said:
            return
        path = self._said.split(b" ", 2)[1]
        if path == b"/robots.txt":
            self._transport.write(_NO_ROBOTS)
            self._transport.close()
        else:
            asyncio.get_running_loop().call_later(self._hold_s * _DICE.uniform(0.5, 1.5), self._answer, path)

    def _answer(self, path: bytes) -> None:
        if self._transport.is_closing():
            return
        host = _HOST.search(self._said)
        body = b"<!doctype html><title>%b%b</title>%b" % (host[1] if host else b"", path, _PAGE)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
        self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        self._transport.close()


def _context(authority: Authority, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.leaf(name))
    return context


async def _serve(folder: Path, hold_s: float) -> None:
    authority = Authority(folder, "mixed")
    own = cache(lambda name: _context(authority, name))
    tls = _context(authority, "nobody.test")

    def by_name(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            connection.context = own(name)

    tls.sni_callback = by_name
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(hold_s), "127.0.0.1", 0, ssl=tls, backlog=8_192, ssl_handshake_timeout=120
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), float(sys.argv[2])))
