"""Priorities by pattern: which URLs are better or worse than how far they are from a seed says.

A pattern is written as in robots.txt and matched as there (``rules/robots_match.py``): against path and
query, from their beginning; ``*`` stands for any characters, ``$`` at the end for the end; in linear time,
and whatever the spelling. The first rule that is about a URL decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from node.rules import url as urls
from node.rules.refusal import Refusal
from node.rules.robots_match import Matcher, spell_rule

LEVELS = 8
"""Priority levels of a domain's queue, 0 the best: 0 holds seeds, n what is n links away from one, and
the last all that is further; unless a rule says otherwise."""
MAX_RULES = 1_000
MAX_PATTERN_CHARS = 2_048


class Rule(NamedTuple):
    """``domain``: a host or a domain with all hosts under it; empty = any. A rule has a ``level`` of its own,
    or a ``shift`` from the one by depth (below zero is better).
    """

    pattern: str
    domain: str = ""
    level: int | None = None
    shift: int | None = None

    def applied(self, level: int) -> int:
        """The level of a URL whose level by depth is ``level``."""
        if self.level is not None:
            return self.level
        return min(LEVELS - 1, max(0, level + (self.shift or 0)))

    @property
    def words(self) -> str:
        """As people are told."""
        what = f"level {self.level}" if self.level is not None else f"shift {self.shift:+d}"
        return f"{self.pattern}{f' at {self.domain}' if self.domain else ''}: {what}"


class HostRules:
    """The rules that are about one host, compiled."""

    __slots__ = ("_any", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        spelled = ["-" + spell_rule(rule.pattern.encode()) for rule in rules]
        self._any = Matcher(spelled)
        self._rules = [(Matcher([text]), rule) for text, rule in zip(spelled, rules, strict=True)]

    def level(self, path: str, level: int) -> int:
        """The level of ``path`` (with its query) where ``level`` is the one by depth."""
        # of most URLs none is about them, which one look tells
        if self._any.allows(path):
            return level
        rule = self.deciding(path)
        return level if rule is None else rule.applied(level)

    def deciding(self, path: str) -> Rule | None:
        """The first rule that is about ``path``."""
        return next((rule for matcher, rule in self._rules if not matcher.allows(path)), None)


class Priorities:
    """All rules of a crawl. Raises ``ValueError``, in one sentence, where one can't be used."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        if len(rules) > MAX_RULES:
            raise ValueError(f"there are {len(rules):,}; at most {MAX_RULES:,} are taken")
        self._rules = [_checked(number, rule) for number, rule in enumerate(rules, 1)]
        self._compiled: dict[tuple[int, ...], HostRules] = {}
        """By the rules' numbers: no more than there are domains in the rules, and one."""

    def of(self, host: str) -> HostRules | None:
        """The rules about a host (lower case); None where there are none."""
        host = host.removesuffix(".")
        numbers = tuple(
            number
            for number, rule in enumerate(self._rules)
            if not rule.domain or host == rule.domain or host.endswith("." + rule.domain)
        )
        if not numbers:
            return None
        found = self._compiled.get(numbers)
        if found is None:
            found = self._compiled[numbers] = HostRules([self._rules[number] for number in numbers])
        return found


def _checked(number: int, rule: Rule) -> Rule:
    """The rule with its domain in canonical form."""
    where = f"rule {number} ({rule.pattern!r})"
    if rule.pattern[:1] not in ("/", "*"):
        raise ValueError(f"{where}: a pattern begins with / or *, as in robots.txt")
    if len(rule.pattern) > MAX_PATTERN_CHARS or not rule.pattern.isprintable() or " " in rule.pattern:
        raise ValueError(
            f"{where}: a pattern has no spaces and at most {MAX_PATTERN_CHARS:,} printable characters"
        )
    if (rule.level is None) == (rule.shift is None):
        raise ValueError(f"{where}: give either a level or a shift")
    if rule.level is not None and not 0 <= rule.level < LEVELS:
        raise ValueError(f"{where}: level is {rule.level}; it must be 0 (the best) to {LEVELS - 1}")
    if rule.shift is not None and not 0 < abs(rule.shift) < LEVELS:
        raise ValueError(
            f"{where}: shift is {rule.shift}; it must be -{LEVELS - 1} (better) to {LEVELS - 1}, and not 0"
        )
    if not rule.domain:
        return rule
    parsed = urls.canonical(f"https://{rule.domain}/")
    if isinstance(parsed, Refusal) or parsed != f"https://{urls.host(parsed)}/":
        raise ValueError(f"{where}: {rule.domain!r} is no domain")
    return rule._replace(domain=urls.host(parsed).removesuffix("."))
