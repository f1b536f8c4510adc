"""What a frontier turns away while Redis has little memory left. URLs of the lowest priorities enter only in
place of a worse one of their domain, which takes no more memory: of more and more priorities the longer it
lasts, then of all; and at the very end nothing enters.

Leasing goes on throughout, since it alone frees memory. The frontier gives way to a lack of memory only, not
to slow parsers or a slow disk: those are waited for (``rules/pressure.py``), and nothing is lost by waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from node.rules.priority import LEVELS
from node.rules.watermark import Watermark

BETTER = LEVELS
"""Grade at which URLs of all priorities enter only if a worse one gives way."""
NOTHING = LEVELS + 1
"""Grade at which nothing enters."""
STEP_S = 5.0
"""As often as this has passed, one priority more is turned away if memory has not become less scarce since;
one less when it is over."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Shares of Redis's memory. ``low`` and ``high``: shedding ends, and begins."""

    low: float
    high: float

    @property
    def pressed(self) -> Watermark:
        return Watermark(self.high, self.low)

    @property
    def better(self) -> Watermark:
        """Half of the way from ``high`` to the end."""
        return Watermark(self.high + 0.5 * (1 - self.high), self.high)

    @property
    def nothing(self) -> Watermark:
        """Nearly at the end; what is on its way in still has room."""
        return Watermark(self.high + 0.85 * (1 - self.high), self.better.high)


@dataclass(frozen=True, slots=True)
class Shedding:
    """``grade``: 0 = all may enter, n = the n lowest priorities only in place of a worse URL, ``NOTHING``.

    ``since_s``: since when there has been pressure, None = there is none. ``stepped_s``: when it was last
    asked whether that is enough, and ``stepped_at`` the share at that time. ``pressing``: is the share over
    the high mark now?
    """

    grade: int = 0
    since_s: float | None = None
    stepped_s: float = 0.0
    stepped_at: float = 0.0
    pressing: bool = False

    def lasts_s(self, now_s: float) -> float:
        """How long there has been pressure without end."""
        return 0.0 if self.since_s is None else now_s - self.since_s

    def next(self, marks: Marks, share: float, now_s: float) -> Shedding:
        """The shedding of now, ``share`` of the memory being used. Called about once a second."""
        was = self.since_s is not None
        pressed = marks.pressed.over(was, share)
        pressing = share >= marks.high
        since_s = (self.since_s if was else now_s) if pressed else None
        found = replace(self, grade=min(self.grade, BETTER - 1), since_s=since_s, pressing=pressing)
        stepped = replace(found, stepped_s=now_s, stepped_at=share)
        if marks.nothing.over(self.grade == NOTHING, share):
            return replace(stepped, grade=NOTHING)
        if marks.better.over(self.grade >= BETTER, share):
            return replace(stepped, grade=BETTER)
        if pressing and found.grade == 0:
            return replace(stepped, grade=1)
        if now_s - self.stepped_s < STEP_S:
            return found
        if pressing and share >= self.stepped_at:
            return replace(stepped, grade=min(found.grade + 1, BETTER - 1))
        if not pressed and found.grade > 0:
            return replace(stepped, grade=found.grade - 1)
        return stepped


def free_below(grade: int) -> int:
    """URLs of priorities under this one may enter; of the others only those that take the place of a worse
    one (at ``NOTHING`` not even those).
    """
    return max(0, LEVELS - grade)


def hopeless_from(grade: int) -> int:
    """URLs of this priority and lower can't enter, whatever waits: the lowest has nothing to displace."""
    if grade >= NOTHING:
        return 0
    return LEVELS - 1 if grade > 0 else LEVELS


def dropped_from(grade: int) -> int:
    """The best priority of which queued URLs are dropped, where pressure lasts: what may not enter freely is
    not kept either. Seeds (0) are never dropped.
    """
    return max(1, LEVELS - grade)


def words(grade: int) -> str:
    """What a grade does, for people; empty where all may enter."""
    if grade <= 0:
        return ""
    if grade >= NOTHING:
        return "no URL enters the frontier"
    which = "URLs" if grade == BETTER else f"URLs of priority {LEVELS - grade} and lower"
    return f"{which} enter the frontier only in place of worse ones"
