"""The misbehaving domains do what their rows say: redirects, robots.txt, traps, bodies."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

import pytest

from tests.web.behaviours.documents import encoded_targets
from tests.web.behaviours.redirects import PRIVATE_TARGETS
from tests.web.behaviours.robots import LIMIT_BYTES
from tests.web.running import MiniWeb
from tests.web_test.client import Answer, ask


def hrefs(answer: Answer) -> list[str]:
    """The links of a UTF-8 page, as written."""
    return re.findall(r'<a [^>]*href="([^"]*)"', answer.content.decode())


def follow(web: MiniWeb, url: str, most: int = 10) -> tuple[Answer, list[str]]:
    """The answer after at most ``most`` redirects, and the URLs asked for."""
    visited = [url]
    answer = ask(web, url)
    while answer.status in (301, 302, 303, 307, 308) and len(visited) <= most:
        visited.append(urljoin(visited[-1], answer.header("Location") or ""))
        answer = ask(web, visited[-1])
    return answer, visited


# Redirects


@pytest.mark.parametrize("hops", [1, 5, 6])
def test_chains_have_the_length_of_their_name(web: MiniWeb, hops: int) -> None:
    """/chain/N takes N redirects, none of which another chain shares."""
    answer, visited = follow(web, f"https://redirects.test/chain/{hops}")
    assert (answer.status, len(visited)) == (200, hops + 1)
    assert all(f"/chain/{hops}" in url for url in visited)


@pytest.mark.parametrize(
    ("path", "status", "location"),
    [
        ("/status/308", 308, ["/landing/308"]),
        ("/self", 302, ["/self"]),
        ("/loop/a", 302, ["/loop/b"]),
        ("/loop/b", 302, ["/loop/a"]),
        ("/to/elsewhere.test", 302, ["https://elsewhere.test/"]),
        ("/nolocation", 302, []),
        ("/emptylocation", 302, [""]),
        ("/twolocations", 302, ["/landing/first", "/landing/second"]),
        ("/seen-target", 302, ["/seen"]),
        ("/relative", 302, ["landing/relative?x=1"]),
        ("/fragment", 302, ["/landing/fragment#part"]),
        ("/denied-target", 302, ["/private/page"]),
        ("/unparsable", 302, ["https://[not-an-address/"]),
        ("/landing/308", 200, []),
        ("/nowhere", 404, []),
    ],
)
def test_redirects(web: MiniWeb, path: str, status: int, location: list[str]) -> None:
    """Each door of redirects.test leads where its row says."""
    answer = ask(web, f"https://redirects.test{path}")
    assert (answer.status, answer.headers("Location")) == (status, location)


def test_cookie_walls(web: MiniWeb) -> None:
    """/cookiewall lets in who brings its cookie back; /newcookie nobody, with a new one each time."""
    first = ask(web, "https://redirects.test/cookiewall")
    cookie = (first.header("Set-Cookie") or "").partition(";")[0]
    assert (first.status, first.header("Location")) == (302, "/cookiewall")
    assert ask(web, "https://redirects.test/cookiewall", Cookie=cookie).status == 200
    assert web.requests("redirects.test")[-1].cookie == cookie
    new = [ask(web, "https://redirects.test/newcookie").header("Set-Cookie") for _ in range(2)]
    assert new[0] != new[1]


def test_lures_point_to_private_addresses(web: MiniWeb) -> None:
    """A crawler that follows a lure is seen in the log, since connect_to catches every host."""
    assert set(PRIVATE_TARGETS) < set(hrefs(ask(web, "https://lures.test/")))
    assert ask(web, "https://lures.test/to/0").header("Location") == PRIVATE_TARGETS[0]
    assert ask(web, "http://10.0.0.1/caught").status == 404
    assert web.requests("10.0.0.1")[-1].path == "/caught"


# robots.txt


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("robots-503.test", [503, 503]),
        ("robots-403.test", [403]),
        ("robots-flaky.test", [503, 503, 200, 200]),
    ],
)
def test_robots_that_are_refused(web: MiniWeb, name: str, statuses: list[int]) -> None:
    """robots.txt is refused as often as the row says, while the site itself is there."""
    assert [ask(web, f"https://{name}/robots.txt").status for _ in statuses] == statuses
    assert ask(web, f"https://{name}/page/1").status == 200


def test_robots_429_says_when(web: MiniWeb) -> None:
    """robots-429.test asks to come back in two seconds."""
    answer = ask(web, "https://robots-429.test/robots.txt")
    assert (answer.status, answer.header("Retry-After")) == (429, "2")


def test_robots_that_do_not_come(web: MiniWeb) -> None:
    """One is never answered, one is reset, one comes late; their pages are there at once."""
    assert ask(web, "https://robots-timeout.test/robots.txt", timeout=0.2).end == "silence"
    assert ask(web, "https://robots-late.test/robots.txt", timeout=0.2).end == "silence"
    assert ask(web, "https://robots-reset.test/robots.txt").end == "reset"
    for name in ("robots-timeout.test", "robots-late.test", "robots-reset.test"):
        assert ask(web, f"https://{name}/").status == 200


@pytest.mark.parametrize("hops", [5, 6])
def test_robots_behind_redirects(web: MiniWeb, hops: int) -> None:
    """The rules are found after as many redirects as the name says."""
    answer, visited = follow(web, f"https://robots-redirect-{hops}.test/robots.txt")
    assert (len(visited), b"Disallow: /page/1$" in answer.content) == (hops + 1, True)


def test_robots_elsewhere_and_in_html(web: MiniWeb) -> None:
    """One redirects to another domain's rules; one is a page that merely mentions some."""
    answer, visited = follow(web, "https://robots-away.test/robots.txt")
    assert (urlsplit(visited[-1]).hostname, answer.content) == (
        "robots-deny.test",
        b"User-agent: *\nDisallow: /\n",
    )
    html = ask(web, "https://robots-html.test/robots.txt")
    assert (html.status, html.header("Content-Type")) == (200, "text/html; charset=utf-8")
    assert not re.search(rb"(?mi)^\s*(user-agent|disallow)", html.content)


def test_huge_robots(web: MiniWeb) -> None:
    """One rule stands within the 512 KiB that must be read, one far beyond."""
    rules = ask(web, "https://robots-huge.test/robots.txt").content
    assert rules.index(b"/early/") < 1000
    assert rules.index(b"/late/") > 2 * LIMIT_BYTES


# Traps


@pytest.mark.parametrize("name", ["calendar", "path", "subdomains", "session"])
def test_traps_have_no_end(web: MiniWeb, name: str) -> None:
    """Who follows every new link of a trap finds new ones for ever (here: for fifteen pages)."""
    queue = [f"https://trap-{name}.test/"]
    known = set(queue)
    for visited in range(15):
        assert visited < len(queue), "the trap has an end"
        for href in hrefs(ask(web, queue[visited])):
            url = urljoin(queue[visited], href)
            if url not in known:
                known.add(url)
                queue.append(url)


def test_escape_trap_has_an_end_for_who_decodes_once(web: MiniWeb) -> None:
    """Decoding its entity once gives one more URL, decoding nothing gives ever longer ones."""
    body = ask(web, "https://trap-escape.test/v?&amp;p=2").content
    assert b'href="/v?&amp;amp;p=2"' in body


# Bodies


@pytest.mark.parametrize(
    ("path", "kind", "start"),
    [
        ("/paper.pdf", "application/pdf", b"%PDF"),
        ("/picture.png", "image/png", b"\x89PNG"),
        ("/data.json", "application/json", b"{"),
        ("/page.bin", "application/octet-stream", b"<!DOCTYPE"),
        ("/notype", None, b"<!DOCTYPE"),
        ("/SHOUTING", "TEXT/HTML;CHARSET=UTF-8", b"<!DOCTYPE"),
        ("/picture.html", "text/html", b"\x89PNG"),
    ],
)
def test_types(web: MiniWeb, path: str, kind: str | None, start: bytes) -> None:
    """wrongtype.test labels, mislabels, or doesn't label its files as its table says."""
    answer = ask(web, f"https://wrongtype.test{path}")
    assert answer.header("Content-Type") == kind
    assert answer.body.startswith(start)


@pytest.mark.parametrize(
    ("host", "codec"),
    [
        ("sjis.test", "shift_jis"),
        ("euckr.test", "euc-kr"),
        ("windows1251.test", "windows-1251"),
        ("gbk.test", "gbk"),
    ],
)
def test_encodings(web: MiniWeb, host: str, codec: str) -> None:
    """Pages are in their encoding, and only the right spelling of their links exists."""
    page = ask(web, f"https://{host}/").body
    assert not page.isascii()
    with pytest.raises(UnicodeDecodeError):
        page.decode("utf-8")
    assert "<title>" in page.decode(codec)
    for target in encoded_targets(host):
        assert ask(web, f"https://{host}{target}").status == 200
    query = encoded_targets(host)[1]
    assert query.count("%") < encoded_targets(host)[0].count("%") or codec == "windows-1251"
    assert ask(web, f"https://{host}/find?q=wrong").status == 404


def test_pages_that_say_how_to_be_read(web: MiniWeb) -> None:
    """rel=nofollow, meta robots, X-Robots-Tag and base stand where a reader must look for them."""
    page = ask(web, "https://nofollow.test/").content.decode()
    assert re.findall(r'rel="([^"]*)"', page) == ["nofollow", "external NoFollow noopener"]
    assert (
        '<meta name="robots" content="nofollow">'
        in ask(web, "https://meta-robots.test/nofollow").content.decode()
    )
    assert ask(web, "https://meta-robots.test/header-nofollow").header("X-Robots-Tag") == "nofollow"
    base = ask(web, "https://base.test/")
    targets = [urljoin("https://base.test/deep/folder/", href) for href in hrefs(base)]
    assert [ask(web, target).status for target in targets] == [200, 200, 200]
    assert ask(web, "https://base.test/page.html").status == 404
    assert len(hrefs(ask(web, "https://manylinks.test/", Accept_Encoding="gzip"))) == 5000
