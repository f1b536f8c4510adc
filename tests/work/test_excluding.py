"""Excluding while a visit is under way."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from node.rules.entry import Entry, parse_lease
from node.rules.outcome import Outcome, Signal
from node.rules.shard import lane_of
from node.settings import build
from node.store import keys
from node.store.connection import LOST, Store
from node.store.frontier import Frontier, Group, Kind, Settlement
from node.work.excluding import exclude, include
from node.work.fetcher import Fetcher
from node.work.process import Stop
from node.work.visit import Visited
from tests.redis_server import RedisServer
from tests.work.net import Exchange, Server
from tests.work.test_fetcher_leases import until

HOST = "unwilling.test"
URL = f"http://{HOST}/page"


async def test_what_is_in_a_fetchers_hands_comes_back_too(tmp_path: Path, redis_server: RedisServer) -> None:
    """Excluded between robots.txt and the page: the page isn't asked for, and ``include`` brings it back."""
    with redis_server.client() as client:
        client.flushall()
    answering = threading.Event()

    def script(exchange: Exchange) -> None:
        answering.wait(30)
        exchange.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with Server(script) as server:
        settings = build(
            {
                "paths": {"data": str(tmp_path), "redis_socket": str(redis_server.socket)},
                "crawl": {"delay_s": 0.0},
                "dns": {"connect_to": [f"{HOST}:80:127.0.0.1:{server.port}"]},
                "archive": {"disk_reserve_bytes": 0},
            }
        )
        stop = Stop()
        fetcher = Fetcher(settings, 1, stop)
        running = asyncio.create_task(fetcher.run())
        store, frontier = Store(settings), Frontier(settings)
        store.begin()

        def ledger(name: str) -> int:
            (value,) = store.calls([], extra=[("HGET", keys.LEDGER, name)])
            return int(value or 0)

        try:
            group = Group(HOST, lane_of(HOST), store.now_ms(), [Entry(URL, 0, 0).pack()])
            group.slots += frontier.slots(URL)
            store.call(frontier.offer(store.now_ms(), [group]))
            await asyncio.to_thread(server.asked.acquire)  # robots.txt
            (taken,) = exclude(store, frontier, settings, [HOST], "they asked us to")
            assert taken.urls == 0, "it is in the fetcher's hands"

            async def heard() -> bool:
                return fetcher.exclusions.covers(HOST)

            await until(heard)
            answering.set()

            async def dropped() -> bool:
                return ledger("drop:excluded") == 1

            await until(dropped)
            assert (tmp_path / "taken" / f"{HOST}.excluded.txt").read_text() == Entry(URL, 0, 0).pack() + "\n"
            assert [each.split(b" ")[1] for each in server.requests] == [b"/robots.txt"]
            stop.request()
            await running

            (back,), still = include(store, frontier, settings, [HOST])
            assert (back.urls, still) == (1, [])
            assert (ledger("drop:excluded"), ledger("queued")) == (0, 1)
            assert not (tmp_path / "taken" / f"{HOST}.excluded.txt").exists()
        finally:
            answering.set()
            stop.request()
            await running
            store.close()


async def test_what_is_dropped_is_noted_once(tmp_path: Path) -> None:
    """While Redis is away a settle is tried again and again: the file does not grow by that."""
    nowhere = tmp_path / "nobody.sock"
    settings = build({"paths": {"data": str(tmp_path), "redis_socket": str(nowhere)}})
    fetcher = Fetcher(settings, 1, Stop())
    entry = Entry(URL, 0, 0).pack()
    lease = parse_lease(f"1.x.1 0 {HOST} {entry}", lane_of(HOST), 10**15, 0)
    fetcher.results.add(Visited(Settlement(lease, Kind.DROP, Outcome.EXCLUDED, Signal.NONE, sent=False)))
    for _ in range(3):
        with pytest.raises(LOST):
            await fetcher.results.settle()
    assert (tmp_path / "taken" / f"{HOST}.excluded.txt").read_text() == f"{entry}\n"
    assert fetcher.results.waiting
    await fetcher.archive.close()
    fetcher.log.close()
    await fetcher.client.close()
    await fetcher.store.close()
