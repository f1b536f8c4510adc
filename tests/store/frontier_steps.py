"""The vocabulary of histories: what may happen, how often, with which arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

Operation = TypeVar("Operation", bound=Callable[..., None])
Draw = Callable[[random.Random], Any]
OPERATIONS: dict[str, dict[str, Draw]] = {}
CHOICES: list[str] = []


def happens(weight: int, **arguments: Draw) -> Callable[[Operation], Operation]:
    """Makes a method one of the things that can happen, as often as ``weight`` says.

    (Rules of hypothesis's own would do, but of those it leaves out a random part in each history and
    repeats itself in the rest; little happens where nobody offers, beats, leases and settles.)
    """

    def register(operation: Operation) -> Operation:
        OPERATIONS[operation.__name__] = arguments
        CHOICES.extend([operation.__name__] * weight)
        return operation

    return register


def among(*values: Any) -> Draw:
    return lambda dice: dice.choice(values)


def whole(least: int, most: int) -> Draw:
    return lambda dice: dice.randint(least, most)


def several(draw: Draw, most: int) -> Draw:
    return lambda dice: [draw(dice) for _ in range(dice.randint(1, most))]
