"""When the frontier turns URLs away for want of memory: the law, and what it does to a memory over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.priority import LEVELS
from node.rules.shed import (
    BETTER,
    NOTHING,
    STEP_S,
    Marks,
    Shedding,
    dropped_from,
    free_below,
    hopeless_from,
    words,
)

MARKS = Marks(low=0.7, high=0.8)


def run(shares: list[float], state: Shedding | None = None) -> list[Shedding]:
    """The states after each second with these shares."""
    found, state = [], state or Shedding()
    for second, share in enumerate(shares):
        state = state.next(MARKS, share, 1_000.0 + second)
        found.append(state)
    return found


def test_all_may_enter_until_the_high_mark() -> None:
    """Under it there is nothing to do, however long."""
    assert {state.grade for state in run([0.79] * 100)} == {0}


def test_the_longer_it_lasts_the_more_is_turned_away() -> None:
    """The worst priority at once, then one more each five seconds, down to the seeds."""
    grades = [state.grade for state in run([0.82] * 60)]
    assert grades[0] == 1
    assert [grades.index(grade) for grade in range(1, BETTER)] == [int(STEP_S * n) for n in range(BETTER - 1)]
    assert grades[-1] == BETTER - 1


def test_what_is_enough_is_left_at_that() -> None:
    """While memory becomes less scarce, be it slowly, nothing more is turned away."""
    grades = [state.grade for state in run([0.82] * 12 + [0.82 - second / 100_000 for second in range(60)])]
    assert set(grades[11:]) == {grades[11]}


def test_near_the_end_it_does_not_wait() -> None:
    """At nine tenths nothing may grow any more, at 97 hundredths nothing enters."""
    assert [state.grade for state in run([0.5, 0.91, 0.975])] == [0, BETTER, NOTHING]


def test_between_the_marks_it_stays_as_it_is() -> None:
    """What was turned away stays out, nothing more is, and nothing that waits is dropped meanwhile."""
    states = run([0.82] * 12 + [0.75] * 60)
    assert {state.grade for state in states[12:]} == {states[11].grade}
    assert not any(state.pressing for state in states[12:])
    assert states[-1].lasts_s(1_071.0) > 60


def test_it_ends_step_by_step_without_help() -> None:
    """Under the low mark one priority more enters each five seconds, until all do."""
    states = run([0.975] * 3 + [0.6] * 60)
    grades = [state.grade for state in states[2:]]
    assert grades[0] == NOTHING
    assert sorted(grades, reverse=True) == grades
    assert grades[-1] == 0
    assert states[-1].since_s is None


@given(st.lists(st.floats(0.0, 2.0), max_size=80), st.integers(0, NOTHING))
def test_the_grade_is_always_one_there_is(shares: list[float], grade: int) -> None:
    """Whatever is measured, whatever it was before; and memory that is nearly gone is never given away."""
    for share, state in zip(shares, run(shares, Shedding(grade)), strict=True):
        assert 0 <= state.grade <= NOTHING
        assert state.grade == NOTHING or share < MARKS.nothing.high
        assert state.grade >= BETTER or share < MARKS.better.high


@given(st.lists(st.floats(0.705, 0.795), min_size=10, max_size=80))
def test_what_trembles_between_the_marks_changes_nothing(shares: list[float]) -> None:
    """No flapping: one state for all of it."""
    assert len({state.grade for state in run([0.82, *shares])[1:]}) == 1


def test_what_a_grade_lets_in_and_what_it_drops() -> None:
    """All, then one priority fewer at each grade; seeds are never dropped once they wait."""
    assert [free_below(grade) for grade in range(NOTHING + 1)] == [8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert [hopeless_from(grade) for grade in range(NOTHING + 1)] == [LEVELS] + [LEVELS - 1] * 8 + [0]
    assert [dropped_from(grade) for grade in range(1, NOTHING + 1)] == [7, 6, 5, 4, 3, 2, 1, 1, 1]


def test_every_grade_is_told() -> None:
    """People are told what is turned away; nothing where nothing is."""
    assert words(0) == ""
    assert words(3) == "URLs of priority 5 and lower enter the frontier only in place of worse ones"
    assert len({words(grade) for grade in range(NOTHING + 1)}) == NOTHING + 1


class Memory:
    """A frontier with room for 100,000 URLs. Each second as many of each priority are found as told, a few
    are visited (the best first), and where it has lasted long enough some that wait are dropped.
    """

    def __init__(self, after_s: float) -> None:
        self.waiting = [0] * LEVELS
        self.state = Shedding()
        self.after_s = after_s
        self.now_s = 0.0
        self.turned_away = [0] * LEVELS
        self.dropped = [0] * LEVELS

    @property
    def share(self) -> float:
        return sum(self.waiting) / 100_000

    def displace(self, level: int, many: int) -> int:
        """How many of them find a worse one that gives way."""
        found = 0
        for worse in range(LEVELS - 1, level, -1):
            gone = min(many - found, self.waiting[worse])
            self.waiting[worse] -= gone
            found += gone
        return found

    def second(self, found: list[int], visited: int) -> None:
        self.now_s += 1
        self.state = state = self.state.next(MARKS, self.share, self.now_s)
        for level, many in enumerate(found):
            enter = many
            if level >= free_below(state.grade):
                enter = self.displace(level, many) if state.grade < NOTHING else 0
            self.waiting[level] += enter
            self.turned_away[level] += many - enter
        for level in range(LEVELS):
            gone = min(visited, self.waiting[level])
            self.waiting[level] -= gone
            visited -= gone
        if state.pressing and state.lasts_s(self.now_s) >= self.after_s:
            left = 2_000
            for level in range(LEVELS - 1, dropped_from(state.grade) - 1, -1):
                gone = min(left, self.waiting[level])
                self.waiting[level] -= gone
                self.dropped[level] += gone
                left -= gone


@pytest.mark.parametrize("rate", [10, 100, 1_000])
def test_a_memory_that_is_too_small_holds_and_takes_in_again(rate: int) -> None:
    """More is found than is visited, for an hour: it never fills, the best priorities lose nothing, and when
    less is found all enter again.
    """
    memory = Memory(after_s=60.0)
    worst, changes = 0.0, 0
    for _ in range(3_600):
        before = memory.state.grade
        memory.second([0, rate // 10, rate, rate, rate, rate, rate, rate], visited=2 * rate)
        worst = max(worst, memory.share)
        changes += memory.state.grade != before
    assert worst < 0.95
    assert memory.turned_away[1] == memory.dropped[1] == 0
    assert sum(memory.turned_away) > 0 or rate == 10
    # a memory that fills within seconds swings, but not much faster than step by step
    assert changes < 3_600 / (4 if rate == 1_000 else 20)
    for _ in range(3_600):
        memory.second([0] * LEVELS, visited=2 * rate)
    assert memory.state.grade == 0


def test_where_nothing_is_visited_what_waits_is_dropped_down_to_the_seeds() -> None:
    """A frontier that can't be served gives way until it is under the mark; seeds stay."""
    memory = Memory(after_s=60.0)
    memory.waiting = [1_000, 0, 0, 0, 0, 0, 0, 90_000]
    for second in range(120):
        memory.second([0] * LEVELS, visited=0)
        assert second > 59 or sum(memory.dropped) == 0
    assert memory.waiting[0] == 1_000
    assert memory.share < MARKS.high
