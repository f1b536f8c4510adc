"""Redirects: chains, loops, walls, and targets a crawler must judge before it follows."""

from __future__ import annotations

from tests.web.pages import small_page
from tests.web.wire import Exchange

_DOORS = (
    "/chain/1",
    "/chain/5",
    "/chain/6",
    "/status/301",
    "/status/303",
    "/status/307",
    "/status/308",
    "/self",
    "/loop/a",
    "/cookiewall",
    "/newcookie",
    "/session",
    "/to/other.test",
    "/nolocation",
    "/emptylocation",
    "/twolocations",
    "/seen-target",
    "/seen",
    "/relative",
    "/fragment",
    "/moved-away",
    "/denied-target",
    "/unparsable",
    "/other-scheme",
)
ROBOTS = "User-agent: *\nDisallow: /private/\n"


async def redirects(x: Exchange) -> None:
    """One redirect a path; the home page links to them all. Targets are proper pages."""
    match x.request.steps:
        case [""]:
            await x.answer(200, small_page("Redirects", _DOORS))
        case ["chain", length, *hops] if _number(length) > 0 and len(hops) < 2:
            await _chain(x, _number(length), _number(hops[0]) if hops else 0)
        case ["status", code] if _number(code) in (301, 302, 303, 307, 308):
            await x.redirect(f"/landing/{code}", _number(code))
        case ["self"]:
            await x.redirect("/self")
        case ["loop", "a"]:
            await x.redirect("/loop/b")
        case ["loop", "b"]:
            await x.redirect("/loop/a")
        case ["cookiewall"]:
            if "welcome=yes" in x.request.headers.get("cookie", ""):
                await x.answer(200, small_page("Behind the cookie wall", ("/landing/cookiewall",)))
            else:
                x.header("Set-Cookie", "welcome=yes; Path=/; Secure; HttpOnly")
                await x.redirect("/cookiewall")
        case ["newcookie"]:
            x.memory["cookies"] = x.memory.get("cookies", 0) + 1
            x.header("Set-Cookie", f"visit{x.memory['cookies']}=1; Path=/")
            await x.redirect("/newcookie")
        case ["session"]:
            await x.redirect("/session;jsessionid=0a1b")
        case ["session;jsessionid=0a1b"]:
            await x.answer(200, small_page("Session", ("/landing/session",)))
        case ["to", host]:
            x.header("Set-Cookie", "mine=1; Path=/")
            x.header("Set-Cookie", "everybodys=1; Domain=test; Path=/")
            x.header("Set-Cookie", f"theirs=1; Domain={host}; Path=/")
            await x.redirect(f"https://{host}/")
        case ["nolocation"]:
            await x.answer(302, small_page("Moved, I won't say where", ("/landing/nolocation",)))
        case ["emptylocation"]:
            await x.redirect("")
        case ["twolocations"]:
            x.header("Location", "/landing/first")
            await x.redirect("/landing/second")
        case ["seen-target"]:
            await x.redirect("/seen")
        case ["relative"]:
            await x.redirect("landing/relative?x=1")
        case ["fragment"]:
            await x.redirect("/landing/fragment#part")
        case ["moved-away"]:
            await x.redirect("/deep/folder/page.html")
        case ["deep", "folder", "page.html"]:
            await x.answer(200, small_page("Deep", ("sibling.html",)))
        case ["denied-target"]:
            await x.redirect("/private/page")
        case ["unparsable"]:
            await x.redirect("https://[not-an-address/")
        case ["other-scheme"]:
            await x.redirect("ftp://redirects.test/file")
        case ["landing", _] | ["seen"] | ["private", "page"] | ["deep", "folder", "sibling.html"]:
            await x.answer(200, small_page(f"Landed on {x.request.target}"))
        case _:
            await x.answer(404, small_page("Not found"))


async def _chain(x: Exchange, length: int, hop: int) -> None:
    """``/chain/N`` redirects N times, through addresses of its own, to a page that links to one more."""
    if hop < min(length, 50):
        await x.redirect(f"/chain/{length}/{hop + 1}")
    else:
        await x.answer(200, small_page(f"End of a chain of {length}", (f"/landing/chain-{length}",)))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else -1


PRIVATE_TARGETS = (
    "http://127.0.0.1/",
    "https://127.0.0.1/admin",
    "http://[::1]/",
    "http://10.0.0.1/",
    "http://192.168.1.1/router",
    "http://169.254.169.254/latest/meta-data/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://localhost/",
)
"""Addresses that a crawler must not visit, however they are written."""


async def lures(x: Exchange) -> None:
    """Links and redirects to private addresses; ``/to/N`` redirects to the Nth."""
    match x.request.steps:
        case [""]:
            doors = tuple(f"/to/{number}" for number in range(len(PRIVATE_TARGETS)))
            await x.answer(200, small_page("Lures", PRIVATE_TARGETS + doors))
        case ["to", step] if 0 <= _number(step) < len(PRIVATE_TARGETS):
            await x.redirect(PRIVATE_TARGETS[_number(step)])
        case _:
            await x.answer(404, small_page("Not found"))
