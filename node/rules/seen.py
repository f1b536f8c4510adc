"""The seen filter of one domain: which bits a URL sets, and how large the filter must be.

**Layout.** A filter is one or more *layers*; a layer is a string of 64-bit blocks. A URL is
``rounds`` *lines* of 12 bytes, ``<III``: selector, low mask, high mask. In a layer of ``blocks``
blocks, a line sets the ``bits_set`` bits of its mask in block ``selector % blocks``. Neither half of
a line depends on the layer, so the same bytes test a layer of any size. New URLs go into the newest
layer; once that holds its capacity, the next, larger one begins. A URL is known if some layer has all
its lines. ``Filter`` below is the whole of it in Python; the store does the same in Lua. How often it
errs is worked out in ``bloom.py``.

**Price.** One block per URL is what Lua tests fastest, and it pays for that with the spread of the
load: 23.1 bits per URL for an error of 1e-3 where 14.4 would do unblocked. Each further layer adds
its error to the sum, which costs about 7 bits per nat of the entropy of the split. So a small plan,
of a domain in a crawl with a horizon, has one tiny layer for the many domains of which little is ever
seen, and one for all the rest: 24 bits per URL in all. Larger plans start at ``_FIRST_URLS`` and grow
by ``_GROWTH``, so that no more than that is ever allocated in vain: 28 to 30 bits. Two rounds square the
error of one, at about twice the bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import mmh3

from node.rules.bloom import BLOCK_BITS, blocks_for, line_error

LINE_BYTES = 12
"""Size of one line: selector, low mask, high mask."""
MAX_URLS = 40_000_000
"""Most URLs a filter is for: ten million at a time, over a life of four times that. Up to here every layer
fits into a Redis string (512 MiB) at any rate allowed, and 32 bits select a block evenly enough."""
LEAST_ERROR, GREATEST_ERROR = 1e-9, 0.1

_ONE_ROUND_ERROR = 1e-3
"""From this error on one line is cheaper, in time, than the bits it costs; below it two are used."""
_MARGIN = {1: 0.97, 2: 0.8}
"""By rounds: the error that is aimed at, as a share of the one allowed. The allowed one holds on average over
domains. One domain's filter strays from it, as its fullest blocks happen to be: by a fifth (one standard
deviation) for 1,543 URLs, by a twentieth for 20,000. Where bits are plenty, most of that is taken in too."""
_FIRST_URLS = 256
_GROWTH = 8
_SINGLE_UP_TO = 512
_SMALL_UP_TO = 2048
"""Plans up to here (6 KB) grow in one step; below ``_SINGLE_UP_TO`` not at all."""
_SMALL_FIRST_SHARE = 96

SlotMaker = Callable[[str], bytes]

_lines = struct.Struct("<IQ").iter_unpack
"""Little-endian, so that a low and a high mask read as one of 64 bits."""
_pack = struct.Struct("<IQ").pack
_block = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Layer:
    """One string of ``blocks`` 64-bit blocks, for ``capacity_urls`` URLs."""

    capacity_urls: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How a domain's filter is laid out, smallest layer first.

    The capacities of the first ``planned`` layers add up to ``max_urls``, and with these full the
    expected error is below ``error_rate``. Further layers, if any, are for URLs beyond it.
    """

    max_urls: int
    error_rate: float
    rounds: int
    bits_set: int
    layers: tuple[Layer, ...]
    planned: int

    @property
    def slot_bytes(self) -> int:
        """Size of what ``slots`` makes of one URL."""
        return LINE_BYTES * self.rounds

    @property
    def bits_per_url(self) -> float:
        """Bits of memory per URL in a domain that has seen ``max_urls`` of them."""
        return BLOCK_BITS * sum(layer.blocks for layer in self.layers[: self.planned]) / self.max_urls

    def expected_error(self, layers: int | None = None) -> float:
        """Share of new URLs taken for known once the first ``layers`` layers (none: the planned) are full."""
        right = 1.0
        for layer in self.layers[: self.planned if layers is None else layers]:
            load = self.rounds * layer.capacity_urls / layer.blocks
            right *= 1.0 - line_error(load, self.bits_set) ** self.rounds
        return 1.0 - right

    def slots(self) -> SlotMaker:
        """The function that makes a URL's lines in this plan (see ``slot_maker``)."""
        return slot_maker(self.rounds, self.bits_set)


# --- what a URL sets ----------------------------------------------------------------------------

_BIT = [1 << i for i in range(64)]
_PAIR = [_BIT[i & 63] | _BIT[i >> 6] for i in range(4096)]


def fingerprint(key: str) -> int:
    """64 bits of a dedup key, for a cache of URLs lately seen (unsigned)."""
    return mmh3.hash64(key, signed=False)[0]


@lru_cache(maxsize=64)
def slot_maker(rounds: int, bits_set: int) -> SlotMaker:
    """The function from a dedup key to its ``rounds`` packed lines of ``bits_set`` bits each.

    Round ``r`` takes the 128-bit murmur3 of the key with seed ``r``: 32 bits select the block, the
    other half picks bits, six at a time, until ``bits_set`` different ones are found.
    """
    if rounds not in (1, 2) or not 1 <= bits_set <= 8:
        raise ValueError("a slot has one or two rounds of one to eight bits")
    pair_shifts = tuple(range(0, bits_set // 2 * 12, 12))
    last = bits_set // 2 * 12
    odd = bits_set % 2
    used = last + 6 * odd
    hash64, pair, bit = mmh3.hash64, _PAIR, _BIT

    def line(key: str, seed: int) -> bytes:
        selector, picks = hash64(key, seed, True, False)
        mask = bit[picks >> last & 63] if odd else 0
        for shift in pair_shifts:
            mask |= pair[picks >> shift & 4095]
        if mask.bit_count() != bits_set:
            mask = _top_up(mask, bits_set, picks, used)
        return _pack(selector & 0xFFFF_FFFF, mask)

    if rounds == 1:
        return lambda key: line(key, 0)
    return lambda key: line(key, 0) + line(key, 1)


def _top_up(mask: int, bits_set: int, picks: int, used: int) -> int:
    """Go on picking where two picks hit the same bit; ``used`` bits of ``picks`` are spent."""
    while mask.bit_count() < bits_set:
        if used > 58:
            # Out of bits, about once in a million URLs: stretch them (any odd multiplier will do).
            picks = (picks * 0x9E37_79B9_7F4A_7C15 + 1) & 0xFFFF_FFFF_FFFF_FFFF
            used = 0
        mask |= _BIT[picks >> used & 63]
        used += 6
    return mask


# --- how large ----------------------------------------------------------------------------------


def _capacities(max_urls: int) -> list[int]:
    if max_urls <= _SINGLE_UP_TO:
        return [max_urls]
    if max_urls <= _SMALL_UP_TO:
        first = max_urls // _SMALL_FIRST_SHARE
        return [first, max_urls - first]
    capacities, size, left = [], _FIRST_URLS, max_urls
    while left > size + size // 4:  # a last layer that would be a sliver is made one with the one before
        capacities.append(size)
        left -= size
        size *= _GROWTH
    return [*capacities, left]


def _life_capacities(max_urls: int, life_urls: int) -> list[int]:
    """Layers beyond the plan: each doubles what was there."""
    capacities, held = [], max_urls
    while held < life_urls:
        capacities.append(min(held, life_urls - held))
        held += capacities[-1]
    return capacities


def _split(capacities: list[int], error_rate: float, rounds: int, bits_set: int) -> list[int]:
    """Blocks per layer, with the error shared out so that they are fewest in all.

    Were bits linear in the logarithm of the error, shares in proportion to the capacities would be
    best; they bend, so a few flatter proportions are tried as well.
    """
    best: list[int] = []
    for power in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        weights = [urls**power for urls in capacities]
        whole = sum(weights)
        blocks = [
            blocks_for(urls, error_rate * weight / whole, rounds, bits_set)
            for urls, weight in zip(capacities, weights, strict=True)
        ]
        if not best or sum(blocks) < sum(best):
            best = blocks
    return best


@lru_cache(maxsize=64)
def plan(max_urls: int, error_rate: float, life_urls: int | None = None) -> Plan:
    """The smallest filter for ``max_urls`` URLs that takes at most ``error_rate`` new ones for known.

    ``life_urls`` (none: ``max_urls``): how many URLs may be marked in all. A queue that is full goes
    on admitting better URLs in the place of worse, and all of them are marked. Layers beyond
    ``max_urls`` are made for those; they add up to ``error_rate`` once more, in domains whose
    links are mostly turned away anyhow, and no domain pays for them before it gets there.

    Raises ``ValueError`` for sizes and rates that no crawl can mean.
    """
    if not 1 <= max_urls <= MAX_URLS:
        raise ValueError(f"a seen filter is for 1 to {MAX_URLS:,} URLs, not {max_urls:,}")
    if not LEAST_ERROR <= error_rate <= GREATEST_ERROR:
        raise ValueError(
            f"a seen filter's error rate is {LEAST_ERROR:g} to {GREATEST_ERROR:g}, not {error_rate:g}"
        )
    life_urls = max_urls if life_urls is None else life_urls
    if not max_urls <= life_urls <= MAX_URLS:
        raise ValueError(
            f"a seen filter for {max_urls:,} URLs lives for as many and up to {MAX_URLS:,}, not {life_urls:,}"
        )
    rounds = 1 if error_rate >= _ONE_ROUND_ERROR else 2
    capacities = _capacities(max_urls)
    target = error_rate * _MARGIN[rounds]
    bits_set = min(range(2, 9), key=lambda bits: blocks_for(max_urls, target, rounds, bits))
    blocks = _split(capacities, target, rounds, bits_set)
    further = _life_capacities(max_urls, life_urls)
    if further:
        capacities = capacities + further
        blocks = blocks + [blocks_for(urls, target / len(further), rounds, bits_set) for urls in further]
    layers = tuple(Layer(urls, size) for urls, size in zip(capacities, blocks, strict=True))
    return Plan(max_urls, error_rate, rounds, bits_set, layers, len(layers) - len(further))


# --- the same in Python -------------------------------------------------------------------------


class Filter:
    """A domain's filter in memory: what the store's Lua does, to hold it against."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layers: list[bytearray] = []
        self.newest_urls = 0
        """URLs in the newest layer."""

    def room(self) -> bool:
        """False once the last layer of the plan is full."""
        sizes = self.plan.layers
        return len(self.layers) < len(sizes) or self.newest_urls < sizes[-1].capacity_urls

    def contains(self, slots: bytes) -> bool:
        """Whether the URL with these slots has been added, or looks as if it had."""
        return any(
            all(
                have & mask == mask
                for selector, mask in _lines(slots)
                for (have,) in [_block.unpack_from(layer, _offset(selector, layer))]
            )
            for layer in self.layers
        )

    def add(self, slots: bytes) -> None:
        """Mark a URL. Raises ``OverflowError`` where there is no ``room()``."""
        sizes = self.plan.layers
        if not self.layers or self.newest_urls >= sizes[len(self.layers) - 1].capacity_urls:
            if len(self.layers) == len(sizes):
                raise OverflowError("the last layer of the plan is full")
            self.layers.append(bytearray(8 * sizes[len(self.layers)].blocks))
            self.newest_urls = 0
        newest = self.layers[-1]
        for selector, mask in _lines(slots):
            at = _offset(selector, newest)
            (have,) = _block.unpack_from(newest, at)
            _block.pack_into(newest, at, have | mask)
        self.newest_urls += 1


def _offset(selector: int, layer: bytearray) -> int:
    return selector % (len(layer) // 8) * 8
