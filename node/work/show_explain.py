"""What the commands ``explain`` and ``links`` print: lines for people, JSON for programs, on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from node.rules.priority import LEVELS
from node.rules.seeds import Seed, parse_line
from node.work.explain import Answer
from node.work.listing import WORDS, Listing
from node.work.questions import to_json

_SOURCES = {
    "bom": "its byte order mark",
    "header": "its Content-Type",
    "meta": "its own declaration",
    "detector": "the look of its bytes",
    "fallback": "default, since nothing says or shows it",
}


def _pairs(rows: Iterable[tuple[str, str]]) -> None:
    # never folded: a URL is copied whole
    for label, text in rows:
        if text:
            sys.stdout.write(f"{label:<10} {text}\n")


def explained(answer: Answer, *, as_json: bool) -> None:
    """What the rules say of one URL."""
    if as_json:
        sys.stdout.write(to_json(answer, indent=2) + "\n")
    elif isinstance(answer.canonical, str):
        _pairs(_of_url(answer, answer.canonical))
    else:
        seed = parse_line(answer.url, 1, "")
        _pairs(
            (
                ("refused", f"{answer.refused}: {answer.why}"),
                ("parsed", answer.href or ""),
                ("as a seed", f"it stands for {seed.url}" if isinstance(seed, Seed) else ""),
            )
        )


def _of_url(answer: Answer, url: str) -> Iterable[tuple[str, str]]:
    yield "canonical", url
    yield "known by", "" if answer.dedup_key == url else f"{answer.dedup_key}"
    yield "domain", f"{answer.domain}"
    yield "shard", f"node {answer.shard} of {answer.nodes}, there lane {answer.lane}"
    links = f"{answer.depth} link{'' if answer.depth == 1 else 's'} from a seed"
    by = "" if answer.priority_rule is None else f", by the rule {answer.priority_rule}"
    yield "priority", f"{answer.priority} (of 0, the best, to {LEVELS - 1}) at {links}{by}"
    if answer.budget is not None:
        at_once, in_all = answer.budget.queue_cap, answer.budget.life_cap
        yield "budget", f"{at_once:,} URLs of the domain at once, {in_all:,} in all"
    asked = "" if answer.crawl_delay is None else f"; its Crawl-delay is {answer.crawl_delay:g} s"
    yield "delay", f"{answer.delay:g} s between visits to the domain{asked}"
    if answer.checked is None:
        yield "robots", "not looked at (--robots FILE gives one)"
    else:
        by = f"by {answer.rule!r}" if answer.rule else "since no rule is about it"
        for number, (path, allowed) in enumerate(answer.checked.items()):
            spelling = ", as it was written" if number else ""
            yield "robots", f"{'allows' if allowed else 'denies'} {answer.agent} {path}{spelling}"
        yield "", by
        for signal in answer.signals or ():
            yield "signal", signal
    yield "verdict", _verdict(answer)


def _verdict(answer: Answer) -> str:
    if answer.why_not is not None:
        return f"not fetched: {answer.why_not}. {answer.why}"
    seeds = ", if its domain is one of the seeds'" if answer.scope == "seeds" else ""
    return f"nothing known here keeps it from being fetched{seeds}"


def links(found: Listing, *, as_json: bool) -> None:
    """What is read from a page, its links in order."""
    if as_json:
        sys.stdout.write(to_json(found, indent=2) + "\n")
        return
    wishes = [word for word, on in (("noindex", found.noindex), ("nofollow", found.nofollow)) if on]
    unread = f", of which {found.bytes_read:,} are read" if found.bytes_read < found.bytes else ""
    _pairs(
        (
            ("encoding", f"{found.encoding} (by {_SOURCES[found.encoding_source]})"),
            ("base", found.base),
            ("asks for", ", ".join(wishes)),
            ("canonical", found.canonical or ""),
            ("next", found.next or ""),
            ("bytes", f"{found.bytes:,}{unread}"),
            ("links", f"{len(found.links):,} followed, {len(found.left_out):,} left out"),
        )
    )
    lines = [(each.position, each.url) for each in found.links]
    lines += [(each.position, f"- {each.refused}: {each.url or repr(each.href)}") for each in found.left_out]
    for position, text in sorted(lines):
        sys.stdout.write(f"{position:8}   {text}\n")
    for reason in sorted({each.refused for each in found.left_out}):
        sys.stdout.write(f"{reason:<10} {WORDS[reason]}\n")
