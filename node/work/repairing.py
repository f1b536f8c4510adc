"""``milliarde check --repair``: the node to oneself, and its state put right."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from node.errors import InUseError
from node.settings import Settings
from node.store import keys
from node.store.connection import ADOPT_MS, Store
from node.store.findings import Findings
from node.store.repair import Repaired, repair
from node.work import process
from node.work.local import data_lock
from node.work.opened import opened

_WORKER = re.compile(r"(fetcher|parser)-(\d+)\.lock")


def repaired(settings: Settings) -> tuple[Repaired, Findings]:
    """Put right what a check finds broken; answers what was done, and what a check finds after it.

    No crawl, fetcher or parser may run here: raises ``InUseError``, naming the first that does. None of them
    can start meanwhile.
    """
    with _alone(settings), opened(settings) as node:
        _nobody_lives(node.store)
        return repair(node.store, settings.warc_folder)


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Hold the locks of all that could work on the node, as far as it ever did."""
    with contextlib.ExitStack() as held:
        held.enter_context(data_lock(settings))
        run = settings.data / "run"
        for path in sorted(run.glob("*.lock")):
            if found := _WORKER.fullmatch(path.name):
                held.enter_context(process.lock(path, f"{found[1]} {found[2]}"))
        yield


def _nobody_lives(store: Store) -> None:
    """A fetcher whose lock we can't see, as one of another folder with this Redis, shows itself."""
    (flat,) = store.calls([], extra=[("HGETALL", keys.BEATS)])
    for number, beat in zip(flat[::2], flat[1::2], strict=True):
        if store.now_ms() - int(beat.split(b" ")[1]) < ADOPT_MS:
            raise InUseError(
                f"fetcher {number.decode()} was at work here a moment ago: stop it, and repair in "
                f"{ADOPT_MS // 1000} s"
            )
