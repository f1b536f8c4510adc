"""What is asked about every link, URL or page."""

from __future__ import annotations

from typing import Any

from node.rules.admit import Admission, Scope, ScopeKind
from node.rules.domain import registrable
from node.rules.robots import parse
from node.rules.seen import Filter, fingerprint, plan
from node.rules.shard import lane_of
from node.rules.url import canonical, dedup_key

BASE = "https://www.example.co.uk/news/2026/12/index.html"
URL = "https://www.example.co.uk/news/2026/12/a-longer-headline-of-the-day.html?id=4711&page=2"
ROBOTS = b"User-agent: *\n" + b"".join(b"Disallow: /private/%d/*.php$\n" % n for n in range(100))


def test_canonical_relative(benchmark: Any) -> None:
    """A relative link, as most are."""
    assert benchmark(canonical, "../11/a-headline.html?x=1#top", BASE).endswith(
        "/2026/11/a-headline.html?x=1"
    )


def test_canonical_absolute(benchmark: Any) -> None:
    """One with its host."""
    assert benchmark(canonical, URL) == URL


def test_dedup_key(benchmark: Any) -> None:
    """What makes two URLs the same."""
    assert benchmark(dedup_key, URL)


def test_registrable_known(benchmark: Any) -> None:
    """A host met before."""
    assert benchmark(registrable, "www.example.co.uk") == "example.co.uk"


def test_registrable_new(benchmark: Any) -> None:
    """Hosts that are not in its cache."""
    names = iter(f"www{n}.example{n}.co.uk" for n in range(10_000_000))
    benchmark(lambda: registrable(next(names)))


def test_lane(benchmark: Any) -> None:
    """The lane of a domain."""
    assert 0 <= benchmark(lane_of, "example.co.uk") < 64


def test_fingerprint(benchmark: Any) -> None:
    """Of the parsers' cache of known URLs."""
    assert benchmark(fingerprint, URL) > 0


def test_seen_slots(benchmark: Any) -> None:
    """What a URL sets in a seen filter."""
    made = plan(1_543, 1e-3)
    assert len(benchmark(made.slots(), URL)) == made.slot_bytes


def test_seen_look(benchmark: Any) -> None:
    """The filter itself, as Python has it."""
    made = plan(1_543, 1e-3)
    full, slots = Filter(made), made.slots()
    for number in range(1_000):
        full.add(slots(f"{URL}{number}"))
    assert benchmark(full.contains, slots(URL + "7"))


def test_robots_parse(benchmark: Any) -> None:
    """A hundred rules."""
    assert not benchmark(parse, ROBOTS, "milliarde").allows("/private/7/x.php")


def test_robots_allows(benchmark: Any) -> None:
    """A path against a hundred rules with wildcards."""
    assert benchmark(parse(ROBOTS, "milliarde").allows, "/news/2026/12/a-longer-headline-of-the-day.html")


def test_admit(benchmark: Any) -> None:
    """All gates of a link whose domain is known."""
    admission = Admission(Scope(ScopeKind.OPEN), 1, 0, lambda _host: False)
    assert benchmark(admission.admit, URL, 1)[0] == "example.co.uk"
