"""Does a Redis on a restored copy hold just what the snapshot was made of?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import redis

from node.errors import CheckError, StoreError
from node.settings import Settings
from node.settings.sections import Paths
from node.store import keys, moment, spool
from node.store.archive_names import DAMAGED, OPEN
from node.store.connection import Store
from node.store.transfer import Manifest
from node.work.backup_files import WARC
from node.work.redis_server import RedisServer, socket_path

_PAGES_PER_CALL: Final = 1_000


def prove(settings: Settings, staging: Path, manifest: Manifest) -> tuple[str, int]:
    """Start a Redis on ``staging`` and compare; it is then no clean end that the next start will find.

    Answers why the crawl is paused (empty: it is not), and how many pages of the spool lie in no file there.
    Raises ``StoreError`` where Redis can't read it, ``CheckError`` where it holds something else.
    """
    paths = Paths(data=str(staging), redis_socket=str(socket_path(staging)))
    settings = msgspec.structs.replace(settings, paths=paths)
    server, store = RedisServer(settings), Store(settings)
    try:
        server.start()
        return _compare(store, staging, manifest)
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise StoreError(f"Redis went away in the middle: {error}") from None
    except StoreError as error:
        raise StoreError(f"{error}\n(the snapshot is of Redis {manifest.redis_version})") from None
    finally:
        store.close()
        server.stop()


def _compare(store: Store, staging: Path, manifest: Manifest) -> tuple[str, int]:
    # on a smaller machine it may be over its limit, and sheds what is too much once it crawls
    store.calls([], extra=[("CONFIG", "SET", "maxmemory", "0")])
    if moment.held_by(store) != (manifest.id, manifest.ledger):
        raise CheckError(
            "Redis does not hold what the snapshot says it does: is this Redis older than the snapshot's "
            f"({manifest.redis_version})?"
        )
    # a clean stop would mean that nothing has happened unseen
    not_clean = ("HSET", keys.META, "clean", "0")
    *_, paused = store.calls([], extra=[not_clean, ("DEL", keys.PROCS), ("HGET", keys.CONTROL, "pause")])
    return (paused or b"").decode(), sum(1 for _ in _without_bytes(store, staging / WARC))


def _without_bytes(store: Store, warc: Path) -> Iterator[spool.Page]:
    sizes: dict[str, int] = {}
    if warc.is_dir():
        for path in warc.iterdir():
            sizes[path.name.removesuffix(OPEN).removesuffix(DAMAGED)] = path.stat().st_size
    after = b"-"
    while True:
        part = ("XRANGE", keys.SPOOL, after, "+", "COUNT", _PAGES_PER_CALL)
        (found,) = store.calls([], extra=[part])
        pages = spool.pages_read([(b"", found)])
        for page in pages:
            at = page.pointer.position
            if sizes.get(at.file, 0) < at.offset + at.length:
                yield page
        if not pages:
            return
        after = b"(" + pages[-1].id
