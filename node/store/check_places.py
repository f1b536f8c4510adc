"""Members of lanes, and pages on the spool: are they what they must be, and where they must be?

Part of ``check``, which knows domains; here is what may be of no domain at all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from node.errors import DiskError
from node.rules.domain import registrable
from node.rules.shard import LANES, lane_of
from node.rules.url import host
from node.store import keys, spool
from node.store.archive_names import DAMAGED, OPEN
from node.store.connection import Store
from node.store.spool import Pointer, unpack

SCAN_COUNT: Final = 1_000
LEASE_SPARE_MS: Final = 60_000
"""Clocks differ by less; a lease that runs out so much later than any may is wrong."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest times that a sound node may hold."""

    due_ms: int
    lease_ms: int


def latest(store: Store) -> Latest:
    """By the greater of our clock and the one of Redis."""
    settings = store.settings
    (told,) = store.calls([], extra=[("GET", keys.CLOCK)])
    now_ms = max(store.now_ms(), int(told or 0)) + LEASE_SPARE_MS
    # a delay for the page and for each hop, more by the jitter; and what a site asked for
    longest_s = 1.1 * max(settings.crawl.max_crawl_delay_s, settings.crawl.max_delay_s)
    longest_s *= 2 + settings.crawl.max_hops
    return Latest(now_ms + round(1000 * longest_s), now_ms + round(1000 * settings.longest_lease_s))


class Mender(Protocol):
    """Who is told of what is broken, as it is found, to put it right."""

    def on_spool(self, urls: Mapping[str, list[str]]) -> None:
        """What pages() answers, before any domain is told of."""

    def domain(self, name: str) -> None:
        """Something of this domain."""

    def member(self, kind: str, lane: int, member: bytes, belongs: int | None) -> None:
        """A member of ``kind`` (ready, later, leases) of a lane that ``belongs`` to another, or is none."""

    def page(self, id_: bytes, pointer: Pointer | None) -> None:
        """An entry of the spool that is no page (None), or names a record that is not there."""


class Told(Protocol):
    """Where findings go."""

    def add(self, invariant: str, subject: str, words: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Kind:
    key: Callable[[int], str]
    form: re.Pattern[bytes]
    is_none: str


_ENTRY = rb"[0-7][\x30-\x7f][\x30-\x7f].+"
_KINDS: Final[Mapping[str, _Kind]] = {
    "ready": _Kind(keys.ready, re.compile(rb"(?P<domain>\S+)"), "is no domain"),
    "later": _Kind(keys.later, re.compile(rb"(?P<domain>\S+) " + _ENTRY, re.DOTALL), "is no URL that waits"),
    "leases": _Kind(
        keys.leases,
        re.compile(rb"\d+\.[^. ]+\.\d+ \d+ (?P<domain>\S+) " + _ENTRY, re.DOTALL),
        "is nobody's lease",
    ),
}


def scan(store: Store, command: str, key: tuple[str, ...], match: str | None) -> Iterator[list[bytes]]:
    """What a SCAN or ZSCAN answers, call by call; some of it more than once."""
    cursor = b"0"
    options = ("COUNT", SCAN_COUNT) if match is None else ("MATCH", match, "COUNT", SCAN_COUNT)
    while True:
        ((cursor, found),) = store.calls([], extra=[(command, *key, cursor, *options)])
        yield found
        if cursor == b"0":
            return


def members(store: Store, latest_ms: int, told: Told, mender: Mender | None) -> Iterator[str]:
    """The domain of each member of ``ready``, ``later`` and leases; what is not as it must be is told.

    ``latest_ms``: no lease runs out later."""
    for name, kind in _KINDS.items():
        sizes = store.calls([], extra=[("ZCARD", kind.key(lane)) for lane in range(LANES)])
        for lane in (lane for lane, size in enumerate(sizes) if size):
            for found in scan(store, "ZSCAN", (kind.key(lane),), None):
                for i in range(0, len(found), 2):
                    domain = _member(name, lane, found[i], told, mender)
                    if domain is None:
                        continue
                    if name == "leases" and float(found[i + 1]) > latest_ms:
                        url = found[i].split(b" ", 3)[3][3:].decode(errors="replace")
                        told.add("I1", domain, f"the lease of {url} runs out later than any may")
                        if mender is not None:
                            mender.domain(domain)
                    yield domain


def _member(name: str, lane: int, member: bytes, told: Told, mender: Mender | None) -> str | None:
    kind = _KINDS[name]
    match = kind.form.fullmatch(member)
    domain = match["domain"].decode(errors="replace") if match else ""
    if not domain or "\ufffd" in domain:
        told.add("I1", kind.key(lane), f"{member.decode(errors='replace')!r} {kind.is_none}")
        if mender is not None:
            mender.member(name, lane, member, None)
        return None
    belongs = lane_of(domain)
    if belongs != lane:
        told.add("I1", domain, f"stands in {kind.key(lane)}, but its lane is {belongs}")
        if mender is not None:
            mender.member(name, lane, member, belongs)
    return domain


def pages(store: Store, folder: Path | None, told: Told, mender: Mender | None) -> dict[str, list[str]]:
    """Domain -> URLs on the spool; are their records in the archive's ``folder``? Raises ``DiskError``."""
    urls: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = {}
    after = b""
    while True:
        (found,) = store.calls([], extra=[spool.look(after, SCAN_COUNT)])
        for id_, fields in found:
            pointer = _pointer(fields)
            if pointer is None:
                told.add("I1", f"spool {id_.decode()}", "is no page")
            elif folder is not None and not _is_there(folder, pointer, sizes) and _on_spool(store, id_):
                at = pointer.position
                told.add("I1", pointer.url, f"its record is not in the archive ({at.file} at {at.offset:,})")
            else:
                urls[registrable(host(pointer.url))].append(pointer.url)
                continue
            if mender is not None:
                mender.page(id_, pointer)
        if len(found) < SCAN_COUNT:
            return urls
        after = found[-1][0]


def _pointer(fields: list[bytes]) -> Pointer | None:
    try:
        name, text = fields
        pointer = unpack(text.decode())
        host(pointer.url)
    except (ValueError, IndexError):
        return None
    return pointer if name == b"p" and "/" not in pointer.position.file else None


def _is_there(folder: Path, pointer: Pointer, sizes: dict[str, int]) -> bool:
    """Does its file reach to the end of its record?"""
    at = pointer.position
    end = at.offset + at.length
    if sizes.get(at.file, 0) < end:
        # the name without suffix comes twice: it may be renamed between two looks
        for suffix in ("", OPEN, "", DAMAGED):
            try:
                sizes[at.file] = (folder / (at.file + suffix)).stat().st_size
                break
            except FileNotFoundError:
                continue
            except OSError as error:
                raise DiskError(f"{folder}: {error.strerror}; it can't be looked at") from error
    return sizes.get(at.file, 0) >= end


def _on_spool(store: Store, id_: bytes) -> bool:
    """Still? A page may be done, and its file freed, while one looks."""
    (found,) = store.calls([], extra=[("XRANGE", keys.SPOOL, id_, id_)])
    return bool(found)
