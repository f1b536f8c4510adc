"""A page whose record is not in the archive any more, as after a power cut, is visited again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.rules.entry import SITEMAP
from node.store import spool
from node.store.warc import Position
from node.work.parser import Parser
from node.work.process import StopFlag
from tests.redis_server import RedisServer
from tests.store.frontier_world import World, settings_for


@pytest.fixture
def world(new_redis: Callable[..., RedisServer]) -> Iterator[World]:
    server = new_redis()
    made = World(server, settings_for(server))
    made.beat()
    yield made
    made.close()


@pytest.mark.parametrize("sitemap", [0, SITEMAP])
@pytest.mark.parametrize("bytes_left", [None, 0, 40])
def test_it_is_queued_again(world: World, bytes_left: int | None, sitemap: int) -> None:
    """The file is not there, or ends too soon: no dead letter, no page that is counted and can't be read."""
    url = "https://x.test/a"
    world.offer("x.test", url)
    (lease,) = world.lease().leases
    pointer = spool.Pointer(Position("f.warc.gz", 0, 50, ""), 3, url, sitemap)
    world.settle(lease, outcome="sitemap" if sitemap else "page", pointer=pointer.pack())
    folder: Path = world.settings.warc_folder
    if bytes_left is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "f.warc.gz").write_bytes(b"x" * bytes_left)
    parser = Parser(world.settings, 1, StopFlag())
    try:
        parser.store.begin()
        parser._work(parser._take())
    finally:
        parser.store.close()
    places = [world.ledger(name) for name in ("queued", "spooled", "done", "pages", "record_gone")]
    assert places == [1, 0, 0, 0, 1]
    world.now_ms = parser.store.now_ms() + 60_000
    world.beat()
    (again,) = world.lease().leases
    assert (again.entry.url, again.entry.depth, again.entry.sitemap) == (url, 3, sitemap)
