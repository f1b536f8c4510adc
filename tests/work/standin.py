"""A stand-in gateway over real HTTP(S): a scraping API and a forward proxy in front of the miniature web.

It has a key, a plan it can be told to speak of, and sites behind it that it really asks.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Self
from urllib.parse import parse_qs, urlsplit

from tests.web.running import MiniWeb
from tests.web_test.client import address, connect, read, request_bytes
from tests.work.net import Exchange, Server

TARGET_STATUS = "X-Target-Status"
"""The API names the site's status in it; an answer without it is the API's own."""

Own = Callable[[str], bytes | None]
"""What it says for itself to a call for this URL; None: it passes the call on."""


def reply(status: int, body: str = "", **headers: str) -> bytes:
    """A whole response; underscores in header names stand for hyphens."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body.encode())}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", body]).encode()


class StandIn:
    """Serves ``/v1?key=KEY&url=URL``, and everything a forward proxy does, on one port.

    ``own`` decides what it says for itself, ``mangle`` what it does to an answer that it passes on.
    ``calls`` lists when (monotonic) it was called for which URL, with a right key or not.
    """

    def __init__(self, web: MiniWeb, key: str, tls: ssl.SSLContext | None = None) -> None:
        self.web = web
        self.key = key
        self.own: Own = lambda url: None
        self.mangle: Callable[[bytes, Exchange], bytes] = lambda raw, _: raw
        self.calls: list[tuple[float, str]] = []
        self.heads: list[bytes] = []
        self._lock = threading.Lock()
        self._server = Server(self._serve, tls)
        self.port = self._server.port

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *words: object) -> None:
        self._server.__exit__(*words)

    @property
    def urls(self) -> list[str]:
        """What it was called for."""
        return [url for _, url in self.calls]

    def _called(self, url: str, head: bytes) -> None:
        with self._lock:
            self.calls.append((time.monotonic(), url))
            self.heads.append(head)

    def _serve(self, x: Exchange) -> None:
        method, _, rest = x.request.partition(b" ")
        target = rest.partition(b" ")[0].decode()
        if not target:
            return
        if method == b"CONNECT":
            self._tunnel(x, target)
        elif target.startswith("http://"):
            self._forward(x, target)
        else:
            self._api(x, target)

    # -- as an API

    def _api(self, x: Exchange, target: str) -> None:
        asked = parse_qs(urlsplit(target).query)
        url = asked.get("url", [""])[0]
        self._called(url, x.request)
        keys = asked.get("key", []) + [
            line.partition(b": ")[2].decode() for line in x.request.split(b"\r\n") if line[:7] == b"X-Key: "
        ]
        own = self.own(url) if self.key in keys else reply(401, f"unknown key {keys}")
        if own is not None:
            x.send(own)
            return
        raw = self._ask(url)
        status = raw.split(b" ", 2)[1]
        line, head_and_body = raw.split(b"\r\n", 1)
        answer = b"%b\r\n%b: %b\r\n%b" % (line, TARGET_STATUS.encode(), status, head_and_body)
        x.send(self.mangle(answer, x))

    def _ask(self, url: str) -> bytes:
        with connect(self.web, url) as connection:
            connection.send(request_bytes(url, headers={"Accept_Encoding": "gzip"}))
            return read(connection)[0]

    # -- as a proxy

    def _paid(self, x: Exchange) -> bool:
        wanted = b"Proxy-Authorization: Basic " + base64.b64encode(self.key.encode())
        return wanted in x.request.split(b"\r\n")

    def _forward(self, x: Exchange, url: str) -> None:
        self._called(url, x.request)
        own = self.own(url) if self._paid(x) else reply(407)
        x.send(self.mangle(self._ask(url), x) if own is None else own)

    def _tunnel(self, x: Exchange, target: str) -> None:
        self._called(target, x.request)
        own = self.own(target) if self._paid(x) else reply(407)
        if own is not None:
            x.send(own)
            return
        host, _, port = target.rpartition(":")
        with socket.create_connection(address(self.web, host, int(port)), 5) as there:
            x.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(there, x.sock), daemon=True)
            back.start()
            _pump(x.sock, there)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Hand on bytes until one side ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for side in (source, sink):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
