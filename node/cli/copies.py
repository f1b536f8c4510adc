"""``milliarde snapshot`` and ``milliarde restore``. Answers exit codes."""

from __future__ import annotations

import argparse
import signal

from node.cli import which
from node.errors import ExitCode

SNAPSHOT = (
    "Copy the state of a crawl, as it is at one moment, into a new folder: Redis's data, settings, lists, "
    "the fetch log, and the WARC files with pages that were not parsed yet. The crawl goes on meanwhile. "
    "Files that never change again are hard links where DIR is on the same disk."
)
RESTORE = (
    "Verify a snapshot and restore it: into a new folder for 'milliarde crawl' (--out), or where node.toml "
    "says, if that is the same shard and holds no crawl; the node and its Redis must be stopped. No domain "
    "is visited before its delay has passed since the next start."
)


def snapshot(args: argparse.Namespace) -> int:
    from node.work import backup, show_backup
    from node.work.opened import opened

    _end_in_order()
    with opened(which.of_node(args)) as node:
        manifest = backup.snapshot(
            node.store,
            node.settings,
            args.folder,
            with_archive=args.archive,
            on_bytes=show_backup.progress(),
        )
    show_backup.snapshot(manifest, args.folder)
    return ExitCode.OK


def restore(args: argparse.Namespace) -> int:
    from node.work import restore, show_backup

    _end_in_order()
    as_crawl = args.out is not None
    settings = restore.settings_for_folder(args.folder, args.out) if as_crawl else which.of_node(args)
    found = restore.restore(args.folder, settings, with_settings=as_crawl, on_bytes=show_backup.progress())
    show_backup.restored(found, as_crawl=as_crawl)
    return ExitCode.OK


def _end_in_order() -> None:
    """SIGTERM, or a connection that is lost, is as good as Ctrl-C: nothing half is left."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
