"""Which node owns a domain, and in which of the node's lanes it is served.

Both come from one 128-bit murmur3 digest of the registrable domain: the node from its first half,
the lane from its second. Were they taken from the same bits, the domains of one node would crowd into
a few of its lanes.
"""

from __future__ import annotations

import mmh3

LANES = 64
"""Lanes of a node; a power of two, so that the low bits of the digest choose one evenly."""

_MASK = 0xFFFF_FFFF_FFFF_FFFF


def _halves(domain: str) -> tuple[int, int]:
    return mmh3.hash64(domain, signed=False)


def jump(key: int, buckets: int) -> int:
    """Jump consistent hash of an unsigned 64-bit key: a bucket from 0 to ``buckets`` - 1.

    Going from n to n + 1 buckets moves one key in n + 1, all of them to the new bucket (Lamping and
    Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014).
    """
    if buckets < 1:
        raise ValueError(f"there must be at least one bucket, not {buckets}")
    here, ahead = -1, 0
    while ahead < buckets:
        here = ahead
        key = (key * 2862933555777941757 + 1) & _MASK
        ahead = int((here + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return here


def node_of(domain: str, nodes: int) -> int:
    """The node that owns a registrable domain, 0 to ``nodes`` - 1."""
    return jump(_halves(domain)[0], nodes)


def lane_of(domain: str) -> int:
    """The lane of a registrable domain on its node, 0 to ``LANES`` - 1."""
    return _halves(domain)[1] % LANES


def digest(domain: str) -> int:
    """64 bits that stand for a domain in large sets (unsigned)."""
    return _halves(domain)[0]
