"""Text that came from elsewhere, made fit for a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MOST_CHARACTERS = 500


def harmless(text: str) -> str:
    """The same without control characters and escape sequences; line feeds stay."""
    return "".join(c if c == "\n" or unicodedata.category(c)[0] != "C" else "�" for c in text.expandtabs())


def one_line(text: str) -> str:
    """The same on one line, cut where it is long."""
    line = harmless(" ".join(text.split()))
    return line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + " …"


def human_bytes(count: float) -> str:
    """1234567 -> ``1.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def human_seconds(seconds: float) -> str:
    """3725 -> ``1 h 02 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``node2`` before ``node10``."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def names(hosts: Iterable[str], of: int) -> str:
    """Some of ``of`` hosts: ``all 12 nodes``, ``node01``, ``node01, node02`` or ``node01 … (9 nodes)``."""
    listed = sorted(hosts, key=natural)
    if len(listed) == of and of > 1:
        return f"all {of} nodes"
    if len(listed) <= 3:
        return ", ".join(listed)
    return f"{', '.join(listed[:2])} … ({len(listed)} nodes)"
