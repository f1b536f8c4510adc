"""What must hold after chaos: by the web's own log and graph, and by what the crawl left on disk.

Nothing the node says of itself is believed but its ledger, and that is checked, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from node.rules.outcome import Outcome
from node.work import shedding
from tests.chaos.plan import REDIS_KILLS, Kind
from tests.chaos.run import Run
from tests.soak.verdict import Claim, Verdict
from tests.web.graph import find, links
from tests.web.log import Entry
from tests.whole import manners, stored
from tests.whole.crawl import milliarde

RECORDS_PER_URL = 1.01
FOUND = 0.85
"""Share of the pages that must be in the index. A page that failed three times in all this is done, too, and
a link for which there was no memory is refused, with all that only it leads to."""
_SHOWN = 5
_REDIRECTS = (301, 302)


def judge(run: Run, least_faults: int) -> Verdict:
    """All claims, and the figures behind them."""
    claims = [_ended(run), _struck(run, least_faults), _died(run)]
    figures: list[tuple[str, str]] = []
    if run.code == 0:
        requests = run.place.web.requests()
        index, pages = stored.indexed_pages(run.crawl.out), stored.pages(run.crawl.out)
        logged = _last_lines(run)
        claims += [
            _ledger(run.crawl.summary),
            _nothing_lost(run, index, logged),
            _found(run, index),
            _one_record(index, pages),
            _gaps(requests, run.plan.delay_s),
            _only_invited(run, requests),
            _sound(run),
            _whole(run),
        ]
        figures += _figures(run, requests, pages)
        misdated = sum(abs(_true_s(run, line) - _shown_s(line)) >= 3_600 for line in run.crawl.fetch_log())
        figures.append(("lines of the fetch log dated by a wrong wall clock", f"{misdated}"))
    return Verdict(tuple(claims), tuple(figures))


def _some(broken: Iterable[str]) -> str:
    found = list(broken)
    more = f" ... and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


# -- the claims


def _ended(run: Run) -> Claim:
    measured = f"ended with {run.code} after {run.seconds:.0f} s"
    if run.ended_alone:
        measured += f"; the command ended by itself {len(run.ended_alone)} times: {run.ended_alone[0]}"
    elif run.code is None:
        measured = f"still at work after {run.seconds:.0f} s: {run.crawl.said[-1_000:]}"
    return Claim(
        "it comes to its end by itself, and needs no hand", measured, run.code == 0 and not run.ended_alone
    )


def _died(run: Run) -> Claim:
    """A process that dies of itself says of what; Redis, which does not, dies when it is killed."""
    of_redis = sum(n for words, n in run.deaths.items() if words.startswith("Redis"))
    others = [
        f"{words} ({n})"
        for words, n in run.deaths.items()
        if not words.startswith("Redis") and "(signal 9" not in words
    ]
    if of_redis > sum(each.fault.kind in REDIS_KILLS for each in run.struck):
        others.append(f"Redis died {of_redis} times")
    said = f"{run.deaths.total()} were started again"
    if run.code == 0:
        ours = run.crawl.summary["outcomes"].get(Outcome.LOCAL_ERROR, 0)
        others += [f"{ours} visits failed by a fault of ours"] if ours else []
    said += f"; {_some(others)}" if others else ""
    return Claim("no process dies but those that are killed, and no visit of our own fault", said, not others)


def _struck(run: Run, least: int) -> Claim:
    kinds = len(run.counts())
    measured = f"{len(run.struck)} of {kinds} kinds, {len(run.missed)} missed their target"
    return Claim(f"at least {least} faults struck", measured, len(run.struck) >= least)


def _ledger(summary: Mapping[str, Any]) -> Claim:
    ledger = summary["ledger"]
    left = sum(ledger[name] for name in ("queued", "leased", "spooled"))
    said = f"admitted {ledger['admitted']:,} = done {ledger['done']:,} + dropped {ledger['dropped']:,}"
    said += f"; gap {ledger['gap']}, left {left}, dead letters {summary['dead_letters']}"
    holds = ledger["gap"] == left == summary["dead_letters"] == 0 and summary["reason"] == "finished"
    return Claim("every admitted URL is done, or dropped with a reason", said, holds)


def _shown_s(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(line["t"]).timestamp()


def _true_s(run: Run, line: Mapping[str, Any]) -> float:
    """When a line of the fetch log was begun, whatever the wall clock showed."""
    return run.place.wall.true_s(_shown_s(line))


def _last_lines(run: Run) -> dict[str, str]:
    """URL -> its last outcome by the fetch log, whose files are those of one process each."""
    return {
        line["url"]: line["outcome"]
        for line in sorted(run.crawl.fetch_log(), key=lambda line: _true_s(run, line))
    }


_UNDER_WAY = frozenset({"line_down", "line_lost", "no_files", "not_sent"})
"""Outcomes after which a URL is still to be visited."""
_REFUSALS = ("shed", "memory", "full")
"""What links come to that are offered while Redis has no memory. (``displaced`` is a URL that was admitted
and had to give way then, which is remembered of it: no later link brings it back.)"""
_PARSED_S = 15.0
"""A page is parsed this soon after it was stored, its parsers stopped and killed though they be."""
_BELIEVED_S = 8.0
"""Parsers believe for so long that there is no room, with the time between two looks."""


def _nothing_lost(run: Run, index: Counter[str], logged: Mapping[str, str]) -> Claim:
    """Each seed, and each link of each stored page, is stored itself or has a line that says what it came to.

    While Redis has no memory links are refused, and counted: only links of pages of that time may be missing,
    and not more than were refused.
    """
    ended = {url for url, outcome in logged.items() if outcome not in _UNDER_WAY and outcome != "page"}
    answered = index.keys() | ended | run.place.web.expected().outside
    seeds = {f"https://{line.strip()}/" for line in run.place.web.ordinary_seeds.read_text().splitlines()}
    poor = _without_memory(run)
    linked, lost = set(seeds), seeds - answered
    refused: set[str] = set()
    for url, times in _stored_at(run).items():
        place = find(run.place.web.shape, *_parts(url))
        found = {link.url for link in links(run.place.web.shape, place)} if place is not None else set()
        linked |= found
        at_poor_times = any(first <= at <= last for at in times for first, last in poor)
        (refused if at_poor_times else lost).update(found - answered)
    refused -= lost
    dropped = run.crawl.summary["dropped"]
    most, displaced = sum(dropped.get(name, 0) for name in _REFUSALS), dropped.get("displaced", 0)
    said = f"of {len(linked):,} URLs that are linked {max(0, len(lost) - displaced)} are unaccounted for"
    said += f"; for {len(refused)} there was no memory ({most} links refused, {displaced} URLs displaced)"
    said += f"; {_some(sorted(lost))}" if len(lost) > displaced else ""
    return Claim("no URL is lost", said, len(lost) <= displaced and len(refused) <= most)


def _without_memory(run: Run) -> list[tuple[float, float]]:
    """When a page was stored whose links may have been refused, in seconds of the wall clock.

    While Redis was out of memory, or the node still took it to be: then the watch says so in ``control``.
    """
    struck = [(each.at_s, each.until_s) for each in run.struck if each.fault.kind is Kind.MEMORY]
    believed = [
        (look.at_s, look.at_s)
        for look in run.looks
        if look.counts is not None and look.counts.control.get(shedding.FIELD, "0") != "0"
    ]
    return [
        (run.began_unix_s + first - _PARSED_S, run.began_unix_s + last + _BELIEVED_S)
        for first, last in struck + believed
    ]


def _stored_at(run: Run) -> dict[str, list[float]]:
    """Page -> when it was stored, by the fetch log."""
    found: dict[str, list[float]] = {}
    for line in run.crawl.fetch_log():
        if line["outcome"] == "page":
            found.setdefault(line["url"], []).append(_true_s(run, line))
    return found


def _parts(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.path + (f"?{parts.query}" if parts.query else "")


def _found(run: Run, index: Counter[str]) -> Claim:
    expected = run.place.web.expected().pages
    strange = index.keys() - expected
    share = len(index.keys() & expected) / len(expected)
    said = f"{len(index):,} of {len(expected):,} pages"
    said += f"; not among them: {_some(sorted(strange))}" if strange else ""
    return Claim(
        f"the index has at least {FOUND:.0%} of the pages, and no other", said, share >= FOUND and not strange
    )


def _one_record(index: Counter[str], pages: Counter[str]) -> Claim:
    twice = [f"{url} ({n})" for url, n in index.items() if n != 1]
    mean = pages.total() / max(1, len(pages))
    said = f"{mean:.4f} records a page"
    said += f"; in the index more than once: {_some(twice)}" if twice else ""
    holds = mean <= RECORDS_PER_URL and not twice and pages.keys() == index.keys()
    if pages.keys() != index.keys():
        said += f"; only stored or only indexed: {_some(sorted(pages.keys() ^ index.keys()))}"
    return Claim(
        f"each page is indexed once, and stored {RECORDS_PER_URL} times on average at most", said, holds
    )


def visits(requests: list[Entry], delay_s: float) -> list[list[Entry]]:
    """The requests of one domain by visits.

    A request belongs to the visit before it where that had not come to its end, as far as the web can see
    (it was for robots.txt, or was redirected), and no whole delay has passed.
    """
    found: list[list[Entry]] = []
    for request in requests:
        last = found[-1][-1] if found else None
        if (
            last is not None
            and (manners.is_robots(last) or last.status in _REDIRECTS)
            and request.t_ms - last.t_ms < 1_000 * delay_s
        ):
            found[-1].append(request)
        else:
            found.append([request])
    return found


def broken_gaps(requests: Iterable[Entry], delay_s: float, hop_gap_s: float = 0.1) -> Iterator[str]:
    """Where requests to a domain came too soon one after the other, in words."""
    for domain, entries in manners.by_domain(requests).items():
        found = visits(entries, delay_s)
        pairs = [pair for visit in found for pair in pairwise(visit)]
        owed = [(before, after, 1_000 * hop_gap_s) for before, after in pairs]
        for visit, following in pairwise(found):
            owed.append((visit[-1], following[0], 1_000 * delay_s * (1 + manners.hops(visit))))
        for before, after, owed_ms in owed:
            gap_ms = after.t_ms - before.t_ms
            if gap_ms < owed_ms:
                yield f"{domain}: {before.url} -> {after.url} after {gap_ms:.0f} ms of {owed_ms:.0f}"


def _gaps(requests: list[Entry], delay_s: float) -> Claim:
    broken = list(broken_gaps(requests, delay_s))
    return Claim(
        "the gap was never broken",
        f"{len(requests):,} requests" + (f"; broken {len(broken)} times: {_some(broken)}" if broken else ""),
        not broken,
    )


def _only_invited(run: Run, requests: list[Entry]) -> Claim:
    expected = run.place.web.expected()
    asked = {each.url for each in requests if not manners.is_robots(each)}
    strange = sorted(asked - expected.requested)
    return Claim(
        "nothing was asked for that robots.txt denies, or nobody linked",
        f"{len(asked):,} URLs" + (f"; {_some(strange)}" if strange else ""),
        not strange,
    )


def _sound(run: Run) -> Claim:
    """``milliarde check``, which starts Redis on what was left."""
    done = milliarde("check", "--every-url", "--config", run.crawl.config)
    said = (done.stdout + done.stderr).strip().splitlines()
    return Claim("milliarde check finds it sound", " / ".join(said[-3:]), done.returncode == 0)


def _whole(run: Run) -> Claim:
    done = milliarde("verify", run.crawl.out)
    said = (done.stdout + done.stderr).strip().splitlines()
    return Claim("milliarde verify finds all files whole", " / ".join(said[-1:]), done.returncode == 0)


# -- the figures


def _figures(run: Run, requests: list[Entry], pages: Counter[str]) -> Iterator[tuple[str, str]]:
    summary = run.crawl.summary
    yield "seed", str(run.plan.seed)
    yield "seconds, with the end of the crawl", f"{run.seconds:.0f}"
    asked = Counter(each.url for each in requests if not manners.is_robots(each))
    again = asked.total() - len(asked)
    yield "requests", f"{len(requests):,}, {again:,} of them for a page that had been asked for before"
    yield "records of pages", f"{pages.total():,}, of {len(pages):,} pages"
    for name in ("outcomes", "dropped"):
        found = sorted(summary[name].items(), key=lambda each: -each[1])
        yield name, ", ".join(f"{key} {n:,}" for key, n in found if n)
    if run.refused_starts:
        yield "starts of the command refused for a full disk, and tried again", f"{run.refused_starts}"
    if run.loading:
        yield "commands that Redis answered with LOADING", f"{run.loading:,}"


def fault_table(run: Run) -> list[tuple[str, str]]:
    """(kind, how often), in the order of the table."""
    counts = run.counts()
    return [(kind.value, f"{counts[kind]}") for kind in type(next(iter(counts))) if counts[kind]]
