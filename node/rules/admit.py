"""Which links enter the frontier, and at which priority."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from typing import NamedTuple

from node.rules.domain import registrable
from node.rules.priority import LEVELS, HostRules, Priorities
from node.rules.refusal import Refusal
from node.rules.shard import digest, lane_of, node_of
from node.rules.url import host

CACHED_ORIGINS = 16_384
"""Origins whose verdict is remembered, about 500 bytes each: 8 MB a process."""


class DomainSet:
    """A fixed set of registrable domains in 8 bytes each: 8 MB for a million.

    It holds a sorted array of 64-bit digests (a frozenset of strings takes 96 MB, in each of 15
    processes). Building one needs 56 MB for a moment; the chance that a strange domain is taken for one
    of a million is 1 in 18 million million.
    """

    __slots__ = ("_digests",)

    def __init__(self, domains: Iterable[str]) -> None:
        self._digests = array("Q", sorted(array("Q", map(digest, domains))))

    def __contains__(self, domain: object) -> bool:
        if not isinstance(domain, str):
            return False
        wanted = digest(domain)
        at = bisect_left(self._digests, wanted)
        return at < len(self._digests) and self._digests[at] == wanted


class ScopeKind(StrEnum):
    """Which domains a crawl visits."""

    SEEDS = "seeds"
    """Those of its seeds."""
    LIST = "list"
    """Those of a list, which may be longer than the seeds."""
    OPEN = "open"
    """Any of the node's shard."""


class Scope(NamedTuple):
    """``domains`` are those of the seeds or of the list (only the node's own need be there)."""

    kind: ScopeKind
    domains: DomainSet | Collection[str] = ()

    def covers(self, domain: str) -> bool:
        """Whether a registrable domain is to be visited."""
        return self.kind is ScopeKind.OPEN or domain in self.domains


class Place(NamedTuple):
    """Where an admitted URL belongs."""

    domain: str
    lane: int
    level: int


class _Origin:
    """What is known of an origin whose URLs may enter: its places by level, made when first asked for, and
    the priority rules about it.
    """

    __slots__ = ("places", "rules")

    def __init__(self, rules: HostRules | None) -> None:
        self.places: list[Place | None] = [None] * LEVELS
        self.rules = rules


class Admission:
    """The gate that every link, redirect target and seed goes through.

    ``excluded`` answers for a host (without trailing dot), the domains above it included. ``priorities``:
    rules by which a URL's level is not the one by its depth. Verdicts are remembered per origin, since most
    links of a page lead to a few: call ``forget`` when exclusions or seeds have changed.
    """

    def __init__(
        self,
        scope: Scope,
        nodes: int,
        me: int,
        excluded: Callable[[str], bool],
        max_depth: int | None = None,
        priorities: Priorities | None = None,
    ) -> None:
        if not 0 <= me < nodes:
            raise ValueError(f"node {me} is not one of {nodes}")
        self._scope = scope
        self._nodes = nodes
        self._me = me
        self._excluded = excluded
        self._max_depth = max_depth
        self._priorities = priorities or Priorities(())
        self._verdicts: dict[str, _Origin | Refusal] = {}

    def admit(self, url: str, page_depth: int, level: int | None = None) -> Place | Refusal:
        """Where a canonical URL belongs, or why it may not enter.

        ``page_depth``: how many links from a seed the page is on which it was found; -1 for a seed.
        ``level``: before the priority rules, where it is not the one by depth.
        """
        depth = page_depth + 1
        origin = url[: url.index("/", 8)]
        verdict = self._verdicts.get(origin)
        if verdict is None:
            verdict = self._remember(origin, self._judge(host(url)))
        if isinstance(verdict, Refusal):
            return verdict
        if self._max_depth is not None and depth > self._max_depth:
            return Refusal.TOO_DEEP
        if level is None:
            level = depth if depth < LEVELS else LEVELS - 1
        if verdict.rules is not None:
            level = verdict.rules.level(url[len(origin) :], level)
        return verdict.places[level] or self._make_place(verdict, url, level)

    def forget(self, scope: Scope | None = None) -> None:
        """Judge afresh from now on, by another scope if one is given."""
        self._verdicts.clear()
        if scope is not None:
            self._scope = scope

    def _judge(self, host_name: str) -> _Origin | Refusal:
        domain = registrable(host_name)
        if node_of(domain, self._nodes) != self._me:
            return Refusal.OTHER_SHARD
        if not self._scope.covers(domain):
            return Refusal.OUT_OF_SCOPE
        if self._excluded(host_name.removesuffix(".")):
            return Refusal.EXCLUDED
        return _Origin(self._priorities.of(host_name))

    @staticmethod
    def _make_place(known: _Origin, url: str, level: int) -> Place:
        """Making one takes longer than all the rest of ``admit``, so they are kept."""
        domain = registrable(host(url))
        place = known.places[level] = Place(domain, lane_of(domain), level)
        return place

    def _remember(self, origin: str, verdict: _Origin | Refusal) -> _Origin | Refusal:
        if len(self._verdicts) >= CACHED_ORIGINS:
            for old in list(self._verdicts)[: CACHED_ORIGINS // 2]:
                del self._verdicts[old]
        self._verdicts[origin] = verdict
        return verdict
