"""The Lua verbs: read once, called by their digest, loaded again where Redis lost them.

A call is a value (``Verb``): which script, its arguments, how its answer is read. So the same
verb serves a blocking parser and an asynchronous fetcher, alone or in a pipeline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_PRELUDES = {
    "begin": ("_lib",),
    "beat": ("_lib",),
    "charge": ("_lib",),
    "extend": ("_lib",),
    "found": ("_lib", "_seen"),
    "gateway": ("_lib",),
    "hop": ("_lib", "_seen"),
    "inspect": ("_lib", "_whole"),
    "lease": ("_lib",),
    "mark": ("_lib", "_seen"),
    "mend": ("_lib", "_whole"),
    "move": ("_lib",),
    "offer": ("_lib", "_seen", "_near"),
    "reap": ("_lib",),
    "reckon": ("_lib",),
    "requeue": ("_lib",),
    "settle": ("_lib", "_pace"),
    "shed": ("_lib",),
    "totals": ("_lib",),
    "trim": ("_lib",),
    "unspool": ("_lib",),
}


@dataclass(frozen=True, slots=True)
class Script:
    """A verb's whole source, prelude included, and the digest Redis knows it by."""

    name: str
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of a verb by its file name without ``.lua``."""
    folder = resources.files("node.store") / "lua"
    names = ("_address", *_PRELUDES[name], name)
    parts = [(folder / f"{part}.lua").read_text(encoding="utf-8") for part in names]
    source = "\n".join(parts)
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def all_scripts() -> list[Script]:
    return [script(name) for name in _PRELUDES]


@dataclass(frozen=True, slots=True)
class Verb(Generic[T]):
    """One call to come: the script's name, its arguments, and the reader of its answer."""

    name: str
    args: tuple[str | bytes | int, ...]
    decode: Callable[[Any], T]

    def command(self) -> tuple[str | bytes | int, ...]:
        return ("EVALSHA", script(self.name).sha, 0, *self.args)
