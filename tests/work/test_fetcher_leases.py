"""A fetcher keeps the leases of visits that live, however long they take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.settings import build
from node.store import keys
from node.store.connection import AsyncStore
from node.store.frontier import Frontier, Group
from node.work.fetcher import Fetcher
from node.work.process import Stop
from tests.redis_server import RedisServer
from tests.work.net import Exchange, Server

HOST = "slow.test"


async def until(holds: Callable[[], Awaitable[object]], within_s: float = 30.0) -> None:
    """Wait until the coroutine function ``holds`` answers something true."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
def answering() -> threading.Event:
    """The page is answered once this is set."""
    return threading.Event()


async def test_a_slow_visit_keeps_its_lease(
    tmp_path: Path, redis_server: RedisServer, answering: threading.Event
) -> None:
    """The site takes longer than a lease lasts: the URL is not given out again, and its page counts once
    (F04)."""
    with redis_server.client() as client:
        client.flushall()

    def script(exchange: Exchange) -> None:
        if b"robots.txt" in exchange.request:
            exchange.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        answering.wait(30)
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")

    with Server(script) as server:
        settings = build(
            {
                "paths": {"data": str(tmp_path), "redis_socket": str(redis_server.socket)},
                "crawl": {"delay_s": 0.0},
                "fetcher": {"deadline_s": 30.0},
                "dns": {"connect_to": [f"{HOST}:80:127.0.0.1:{server.port}"]},
                "archive": {"disk_reserve_bytes": 0},
            }
        )
        stop = Stop()
        fetcher = Fetcher(settings, 1, stop)
        running = asyncio.create_task(fetcher.run())
        store, frontier = AsyncStore(settings), Frontier(settings)
        await store.begin()
        lane = lane_of(HOST)

        async def expiry_ms() -> int:
            found = await store.redis.execute_command("ZRANGE", keys.leases(lane), 0, -1, "WITHSCORES")
            return int(float(found[1])) if found else 0

        async def ledger(name: str) -> int:
            return int(await store.redis.execute_command("HGET", keys.LEDGER, name) or 0)

        def later(ms: int) -> None:
            for each in (store, fetcher.store):
                each.clock.base_ms += ms

        try:
            group = Group(HOST, lane, store.now_ms(), [Entry(f"http://{HOST}/", 0, 0).pack()])
            group.slots += frontier.slots(f"http://{HOST}/")
            await store.call(frontier.offer(store.now_ms(), [group]))
            await asyncio.to_thread(server.asked.acquire)
            await asyncio.to_thread(server.asked.acquire)  # robots.txt, then the page
            first = await expiry_ms()
            for _ in range(3):  # each time a lease is half over
                before = await expiry_ms()
                later(frontier.lease_ms // 2)

                async def is_extended(before: int = before) -> bool:
                    return await expiry_ms() > before

                await until(is_extended)
            assert store.now_ms() > first
            assert await store.call(frontier.reap(store.now_ms(), lane, 10)) == 0
            answering.set()

            async def is_stored() -> bool:
                return await ledger("pages") == 1

            await until(is_stored)
            assert (await ledger("reaped"), await ledger("stale"), await ledger("leased")) == (0, 0, 0)
            assert len(server.requests) == 2
            assert len(fetcher.held) == 0
        finally:
            answering.set()
            stop.request()
            await running
            await store.close()
