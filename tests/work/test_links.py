"""From addresses to offers: the gates, and what is not offered again."""

from __future__ import annotations

from node import settings as settings_of
from node.rules.admit import Place
from node.rules.entry import NESTED, SITEMAP, unpack
from node.rules.sitemap import Named
from node.store import keys
from node.store.exclusions import Exclusions
from node.store.frontier import Frontier, Group, Offered
from node.store.tally import Tally
from node.work import seed
from node.work.links import KnownUrls, Offering


def _offering(**crawl: object) -> tuple[Offering, Tally]:
    settings = settings_of.build({"paths": {"data": "d"}, "crawl": {"scope": "open"} | crawl})
    tally = Tally("parsers")
    return Offering(settings, Frontier(settings), Exclusions(), tally), tally


def _counts(tally: Tally) -> dict[str, int]:
    return {name: int(by) for _verb, _key, name, by in tally.take() if not name.startswith("cpu_ms")}


def test_links_are_grouped_by_domain_with_their_depth() -> None:
    """One group per registrable domain; an entry carries its depth, and its level follows from it."""
    offering, _ = _offering()
    found = [("https://a.test/1", 1), ("https://www.a.test/2", 1), ("https://b.test/", 9)]
    groups = offering.groups(found, 5)
    assert sorted(groups) == ["a.test", "b.test"]
    assert [unpack(e).url for e in groups["a.test"].entries] == ["https://a.test/1", "https://www.a.test/2"]
    assert (unpack(groups["b.test"].entries[0]).depth, unpack(groups["b.test"].entries[0]).level) == (9, 7)
    assert len(groups["a.test"].slots) == 2 * offering._frontier.plan.slot_bytes


def test_sitemaps_come_after_seeds_and_keep_their_kind() -> None:
    """One level for all of them, however deep; what they name is as deep as they say; none twice."""
    offering, _ = _offering(max_depth=9)
    groups = offering.groups([("https://a.test/1", 1)], 5)
    named = [Named("https://a.test/n.xml", 0, NESTED), Named("https://a.test/s.xml", 9, SITEMAP)]
    offering.sitemaps([*named, Named("https://a.test/deep.xml", 10, SITEMAP)], 5, groups)
    entries = [unpack(entry) for entry in groups["a.test"].entries]
    assert [(e.url[-5:], e.level, e.depth, e.sitemap) for e in entries] == [
        ("est/1", 1, 1, 0),
        ("s.xml", 1, 9, SITEMAP),
        ("n.xml", 1, 0, NESTED),
    ]
    offering.learn(Offered(0, 3, 0, 0, 0, {}), 5)
    again: dict[str, Group] = {}
    offering.sitemaps(named, 5, again)
    assert not again


def test_priority_rules_hold_for_links_sitemaps_and_seeds() -> None:
    """A level is by the rule wherever a URL comes from; its depth stays what it is."""
    rules = [{"pattern": "/archive/", "shift": 3}, {"pattern": "/price/", "level": 1}]
    settings = settings_of.build(
        {"paths": {"data": "d"}, "crawl": {"scope": "open"}, "priority": {"rules": rules}}
    )
    frontier = Frontier(settings)
    offering = Offering(settings, frontier, Exclusions(), Tally("parsers"))
    groups = offering.groups([("https://a.test/archive/1", 2), ("https://a.test/price/1", 6)], 5)
    offering.sitemaps([Named("https://a.test/archive/s.xml", 2, SITEMAP)], 5, groups)
    entries = [unpack(entry) for entry in groups["a.test"].entries]
    assert [(each.level, each.depth) for each in entries] == [(5, 2), (1, 6), (4, 2)]
    place = seed.gate(settings).admit("https://a.test/archive/", -1)
    assert isinstance(place, Place)
    assert place.level == 3


def test_what_is_turned_away_is_counted_with_its_reason() -> None:
    """Other shards, other scopes, excluded hosts, too deep: each has a name in the counters."""
    offering, tally = _offering(nodes=2, me=0, max_depth=3)
    found = [(f"https://site-{n}.test/", 1) for n in range(100)] + [("https://site-0.test/deep", 4)]
    kept = sum(len(group.entries) for group in offering.groups(found, 5).values())
    counts = _counts(tally)
    assert kept + counts["drop:other_shard"] + counts.get("drop:too_deep", 0) == 101
    assert counts["drop:other_shard"] > 20


def test_lists_that_change_take_effect() -> None:
    """Exclusions and seeds that come in later are obeyed for hosts judged before."""
    offering, tally = _offering(scope="seeds")
    link = [("https://a.test/1", 1)]
    assert not offering.groups(link, 5)
    offering.take_lists({keys.SCOPE: [b"a.test"]})
    assert offering.groups(link, 5)
    offering.take_lists({keys.EXCLUDED: [b"a.test"]})
    assert not offering.groups(link, 5)
    assert _counts(tally) == {"drop:out_of_scope": 1, "drop:excluded": 1}


def test_what_the_frontier_has_seen_is_not_offered_again() -> None:
    """Only after the answer: an offer that failed teaches nothing."""
    offering, _ = _offering()
    link = [("https://a.test/1", 1)]
    offering.groups(link, 5)
    offering.forget()
    assert offering.groups(link, 5)
    offering.learn(Offered(0, 1, 0, 0, 0, {}), 5)
    assert not offering.groups(link, 5)


def test_a_full_domain_is_sent_only_what_is_better_for_a_while() -> None:
    """Refused URLs are not remembered as seen, and offered again once the answer is old."""
    offering, tally = _offering()
    offering.groups([("https://a.test/1", 5)], 5)
    offering.learn(Offered(0, 0, 0, 1, 0, {"a.test": (4, 1_000)}), 5)
    found = [("https://a.test/1", 5), ("https://a.test/2", 4), ("https://a.test/3", 3)]
    (group,) = offering.groups(found, 500).values()
    assert [unpack(e).url for e in group.entries] == ["https://a.test/3"]
    assert _counts(tally) == {"drop:full": 2}
    offering.learn(Offered(0, 1, 0, 0, 0, {}), 500)
    assert len(offering.groups(found, 2_000)["a.test"].entries) == 2


def test_the_cache_of_known_urls_is_bounded_and_exact() -> None:
    """A slot taken over by another URL forgets the first; it never takes one for the other."""
    known = KnownUrls(slots=4)
    for print_ in range(8, 12):
        known.add(print_)
    assert all(known.has(print_) for print_ in range(8, 12))
    known.add(12)
    assert known.has(12)
    assert not known.has(8)
    assert not known.has(4)
    known.clear()
    assert not known.has(12)
