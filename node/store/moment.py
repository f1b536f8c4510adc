"""One moment of a running Redis, taken from its append-only file without stopping or copying it.

A mark is written in one step with a look at what the snapshot must know; where it stands in the file, the
moment ends. Files that hold what came before are held open, so a rewrite that removes them takes nothing
away. No fork, no second copy in memory, whatever the size of the data: what is read is on the disk already.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from node.errors import DiskError, StoreError
from node.store import keys
from node.store.connection import Store, info_of
from node.store.spool import pages_seen

T = TypeVar("T")

PATIENCE_S: Final = 60.0
"""How long Redis may take until the mark is in its file; a slow disk holds that up for two seconds or so."""
_TRIES: Final = 5
"""Rewrites that begin just as a moment is taken: it is then taken anew."""
_EVERY_S: Final = 0.02
_EXEC: Final = b"*1\r\n$4\r\nEXEC\r\n"
_MARK: Final = """
redis.call('DEL', 'gate')  -- at `maxmemory` nothing is refused to a script that has written (lua/_lib.lua)
redis.call('HSET', KEYS[1], 'snapshot', ARGV[1])
return { redis.call('HGETALL', KEYS[2]), redis.call('XRANGE', KEYS[3], '-', '+') }
"""
"""One step; a transaction would be refused at ``maxmemory``."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of Redis's, held open: of ``fd`` the first ``size`` bytes, called ``name`` below Redis's folder.

    ``final``: nothing is ever added to it.
    """

    name: str
    fd: int
    size: int
    final: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """What Redis held at one moment. ``id`` stands in it, too (field ``snapshot`` of ``meta``)."""

    id: str
    ledger: dict[str, int]
    spooled_in: frozenset[str]
    """Archive files that hold pages of the spool."""
    redis_version: str
    manifest: str
    """Redis's own list of ``parts``; empty where it keeps one file only (before Redis 7)."""
    manifest_name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """The append-only file as it lies on the disk now."""

    manifest: str
    manifest_name: str
    parts: tuple[tuple[str, Path], ...]
    last: int
    """Inode of the last of them: before Redis 7 another file takes the place of the only one."""


def take(store: Store, held: ExitStack, look: Callable[[], T]) -> tuple[Moment, T]:
    """Take a moment, and a ``look`` at what else there is right after it; files are open as long as ``held``.

    Where a moment has to be taken anew, so is the look. Raises ``StoreError`` where Redis keeps no
    append-only file or the mark does not get there, ``DiskError`` where that can't be read.
    """
    told = {name: _config(store, name) for name in ("appendonly", "dir", "appendfilename", "appenddirname")}
    (answer,) = store.calls([], extra=[("INFO", "server")])
    version = info_of(answer)["redis_version"]
    if told["appendonly"] != "yes":
        raise StoreError("Redis keeps no append-only file (appendonly yes), so there is nothing to copy")
    for _ in range(_TRIES):
        with ExitStack() as opened:
            try:
                files = _files(told)
                fds = [opened.enter_context(path.open("rb")).fileno() for _, path in files.parts]
                begun_at = os.fstat(fds[-1]).st_size
                id_ = uuid.uuid4().hex
                ledger, spooled_in = _mark(store, id_)
                seen = look()
                end = _end_of_mark(fds[-1], begun_at, id_.encode(), partial(_is_other, told, files))
            except FileNotFoundError:  # a rewrite has just ended
                continue
            except OSError as error:
                raise DiskError(
                    f"{error.filename or told['dir']}: {error.strerror}; it can't be read"
                ) from None
            if end is None:
                continue
            held.push(opened.pop_all())
            last = len(fds) - 1
            parts = tuple(
                Part(name, fd, end if i == last else os.fstat(fd).st_size, final=i != last)
                for i, ((name, _), fd) in enumerate(zip(files.parts, fds, strict=True))
            )
            taken = Moment(id_, ledger, spooled_in, version, files.manifest, files.manifest_name, parts)
            return taken, seen
    raise StoreError("Redis rewrites its append-only file all the time: try again later")


def _config(store: Store, name: str) -> str:
    (answer,) = store.calls([], extra=[("CONFIG", "GET", name)])
    return answer[1].decode() if answer else ""


def _files(told: dict[str, str]) -> _Files:
    """Raises ``OSError``."""
    folder, name, inner = Path(told["dir"]), told["appendfilename"], told["appenddirname"]
    if not inner:
        return _Files("", "", ((name, folder / name),), (folder / name).stat().st_ino)
    text = (folder / inner / f"{name}.manifest").read_text(encoding="utf-8")
    # "file NAME seq N type b": b = base, i = what came after it, h = to be removed
    lines = [line for line in text.splitlines() if not re.search(r" type h\b", line)]
    names = [line.split(" ")[1] for line in lines if line.startswith("file ")]
    parts = tuple((f"{inner}/{each}", folder / inner / each) for each in names)
    text = "".join(f"{line}\n" for line in lines)
    return _Files(text, f"{inner}/{name}.manifest", parts, parts[-1][1].stat().st_ino)


def _is_other(told: dict[str, str], files: _Files) -> bool:
    """Has a rewrite begun or ended since?"""
    return _files(told) != files


def _mark(store: Store, id_: str) -> tuple[dict[str, int], frozenset[str]]:
    command = ("EVAL", _MARK, 3, keys.META, keys.LEDGER, keys.SPOOL, id_)
    ((ledger, spool),) = store.calls([], extra=[command])
    return _counts(ledger), frozenset(page.pointer.position.file for page in pages_seen(spool))


def _end_of_mark(fd: int, begun_at: int, id_: bytes, moved: Callable[[], bool]) -> int | None:
    """Where the mark ends; None where it went into another file. Raises ``StoreError``."""
    give_up = time.monotonic() + PATIENCE_S
    wanted = id_ + b"\r\n"
    while True:
        was_moved = moved()
        tail = os.pread(fd, os.fstat(fd).st_size - begun_at, begun_at)
        found = tail.find(wanted)
        if found >= 0:
            end = found + len(wanted)
            return begun_at + end + (len(_EXEC) if tail.startswith(_EXEC, end) else 0)
        if was_moved:
            return None
        if time.monotonic() > give_up:
            raise StoreError(
                f"Redis wrote nothing to its append-only file for {PATIENCE_S:.0f} s: is the disk full?"
            )
        time.sleep(_EVERY_S)


def held_by(store: Store) -> tuple[str, dict[str, int]]:
    """(id of the moment, ledger) of a Redis that was started on a copy."""
    id_, ledger = store.calls([], extra=[("HGET", keys.META, "snapshot"), ("HGETALL", keys.LEDGER)])
    return (id_ or b"").decode(), _counts(ledger)


def _counts(flat: list[bytes]) -> dict[str, int]:
    return {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}
