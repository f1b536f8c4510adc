"""Do I1 and I2 hold, and is what addresses bear counted right? Walks a node, at work or stopped, and names
what is broken.

Each domain is counted in one moment inside Redis (verb ``inspect``), so a node at work raises no
false alarm; so are leases and spool against their counters. Only the sum over all queues can't be
taken in one moment: it is compared if nothing moved during the walk, and the findings say whether
it was. Memory grows by some 70 bytes a domain, not with its URLs.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from redis.exceptions import ResponseError

from node.rules.addresses import counts
from node.rules.pace import Limits
from node.rules.shard import digest, lane_of
from node.store.check_addresses import miscounted
from node.store.check_places import Latest, Mender, latest, members, pages, scan
from node.store.connection import Store
from node.store.domain_record import SIZE, DomainRecord, unpack
from node.store.findings import MOST_NAMED, PLACES, Findings
from node.store.frontier import Frontier
from node.store.scripts import Verb

BUFFER = 6_400
"""Domains gathered before they are looked at: about a hundred of each lane ..."""
PER_CALL = 100
"""... which is how many one call looks at; it keeps Redis from other work for a millisecond or two."""
_INSPECTED = ("state", "in_lists", "in_later", "leased", "score", "lowest", "filter_is_whole")
"""What the verb ``inspect`` tells of a domain, before its entries that are wrong."""


@dataclass(frozen=True, slots=True)
class _Totals:
    """Counters, and what they count, in one moment."""

    ledger: dict[str, int]
    leased: int
    later: int
    spooled: int


@dataclass(frozen=True, slots=True)
class _Walk:
    """What is the same for all domains of a check."""

    limits: Limits
    wire_plan: list[Any]
    every_url: bool
    spooled: Mapping[str, list[str]]
    latest: Latest
    mender: Mender | None


def check(
    store: Store,
    *,
    every_url: bool = False,
    warc_folder: Path | None = None,
    mender: Mender | None = None,
) -> Findings:
    """Verify I1 and I2. ``every_url``: also that each entry is well-formed, in the list of its level,
    and in one place only (slower: a second per million URLs, a domain at a time; without, this is done
    for domains that are broken otherwise). ``warc_folder``: where the records of pages on the spool must lie.
    ``mender`` is told of what is broken, all of it."""
    findings = Findings()
    limits = Limits(round(store.settings.crawl.delay_s * 1000), 0)
    before = _totals(store)
    spooled = pages(store, warc_folder, findings, mender)
    if mender is not None:
        mender.on_spool(spooled)
    walk = _Walk(limits, Frontier(store.settings).wire_plan, every_url, spooled, latest(store), mender)
    _check_totals(before, findings)
    batch: list[str] = []
    met: set[int] = set()
    for name in _names(store, walk, findings):
        mark = digest(name)
        if mark not in met:
            met.add(mark)
            batch.append(name)
            if len(batch) == BUFFER:
                _check_domains(store, batch, walk, findings)
                batch.clear()
    _check_domains(store, batch, walk, findings)
    after = _totals(store)
    findings.leased, findings.spooled = after.leased, after.spooled
    findings.ledger = after.ledger
    findings.totals_compared = before == after
    if findings.totals_compared:
        for counter, found, what in (
            ("queued", findings.queued, "URLs wait in lists and in later"),
            ("domains", findings.domains, "domains have a state"),
        ):
            if after.ledger.get(counter, 0) != found:
                findings.add("I1", counter, f"counted {after.ledger.get(counter, 0):,}, but {found:,} {what}")
        for wrong in miscounted(store, findings.at_address):
            findings.add("I4", wrong.key, wrong.words)
    return findings


def _totals(store: Store) -> _Totals:
    def decode(answer: list[Any]) -> _Totals:
        flat, spooled, leased, later = answer
        ledger = {flat[i].decode(): _number(flat[i + 1]) for i in range(0, len(flat), 2)}
        return _Totals(ledger, leased, later, spooled)

    return store.call(Verb("totals", (), decode))


def _number(value: bytes) -> int:
    """A counter; one that is no number counts nothing."""
    try:
        return int(value)
    except ValueError:
        return 0


def _check_totals(totals: _Totals, findings: Findings) -> None:
    ledger = totals.ledger
    places = [(name, ledger.get(name, 0)) for name in PLACES]
    dropped = sum(value for name, value in ledger.items() if name.startswith("drop:"))
    found = sum(value for _, value in places) + dropped
    if ledger.get("admitted", 0) != found:
        parts = ", ".join(f"{value:,} {name}" for name, value in places)
        words = f"counted {ledger.get('admitted', 0):,}, but {found:,} are accounted for"
        findings.add("I1", "admitted", f"{words} ({parts}, {dropped:,} dropped)")
    for counter, size, where in (
        ("leased", totals.leased, "leases"),
        ("spooled", totals.spooled, "the spool"),
    ):
        if ledger.get(counter, 0) != size:
            findings.add("I1", counter, f"counted {ledger.get(counter, 0):,}, but {where} holds {size:,}")


def _names(store: Store, walk: _Walk, findings: Findings) -> Iterator[str]:
    """Every domain that anything is kept of, some of them more than once."""
    for prefix in ("d:", "q:"):
        for found in scan(store, "SCAN", (), f"{prefix}*"):
            for key in found:
                yield (key[2:] if prefix == "d:" else key.split(b":", 2)[2]).decode()
    yield from members(store, walk.latest.lease_ms, findings, walk.mender)


def _inspect(lane: int, domains: Sequence[str], every_url: bool, walk: _Walk) -> Verb[list[list[Any]]]:
    def decode(answer: list[list[Any]]) -> list[list[Any]]:
        return answer

    spooled = [url for name in domains for url in walk.spooled.get(name, ())]
    known = msgspec.msgpack.encode([walk.wire_plan, spooled])
    return Verb("inspect", (lane, int(every_url), known, *domains), decode)


def _check_domains(store: Store, domains: Sequence[str], walk: _Walk, findings: Findings) -> None:
    by_lane: dict[int, list[str]] = defaultdict(list)
    for name in domains:
        by_lane[lane_of(name)].append(name)
    for lane, names in by_lane.items():
        for start in range(0, len(names), PER_CALL):
            part = names[start : start + PER_CALL]
            try:
                found = store.call(_inspect(lane, part, walk.every_url, walk))
            except ResponseError:  # a key of the wrong type: whose?
                found = [_inspected_alone(store, lane, name, walk, findings) for name in part]
            for name, each in zip(part, found, strict=True):
                if each:
                    _check_and_tell(store, lane, name, each, walk, findings)


def _inspected_alone(store: Store, lane: int, name: str, walk: _Walk, findings: Findings) -> list[Any]:
    try:
        return store.call(_inspect(lane, [name], walk.every_url, walk))[0]
    except ResponseError as error:
        findings.add("I1", name, f"one of its keys is damaged: {error}")
        if walk.mender is not None:
            walk.mender.domain(name)
        return []


def _check_and_tell(
    store: Store, lane: int, name: str, found: list[Any], walk: _Walk, findings: Findings
) -> None:
    broken = findings.broken
    _check_domain(name, found, walk, findings)
    if findings.broken == broken:
        return
    if not walk.every_url and findings.broken <= MOST_NAMED:  # which of its URLs are they?
        (closer,) = store.call(_inspect(lane, [name], True, walk))
        _name_entries(name, closer[len(_INSPECTED) :], findings)
    if walk.mender is not None:
        walk.mender.domain(name)


def _name_entries(name: str, wrong: Sequence[bytes], findings: Findings) -> None:
    for i in range(0, len(wrong), 2):
        findings.add("I1", name, f"{wrong[i + 1].decode(errors='replace')!r} is {wrong[i].decode()}")


def _check_domain(name: str, found: list[Any], walk: _Walk, findings: Findings) -> None:
    packed, in_lists, in_later, leased, score, lowest, filter_is_whole, *wrong = found
    findings.queued += in_lists + in_later
    _name_entries(name, wrong, findings)
    if not filter_is_whole:
        findings.add("I1", name, "its filter of URLs seen is not whole")
    if not packed:
        if in_lists or in_later or leased or score:
            there = f"{in_lists} URLs in lists, {in_later} in later, {leased} leases"
            findings.add("I1", name, f"there is no state of it, but {there}")
        return
    findings.domains += 1
    try:
        record = unpack(packed)
    except struct.error:
        findings.add("I1", name, f"its state has {len(packed)} bytes, not {SIZE}")
        return
    for what, counted, size in (
        ("in lists", record.queued, in_lists),
        ("in later", record.later, in_later),
        ("leased", record.leased, leased),
    ):
        if counted != size:
            findings.add("I1", name, f"counted {counted:,} URLs {what}, but {size:,} are there")
    if record.leased and counts(record.place):
        findings.at_address[record.place[1:]] += record.leased
    if record.lowest > lowest:
        findings.add("I2", name, f"has URLs of level {lowest}, but is searched from level {record.lowest} on")
    if record.gone and in_lists:
        findings.add("I1", name, f"was given up, but has {in_lists:,} URLs in lists")
    if not 0 <= record.due_ms <= walk.latest.due_ms:  # NaN, too
        findings.add("I2", name, f"is due at {record.due_ms:.3f}, which is no time for a domain")
        return
    _check_ready(name, record, float(score) if score else None, walk.limits, findings)


def _check_ready(
    name: str, record: DomainRecord, score: float | None, limits: Limits, findings: Findings
) -> None:
    wanted = record.ready_at_ms(limits)
    if wanted == score:
        return
    if score is None:
        words = f"has {record.queued:,} URLs queued and free width, but is not in ready"
    elif wanted is None:
        words = f"is in ready with {record.queued:,} URLs queued and {record.leased:,} leased"
    else:
        words = f"is due at {wanted:.3f}, but stands in ready at {score:.3f}"
    findings.add("I2", name, words)
