"""Pages that are nearly the same: a fingerprint in which a small change changes few bits, and what follows.

Simhash (Charikar 2002; Manku, Jain and Das Sarma 2007, "Detecting near-duplicates for web crawling"): of 64
bits, the share that differs between two pages is about the angle between their sets of three-word sequences.
Pages of one domain are compared, the last few kinds that were met. The offer script does the same arithmetic
inside Redis; this is the law in plain form, and a test ties the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import mmh3

BITS: Final = 64
NEAR_BITS: Final = 6
"""Pages whose fingerprints differ in so many bits or fewer are nearly the same: nineteen of twenty of their
three-word sequences are shared. (Two pages of which half is the site's menu differ in some twenty.)"""
MIN_SHINGLES: Final = 24
"""A page with fewer different sequences says too little to be compared."""
MAX_WORDS: Final = 4_000

KINDS: Final = 16
"""Fingerprints kept of a domain: of the kinds of page that were met last."""
LEAST: Final = 8
"""Pages of a domain that were compared before anything follows."""
MOST: Final = 64
"""At so many what is known counts half, so that a domain can change."""
STEPS: Final = ((50, 1), (75, 2), (90, 3))
"""Percent of a domain's pages that are nearly the same as others -> by how much its priority is lower."""

# Text between tags, but that of script and style. Possessive: time grows with the length alone.
_TEXT = re.compile(rb"<(?!script|style)[^<>]*+>([^<]++)", re.IGNORECASE)
_digest = mmh3.mmh3_x64_128_digest


def simhash(page: bytes) -> bytes | None:
    """The fingerprint of a decoded page, in any encoding that holds ASCII: 8 bytes. None: too little text."""
    words = b" ".join(_TEXT.findall(page)).lower().split()[:MAX_WORDS]
    shingles = set(map(b" ".join, zip(words, words[1:], words[2:], strict=False)))
    if len(shingles) < MIN_SHINGLES:
        return None
    digests = b"".join(map(_digest, shingles))  # 16 bytes each, of which 8 are used
    out = 0
    lanes = int.from_bytes(b"\1" * len(shingles))
    for at in range(8):
        column = int.from_bytes(digests[at::16])
        for bit in range(8):
            ones = (column & (lanes << bit)).bit_count()
            out = out << 1 | (2 * ones > len(shingles))
    return out.to_bytes(8)


def distance(one: bytes, other: bytes) -> int:
    """In how many bits two fingerprints differ."""
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


class Likeness(NamedTuple):
    """What is known of a domain's pages: how many were compared, how many of them were nearly the same as
    another, and the fingerprints of the kinds met last, the latest at the end.
    """

    compared: int = 0
    near: int = 0
    kinds: tuple[bytes, ...] = ()

    def with_page(self, print_: bytes) -> Likeness:
        """After one page more."""
        compared, near, kinds = self.compared, self.near, list(self.kinds)
        if compared >= MOST:
            compared, near = compared // 2, near // 2
        known = next((kind for kind in kinds if distance(kind, print_) <= NEAR_BITS), None)
        if known is None:
            kinds = [*kinds[-(KINDS - 1) :], print_]
        else:
            kinds.remove(known)
            kinds.append(known)
        return Likeness(compared + 1, near + (known is not None), tuple(kinds))

    @property
    def lowered(self) -> int:
        """By how many levels its URLs enter lower, and how many delays more it waits between visits."""
        if self.compared < LEAST:
            return 0
        return max((by for percent, by in STEPS if 100 * self.near >= percent * self.compared), default=0)

    @property
    def words(self) -> str:
        """As people are told; nothing where none was compared."""
        if not self.compared:
            return ""
        text = f"{self.near} of {self.compared} compared are nearly the same as another"
        return f"{text}: priority lowered by {self.lowered}" if self.lowered else text


def sampler(share: float) -> Callable[[str], bool]:
    """Is this URL's page one of those that are compared? The same answer whenever, and whoever asks."""
    below = round(share * 2**32)
    return lambda url: mmh3.hash(url, signed=False) < below
