"""Dead letters: pages that the parsers gave up, and why. To parse them again, nothing is fetched anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from node.rules.domain import registrable
from node.rules.url import host
from node.store import spool
from node.store.archive_names import OPEN
from node.store.connection import Store
from node.store.spool import DeadLetter
from node.work.operate import host_of

BATCH = 1_000


def letters(store: Store, names: Collection[str] = ()) -> Iterator[DeadLetter]:
    """Those of these domains, or all, the newest first; none that is given up meanwhile.

    Raises ``InputError`` where a name is none.
    """
    domains = {registrable(host_of(name)) for name in names}
    before = b""
    while True:
        (answer,) = store.calls([], extra=[spool.read_dead(before, BATCH)])
        found = spool.dead_letters(answer)
        for each in found:
            if not domains or registrable(host(each.pointer.url)) in domains:
                yield each
        if len(found) < BATCH:
            return
        before = found[-1].id


def requeue(store: Store, warc_folder: Path, names: Collection[str] = ()) -> tuple[int, int]:
    """Put them back onto the spool, as pages nobody has read yet; answers how many, and how many stay since
    their file was collected or freed."""
    files: dict[str, bool] = {}

    def is_there(letter: DeadLetter) -> bool:
        file = letter.pointer.position.file
        if file not in files:
            files[file] = any((warc_folder / (file + end)).exists() for end in ("", OPEN))
        return files[file]

    back, stay, left = 0, 0, letters(store, names)
    while batch := list(islice(left, BATCH)):
        there = [letter for letter in batch if is_there(letter)]
        stay += len(batch) - len(there)
        if there:
            back += store.call(spool.requeue(there))
    return back, stay
