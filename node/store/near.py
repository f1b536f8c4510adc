"""How alike a domain's pages are (``rules/similar.py``), as Redis holds it, and as it is told.

The offer script keeps it: parsers send the fingerprints of pages along with their links.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec

from node.rules.shard import lane_of
from node.rules.similar import Likeness

_HEAD = struct.Struct("<HH")
_PRINT = struct.Struct("<II")
_HALVES = struct.Struct(">II")


def told(pages: Mapping[str, Sequence[bytes]]) -> bytes:
    """The argument of an offer, from domain -> fingerprints of those of its pages that are compared."""
    wire: list[list[str | int]] = []
    for domain, prints in pages.items():
        halves = (half for each in prints for half in _HALVES.unpack(each))
        wire.append([domain, str(lane_of(domain)), *halves])
    return msgspec.msgpack.encode(wire)


def unpack(packed: bytes | None) -> Likeness:
    """Of ``near:{domain}``."""
    if packed is None:
        return Likeness()
    compared, near = _HEAD.unpack_from(packed)
    kinds = (_HALVES.pack(*halves) for halves in _PRINT.iter_unpack(packed[_HEAD.size :]))
    return Likeness(compared, near, tuple(kinds))
