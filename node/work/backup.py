"""``milliarde snapshot DIR``: a copy of a node's crawl at one moment, whether it runs or not.

First the moment is taken in Redis, then files are copied as they stood just after it, so whatever Redis
points to is there: the copy is what a power cut at that moment would have left, and a restored crawl begins
as after one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from node import __version__
from node.errors import DiskError, InputError, InUseError
from node.settings import Settings
from node.store import keys, moment, transfer
from node.store.connection import Store
from node.store.exclusions import LIST_NAME
from node.store.meeting import fingerprint
from node.store.moment import Moment
from node.store.taken import FOLDER as TAKEN
from node.store.transfer import MANIFEST, File, Manifest
from node.work.backup_files import (
    CONFIG,
    DOMAINS,
    LOG,
    REDIS,
    WARC,
    Piece,
    listing,
    of_archive,
    of_redis,
    of_the_rest,
)

INCOMPLETE: Final = "incomplete"
"""A file that stands in a snapshot's folder until the snapshot is whole."""

OnBytes = Callable[[int, int], None]
"""Told of bytes that were read, and of how many there are in all."""


def snapshot(
    store: Store, settings: Settings, folder: Path, *, with_archive: bool, on_bytes: OnBytes
) -> Manifest:
    """Write a snapshot into ``folder``, which must hold nothing else; answers what it says of itself.

    Raises ``InputError`` or ``InUseError`` where the folder can't be taken for it, ``DiskError``,
    ``StoreError``. Whatever ends it early, nothing stays of it; where not even that is possible
    (``kill -9``), a file ``incomplete`` does, and no manifest, and the next snapshot may take its place.
    """
    with _begun(settings, folder):
        before = listing(settings)
        with ExitStack() as held:
            now, after = moment.take(store, held, lambda: listing(settings))
            made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            pieces = [
                *of_archive(settings, now, before, after, everything=with_archive),
                *of_the_rest(settings, after),
                *of_redis(now),
            ]
            pieces = [_held(piece, held) if piece.needed else piece for piece in pieces]
            files = _bring(settings, folder, pieces, on_bytes)
        manifest = _manifest(settings, now, made, files, with_archive=with_archive)
        transfer.write_manifest(folder, manifest)
    return manifest


def _manifest(
    settings: Settings, now: Moment, made: str, files: Sequence[File], *, with_archive: bool
) -> Manifest:
    return Manifest(
        id=now.id,
        made=made,
        version=__version__,
        schema=keys.SCHEMA,
        redis_version=now.redis_version,
        crawl=settings.crawl.name,
        nodes=settings.crawl.nodes,
        me=settings.crawl.me,
        fingerprint=fingerprint(settings),
        with_archive=with_archive,
        ledger=now.ledger,
        files=tuple(sorted(files, key=lambda file: file.path)),
    )


# -- the folder


@contextmanager
def _begun(settings: Settings, folder: Path) -> Iterator[None]:
    """Holds the folder of a snapshot that is being made, and empties it again if that fails."""
    is_new = _look_at(folder, settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        marker = os.open(folder / INCOMPLETE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise DiskError(f"{folder} can't be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(f"a snapshot is being made in {folder}: name another folder") from None
        _clear(folder)  # what one left that was killed
        try:
            os.pwrite(marker, b"This snapshot is not whole: it is being made, or was cut off.\n", 0)
            yield
        except BaseException as error:
            _clear(folder)
            (folder / INCOMPLETE).unlink()
            if is_new:
                folder.rmdir()
            if isinstance(error, OSError):
                raise DiskError(
                    f"{error.filename or folder}: {error.strerror}; no snapshot was made"
                ) from None
            raise
        (folder / INCOMPLETE).unlink()
    finally:
        os.close(marker)


def _look_at(folder: Path, settings: Settings) -> bool:
    """Is it to be made? Raises where it can't be used."""
    data, here = settings.data.resolve(), folder.resolve()
    if here == data or any(here.is_relative_to(data / each) for each in (REDIS, WARC, LOG, TAKEN, "run")):
        raise InputError(f"{folder} is where the crawl itself lies: name another folder")
    try:
        names = {each.name for each in folder.iterdir()}
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DiskError(f"{folder} can't be used: {error.strerror}") from None
    if MANIFEST in names:
        made = transfer.read_manifest(folder).made
        raise InUseError(
            f"{folder} holds a snapshot of {made}: name another folder, or remove that one first"
        )
    if names and INCOMPLETE not in names:
        raise InUseError(f"{folder} holds other things: name a folder that is empty, or not there")
    return False


def _clear(folder: Path) -> None:
    """Remove what a snapshot that was not finished may have brought."""
    for name in (REDIS, WARC, LOG, TAKEN):
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in (CONFIG, LIST_NAME, f"{MANIFEST}*", f"{DOMAINS}*"):
        for path in folder.glob(pattern):
            path.unlink()


# -- the files


def _bring(settings: Settings, folder: Path, pieces: Sequence[Piece], on_bytes: OnBytes) -> list[File]:
    """Bring all pieces into the folder. Raises ``OSError``, and ``DiskError`` where they don't fit."""
    all_bytes = sum(piece.size for piece in pieces)
    same_disk = folder.stat().st_dev == settings.data.stat().st_dev
    copied = sum(piece.size for piece in pieces if not (piece.final and same_disk))
    transfer.need_room(folder, copied, settings.archive.disk_reserve_bytes if same_disk else 0)
    files = []
    for piece in pieces:
        to = folder / piece.path
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            files.append(_bring_one(piece, to, lambda count: on_bytes(count, all_bytes)))
        except FileNotFoundError:
            if not piece.path.startswith((f"{WARC}/", f"{TAKEN}/")):
                raise
    return files


def _held(piece: Piece, held: ExitStack) -> Piece:
    """The same with its file open, if it is still there."""
    try:
        fd = held.enter_context(_open(piece.sources)).fileno()
    except FileNotFoundError:
        return piece
    return replace(piece, fd=fd, size=os.fstat(fd).st_size if piece.exchanged else piece.size)


def _bring_one(piece: Piece, to: Path, on_bytes: transfer.OnBytes) -> File:
    if piece.content is not None:
        return File(piece.path, piece.size, transfer.write(to, piece.content))
    with ExitStack() as opened:
        fd = piece.fd if piece.fd is not None else opened.enter_context(_open(piece.sources)).fileno()
        if piece.final and os.fstat(fd).st_size == piece.size:
            digest = transfer.link(fd, to, on_bytes)
            if digest is not None:
                return File(piece.path, piece.size, digest)
        return File(piece.path, piece.size, transfer.copy(fd, to, piece.size, on_bytes))


def _open(sources: Sequence[Path]) -> BinaryIO:
    """The first that is there: a file may get its last name meanwhile."""
    for path in sources[:-1]:
        try:
            return path.open("rb")
        except FileNotFoundError:
            continue
    return sources[-1].open("rb")
