"""What a frontier turns away while Redis has little memory left: the lowest priorities first, more of them
the longer it lasts; then all that does not take the place of something worse; then everything.

Leasing goes on throughout, since it alone frees memory. The frontier gives way to a lack of memory only, not
to slow parsers or a slow disk: those are waited for (``rules/pressure.py``), and nothing is lost by waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from node.rules.admit import LEVELS
from node.rules.watermark import Watermark

BETTER = LEVELS
"""Grade at which a URL enters only if a worse one of its domain gives way."""
NOTHING = LEVELS + 1
"""Grade at which nothing enters."""
STEP_S = 5.0
"""While it lasts, one priority more is turned away each time this has passed; one less when it is over."""


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
    """``grade``: 0 = all may enter, n < ``BETTER`` = all but the n lowest priorities, or as named above.

    ``since_s``: since when there has been pressure, None = there is none. ``stepped_s``: when the grade last
    changed step by step. ``pressing``: is the share over the high mark now?
    """

    grade: int = 0
    since_s: float | None = None
    stepped_s: float = 0.0
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
        found = replace(self, since_s=since_s, pressing=pressing)
        if marks.nothing.over(self.grade == NOTHING, share):
            return replace(found, grade=NOTHING, stepped_s=now_s)
        if marks.better.over(self.grade >= BETTER, share):
            return replace(found, grade=BETTER, stepped_s=now_s)
        grade, due = min(self.grade, BETTER - 1), now_s - self.stepped_s >= STEP_S
        if pressing and (grade == 0 or (due and grade < BETTER - 1)):
            return replace(found, grade=grade + 1, stepped_s=now_s)
        if not pressed and grade > 0 and due:
            return replace(found, grade=grade - 1, stepped_s=now_s)
        return replace(found, grade=grade)


def admitted_below(grade: int) -> int:
    """Priorities under this one may enter; ``LEVELS`` = all of them (at ``BETTER`` with a condition)."""
    if grade >= NOTHING:
        return 0
    return LEVELS if grade == BETTER else LEVELS - grade


def dropped_from(grade: int) -> int:
    """The best priority of which queued URLs are dropped, where pressure lasts: what may not enter is not
    kept either. Seeds (0) are never dropped.
    """
    return max(1, LEVELS - grade)


def words(grade: int) -> str:
    """What a grade does, for people; empty where all may enter."""
    if grade <= 0:
        return ""
    if grade == BETTER:
        return "a URL enters only in place of a worse one of its domain"
    if grade >= NOTHING:
        return "no URL enters"
    worst = LEVELS - grade
    return f"URLs of priority {worst}{' and lower' if grade > 1 else ''} are turned away"
