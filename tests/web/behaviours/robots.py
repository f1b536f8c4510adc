"""robots.txt in all its states. The sites themselves are small and healthy (``healthy.small_site``)."""

from __future__ import annotations

import asyncio
from functools import cache

from tests.web.behaviours.gates import GATES
from tests.web.behaviours.healthy import small_site
from tests.web.pages import small_page
from tests.web.wire import Exchange

TEXT = "text/plain; charset=utf-8"
LIMIT_BYTES = 512 * 1024
"""RFC 9309 section 2.5: at least so much of a robots.txt must be read."""
HTML_ROBOTS = b"<!DOCTYPE html><html><body>Welcome!<br>User-agent:*<br>Disallow: /<br></body></html>\n"


async def _fixed(x: Exchange, status: int) -> None:
    if x.request.path == "/robots.txt":
        await x.answer(status, b"User-agent: *\nDisallow: /\n", kind=TEXT)
    else:
        await small_site(x)


async def robots_503(x: Exchange) -> None:
    """503 for robots.txt."""
    await _fixed(x, 503)


async def robots_429(x: Exchange) -> None:
    """429 for robots.txt, to be asked again after 2 s."""
    if x.request.path == "/robots.txt":
        x.header("Retry-After", "2")
    await _fixed(x, 429)


async def robots_403(x: Exchange) -> None:
    """403 for robots.txt."""
    await _fixed(x, 403)


async def robots_challenge(x: Exchange) -> None:
    """robots.txt is a challenge with status 200."""
    if x.request.path == "/robots.txt":
        await x.answer(200, GATES["imperva"].body.encode())
    else:
        await small_site(x)


async def robots_timeout(x: Exchange) -> None:
    """No answer to robots.txt, ever."""
    if x.request.path == "/robots.txt":
        await asyncio.Event().wait()
    await small_site(x)


async def robots_late(x: Exchange) -> None:
    """robots.txt takes two seconds and denies everything."""
    if x.request.path == "/robots.txt":
        await asyncio.sleep(2)
        await x.answer(200, b"User-agent: *\nDisallow: /\n", kind=TEXT)
    else:
        await small_site(x)


async def robots_flaky(x: Exchange) -> None:
    """robots.txt is 503 twice and then allows."""
    if x.request.path == "/robots.txt":
        x.memory["asked"] = x.memory.get("asked", 0) + 1
        await x.answer(503 if x.memory["asked"] <= 2 else 200, b"User-agent: *\nDisallow:\n", kind=TEXT)
    else:
        await small_site(x)


async def robots_reset(x: Exchange) -> None:
    """The connection is reset instead of a robots.txt."""
    if x.request.path == "/robots.txt":
        x.reset()
    else:
        await small_site(x)


async def robots_redirect_5(x: Exchange) -> None:
    """robots.txt is found after five redirects; it denies /page/1."""
    await _redirected(x, 5)


async def robots_redirect_6(x: Exchange) -> None:
    """robots.txt is found after six redirects, one too many; it denies /page/1."""
    await _redirected(x, 6)


async def _redirected(x: Exchange, hops: int) -> None:
    """``/robots.txt`` -> ``/robots/1`` -> … -> ``/robots/<hops>``, which holds the rules."""
    steps = x.request.steps
    done = 0 if x.request.path == "/robots.txt" else -1
    if len(steps) == 2 and steps[0] == "robots" and steps[1] in map(str, range(1, hops + 1)):
        done = int(steps[1])
    if done < 0:
        await small_site(x)
    elif done < hops:
        await x.redirect(f"/robots/{done + 1}", 301)
    else:
        await x.answer(200, b"User-agent: *\nDisallow: /page/1$\n", kind=TEXT)


async def robots_away(x: Exchange) -> None:
    """robots.txt is a redirect to that of robots-deny.test, whose rules then hold here."""
    if x.request.path == "/robots.txt":
        await x.redirect("https://robots-deny.test/robots.txt")
    else:
        await small_site(x)


async def robots_html(x: Exchange) -> None:
    """An HTML page is served as robots.txt, with something like rules in its middle."""
    if x.request.path == "/robots.txt":
        await x.answer(200, HTML_ROBOTS)
    else:
        await small_site(x)


@cache
def huge_robots() -> bytes:
    """1.4 MB: ``Disallow: /early/`` in the first lines, ``Disallow: /late/`` beyond any limit."""
    filling = b"".join(b"Disallow: /nothing-here-%06d/\n" % number for number in range(45_000))
    return b"User-agent: *\nDisallow: /early/\n" + filling + b"Disallow: /late/\n"


async def robots_huge(x: Exchange) -> None:
    """A robots.txt of 1.4 MB."""
    match x.request.path:
        case "/robots.txt":
            await x.answer(200, huge_robots(), kind=TEXT)
        case "/":
            await x.answer(200, small_page("Huge robots.txt", ("/early/page", "/late/page", "/page")))
        case path:
            await x.answer(200, small_page(path))
