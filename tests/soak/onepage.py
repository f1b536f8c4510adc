"""A server of one small page under every name, over http: ``python -m tests.soak.onepage``; prints its port.

It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import re
import sys

_HOST = re.compile(rb"\r\nhost: *([^\r]*)", re.IGNORECASE)


class _Connection(asyncio.Protocol):
    """Answers one request, and closes."""

    def __init__(self) -> None:
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._said += data
        if b"\r\n\r\n" not in self._said:
            return
        if self._said.split(b" ", 2)[1] == b"/robots.txt":
            self._transport.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            host = _HOST.search(self._said)
            body = b"<!doctype html><title>%b</title><p>Nothing else." % (host[1] if host else b"?")
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
            self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        self._transport.close()


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
