"""What the commands about files print."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from node.store.index import IndexCounts
from node.store.spool import DeadLetter
from node.work import printing
from node.work.summary import human_bytes
from node.work.verify import Verified

_EVERY_S = 10.0


def progress() -> Callable[[Verified], None]:
    """Says on stderr now and then how far the reading is."""
    due = time.monotonic() + _EVERY_S

    def say(so_far: Verified) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _EVERY_S
            sys.stderr.write(f"{so_far.files:,} files, {human_bytes(so_far.bytes)} read\n")

    return say


def verified(found: Verified, *, as_json: bool) -> None:
    """What is not right, a line each, and what was read."""
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    for words in found.bad:
        sys.stdout.write(words + "\n")
    if found.bad_count > len(found.bad):
        sys.stdout.write(f"... and {found.bad_count - len(found.bad):,} more\n")
    revisits = f", {found.revisits:,} revisits" if found.revisits else ""
    sys.stdout.write(
        f"{found.files:,} files, {found.records:,} records ({found.responses:,} responses{revisits}), "
        f"{human_bytes(found.bytes)}: {'whole' if found.sound else f'{found.bad_count:,} faults'}\n"
    )
    if found.index_lines:
        rest = f", {found.elsewhere:,} of them for files that are not here" if found.elsewhere else ""
        sys.stdout.write(f"index: {found.index_lines:,} lines{rest}\n")
    if found.still_open:
        sys.stdout.write(f"{found.still_open:,} files are still being written and were not read\n")


def indexed(counts: IndexCounts) -> None:
    """What the index came to."""
    sys.stdout.write(f"index: {counts.entries:,} URLs, {counts.superseded:,} older records left out\n")
    for count, words in (
        (counts.dangling, "records that no file holds"),
        (counts.not_here, "records of files that are not here"),
        (counts.bad_lines, "lines of the logs that are no entry"),
    ):
        if count:
            sys.stdout.write(f"passed over: {count:,} {words}\n")


def dead_letters(letters: Iterator[DeadLetter], most: int, *, as_json: bool) -> None:
    """The newest pages that were given up: when, which, why, where they lie."""
    told = [
        {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each.unix_ms / 1000)),
            "url": each.pointer.url,
            "why": each.why,
            "file": each.pointer.position.file,
            "offset": each.pointer.position.offset,
        }
        for each in islice(letters, most)
    ]
    more = sum(1 for _ in letters)
    if as_json:
        printing.json({"dead_letters": told, "more": more})
        return
    for letter in told:
        sys.stdout.write("{at}  {url}\n    {why} ({file}, {offset})\n".format_map(letter))
    if more:
        sys.stdout.write(f"... and {more:,} older ones\n")
    if not told:
        sys.stdout.write("the parsers gave up no page\n")
