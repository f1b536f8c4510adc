"""A process meets a Redis: whose crawl it holds, and what that means for the crawl's clock (``begin``)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec

from node.errors import DiskError, InputError, OtherCrawlError, StoreError
from node.rules.domain import PSL_VERSION
from node.settings import Settings
from node.store import keys
from node.store.archive_names import OPEN, SUFFIX
from node.store.clock import boot_id, boottime_ms, wall_ms
from node.store.scripts import Verb


@dataclass(frozen=True, slots=True)
class Begun:
    """What ``begin`` found. ``how``: first, again, clean or unclean."""

    base_ms: float
    how: str
    epoch_ms: int


def fingerprint(settings: Settings) -> str:
    """What must not change during a crawl, as one line; a process that shows another one is refused.

    The domain list counts by its contents. Raises ``InputError`` where it can't be read.
    """
    parts = settings.frozen_part() | {"public_suffixes": PSL_VERSION}
    if settings.crawl.domain_list is not None:
        try:
            with Path(settings.crawl.domain_list).open("rb") as file:
                parts["domain_list"] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        except OSError as error:
            raise InputError(f"crawl.domain_list can't be read: {error}") from None
    return " ".join(f"{name}={value}" for name, value in sorted(parts.items()))


def begin(settings: Settings, run_id: str, grace_ms: int, *, new: bool) -> Verb[Begun]:
    """The call. ``new``: nothing is known of a crawl there. Raises ``DiskError`` and what its answer says."""
    ours = fingerprint(settings)

    def decode(answer: list[bytes]) -> Begun:
        kind = answer[0]
        if kind == b"schema":
            raise OtherCrawlError(
                f"this Redis holds a crawl of layout {answer[1].decode()}, this version knows "
                f"{keys.SCHEMA}: use the version it was begun with, or a new folder"
            )
        if kind == b"damaged":
            raise StoreError(
                f"this Redis is damaged: {answer[1].decode()} is a {answer[2].decode()}, and we make none "
                "of it; use a new folder, or a backup"
            )
        if kind == b"other":
            theirs = answer[1].decode()
            changed = " ".join(sorted(set(ours.split()) - set(theirs.split())))
            found = " ".join(sorted(set(theirs.split()) - set(ours.split())))
            raise OtherCrawlError(
                f"another crawl, or one with other settings, has begun here (now {changed}; then {found}): "
                "use a new folder, or the settings it began with"
            )
        return Begun(float(answer[1]), answer[2].decode(), int(answer[3]))

    return Verb(
        "begin",
        (
            *(ours, run_id, boot_id(), f"{boottime_ms():.3f}", f"{wall_ms():.0f}", grace_ms, keys.SCHEMA),
            msgspec.msgpack.encode(_archive(settings) if new else []),
        ),
        decode,
    )


def _archive(settings: Settings) -> list[str | int]:
    """File, bytes, ... of what lies in the archive: of a crawl before, none of this one's business."""
    folder = settings.warc_folder
    try:
        found = [
            (path.name.removesuffix(OPEN), path.stat().st_size)
            for path in folder.iterdir()
            if path.name.removesuffix(OPEN).endswith(SUFFIX)
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DiskError(f"{folder}: {error.strerror}; it can't be read") from error
    return list(chain.from_iterable(found))
