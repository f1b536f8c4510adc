"""From addresses to offers: what fetchers and parsers do alike with URLs they found.

Every URL passes the same gates here (scope, shard, exclusion, traps); what is turned away is counted
with its reason. What is let in is grouped by domain, ready for one offer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

from node.rules.admit import Admission, DomainSet, Scope, ScopeKind
from node.rules.entry import NESTED, SITEMAP, Entry
from node.rules.priority import LEVELS
from node.rules.refusal import Refusal
from node.rules.seen import fingerprint
from node.rules.sitemap import Named
from node.rules.url import dedup_key
from node.settings import Settings
from node.store import keys
from node.store.exclusions import Exclusions
from node.store.frontier import BELIEVE_MS, Frontier, Group, Offered
from node.store.tally import Tally
from node.work import seed

CACHE_SLOTS = 1 << 20
"""8 MB of fingerprints of URLs the frontier is known to have seen."""
SITEMAP_LEVEL = 1
"""After the seeds, with the pages one link away: what a sitemap names is no better than what it waits for."""


class KnownUrls:
    """A direct-mapped cache of 64-bit fingerprints: bounded, and practically exact.

    Filled only with what the frontier has confirmed as seen; emptied when URLs are taken out of the
    frontier (include, trim), since those may be offered again.
    """

    __slots__ = ("_mask", "_slots")

    def __init__(self, slots: int = CACHE_SLOTS) -> None:
        self._mask = slots - 1
        self._slots = array("Q", bytes(8 * slots))

    def has(self, print_: int) -> bool:
        return self._slots[print_ & self._mask] == print_

    def add(self, print_: int) -> None:
        self._slots[print_ & self._mask] = print_

    def clear(self) -> None:
        self._slots = array("Q", bytes(8 * (self._mask + 1)))


def scope_of(settings: Settings, seed_domains: Iterable[str] = ()) -> Scope:
    """The scope that the settings name. Raises ``InputError`` where the list can't be read."""
    kind = ScopeKind(settings.crawl.scope)
    if kind is ScopeKind.OPEN:
        return Scope(kind)
    if kind is ScopeKind.LIST:
        return Scope(kind, DomainSet(seed.domains_of(Path(settings.crawl.domain_list or ""))))
    return Scope(kind, DomainSet(seed_domains))


class Offering:
    """Gates and groups. ``admission.forget`` is called when exclusions or seeds have changed."""

    def __init__(self, settings: Settings, frontier: Frontier, exclusions: Exclusions, tally: Tally) -> None:
        self._settings = settings
        self._frontier = frontier
        self._exclusions = exclusions
        self._tally = tally
        self.known = KnownUrls()
        self._full: dict[str, tuple[int, int]] = {}
        self._below, self._below_until_ms = LEVELS, 0
        """Levels from this one on are turned away everywhere, for want of memory."""
        self._fresh: dict[str, list[int]] = {}
        crawl = settings.crawl
        self.admission = Admission(
            scope_of(settings), crawl.nodes, crawl.me, exclusions.covers, crawl.max_depth, settings.priorities
        )

    def take_lists(self, lists: Mapping[str, Iterable[bytes]]) -> None:
        """Take over what changed of the operator's lists: of those in Redis, by their keys, and of that on
        the disk. Raises ``InputError`` where that can't be read.
        """
        listed = self._exclusions.look(self._settings.data)
        if not (lists or listed):
            return
        scope = None
        if keys.EXCLUDED in lists:
            names, included = lists[keys.EXCLUDED], lists.get(keys.INCLUDED, ())
            self._exclusions.replace((n.decode() for n in names), (n.decode() for n in included))
        if listed or keys.EXCLUDED in lists:
            self.known.clear()  # what an include brings back may be linked again
        if keys.SCOPE in lists and self._settings.crawl.scope == "seeds":
            scope = scope_of(self._settings, (name.decode() for name in lists[keys.SCOPE]))
        self.admission.forget(scope)

    def groups(
        self,
        found: Iterable[tuple[str, int]],
        now_ms: int,
        groups: dict[str, Group] | None = None,
        *,
        sitemap: int = 0,
    ) -> dict[str, Group]:
        """Add (canonical URL, depth) pairs to ``groups`` by domain, those that pass.

        URLs known to be seen and those a full domain would turn away are left out here, and counted.
        """
        groups = {} if groups is None else groups
        admit, known, full = self.admission.admit, self.known, self._full
        below = self._below if now_ms < self._below_until_ms else LEVELS
        drop = self._tally.add
        already = 0
        base_level = SITEMAP_LEVEL if sitemap else None
        for url, depth in found:
            place = admit(url, depth - 1, base_level)
            if isinstance(place, Refusal):
                drop(f"drop:{place}")
                continue
            key = dedup_key(url)
            print_ = fingerprint(key)
            if known.has(print_):
                already += 1
                continue
            domain = place.domain
            level = place.level
            if level >= below:
                drop("drop:shed")
                drop(f"shed:{level}")
                continue
            if domain in full:
                worst, until_ms = full[domain]
                if now_ms >= until_ms:
                    del full[domain]
                elif level >= worst:
                    drop("drop:full")
                    continue
            group = groups.get(domain)
            if group is None:
                group = groups[domain] = Group(domain, place.lane, now_ms)
            group.entries.append(Entry(url, level, depth, sitemap=sitemap).pack())
            group.slots += self._frontier.slots(key)
            self._fresh.setdefault(domain, []).append(print_)
        if already:
            drop("links:known", already)
        return groups

    def sitemaps(self, named: Iterable[Named], now_ms: int, groups: dict[str, Group]) -> None:
        """Add sitemaps to ``groups``: they pass the same gates and have a priority of their own."""
        named = list(named)
        for kind in (SITEMAP, NESTED):
            found = [(each.url, each.depth) for each in named if each.kind == kind]
            self.groups(found, now_ms, groups, sitemap=kind)

    def learn(self, offered: Offered, now_ms: int) -> None:
        """Take in the answer to an offer of ``groups``: who is full, what is seen now, what is of no use."""
        self._below, self._below_until_ms = offered.below, now_ms + BELIEVE_MS
        for domain, (worst, believe_ms) in offered.full.items():
            self._full[domain] = (worst, now_ms + believe_ms)
        if len(self._full) > 100_000:
            self._full.clear()
        for domain, prints in self._fresh.items():
            if domain not in offered.full:
                for print_ in prints:
                    self.known.add(print_)
        self._fresh.clear()

    def forget_all(self) -> None:
        """Redis was restarted: what it was known to have seen may be lost."""
        self.forget()
        self.known.clear()
        self._full.clear()

    def forget(self) -> None:
        """An offer failed: nothing is known of what was in it."""
        self._fresh.clear()
