"""A node's store, opened for a command, whether the node runs or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from node.errors import StoreError
from node.settings import Settings
from node.store import keys
from node.store.connection import LOST, Store
from node.store.frontier import Frontier
from node.work.redis_server import RedisServer


@dataclass(frozen=True, slots=True)
class OpenNode:
    """What a command works with."""

    settings: Settings
    store: Store
    frontier: Frontier


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[OpenNode]:
    """Meet the node's Redis; one that ``milliarde crawl`` left stopped is started for the while.

    Raises ``StoreError`` where there is none.
    """
    store = Store(settings)
    server: RedisServer | None = None
    clean = False
    try:
        try:
            store.begin()
        except StoreError:
            if not (Path(settings.paths.data) / "redis" / "appendonlydir").is_dir():
                raise
            server = RedisServer(settings)
            server.start()
            clean = store.begin().how == "clean"
        yield OpenNode(settings, store, Frontier(settings))
        if server is not None and clean:
            store.calls([], extra=[("HSET", keys.META, "clean", "1")])
    except LOST as error:
        raise StoreError(f"Redis went away in the middle: {error}") from None
    finally:
        store.close()
        if server is not None:
            server.stop()
