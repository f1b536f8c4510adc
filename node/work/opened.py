"""A node's store, opened for a command, whether the node runs or not."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redis.exceptions import ResponseError

from node.errors import InUseError, StoreError
from node.settings import Settings
from node.store import keys
from node.store.connection import LOST, Store
from node.store.frontier import Frontier
from node.store.refusals import CanNotWriteError, is_out_of_memory
from node.work.patience import NO_MEMORY
from node.work.redis_server import LAST_FLUSH_S, RedisServer


@dataclass(frozen=True, slots=True)
class OpenNode:
    """What a command works with."""

    settings: Settings
    store: Store
    frontier: Frontier


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[OpenNode]:
    """Meet the node's Redis; one that ``milliarde crawl`` left stopped is started for the while.

    A Redis that can't write, as on a full disk, is met all the same: what only reads goes on. Raises
    ``StoreError`` where there is no Redis, or one that can't write what the command wants, or has no memory
    for it.
    """
    store = Store(settings)
    server: RedisServer | None = None
    try:
        server = _met(store, settings)
        clean = store.begun is not None and store.begun.how == "clean"
        yield OpenNode(settings, store, Frontier(settings))
        if server is not None and clean:
            store.calls([], extra=[("HSET", keys.META, "clean", "1")])
    except CanNotWriteError as error:
        raise StoreError(f"Redis refuses what changes anything, since it can't write: {error}") from None
    except LOST as error:
        raise StoreError(f"Redis went away in the middle: {error}") from None
    except ResponseError as error:
        if not is_out_of_memory(error):
            raise
        raise StoreError(NO_MEMORY) from None
    finally:
        store.close()
        if server is not None:
            server.stop()


def _met(store: Store, settings: Settings) -> RedisServer | None:
    """Meet the Redis that runs (None), or start one and answer it."""
    give_up = time.monotonic() + LAST_FLUSH_S
    while True:
        try:
            store.begin()
            return None
        except CanNotWriteError:
            store.peek()
            return None
        except StoreError:
            if not (Path(settings.paths.data) / "redis" / "appendonlydir").is_dir():
                raise
        server = RedisServer(settings)
        try:
            server.start(patience_s=0)
        except InUseError as error:
            # There is one that does not answer: it is loading its data, or it is about to end.
            if time.monotonic() > give_up:
                raise StoreError(f"{error}; but it does not answer") from None
            time.sleep(0.05)
            continue
        if server.mended:
            sys.stderr.write(f"{server.mended}\n")
        try:
            store.begin()
        except BaseException:
            server.stop()
            raise
        return server
