"""``milliarde restore SNAPSHOT``: make a node of a snapshot, in a new folder or where ``node.toml`` says.

All is brought into ``.restoring`` inside the node's folder, digests are compared, a Redis is started on it
that must hold just what the snapshot was made of; only then it is put in its place, Redis's data last. The
node then starts as after a power cut: leases go back, what the archive holds is settled, and no domain is
visited before its delay has passed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import redis

from node import settings as settings_of
from node.errors import CheckError, DiskError, InputError, InUseError, OtherCrawlError
from node.settings import Settings
from node.settings.sections import Paths
from node.store import fetchlog, keys, transfer
from node.store.archive_names import DAMAGED, OPEN, SUFFIX
from node.store.connection import LOST
from node.store.exclusions import LIST_NAME
from node.store.meeting import fingerprint
from node.store.numbering import fsync_folder
from node.store.transfer import File, Manifest
from node.work import process
from node.work.backup import INCOMPLETE, OnBytes
from node.work.backup_files import CONFIG, DOMAINS, LOG, REDIS, WARC
from node.work.redis_server import socket_path
from node.work.restore_proof import prove

STAGING: Final = ".restoring"
_AUDIT: Final = "taken/audit.jsonl"


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored. ``list_kept``: the node had a list of excluded names already, and goes by that."""

    manifest: Manifest
    settings: Settings
    paused: str
    without_bytes: int
    """Pages on the spool that no archive file holds: parsers send them back to their queues."""
    list_kept: bool


def settings_for_folder(snapshot: Path, out: Path) -> Settings:
    """Those of a snapshot, for a node in ``out`` that ``milliarde crawl`` runs.

    Raises ``InputError`` where there is no whole snapshot.
    """
    manifest = transfer.read_manifest(snapshot)
    settings = settings_of.load(snapshot / CONFIG)
    here = out.resolve()
    crawl = settings.crawl
    if crawl.domain_list is not None:
        name = next(file.path for file in manifest.files if _is_list(file))
        crawl = msgspec.structs.replace(crawl, domain_list=str(here / name))
    paths = Paths(data=str(here), redis_socket=str(socket_path(here)))
    return msgspec.structs.replace(settings, paths=paths, crawl=crawl)


def restore(snapshot: Path, settings: Settings, *, with_settings: bool, on_bytes: OnBytes) -> Restored:
    """Restore into the folder of ``settings``; ``with_settings``: they are to be written there, too.

    Raises ``InputError`` (no snapshot), ``OtherCrawlError`` (another shard, or another layout),
    ``InUseError`` (a crawl is there, or runs), ``CheckError`` (damaged), ``DiskError``, ``StoreError``;
    nothing is then changed.
    """
    manifest = transfer.read_manifest(snapshot)
    if (snapshot / INCOMPLETE).exists():
        raise InputError(f"{snapshot} is no whole snapshot: it is being made, or was cut off")
    _see_layout(manifest)
    # its list is not at its place yet
    _see_shard(manifest, settings_for_folder(snapshot, snapshot) if with_settings else settings)
    with _held(settings), _staging(settings) as staging:
        _see_room(snapshot, manifest, settings)
        all_bytes = sum(file.bytes for file in manifest.files)
        for file in manifest.files:
            _fetch(snapshot, file, staging, lambda count: on_bytes(count, all_bytes))
        paused, without_bytes = prove(settings, staging, manifest)
        list_kept = _put_in_place(settings, staging, manifest, with_settings=with_settings)
    return Restored(manifest, settings, paused, without_bytes, list_kept)


# -- may it be?


def _see_layout(manifest: Manifest) -> None:
    if manifest.schema != keys.SCHEMA:
        raise OtherCrawlError(
            f"the snapshot is of layout {manifest.schema} (Milliarde {manifest.version}), this version knows "
            f"{keys.SCHEMA}: restore it with the version it was made by"
        )


def _see_shard(manifest: Manifest, settings: Settings) -> None:
    ours, theirs = fingerprint(settings).split(), manifest.fingerprint.split()
    if ours != theirs:
        here = " ".join(sorted(set(ours) - set(theirs)))
        there = " ".join(sorted(set(theirs) - set(ours)))
        raise OtherCrawlError(
            f"the snapshot is of another crawl, another shard or other settings (here {here}; there {there})"
        )


@contextmanager
def _held(settings: Settings) -> Iterator[None]:
    """Holds the node's folder. Raises ``InUseError`` where a crawl is in it, or one runs."""
    client = redis.Redis(unix_socket_path=settings.paths.redis_socket)
    try:
        client.ping()
        raise InUseError(
            f"a Redis answers at {settings.paths.redis_socket}: stop the node and its Redis first"
        )
    except redis.ResponseError:
        raise InUseError(
            f"a Redis is at {settings.paths.redis_socket}: stop the node and its Redis first"
        ) from None
    except LOST:
        pass
    finally:
        client.close()
    found = next(_what_a_crawl_leaves(settings.data), None)
    if found is not None:
        raise InUseError(
            f"{settings.data} holds a crawl already ({found.relative_to(settings.data)}): "
            "name another folder, or move that one away"
        )
    is_new = not settings.data.exists()
    run = settings.data / "run"
    try:
        with ExitStack() as locks:
            locks.enter_context(process.lock(run / "crawl.lock", f"a crawl in {settings.data}"))
            locks.enter_context(process.lock(run / "redis.lock", "the Redis of this crawl"))
            yield
    except BaseException:
        if is_new:
            shutil.rmtree(settings.data, ignore_errors=True)
        raise


def _what_a_crawl_leaves(data: Path) -> Iterator[Path]:
    for path in (data / REDIS / "appendonlydir", data / REDIS / "appendonly.aof"):
        if path.exists():
            yield path
    for pattern in (
        f"{WARC}/*{SUFFIX}",
        f"{WARC}/*{SUFFIX}{OPEN}",
        f"{LOG}/*{fetchlog.SUFFIX}",
        "taken/*.txt",
    ):
        yield from data.glob(pattern)


def _see_room(snapshot: Path, manifest: Manifest, settings: Settings) -> None:
    same_disk = snapshot.stat().st_dev == settings.data.stat().st_dev
    copied = sum(file.bytes for file in manifest.files if not (same_disk and _is_final(file)))
    transfer.need_room(settings.data, copied, settings.archive.disk_reserve_bytes)


# -- bringing it


@contextmanager
def _staging(settings: Settings) -> Iterator[Path]:
    """An empty folder beside where things will be; gone afterwards, whatever happens."""
    staging = settings.data / STAGING
    try:
        if staging.exists():  # one that was killed
            shutil.rmtree(staging)
        staging.mkdir(mode=0o750)
        yield staging
    except OSError as error:
        raise DiskError(f"{error.filename or staging}: {error.strerror}; nothing was restored") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _is_list(file: File) -> bool:
    return file.path.partition(".")[0] == DOMAINS


def _is_final(file: File) -> bool:
    """Is never written to, so that it may be shared with the snapshot. (Who knows what Redis does.)"""
    return file.path.startswith(f"{WARC}/") and file.path.endswith((SUFFIX, DAMAGED))


def _fetch(snapshot: Path, file: File, staging: Path, on_bytes: transfer.OnBytes) -> None:
    source, to = snapshot / file.path, staging / file.path
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        opened = source.open("rb")
    except FileNotFoundError:
        raise CheckError(f"{source} is not there, but the snapshot had it: take another one") from None
    with opened:
        fd = opened.fileno()
        if source.stat().st_size != file.bytes:
            raise CheckError(
                f"{source} has {source.stat().st_size} bytes, not {file.bytes}: take another snapshot"
            )
        found = transfer.link(fd, to, on_bytes) if _is_final(file) else None
        transfer.expect(file, found or transfer.copy(fd, to, file.bytes, on_bytes))


# -- there it goes


def _put_in_place(settings: Settings, staging: Path, manifest: Manifest, *, with_settings: bool) -> bool:
    """Move everything to where it belongs, Redis's data last; answers whether the node's own list stays."""
    data = settings.data
    list_kept = (data / LIST_NAME).exists()
    left_out = {LIST_NAME} if list_kept else set()
    if with_settings:
        (staging / CONFIG).write_text(settings_of.dump(settings), encoding="utf-8")
    else:  # a fleet's node has its settings and its list of domains from elsewhere
        left_out |= {CONFIG, *(file.path for file in manifest.files if _is_list(file))}
    if (data / _AUDIT).exists() and (staging / _AUDIT).exists():
        with (staging / _AUDIT).open("ab") as audit:
            audit.write((data / _AUDIT).read_bytes())
    paths = (file.path for file in manifest.files if not file.path.startswith(f"{REDIS}/"))
    _move(staging, data, [path for path in paths if path not in left_out])
    # Redis may have named its files anew
    _move(staging, data, [f"{REDIS}/{path.name}" for path in (staging / REDIS).glob("appendonly*")])
    return list_kept


def _move(staging: Path, data: Path, names: Iterable[str]) -> None:
    """Move files, or a folder of Redis's, and have that on the disk."""
    folders = {data}
    for name in names:
        to = data / name
        to.parent.mkdir(parents=True, exist_ok=True)
        (staging / name).rename(to)
        folders.add(to.parent)
    for folder in folders:
        fsync_folder(folder)
