"""The ordinary web as a graph: which addresses exist, what is there, and what each page links to.

No HTML here and no bytes: ``pages`` dresses these links up, ``oracle`` walks them, and the server
looks addresses up with the same ``find``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from random import Random

from tests.web.shape import Paths, Robots, Shape, Traits, domain_index, draw, generator, page_bytes, traits

_SECTIONS = ("news", "shop", "guide", "people", "help", "archive", "events", "lab")
_ADJECTIVES = ("green", "old", "quiet", "late", "bright", "small", "open", "north", "plain", "warm")
_NOUNS = ("river", "stone", "market", "garden", "letter", "bridge", "winter", "engine", "paper", "road")

_CHILDREN = 3
"""Page k always links to pages 3k+1 .. 3k+3, so every page can be reached from the home page."""
_BYTES_PER_LINK = 400
"""Small pages carry fewer links: at most one for so many bytes."""

_NUMBER = {
    Paths.FLAT: re.compile(r"/[a-z]+/[a-z-]+-([0-9]+)\.html"),
    Paths.DATED: re.compile(r"/[a-z]+/[0-9]{4}/[0-9]{2}/[a-z-]+-([0-9]+)/"),
    Paths.NUMBERED: re.compile(r"/([0-9]+)/[a-z-]+"),
    Paths.QUERY: re.compile(r"/read\?id=([0-9]+)"),
}
_SPECIAL = re.compile(
    r"/(?:private/(?P<open>open-)?page-|list\?sort=|files/paper-)(?P<number>[0-9]+)(?:\.html|\.pdf)?"
)


class Kind(Enum):
    """What is found at an address."""

    PAGE = "page"
    OPEN = "open"
    """A page under the denied folder which a longer Allow rule lets in."""
    DENIED = "denied"
    """A page that robots.txt denies; the only way to its like is through it."""
    FILE = "file"
    """A PDF."""
    ROBOTS = "robots"
    REDIRECT = "redirect"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Place:
    """What ``find`` found: ``number`` counts within the kind, ``location`` is a redirect's target."""

    kind: Kind
    index: int
    number: int = 0
    location: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One link of a page: an absolute URL without fragment, and which sort it is."""

    url: str
    inside: bool
    """It stays on the host it is written on."""


def page_host(here: Traits, number: int) -> str:
    """The host that serves a domain's page ``number``."""
    return here.blog if here.blog is not None and number % 4 == 3 else here.home


def page_path(shape: Shape, here: Traits, number: int) -> str:
    """The path (and query) of a domain's page ``number``; page 0 is the home page."""
    if number == 0:
        return "/"
    dice = draw(shape.seed, "path", here.name, number)
    section, dice = _SECTIONS[dice % 8], dice // 8
    slug = f"{_ADJECTIVES[dice % 10]}-{_NOUNS[dice // 10 % 10]}"
    match here.paths:
        case Paths.FLAT:
            return f"/{section}/{slug}-{number}.html"
        case Paths.DATED:
            return f"/{section}/{2019 + dice // 100 % 8}/{1 + dice // 800 % 12:02d}/{slug}-{number}/"
        case Paths.NUMBERED:
            return f"/{number}/{slug}"
        case Paths.QUERY:
            return f"/read?id={number}"


@lru_cache(maxsize=65_536)
def page_url(shape: Shape, index: int, number: int) -> str:
    """The URL of page ``number`` of ordinary domain ``index``."""
    here = traits(shape, index)
    return f"https://{page_host(here, number)}{page_path(shape, here, number)}"


def place_url(shape: Shape, place: Place) -> str:
    """The URL under which a page, file or denied page is found."""
    if place.kind is Kind.PAGE:
        return page_url(shape, place.index, place.number)
    home = traits(shape, place.index).home
    match place.kind:
        case Kind.OPEN:
            path = f"/private/open-page-{place.number}.html"
        case Kind.DENIED if place.number % 2:
            path = f"/list?sort={place.number}"
        case Kind.DENIED:
            path = f"/private/page-{place.number}.html"
        case Kind.FILE:
            path = f"/files/paper-{place.number}.pdf"
        case _:
            raise ValueError(f"a {place.kind.value} has no address of its own")
    return f"https://{home}{path}"


def find(shape: Shape, scheme: str, host: str, target: str) -> Place | None:
    """What the ordinary web answers at ``scheme://host`` + ``target``; None if the host isn't in it."""
    index = domain_index(shape, host)
    if index is None:
        return None
    here = traits(shape, index)
    if host not in (here.name, here.home, here.blog):
        return None
    if scheme != "https":
        return Place(Kind.REDIRECT, index, location=f"https://{host}{target}")
    if host == here.name != here.home:
        return Place(Kind.REDIRECT, index, location=f"https://{here.home}{target}")
    if target == "/robots.txt":
        absent = here.robots is Robots.ABSENT and host == here.home
        return Place(Kind.MISSING if absent else Kind.ROBOTS, index)
    if target == "/":
        if host == here.blog:
            return Place(Kind.REDIRECT, index, location=f"https://{here.home}/")
        return Place(Kind.PAGE, index)
    number = _page_number(shape, here, host, target)
    if number is not None:
        return Place(Kind.PAGE, index, number)
    special = _special(here, index, host, target)
    if special is not None and place_url(shape, special) == f"https://{host}{target}":
        return special
    return Place(Kind.MISSING, index)


def _page_number(shape: Shape, here: Traits, host: str, target: str) -> int | None:
    found = _NUMBER[here.paths].fullmatch(target)
    if found is None or len(found[1]) > 9:
        return None
    number = int(found[1])
    real = 0 < number < here.pages and page_host(here, number) == host
    return number if real and page_path(shape, here, number) == target else None


def _special(here: Traits, index: int, host: str, target: str) -> Place | None:
    found = _SPECIAL.fullmatch(target)
    if found is None or host != here.home or len(found["number"]) > 9:
        return None
    number = int(found["number"])
    if target.startswith("/files/"):
        return Place(Kind.FILE, index, number)
    if here.robots is not Robots.RULES:
        return None
    return Place(Kind.OPEN if found["open"] else Kind.DENIED, index, number)


def robots_txt(shape: Shape, host: str) -> str:
    """The robots.txt of an ordinary host that has one."""
    index = domain_index(shape, host)
    here = traits(shape, index) if index is not None else None
    if here is None or here.robots is not Robots.RULES or host == here.blog:
        return "# Everyone is welcome.\nUser-agent: *\nDisallow:\n"
    return (
        "# The private part is linked, and must be left alone.\n"
        "User-agent: badbot\nUser-agent: worsebot\nDisallow: /\n\n"
        "User-agent: *\nDisallow: /cgi-bin/\nDisallow: /private/\nAllow: /private/open-\n"
        "Disallow: /*?sort=\n"
    )


def size_and_links(shape: Shape, place: Place) -> tuple[int, tuple[Link, ...]]:
    """The size a page should have in bytes, and its links in order of appearance."""
    here = traits(shape, place.index)
    dice = generator(shape.seed, "page", here.name, place.kind.value, place.number)
    size = page_bytes(shape, dice)
    own = place_url(shape, place).split("/", 3)[2]
    if place.kind is Kind.DENIED:
        further = [Place(Kind.DENIED, place.index, 2 * place.number + step) for step in (1, 2)]
        return size, tuple(Link(place_url(shape, each), inside=True) for each in further)
    wanted = min(100 + int(dice.random() * 120), max(8, size // _BYTES_PER_LINK))
    urls = [page_url(shape, place.index, number) for number in _surely(here, place)]
    if not shape.plain:
        if place.kind is Kind.PAGE and place.number == 0:
            urls += [_odd(here, place.index, shape, roll) for roll in (0, 1, 2, 3)]
        if own == here.blog:
            urls.append(f"https://{own}/")
    while len(urls) < wanted:
        urls.append(_further(shape, here, place.index, dice))
    home = f"https://{own}/"
    return size, tuple(Link(url, inside=url.startswith(home)) for url in urls)


def _surely(here: Traits, place: Place) -> list[int]:
    """The pages that a page links to whatever the dice say: home, the front pages, its children."""
    first = _CHILDREN * place.number + 1 if place.kind is Kind.PAGE else here.pages
    return [0, *range(1, min(4, here.pages)), *range(first, min(first + _CHILDREN, here.pages))]


def _further(shape: Shape, here: Traits, index: int, dice: Random) -> str:
    """One more link: two in three stay in the domain, most others lead to popular domains."""
    kind, which = dice.random(), dice.random()
    if kind < 0.67 or (shape.domains == 1 and kind < 0.97):
        return page_url(shape, index, int(which * here.pages))
    if kind >= 0.97:
        roll = dice.random()
        if not shape.plain:
            return _odd(here, index, shape, int(roll * 8))
        return page_url(shape, index, int(which * here.pages))
    # The cube makes domain 0 the most popular by far: half of all links go to an eighth of the domains.
    other = int(shape.domains * which**3)
    there = traits(shape, other)
    deep, variant = dice.random(), dice.random()
    url = page_url(shape, other, int(deep * there.pages) if deep > 0.6 else 0)
    if shape.plain or variant >= 0.1 or deep > 0.6:
        return url
    if variant < 0.03:
        return url.replace("https:", "http:", 1)
    return url.replace("://www.", "://", 1)


def _odd(here: Traits, index: int, shape: Shape, roll: int) -> str:
    """A link to something missing, a file, a denied page, or an exception allowed by robots.txt."""
    number = roll // 4
    match roll % 4:
        case 0:
            return f"https://{here.home}/gone/page-{number}.html"
        case 1:
            return place_url(shape, Place(Kind.FILE, index, number))
        case 2 if here.robots is Robots.RULES:
            return place_url(shape, Place(Kind.DENIED, index, number))
        case 3 if here.robots is Robots.RULES:
            return place_url(shape, Place(Kind.OPEN, index, number))
    return page_url(shape, index, 0)


def links(shape: Shape, place: Place) -> tuple[Link, ...]:
    """The links of a page."""
    return size_and_links(shape, place)[1]
