"""A visit that fails by a fault of ours."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.settings import build
from node.store import keys
from node.store.connection import AsyncStore
from node.store.frontier import Frontier, Group
from node.work.fetcher import Fetcher
from node.work.process import Stop
from tests.redis_server import RedisServer
from tests.work.test_fetcher_leases import until

HOST = "strange.test"


async def test_a_fault_of_ours_ends_its_visit_and_is_told(tmp_path: Path, redis_server: RedisServer) -> None:
    """What Redis holds of robots.txt is not what it should be: the URL is done, once, with a line in the log
    that says which error it was; the fetcher goes on.
    """
    settings = build(
        {
            "paths": {"data": str(tmp_path), "redis_socket": str(redis_server.socket)},
            "archive": {"disk_reserve_bytes": 0},
        }
    )
    with redis_server.client() as client:
        client.flushall()
        client.set(keys.robots(HOST), "text")
        stop = Stop()
        fetcher = Fetcher(settings, 1, stop)
        running = asyncio.create_task(fetcher.run())
        store, frontier = AsyncStore(settings), Frontier(settings)
        await store.begin()
        try:
            url = f"http://{HOST}/"
            group = Group(HOST, lane_of(HOST), store.now_ms(), [Entry(url, 0, 0).pack()])
            group.slots += frontier.slots(url)
            await store.call(frontier.offer(store.now_ms(), [group]))

            async def is_done() -> object:
                return client.hget(keys.LEDGER, "done") == b"1"

            await until(is_done)
            assert not running.done()
            assert client.hgetall(keys.OUTCOMES) == {b"local_error": b"1"}
        finally:
            stop.request()
            await running
            await store.close()
    lines = [
        json.loads(line)
        for path in settings.log_folder.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert [(line["url"], line["outcome"], line["detail"]) for line in lines] == [
        (url, "local_error", "ResponseError")
    ]
