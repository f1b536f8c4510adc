"""``archive.keep = "spool"``: WARC files go once every page in them was parsed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node.settings import build
from node.store import keys
from node.store.connection import AsyncStore
from node.store.spool import Pointer
from node.store.tally import Tally
from node.store.warc import Position
from node.work.freeing import Freeing
from tests.redis_server import RedisServer

NAME = "crawl-f01-{:06d}.warc.gz"


@pytest.fixture
async def world(tmp_path: Path, redis_server: RedisServer) -> Any:
    with redis_server.client() as client:
        client.flushall()
    settings = build(
        {
            "paths": {"data": str(tmp_path), "redis_socket": str(redis_server.socket)},
            "archive": {"keep": "spool", "free_after_s": 60.0},
        }
    )
    store, tally = AsyncStore(settings), Tally("fetchers")
    await store.begin()
    folder = settings.warc_folder
    folder.mkdir()
    made = SimpleNamespace(store=store, folder=folder, tally=tally, settled_s=1e9)
    made.freeing = Freeing(settings, "crawl-f01", store, lambda now_s: min(made.settled_s, now_s), tally)

    async def spooled(number: int) -> bytes:
        at = Position(NAME.format(number), 100, 200)
        added = ("XADD", keys.SPOOL, "*", "p", Pointer(at, 0, "http://h.test/").pack())
        (answer,) = await store.calls([], extra=[added])
        return bytes(answer)

    made.spooled = spooled
    yield made
    await store.close()


def there(world: Any) -> list[str]:
    return sorted(path.name for path in world.folder.iterdir())


async def test_a_file_goes_when_nothing_asks_for_it_any_more(world: Any) -> None:
    """Not before it has been closed for a while, nor while a page of it waits on the spool, however many
    others do; what is being written and what is another fetcher's is left alone."""
    one, two, other = NAME.format(1), NAME.format(2), "crawl-f02-000001.warc.gz"
    for name in (one, two, other, NAME.format(3) + ".open"):
        (world.folder / name).write_bytes(b"x" * 1_000)
    for _ in range(2_500):
        await world.spooled(2)
    last = await world.spooled(1)
    free = world.freeing.free
    assert await free(100.0) == 0
    assert await free(159.0) == 0
    assert await free(161.0) == 0, "both are wanted"
    await world.store.calls([], extra=[("XDEL", keys.SPOOL, last)])
    assert await free(162.0) == 1
    assert there(world) == [two, NAME.format(3) + ".open", other]
    await world.store.calls([], extra=[("DEL", keys.SPOOL)])
    assert await free(163.0) == 1
    assert there(world) == [NAME.format(3) + ".open", other]
    counted = {name: int(by) for _, _, name, by in world.tally.take() if name.startswith("archive")}
    assert counted == {"archive_freed_files": 2, "archive_freed_bytes": 2_000}


async def test_a_page_that_is_not_settled_keeps_its_file(world: Any) -> None:
    """While Redis was away pages were fetched that nothing points to yet: their file stays till they are
    settled, however old it is."""
    (world.folder / NAME.format(1)).write_bytes(b"x")
    await world.freeing.free(100.0)
    world.settled_s = 150.0
    assert await world.freeing.free(10_000.0) == 0
    world.settled_s = 170.0
    assert await world.freeing.free(10_001.0) == 1
