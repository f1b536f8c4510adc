"""HTML around given links: of a wished size, with the texture of real pages (gzip to about a fifth).

Text is assembled from a pool of ready-made fragments, so a page of 150 KB takes well under a
millisecond; the pool's own making is a tenth of a second, once.
"""

from __future__ import annotations

from functools import cache
from random import Random

from isal import isal_zlib

from tests.web.graph import Kind, Link, Place, place_url, size_and_links
from tests.web.shape import Shape, generator

LINKS_WITHIN_BYTES = 200_000
"""All links of a page stand before this offset: a crawler that cuts later misses none."""

_SYLLABLES = (
    *(
        "ka",
        "le",
        "mi",
        "no",
        "ru",
        "sta",
        "ben",
        "tor",
        "vin",
        "gal",
        "he",
        "ro",
        "du",
        "pa",
        "li",
        "sor",
        "ve",
    ),
    *(
        "na",
        "che",
        "bri",
        "mon",
        "te",
        "ga",
        "fu",
        "lo",
        "qua",
        "thé",
        "für",
        "sen",
        "dal",
        "pri",
        "ny",
        "os",
    ),
)
_FRAGMENTS = 1200
_PARTS_PER_LINK_GROUP = 5


@cache
def vocabulary() -> tuple[str, ...]:
    """Some 4,000 made-up words, the common ones first."""
    dice = generator("vocabulary")
    words = {
        "".join(_pick(dice, _SYLLABLES) for _ in range(1 + int(dice.random() * 4))): None for _ in range(5000)
    }
    return tuple(sorted(words, key=len))


def _pick(dice: Random, options: tuple[str, ...]) -> str:
    return options[int(dice.random() * len(options))]


def words(dice: Random, count: int) -> str:
    """``count`` words, distributed as in a language: few words make up most of a text."""
    known = vocabulary()
    return " ".join(known[int(len(known) * dice.random() ** 5)] for _ in range(count))


def sentences(dice: Random, count: int) -> str:
    """``count`` sentences."""
    return " ".join(f"{words(dice, 6 + int(dice.random() * 14)).capitalize()}." for _ in range(count))


@cache
def _phrases() -> tuple[str, ...]:
    dice = generator("phrases")
    return tuple(words(dice, 2 + int(dice.random() * 3)) for _ in range(2000))


def _paragraph(dice: Random) -> str:
    text = sentences(dice, 2 + int(dice.random() * 5))
    return f'<p class="c-text c-text--{int(dice.random() * 6)}">{text}</p>\n'


def _card(dice: Random) -> str:
    number = int(dice.random() * 1e6)
    return (
        f'<div class="c-card c-card--wide js-track" data-id="{number:06x}" data-track="impression" '
        'data-module="card" role="listitem"><div class="c-card__inner"><div class="c-card__body">\n'
        f'  <h3 class="c-card__title">{words(dice, 5)}</h3>\n'
        f'  <img class="c-card__image" loading="lazy" width="640" height="360" alt="{words(dice, 3)}" '
        f'src="/img/{number:x}.jpg" srcset="/img/{number:x}-320.jpg 320w, /img/{number:x}-640.jpg 640w">\n'
        f'  <span class="c-card__meta">{words(dice, 4)}</span>\n</div></div></div>\n'
    )


def _script(dice: Random) -> str:
    calls = "".join(
        f'window.app.register("{words(dice, 1)}",{{id:{int(dice.random() * 1e5)},lazy:!0,on:function(e){{'
        f'return e.{_pick(dice, _SYLLABLES)}&&this.push("{words(dice, 2)}")}}}});'
        for _ in range(6 + int(dice.random() * 12))
    )
    return f"<script>(function(){{{calls}}})();</script>\n"


def _data(dice: Random) -> str:
    items = ",".join(
        f'{{"@type":"ListItem","position":{n},"name":"{words(dice, 2)}","sku":{int(dice.random() * 1e9)}}}'
        for n in range(4 + int(dice.random() * 8))
    )
    return f'<script type="application/ld+json">{{"@context":"https://schema.test","items":[{items}]}}</script>\n'


def _style(dice: Random) -> str:
    rules = "".join(
        f".c-{_pick(dice, _SYLLABLES)}__{_pick(dice, _SYLLABLES)}{{display:flex;margin:"
        f"{int(dice.random() * 40)}px auto;color:#{int(dice.random() * 0xFFFFFF):06x};"
        f"padding:0 {int(dice.random() * 9)}rem}}\n"
        for _ in range(10 + int(dice.random() * 25))
    )
    return f"<style>{rules}</style>\n"


def _drawing(dice: Random) -> str:
    path = "".join(f"L{dice.random() * 24:.2f} {dice.random() * 24:.2f}" for _ in range(8))
    return f'<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="M0 0{path}z"/></svg>\n'


@cache
def _pool() -> tuple[bytes, ...]:
    dice = generator("fragments")
    makers = (_paragraph,) * 4 + (_card,) * 9 + (_script,) * 3 + (_data,) * 2 + (_style,) * 1 + (_drawing,)
    return tuple(makers[int(dice.random() * len(makers))](dice).encode() for _ in range(_FRAGMENTS))


def _href(link: Link, dice: Random) -> str:
    """One of the ways in which a page may write a link."""
    way = dice.random()
    fragment = "#more" if dice.random() < 0.05 else ""
    if way < 0.1 and link.url.startswith("https://"):
        return link.url.removeprefix("https:") + fragment
    if way < 0.75 and link.inside:
        return "/" + link.url.split("/", 3)[3] + fragment
    return link.url + fragment


def _anchor(link: Link, dice: Random) -> bytes:
    href = _href(link, dice).replace("&", "&amp;")
    return f'<a class="c-link" href="{href}">{_pick(dice, _phrases())}</a>\n'.encode()


def html(title: str, links: tuple[Link, ...], size: int, dice: Random) -> bytes:
    """A page with these links in this order and about ``size`` bytes (never fewer than the links need)."""
    pool = _pool()
    head = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="description" content="{words(dice, 12)}">\n'
        '<link rel="stylesheet" href="/assets/main.css">\n</head>\n<body>\n<nav class="c-nav">\n'
    ).encode()
    navigation = [_anchor(link, dice) for link in links[:_PARTS_PER_LINK_GROUP]]
    parts = [head, *navigation, f"</nav>\n<main>\n<h1>{title}</h1>\n".encode()]
    groups = [
        b"".join(_anchor(link, dice) for link in links[start : start + _PARTS_PER_LINK_GROUP])
        for start in range(_PARTS_PER_LINK_GROUP, len(links), _PARTS_PER_LINK_GROUP)
    ]
    written = sum(map(len, parts))
    room = min(size, LINKS_WITHIN_BYTES - 16_384) - written - sum(map(len, groups))
    for done, group in enumerate(groups, start=1):
        parts.append(
            b'<section class="c-section"><div class="c-section__links">\n' + group + b"</div></section>\n"
        )
        written += len(parts[-1])
        filled, budget = 0, room * done // len(groups) - room * (done - 1) // len(groups)
        while filled < budget:
            parts.append(pool[int(dice.random() * _FRAGMENTS)])
            filled += len(parts[-1])
        written += filled
        room -= filled - budget if filled > budget else 0
    while written < size:
        parts.append(pool[int(dice.random() * _FRAGMENTS)])
        written += len(parts[-1])
    parts.append(b'</main>\n<footer class="c-footer"><p>Made up for tests.</p></footer>\n</body>\n</html>\n')
    return b"".join(parts)


def render(shape: Shape, place: Place) -> bytes:
    """The HTML of a page of the ordinary web."""
    if place.kind not in (Kind.PAGE, Kind.OPEN, Kind.DENIED):
        raise ValueError(f"{place.kind.value} is not a page")
    size, links = size_and_links(shape, place)
    url = place_url(shape, place)
    dice = generator(shape.seed, "text", url)
    return html(f"{words(dice, 3).capitalize()} – {url.split('/')[2]}", links, size, dice)


def compress(body: bytes) -> bytes:
    """``body`` as gzip (a fast level, as servers use on the fly)."""
    return isal_zlib.compress(body, 1, isal_zlib.MAX_WBITS | 16)


def small_page(title: str, hrefs: tuple[str, ...] = (), *, head: str = "", text: str = "") -> bytes:
    """A short UTF-8 page with links written exactly as given: what the misbehaving domains serve."""
    items = "".join(f'<li><a href="{href}">{href}</a></li>\n' for href in hrefs)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{head}<title>{title}</title></head>\n'
        f"<body><h1>{title}</h1>\n<p>{text or sentences(generator('small', title), 3)}</p>\n"
        f"<ul>\n{items}</ul></body></html>\n"
    ).encode()
