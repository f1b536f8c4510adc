"""Endless sites: each page is small and healthy, there is just no last one."""

from __future__ import annotations

import re

from tests.web.pages import small_page
from tests.web.shape import draw
from tests.web.wire import Exchange

_MONTH = re.compile(r"/calendar\?month=([0-9]{4})-(0[1-9]|1[0-2])")


async def calendar(x: Exchange) -> None:
    """A calendar whose every month links to the one before and the one after."""
    found = _MONTH.fullmatch(x.request.target)
    if found is None and x.request.target != "/":
        await x.answer(404, small_page("Not found"))
        return
    months = int(found[1]) * 12 + int(found[2]) - 1 if found else 2026 * 12 + 11
    near = (months - 1, months, months + 1) if found is None else (months - 1, months + 1)
    links = tuple(f"/calendar?month={month // 12:04d}-{month % 12 + 1:02d}" for month in near)
    await x.answer(200, small_page("Calendar", ("/", *links)))


async def growing_path(x: Exchange) -> None:
    """Any path is a page of its own with a link that forgot its scheme, so that the path grows."""
    await x.answer(200, small_page(f"Growing path {x.request.target}", ("www.other.test/p/", "/")))


async def subdomains(x: Exchange) -> None:
    """Every subdomain links to ten further ones."""
    base = "trap-subdomains.test"
    names = (f"n{draw(x.request.host, number) % 10**9}.{base}" for number in range(10))
    await x.answer(200, small_page(x.request.host, tuple(f"https://{name}/" for name in names)))


async def sessions(x: Exchange) -> None:
    """Three articles; each answer puts a new session id into every link."""
    x.memory["visits"] = visits = x.memory.get("visits", 0) + 1
    path = x.request.path.partition(";")[0]
    if path not in ("/", "/article/1", "/article/2", "/article/3"):
        await x.answer(404, small_page("Not found"))
        return
    session = f"{draw('session', visits):016x}"
    links = tuple(f"/article/{number};jsessionid={session}" for number in (1, 2, 3))
    await x.answer(200, small_page(f"Session {path}", links))


async def escaping(x: Exchange) -> None:
    """Any ``/v?…`` is one page whose link has its ampersand escaped twice (``&amp;amp;``)."""
    if x.request.path not in ("/", "/v"):
        await x.answer(404, small_page("Not found"))
        return
    await x.answer(200, small_page("Escaped twice", ("/v?&amp;amp;p=2",)))
