"""What a web is made of: its shape, and the traits of each ordinary domain.

Every choice is drawn from a hash of (seed, what is asked), never from a generator whose state
depends on the order of requests.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from random import Random

MEAN_PAGE_BYTES = 242_000
"""Mean size of an HTML page on the web; the median is 138 KB (log-normal)."""
_SIGMA = math.sqrt(2 * math.log(242 / 138))
_LARGEST = 20.0
"""No page is larger than this many means: the log-normal's tail has no end, a test's disk has."""

_ORDINARY = re.compile(r"(?:(www|blog)\.)?site-([0-9]{5,9})\.test")


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that decide everything about a web.

    ``pages_per_domain`` is a mean (domains have between half and one and a half times as many),
    ``mean_bytes`` the mean size of a decoded page. ``plain`` leaves nothing but pages: one host and
    exactly ``pages_per_domain`` pages a domain, no redirects, dead links, PDFs, denied paths or
    query strings, so that plain files can serve it and every request of a benchmark is a page.
    """

    seed: int = 1
    domains: int = 20
    pages_per_domain: int = 10
    mean_bytes: int = MEAN_PAGE_BYTES
    plain: bool = False

    def __post_init__(self) -> None:
        if self.domains < 0 or self.pages_per_domain < 1 or self.mean_bytes < 1:
            raise ValueError(f"a web needs domains >= 0, pages_per_domain >= 1, mean_bytes >= 1: {self}")


class Robots(Enum):
    """What an ordinary domain says in its robots.txt."""

    RULES = "rules"
    """Denies ``/private/`` (but not ``/private/open-``) and ``/*?sort=``; both are linked."""
    OPEN = "open"
    """There is one, and it allows everything."""
    ABSENT = "absent"
    """404."""


class Paths(Enum):
    """How the addresses of a domain's pages look."""

    FLAT = "/news/green-river-17.html"
    DATED = "/news/2026/11/green-river-17/"
    NUMBERED = "/17/green-river"
    QUERY = "/read?id=17"


@dataclass(frozen=True, slots=True)
class Traits:
    """How one ordinary domain is."""

    name: str
    """The registrable domain."""
    home: str
    """The host of its home page: the domain itself, or ``www.`` of it (the bare name redirects there)."""
    blog: str | None
    """A second host that serves every fourth page."""
    pages: int
    paths: Paths
    robots: Robots
    chunked: bool
    """Answers with Transfer-Encoding: chunked."""
    gzip: bool
    """Compresses where the client says it may."""


def draw(*parts: object) -> int:
    """A 64-bit number that depends on the parts and on nothing else."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def generator(*parts: object) -> Random:
    """A random generator for one thing, the same whenever that thing is asked for."""
    return Random(draw(*parts))


def domain_name(index: int) -> str:
    """The registrable name of ordinary domain ``index``."""
    return f"site-{index:05d}.test"


def domain_index(shape: Shape, host: str) -> int | None:
    """The number of the ordinary domain that ``host`` belongs to, or None if it belongs to none."""
    found = _ORDINARY.fullmatch(host)
    if found is None:
        return None
    index = int(found[2])
    return index if index < shape.domains and found[2] == f"{index:05d}" else None


@lru_cache(maxsize=16_384)
def traits(shape: Shape, index: int) -> Traits:
    """How ordinary domain ``index`` is."""
    name = domain_name(index)
    dice = generator(shape.seed, "traits", index)
    roll = [dice.random() for _ in range(7)]
    compresses = roll[0] < 0.9
    if shape.plain:
        paths = (Paths.FLAT, Paths.DATED, Paths.NUMBERED)[int(roll[1] * 3)]
        return Traits(name, name, None, shape.pages_per_domain, paths, Robots.OPEN, False, compresses)
    half = shape.pages_per_domain / 2
    return Traits(
        name=name,
        home=f"www.{name}" if roll[2] < 0.125 else name,
        blog=f"blog.{name}" if roll[3] < 0.0625 else None,
        pages=max(1, round(half + roll[4] * shape.pages_per_domain)),
        paths=list(Paths)[int(roll[1] * 4)],
        robots=Robots.RULES if roll[5] < 0.7 else Robots.OPEN if roll[5] < 0.85 else Robots.ABSENT,
        chunked=roll[6] < 0.25,
        gzip=compresses,
    )


def page_bytes(shape: Shape, dice: Random) -> int:
    """How large a page should be: log-normal as on the web, scaled to the shape's mean."""
    normal = math.sqrt(-2 * math.log(1 - dice.random())) * math.cos(2 * math.pi * dice.random())
    factor = math.exp(_SIGMA * normal - _SIGMA * _SIGMA / 2)
    return int(shape.mean_bytes * min(factor, _LARGEST))
