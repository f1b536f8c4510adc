"""What ``snapshot`` and ``restore`` say."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from node.store.transfer import Manifest
from node.work.restore import Restored
from node.work.summary import human_bytes

_EVERY_S = 5.0


def progress() -> Callable[[int, int], None]:
    """Says on stderr now and then how far it is; called with bytes just done and bytes in all."""
    done = 0
    due = time.monotonic() + _EVERY_S

    def say(count: int, of: int) -> None:
        nonlocal done, due
        done += count
        if time.monotonic() >= due:
            due = time.monotonic() + _EVERY_S
            sys.stderr.write(f"{human_bytes(done)} of {human_bytes(of)}\n")

    return say


def snapshot(manifest: Manifest, folder: Path) -> None:
    """What was copied."""
    size = sum(file.bytes for file in manifest.files)
    sys.stdout.write(f"{folder}: {_what(manifest)}; {len(manifest.files):,} files, {human_bytes(size)}\n")


def restored(found: Restored, *, as_crawl: bool) -> None:
    """What was restored, and how it goes on."""
    data = found.settings.data
    sys.stdout.write(f"{data}: {_what(found.manifest)}\n")
    say = sys.stderr.write
    if found.without_bytes:
        say(f"{found.without_bytes:,} pages to be parsed are in no file of the snapshot, and visited again\n")
    if found.list_kept:
        say("the list of excluded names that was here already stays in force, not that of the snapshot\n")
    if not found.manifest.with_archive:
        say("the archive of before is not part of it: its WARC files are where the snapshot was made\n")
    if found.paused:
        say(f"it is paused: {found.paused} ('milliarde resume' goes on)\n")
    say(f"what was excluded after {found.manifest.made} must be excluded again before it goes on\n")
    if as_crawl:
        say(f"it goes on with: milliarde crawl --out {data}\n")


def _what(manifest: Manifest) -> str:
    ledger = manifest.ledger
    node = f", node {manifest.me} of {manifest.nodes}" if manifest.nodes > 1 else ""
    return (
        f"crawl {manifest.crawl!r}{node} as of {manifest.made}, {ledger.get('pages', 0):,} pages, "
        f"{ledger.get('queued', 0):,} URLs queued"
    )
