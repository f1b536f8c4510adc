"""Is it the sites that don't answer, or our own line (the link, or the resolver)?

A dead host here and there is ordinary, and a list may be half dead from the start; so failures alone say
nothing. What says something is that domains *that answered the last time* fail, one after the other, and
nobody answers in between. Of such domains few fail by themselves (``usual``, measured as we go); a run of
them so long that it would come by chance once in 10⁹ times is taken for our own fault, if it spreads over
several networks (else it may be one hoster's).

Before anybody has answered this process it takes ``STRANGERS`` domains that gave no sign of life at all, or
a run of those that answered an earlier process. Such a verdict is believed for ``UNPROVEN_S`` only: that may
be all there is left to crawl.

While the line is down it is probed with few visits, less and less often, and it is up again once
``ANSWERS`` of them were answered. If it goes down again soon, the probes begin less soon.

Times are seconds of any clock that never runs backwards; ``jitter`` is in 0..1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto
from math import ceil, log

FALSE_ALARM = 1e-9
"""How often a run of failures may come by chance, per result."""
USUAL_START, USUAL_LEAST, USUAL_MOST = 0.1, 0.03, 0.6
"""The share of domains that fail though they answered the last time: as long as nothing is known, and the
least and the most that is reckoned with. They ask for runs of 9, 6 and 41."""
USUAL_OVER = 500
"""Results over which that share is smoothed."""
STRANGERS = 30
UNPROVEN_S = 600.0
KNOWN = 20_000
"""Most domains remembered of those that answered last, and of those that failed last."""
HOLD_S = 10.0
"""A failure waits this long, at most, for what others say, before it is charged."""
PROBES = 4
"""Visits of one probe: to several domains, since one may be dead indeed."""
PROBE_FIRST_S, PROBE_MOST_S = 1.0, 30.0
ANSWERS = 2
STEADY_S = 60.0
"""Up for so long, it may go down again as if for the first time."""


class Judgement(Enum):
    """Whose fault a failed request is."""

    OURS = auto()
    THEIRS = auto()
    OPEN = auto()
    """Wait a moment for what others say."""


def network_of(ip: str | None) -> str:
    """What addresses of one owner have in common, roughly: /16, or /32 of IPv6; ``""`` for none."""
    if not ip:
        return ""
    dot = ":" if ":" in ip else "."
    first, _, rest = ip.partition(dot)
    return first + dot + rest.partition(dot)[0]


def run_needed(usual: float) -> int:
    """How many must fail in a row before it is no chance."""
    return ceil(log(FALSE_ALARM) / log(min(max(usual, USUAL_LEAST), USUAL_MOST)))


class Line:
    """One line, judged by the results of one process. ``networks``: how many a run must spread over."""

    def __init__(self, *, networks: int) -> None:
        self._networks = networks
        self.usual = USUAL_START
        self.down = False
        self.outages = 0
        self.answered_began_s = float("-inf")
        """When the latest request began that was answered while the line was up."""
        self._good: dict[str, str] = {}  # domain -> network, whose answer is oldest first
        self._in_network: Counter[str] = Counter()
        self._bad: dict[str, None] = {}  # domains that failed the last time, oldest first
        self._run: dict[str, str] = {}  # domain -> network, good ones asked and failed since the last answer
        self._proven = False  # has anybody answered?
        self._strangers: set[str] | None = set()  # None: there was a sign of life
        self._answered_s = float("-inf")  # when the last answer came
        self._down_since_s = self._up_since_s = float("-inf")
        self._answers = 0
        self._believed_until_s: float | None = None
        self._probe_wait_s = PROBE_FIRST_S
        self._next_probe_s = 0.0

    # -- what happens

    def answered(self, domain: str, network: str, *, began_s: float, now_s: float) -> None:
        """Something came back from ``domain`` to a request that began at ``began_s``."""
        known = self._forget(domain)
        self._bad.pop(domain, None)
        self._remember(domain, network)
        self._strangers, self._proven = None, True
        if not self.down:
            self._answered_s = now_s
            self.answered_began_s = max(self.answered_began_s, began_s)
            for _ in self._run:
                self._learn(failed=True)
            self._run.clear()
            if known:
                self._learn(failed=False)
        elif began_s >= self._down_since_s:
            self._answers += 1
            self._next_probe_s = now_s
            if self._answers >= ANSWERS:
                self._recover(now_s)

    def failed(
        self,
        domain: str,
        network: str,
        *,
        began_s: float,
        now_s: float,
        known: bool = False,
        mute: bool = True,
    ) -> None:
        """Nothing came back from ``domain`` to a request that began at ``began_s``.

        ``known``: it answered before, maybe another process. ``mute``: there was no sign of life at all;
        a refusal, or a name server that says there is no such name, is one.
        """
        if self.down:
            return
        if not mute:
            self._strangers = None
        was_good = domain in self._good or (known and domain not in self._bad)
        network = self._good.get(domain) or network
        self._forget(domain)
        self._bad[domain] = None
        if len(self._bad) > KNOWN:
            del self._bad[next(iter(self._bad))]
        if was_good and began_s >= self._answered_s:
            self._run[domain] = network
        elif was_good:
            self._learn(failed=True)
        if self._strangers is not None:
            self._strangers.add(domain)
        if self._is_long_enough():
            self._fall(now_s)

    # -- what is asked

    def judge(self, *, began_s: float, ended_s: float, now_s: float, under_way: int) -> Judgement:
        """Whose fault a request is that failed at ``ended_s``; ``under_way``: others that may tell."""
        if self.down or began_s < self._up_since_s:
            return Judgement.OURS
        if self.answered_began_s >= ended_s or now_s >= ended_s + HOLD_S:
            return Judgement.THEIRS
        return Judgement.OPEN if self._may_fall(under_way) else Judgement.THEIRS

    def probe_due(self, now_s: float, jitter: float) -> bool:
        """While it is down: may ``PROBES`` visits be made now? If so, the next may be in a while."""
        if self._believed_until_s is not None and now_s >= self._believed_until_s:
            self._rise(now_s)  # nobody there ever answered: it may as well be them
            return True
        if now_s < self._next_probe_s:
            return False
        self._next_probe_s = now_s + self._probe_wait_s * (0.5 + 0.5 * jitter)
        self._probe_wait_s = min(PROBE_MOST_S, 2 * self._probe_wait_s)
        return True

    def next_probe_in_s(self, now_s: float) -> float:
        """While it is down: how long until the next probe, 0 where it is due."""
        return max(0.0, self._next_probe_s - now_s) if self.down else 0.0

    # -- how it is judged

    def _is_long_enough(self) -> bool:
        if self._strangers is not None and len(self._strangers) >= STRANGERS:
            return True
        return len(self._run) >= run_needed(self.usual) and _spread(self._run.values()) >= self._networks

    def _may_fall(self, under_way: int) -> bool:
        """Could it come to a verdict within a moment, if this is the beginning of an outage?"""
        if self._strangers is not None and len(self._strangers) + under_way >= STRANGERS:
            return True
        if len(self._good) + len(self._run) < run_needed(self.usual):
            return False
        return len(self._in_network) + _spread(self._run.values()) >= self._networks

    def _learn(self, *, failed: bool) -> None:
        self.usual += (failed - self.usual) / USUAL_OVER

    def _remember(self, domain: str, network: str) -> None:
        self._good[domain] = network
        self._in_network[network] += 1
        if len(self._good) > KNOWN:
            self._forget(next(iter(self._good)))

    def _forget(self, domain: str) -> bool:
        network = self._good.pop(domain, None)
        if network is None:
            return False
        self._in_network[network] -= 1
        if not self._in_network[network]:
            del self._in_network[network]
        return True

    def _fall(self, now_s: float) -> None:
        self.down = True
        self.outages += 1
        self._down_since_s = now_s
        self._answers = 0
        self._believed_until_s = None if self._proven else now_s + UNPROVEN_S
        if now_s - self._up_since_s > STEADY_S:
            self._probe_wait_s = PROBE_FIRST_S
        self._next_probe_s = now_s + self._probe_wait_s / 2

    def _recover(self, now_s: float) -> None:
        for domain, network in self._run.items():  # it was not they who failed
            self._bad.pop(domain, None)
            if domain not in self._good:
                self._remember(domain, network)
        self._rise(now_s)

    def _rise(self, now_s: float) -> None:
        self.down = False
        self._up_since_s = now_s
        self._probe_wait_s = max(PROBE_FIRST_S, self._probe_wait_s / 4)
        self._believed_until_s = None
        self._strangers = None
        self._run.clear()


def _spread(networks: Iterable[str]) -> int:
    """How many networks; each that is not known counts as one."""
    each = list(networks)
    return len(set(each) - {""}) + each.count("")
