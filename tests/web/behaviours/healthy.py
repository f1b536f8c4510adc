"""Small sites that do nothing wrong: the background the others are seen against, and targets of links."""

from __future__ import annotations

import asyncio

from tests.web.behaviours.pace import giant_body
from tests.web.pages import small_page
from tests.web.wire import Exchange

PAGES = 40


def page_links(count: int = PAGES) -> tuple[str, ...]:
    """Links to ``/page/1`` … ``/page/count``."""
    return tuple(f"/page/{number}" for number in range(1, count + 1))


def is_page(path: str, count: int = PAGES) -> bool:
    """Whether ``path`` is the home page or one of ``page_links``."""
    return path == "/" or path in page_links(count)


async def small_site(x: Exchange) -> None:
    """Home and forty pages that link to each other; everything else is missing."""
    host, path = x.request.host, x.request.path
    if is_page(path):
        await x.answer_compressed(200, small_page(f"{host} {path}", page_links()))
    else:
        await x.answer(404, small_page("Not found"))


async def moody(x: Exchange) -> None:
    """A small site whose mood a test sets with ``/-/mood/NAME``."""
    steps = x.request.steps
    if steps[:2] == ["-", "mood"] and len(steps) == 3:
        x.memory["mood"] = steps[2]
        await x.answer(200, b"as you wish\n", kind="text/plain")
        return
    match x.memory.get("mood", "healthy"):
        case "busy":
            await _endless_site(x)
        case "limiting":
            x.header("Retry-After", "1")
            await x.answer(429, small_page("Too many requests"))
        case "unavailable":
            await x.answer(503, small_page("Unavailable"))
        case "slow":
            await asyncio.sleep(2)
            await small_site(x)
        case "giant":
            await giant_body(x, 2_000_000)
        case "silent":
            await asyncio.Event().wait()
        case _:
            await small_site(x)


async def _endless_site(x: Exchange) -> None:
    steps = x.request.steps
    number = int(steps[1]) if len(steps) == 2 and steps[0] == "page" and steps[1].isdigit() else 0
    links = tuple(f"/page/{number + step}" for step in range(1, PAGES))
    await x.answer_compressed(200, small_page(f"{x.request.host} {number}", links))


async def only(x: Exchange) -> None:
    """One page at ``/``; everything else is missing."""
    found = x.request.target == "/"
    await x.answer(200 if found else 404, small_page(x.request.host if found else "Not found"))
