"""Cables between a crawler and the miniature web, which can be cut: a link that is down, without root.

Each domain is reached through a relay at an address of its own network (127.1.0.1, 127.2.0.1, ...); while
they are cut, connections are refused and those that stood are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.web.running import MiniWeb


class Cables:
    """Relays to ``web`` for ``hosts``, which are spread over ``networks`` by their domain."""

    def __init__(self, web: MiniWeb, hosts: Iterable[str], *, networks: int = 4) -> None:
        self._web = web
        self._hosts = sorted(set(hosts))
        self._networks = networks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ports: dict[tuple[str, int], int] = {}
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self.ca: Path = web.ca
        self.connect_to: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        domains = sorted({_domain(host) for host in self._hosts})
        for host in self._hosts:
            address = self._address(domains.index(_domain(host)) % self._networks)
            for port in (443, 80):
                self.connect_to.append(f"{host}:{port}:{address}:{self._ports[address, port]}")
        self.connect_to += self._web.connect_to
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Nobody is reached any more."""
        self._do(self._close())

    def mend(self) -> None:
        """As before, on the same ports."""
        self._do(self._listen())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    @staticmethod
    def _address(network: int) -> str:
        return f"127.{network + 1}.0.1"

    async def _listen(self) -> None:
        for network in range(self._networks):
            address = self._address(network)
            for port, beyond in ((443, self._web.https_port), (80, self._web.http_port)):

                async def relay(
                    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, beyond: int = beyond
                ) -> None:
                    await self._relay(reader, writer, beyond)

                known = self._ports.get((address, port), 0)
                server = await asyncio.start_server(relay, address, known)
                self._ports[address, port] = server.sockets[0].getsockname()[1]
                self._servers.append(server)

    async def _close(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._open.add(writer)
        far = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", port)
            self._open.add(far)
            await asyncio.gather(_copy(reader, far), _copy(far_reader, writer))
        except OSError:
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    self._open.discard(each)
                    each.transport.abort()


def _domain(host: str) -> str:
    return ".".join(host.split(".")[-2:])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
