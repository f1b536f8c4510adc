"""What may stand behind an option: text to value, for argparse. Each says in words why a text is none."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable


def number(least: float, most: float, what: str) -> Callable[[str], float]:
    """A type for argparse: ``1e9``, ``1,000,000`` or ``0.5`` between two bounds."""

    def read(text: str) -> float:
        try:
            value = float(text.replace(",", "").replace("_", ""))
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # not a number is in no range
            raise argparse.ArgumentTypeError(f"{text!r} is no {what} ({least:,g} to {most:,.10g})")
        return value

    return read


def whole(most: int, what: str, *, least: int = 1) -> Callable[[str], int]:
    """The same for whole numbers."""
    of_any = number(least, most, what)

    def read(text: str) -> int:
        value = of_any(text)
        if value != int(value):
            raise argparse.ArgumentTypeError(f"{text!r} is no {what} ({least:,} to {most:,})")
        return int(value)

    return read


def duration(text: str) -> str:
    """``90s``, ``15m`` or ``2h``, as the node's own command reads it."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(s|m|min|h|d)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 15m or 2h")
    return text


def version(text: str) -> str:
    """The name of a release, which is a folder's name, too."""
    if not re.fullmatch(r"[0-9][0-9A-Za-z.+_-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version")
    return text


def hosts(text: str) -> tuple[str, ...]:
    """Names of hosts between commas or blanks."""
    return tuple(filter(None, re.split(r"[,\s]+", text)))
