"""Files into a snapshot and out of it: copied or linked, and digested on the way.

A file that never changes again is linked where both folders are on one disk: it costs nothing, and each keeps
it as long as it likes. All others are copied, up to a size that was settled before. What is copied is on the
disk when its function returns.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from shutil import disk_usage
from typing import Final, Literal

import msgspec

from node.errors import CheckError, DiskError, InputError
from node.store.numbering import fsync_folder

MANIFEST: Final = "manifest.json"
FORMAT: Final = "milliarde snapshot 1"
_CHUNK: Final = 1 << 20

OnBytes = Callable[[int], None]
"""Told of each piece that was read."""


class File(msgspec.Struct, frozen=True):
    """A file of a snapshot. ``path``: below its folder, with ``/``."""

    path: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot says of itself; written last, so a folder without it holds none."""

    format: Literal["milliarde snapshot 1"] = FORMAT
    id: str
    """Stands in its Redis data, too."""
    made: str
    """The moment: ISO 8601, UTC."""
    version: str
    """Of Milliarde."""
    schema: str
    """Of the data in Redis (``store/keys.py``)."""
    redis_version: str
    crawl: str
    nodes: int
    me: int
    fingerprint: str
    with_archive: bool
    """Holds all WARC files, not only those of pages that were not parsed yet."""
    ledger: dict[str, int]
    """All counters of I1 at that moment."""
    files: tuple[File, ...]


def copy(fd: int, to: Path, size: int, on_bytes: OnBytes) -> str:
    """Copy the first ``size`` bytes of ``fd``; answers their SHA-256. Raises ``OSError``."""
    out = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        with open(out, "wb", buffering=0, closefd=False) as file:
            digest = _read(fd, size, on_bytes, file.write)
        os.fdatasync(out)
    finally:
        os.close(out)
    return digest


def write(to: Path, content: bytes) -> str:
    """Make a small file; answers its SHA-256. Raises ``OSError``."""
    with to.open("xb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    return hashlib.sha256(content).hexdigest()


def link(fd: int, to: Path, on_bytes: OnBytes) -> str | None:
    """Have the file of ``fd`` under another name, too; answers its SHA-256, None where that can't be done.

    Raises ``OSError`` where it can't be read.
    """
    # By its descriptor, since its name may be another by now; only with a folder does Python follow it.
    try:
        descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.link(str(fd), to, src_dir_fd=descriptors, follow_symlinks=True)
        finally:
            os.close(descriptors)
    except OSError:  # another disk, one without links, somebody else's file, or it has lost its last name
        return None
    try:
        return _read(fd, os.fstat(fd).st_size, on_bytes)
    except BaseException:
        to.unlink()
        raise


def digest(path: Path, size: int, on_bytes: OnBytes) -> str:
    """SHA-256 of the first ``size`` bytes. Raises ``OSError``."""
    with path.open("rb") as file:
        return _read(file.fileno(), size, on_bytes)


def _read(fd: int, size: int, on_bytes: OnBytes, write: Callable[[memoryview], int] | None = None) -> str:
    found = hashlib.sha256()
    at = 0
    while at < size:
        piece = os.pread(fd, min(_CHUNK, size - at), at)
        if not piece:
            raise OSError(None, f"it ends after {at} bytes, not {size}")
        found.update(piece)
        if write is not None:
            left = memoryview(piece)
            while left:
                left = left[write(left) :]
        at += len(piece)
        on_bytes(len(piece))
    return found.hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it, and have it on the disk with all names of the folder. Raises ``OSError``."""
    for each in {folder, *(parent for file in manifest.files for parent in (folder / file.path).parents)}:
        if each.is_relative_to(folder):
            fsync_folder(each)
    new = folder / f"{MANIFEST}.new"
    with new.open("wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    new.replace(folder / MANIFEST)
    fsync_folder(folder)


def read_manifest(folder: Path) -> Manifest:
    """Raises ``InputError`` where there is none that can be used."""
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no whole snapshot: {MANIFEST}, which is written last, is not there"
        ) from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise InputError(f"{path} is no list of a snapshot's files: {error}") from None
    for file in manifest.files:
        pure = PurePosixPath(file.path)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in file.path:
            raise InputError(f"{path}: {file.path!r} is no name of a file in a snapshot")
    return manifest


def expect(file: File, found: str) -> None:
    """Raises ``CheckError`` where a file is not as it was."""
    if found != file.sha256:
        raise CheckError(f"{file.path} is not as it was when the snapshot was made: take another one")


def need_room(folder: Path, bytes_: int, reserve: int) -> None:
    """Raises ``DiskError`` where ``bytes_`` don't fit and leave ``reserve``."""
    free = disk_usage(folder).free
    if free < bytes_ + reserve:
        beside = f" and {reserve:,} must stay free" if reserve else ""
        raise DiskError(f"{folder}: {bytes_:,} bytes are needed{beside}, but {free:,} are free: make room")
