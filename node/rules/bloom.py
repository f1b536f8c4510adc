"""How often a Bloom filter of 64-bit blocks errs, and how many blocks it takes not to.

Let ``n`` URLs be in a layer of ``m`` blocks, each by ``rounds`` lines, a line being ``k`` distinct bits of
one block. The number of lines that fell into a block is Poisson with mean ``L = rounds * n / m`` (binomial
to be exact, which has the smaller tail). Let there be ``i`` of them. A new line is wholly covered if none
of its ``k`` bits is missing; by inclusion and exclusion over the ``j`` bits that are ::

    covered(i) = sum over j = 0..k of (-1)^j * C(k, j) * (C(64 - j, k) / C(64, k)) ^ i

since one line misses ``j`` given bits with probability ``C(64 - j, k) / C(64, k)``. So the error of a line
is the Poisson mixture ``E[covered(i)]``; all ``rounds`` lines, in independent blocks, are covered with that
to the power of ``rounds``; and the errors of several layers add up (a little less, to be exact).

Putze, Sanders and Singler ("Cache-, Hash- and Space-Efficient Bloom Filters", 2007) give the same for bits
drawn with replacement; distinct ones save 2 %.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, comb, exp

BLOCK_BITS = 64
_GREATEST_LOAD = 16.0
"""Lines per block beyond which no error rate of ours can be had: four bits per line."""
_TAIL = 80
"""Loads beyond this have a chance below 1e-28 even at the greatest average."""


@lru_cache(maxsize=8 * _TAIL)
def _covered(lines: int, bits_set: int) -> float:
    """Chance that ``lines`` random lines in one block cover another."""
    masks = comb(BLOCK_BITS, bits_set)
    covered = 0.0
    for missing in range(bits_set + 1):
        ways = comb(bits_set, missing) * (-1 if missing % 2 else 1)
        covered += ways * (comb(BLOCK_BITS - missing, bits_set) / masks) ** lines
    return covered


def line_error(load: float, bits_set: int) -> float:
    """Chance that a new line is covered, with ``load`` (at most 16) lines per block on average."""
    error, chance = 0.0, exp(-load)
    for lines in range(_TAIL):
        error += chance * _covered(lines, bits_set)
        chance *= load / (lines + 1)
    return error


def blocks_for(urls: int, error_rate: float, rounds: int, bits_set: int) -> int:
    """Fewest blocks (to a millionth) that keep ``urls`` URLs within ``error_rate``."""
    line_rate = error_rate ** (1 / rounds)
    fits, too_much = 0.0, _GREATEST_LOAD
    while too_much - fits > 1e-6 * too_much:
        load = (fits + too_much) / 2
        if line_error(load, bits_set) > line_rate:
            too_much = load
        else:
            fits = load
    return ceil(rounds * urls / fits)
