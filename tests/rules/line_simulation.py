"""A fetcher at work on a made-up web whose line breaks now and then, in driven time.

Sites answer within seconds, or fail by themselves now and then; some are dead for good, in the ways hosts are
dead. While the line is broken nothing comes back: what is under way or begins then fails at once, or at the
deadline.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from node.rules.line import PROBES, Judgement, Line

DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Web:
    """``flaky``: how often a live site fails; ``dead``: how many never answer; ``silent``: of these, how many
    say nothing at all (the others refuse, or have no name)."""

    domains: int = 2_000
    networks: int = 200
    flaky: float = 0.02
    dead: float = 0.2
    silent: float = 0.4


@dataclass(order=True, slots=True)
class Visit:
    ends_s: float
    number: int
    domain: int = field(compare=False)
    began_s: float = field(compare=False)
    answers: bool = field(compare=False)
    mute: bool = field(compare=False)
    ours: bool = field(compare=False)
    """It failed since the line was broken."""


@dataclass
class Run:
    """``visits_per_s`` begin while the line is held to be up, if fewer than ``in_flight`` are under way.

    ``breaks``: from when to when the line is broken; ``at_once``: what begins then fails at once.
    """

    web: Web
    breaks: Sequence[tuple[float, float]] = ()
    at_once: bool = False
    visits_per_s: float = 100.0
    in_flight: int = 1_000
    only_dead_after_s: float = float("inf")
    seed: int = 1
    line: Line = field(default_factory=lambda: Line(networks=3))
    charged: Counter[str] = field(default_factory=Counter)
    """Failures charged to a site by whose fault they were: ``site`` or ``line``."""
    spared: Counter[str] = field(default_factory=Counter)
    changes: list[tuple[float, bool]] = field(default_factory=list)
    """(time, is it down?) whenever the judgement changed."""
    begun_while_down: int = 0
    results: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.under_way: list[Visit] = []
        self.held: deque[Visit] = deque()
        self.number = 0

    def for_seconds(self, seconds: float) -> Run:
        now, step = 0.0, 1.0 / self.visits_per_s
        while now < seconds:
            now += step
            self._end_until(now)
            if not self.line.down:
                many = 1
            elif self.line.probe_due(now, self.dice.random()):
                many = PROBES
            else:
                many = 0
            if self.line.down:
                self.begun_while_down += many
            for _ in range(many):
                if len(self.under_way) + len(self.held) < self.in_flight:
                    heapq.heappush(self.under_way, self._begin(now))
            self._settle(now)
            self._note(now)
        return self

    def _broken(self, since: float, until: float) -> bool:
        return any(begin < until and since < end for begin, end in self.breaks)

    def _begin(self, now: float) -> Visit:
        web, dice = self.web, self.dice
        dead = round(web.dead * web.domains)
        domain = dice.randrange(web.domains if now < self.only_dead_after_s else dead)
        is_dead = domain < dead
        answers = not is_dead and dice.random() >= web.flaky
        mute = dice.random() < web.silent
        takes = dice.uniform(0.1, 2.0) if answers or not mute else DEADLINE_S
        self.number += 1
        visit = Visit(now + takes, self.number, domain, now, answers, mute, False)
        if self._broken(now, visit.ends_s):
            visit.answers, visit.ours, visit.mute = False, answers, True
            quick = self.at_once and self._broken(now, now + 0.001)
            visit.ends_s = now + (0.01 if quick else DEADLINE_S)
        return visit

    def _end_until(self, now: float) -> None:
        while self.under_way and self.under_way[0].ends_s <= now:
            visit = heapq.heappop(self.under_way)
            self.results += 1
            name, network = str(visit.domain), str(visit.domain % self.web.networks)
            if visit.answers:
                self.line.answered(name, network, began_s=visit.began_s, now_s=visit.ends_s)
            else:
                self.line.failed(name, network, began_s=visit.began_s, now_s=visit.ends_s, mute=visit.mute)
                self.held.append(visit)
            self._settle(visit.ends_s)
            self._note(visit.ends_s)

    def _settle(self, now: float) -> None:
        while self.held:
            visit = self.held[0]
            judgement = self.line.judge(
                began_s=visit.began_s,
                ended_s=visit.ends_s,
                now_s=now,
                under_way=len(self.under_way) + len(self.held) - 1,
            )
            if judgement is Judgement.OPEN:
                return
            self.held.popleft()
            whose = self.charged if judgement is Judgement.THEIRS else self.spared
            whose["line" if visit.ours else "site"] += 1

    def _note(self, now: float) -> None:
        if self.line.down != bool(self.changes and self.changes[-1][1]):
            self.changes.append((now, self.line.down))
