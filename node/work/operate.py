"""The operator's verbs on a node, running or not: each is a function that answers what to show."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from node.errors import InputError
from node.rules import url as urls
from node.rules.domain import registrable
from node.rules.entry import unpack
from node.rules.refusal import Refusal
from node.rules.shard import lane_of
from node.rules.url import dedup_key
from node.settings import Settings
from node.store import keys
from node.store.connection import Store
from node.store.frontier import Frontier, Group
from node.store.taken import FOLDER, append, taken_file

BATCH = 1_000


def host_of(text: str) -> str:
    """The canonical host a user means by a domain, host or URL. Raises ``InputError``."""
    text = text.strip()
    parsed = urls.canonical(text if "://" in text else f"https://{text}/")
    if isinstance(parsed, Refusal) or not text:
        raise InputError(f"{text!r} is neither a domain nor a URL")
    return urls.host(parsed)


# -- pause, resume, drain


def pause(store: Store, reason: str) -> None:
    """Stop handing out URLs, until ``resume``; survives restarts."""
    store.calls([], extra=[("HSET", keys.CONTROL, "pause", reason or "by the operator")])


def resume(store: Store) -> None:
    store.calls([], extra=[("HDEL", keys.CONTROL, "pause", "stop")])


def drain(store: Store, wait_s: float) -> tuple[int, int]:
    """Stop handing out URLs and wait until nothing is leased or spooled; answers what is left of each."""
    pause(store, "draining")
    give_up = time.monotonic() + wait_s
    while True:
        (values,) = store.calls([], extra=[("HMGET", keys.LEDGER, "leased", "spooled")])
        leased, spooled = (int(value or 0) for value in values)
        if (not leased and not spooled) or time.monotonic() >= give_up:
            return leased, spooled
        time.sleep(0.1)


# -- taking out and bringing back


@dataclass(frozen=True, slots=True)
class Taken:
    """URLs of one domain that were taken out, and the file they stand in (none: nothing taken)."""

    domain: str
    urls: int
    file: Path | None


def domains_under(store: Store, name: str) -> Iterator[str]:
    """Registrable domains whose URLs ``name`` covers; all of them where it is a public suffix."""
    if registrable("probe." + name) == registrable(name):
        yield registrable(name)
        return
    for domain in all_domains(store):
        if domain == name or domain.endswith("." + name):
            yield domain


def all_domains(store: Store) -> Iterator[str]:
    """Every domain with state, in no order."""
    cursor = b"0"
    while True:
        ((cursor, found),) = store.calls([], extra=[("SCAN", cursor, "MATCH", "d:*", "COUNT", BATCH)])
        yield from (key[2:].decode() for key in found)
        if cursor == b"0":
            return


def take_out(
    store: Store,
    frontier: Frontier,
    settings: Settings,
    domain: str,
    *,
    keep: int,
    host: str,
    reason: str,
    dry_run: bool = False,
) -> Taken:
    """First onto the disk, then out of the frontier, so that nothing is lost in between."""
    lane = lane_of(domain)
    shown = store.call(frontier.trim(store.now_ms(), domain, lane, keep, host=host))
    if not shown or dry_run:
        return Taken(domain, len(shown), None)
    path = taken_file(settings, domain, reason)
    written = set(shown)
    append(path, shown)
    taken = store.call(frontier.trim(store.now_ms(), domain, lane, keep, host=host, reason=reason))
    late = [entry for entry in taken if entry not in written]
    if late:
        append(path, late)
    return Taken(domain, len(taken), path)


def bring_back(
    store: Store,
    frontier: Frontier,
    settings: Settings,
    domain: str,
    reason: str,
    wanted: Callable[[str], bool],
) -> Taken:
    """Offer what was taken out of a domain for a reason, where its host is ``wanted``; the rest stays."""
    path = taken_file(settings, domain, reason)
    if not path.exists():
        return Taken(domain, 0, None)
    entries = list(dict.fromkeys(path.read_text(encoding="utf-8").splitlines()))
    back: list[str] = []
    stay: list[str] = []
    for entry in entries:
        (back if wanted(urls.host(unpack(entry).url)) else stay).append(entry)
    count = 0
    for start in range(0, len(back), BATCH):
        group = Group(domain, lane_of(domain), store.now_ms())
        for entry in back[start : start + BATCH]:
            group.entries.append(entry)
            group.slots += frontier.slots(dedup_key(unpack(entry).url))
        count += store.call(frontier.offer(store.now_ms(), [group], returning=reason)).admitted
    if stay and back:
        path.write_text("".join(entry + "\n" for entry in stay), encoding="utf-8")
    elif not stay:
        path.unlink()
    return Taken(domain, count, path)


def audit(settings: Settings, **what: object) -> None:
    """Note in the audit file what an operator did, and when. Raises ``DiskError``."""
    line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | what
    append(settings.data / FOLDER / "audit.jsonl", [msgspec.json.encode(line).decode()])
