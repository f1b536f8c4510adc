"""Status codes that say no: once, sometimes, or always."""

from __future__ import annotations

import time
from collections import deque
from http import HTTPStatus

from tests.web.behaviours.healthy import is_page, page_links, small_site
from tests.web.pages import small_page
from tests.web.wire import Exchange

ALLOWED_PER_SECOND = 3
_REMEMBERED = 100_000


async def not_found(x: Exchange) -> None:
    """404 for everything, robots.txt too."""
    await x.answer(404, small_page("Not found", ("/another", "/and-another")))


async def rate_limited(x: Exchange) -> None:
    """A small site that answers 429 beyond three requests a second; ``/retry-after/TEXT`` always does."""
    steps = x.request.steps
    if steps[0] == "retry-after" and len(steps) == 2:
        x.header("Retry-After", steps[1])
        await x.answer(429, small_page("Too many requests"))
        return
    recent: deque[float] = x.memory.setdefault("recent", deque(maxlen=ALLOWED_PER_SECOND))
    now = time.monotonic()
    if len(recent) == ALLOWED_PER_SECOND and now - recent[0] < 1:
        x.header("Retry-After", "2")
        await x.answer(429, small_page("Too many requests"))
        return
    recent.append(now)
    await small_site(x)


async def unavailable(x: Exchange) -> None:
    """503 for everything; ``/retry-after/TEXT`` with that Retry-After."""
    steps = x.request.steps
    if steps[0] == "retry-after" and len(steps) == 2:
        x.header("Retry-After", steps[1])
    await x.answer(503, small_page("Unavailable"))


async def flaky(x: Exchange) -> None:
    """A small site where the first request for each URL is answered 503, the second properly."""
    seen: set[str] = x.memory.setdefault("seen", set())
    if x.request.target in seen or not is_page(x.request.path, 5):
        found = is_page(x.request.path, 5)
        await x.answer(
            200 if found else 404, small_page(f"Flaky {x.request.path}", page_links(5) if found else ())
        )
        return
    if len(seen) < _REMEMBERED:
        seen.add(x.request.target)
    await x.answer(503, small_page("Not just now"))


async def server_error(x: Exchange) -> None:
    """500 for everything but robots.txt."""
    await x.answer(500, small_page("Oh no"))


async def status(x: Exchange) -> None:
    """``/CODE`` answers with that status, 200 to 599; the home page links to the usual ones."""
    step = x.request.steps[0]
    if step == "":
        codes = (
            "204",
            "205",
            "206",
            "304",
            "400",
            "401",
            "402",
            "403",
            "404",
            "405",
            "410",
            "418",
            "451",
            "500",
        )
        await x.answer(200, small_page("Status", tuple(f"/{code}" for code in codes)))
        return
    code = int(step) if step.isascii() and step.isdecimal() and len(step) == 3 else HTTPStatus.NOT_FOUND
    if code == HTTPStatus.PAYMENT_REQUIRED:
        x.header("Crawler-Price", "USD 0.01")
    if code == HTTPStatus.UNAUTHORIZED:
        x.header("WWW-Authenticate", 'Basic realm="members"')
    if code == HTTPStatus.PARTIAL_CONTENT:
        x.header("Content-Range", "bytes 0-99/1000")
    await x.answer(code if 200 <= code <= 599 else 404, small_page(f"Status {int(code)}"))
