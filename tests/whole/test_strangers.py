"""A crawl of servers that nobody here wrote: each URL ends under the right name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.whole import stored
from tests.whole.crawl import Crawl
from tests.work.strangers import stranger

pytestmark = [pytest.mark.whole, pytest.mark.timeout(180)]

WALL = """
def main(request, response):
    if request.cookies.first(b"welcome", None) is None:
        return 302, [(b"Set-Cookie", b"welcome=yes"), (b"Location", b"/wall.py")], b"who are you?"
    return 200, [(b"Content-Type", b"text/html")], b"<p>Welcome, whoever brought the cookie."
"""
TELLTALE = """
def main(request, response):
    cookie = request.headers.get(b"Cookie", b"none")
    return 200, [(b"Content-Type", b"text/html")], b"<p>cookies: " + cookie
"""

OUTCOMES: dict[str, list[str]] = {
    # URL: outcomes of its requests, in order; hops have URLs of their own
    "http://httpbin.test/html": ["page"],
    "http://httpbin.test/deny": ["robots_denied"],
    "http://httpbin.test/image/png": ["unwanted_type"],
    "http://httpbin.test/json": ["unwanted_type"],
    "http://httpbin.test/xml": ["unwanted_type"],
    "http://httpbin.test/status/404": ["not_found"],
    "http://httpbin.test/status/410": ["gone"],
    "http://httpbin.test/status/401": ["unauthorized"],
    "http://httpbin.test/status/402": ["payment_required"],
    "http://httpbin.test/status/418": ["client_error"],
    "http://httpbin.test/redirect-to?url=/forms/post": ["redirected"],
    "http://httpbin.test/forms/post": ["page"],
    "http://httpbin.test/redirect-to?url=http%3A%2F%2F127.0.0.1%2Fadmin": ["redirected_away"],
    "http://httpbin.test/cookies/set?k=v": ["redirected"],
    "http://httpbin.test/links/3/0": ["page"],
    "http://httpbin.test/links/3/1": ["page"],
    "http://httpbin.test/links/3/2": ["page"],
    "http://wpt.test/page.html": ["page"],
    "http://wpt.test/page.html?pipe=gzip": ["page"],
    "http://wpt.test/wall.py": ["redirected", "page"],
    "http://wpt.test/telltale.py": ["page"],
    "http://wpt.test/garbage.asis": ["malformed_http"],
    "http://wpt.test/self.asis": ["redirect_loop"],
    "http://wpt.test/nowhere.asis": ["bad_redirect"],
}
SEEDS = [url for url in OUTCOMES if url not in ("http://httpbin.test/forms/post",) and "/links/3/" not in url]
SEEDS.append("http://httpbin.test/links/3/0")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """One crawl of both."""
    folder = tmp_path_factory.mktemp("strangers")
    served = folder / "served"
    served.mkdir()
    (served / "page.html").write_text("<p>hello, world")
    (served / "wall.py").write_text(WALL)
    (served / "telltale.py").write_text(TELLTALE)
    (served / "garbage.asis").write_bytes(b"\x00\x01 no HTTP\r\n\r\n")
    (served / "self.asis").write_bytes(b"HTTP/1.1 302 Moved\r\nLocation: self.asis\r\n\r\n")
    (served / "nowhere.asis").write_bytes(b"HTTP/1.1 302 Moved\r\nContent-Type: text/html\r\n\r\n<p>moved")
    seeds = folder / "seeds.txt"
    seeds.write_text("".join(f"{url}\n" for url in SEEDS))
    with stranger("httpbin", served) as httpbin, stranger("wptserve", served) as wpt:
        crawl = Crawl(
            folder / "out",
            None,
            *("--seeds", seeds, "--delay", "0.05", "--fetchers", "1", "--parsers", "1"),
            *("--connect-to", f"httpbin.test::127.0.0.1:{httpbin}"),
            *("--connect-to", f"wpt.test::127.0.0.1:{wpt}"),
            settings=["crawl.hop_gap_s=0.05", "fetcher.deadline_s=20"],
        )
        with crawl:
            crawl.start()
            assert crawl.wait(120) == 0, crawl.said
            yield crawl


def test_every_url_ends_under_the_right_name(crawled: Crawl) -> None:
    """What these servers do is told as any crawler should tell it."""
    met: dict[str, list[str]] = {}
    for line in crawled.fetch_log():
        met.setdefault(line["url"], []).append(line["outcome"])
    assert {url: met.get(url) for url in OUTCOMES} == OUTCOMES
    assert crawled.summary["ledger"]["gap"] == 0


def test_a_cookie_opens_its_wall_and_goes_nowhere_else(crawled: Crawl) -> None:
    """A cookie comes back within its chain; the next visit to the same site carries none."""
    bodies = {each.url: each.body for each in stored.responses(crawled.out) if each.status == 200}
    assert b"Welcome" in bodies["http://wpt.test/wall.py"]
    assert bodies["http://wpt.test/telltale.py"] == b"<p>cookies: none"


def test_nothing_but_what_was_asked_for_is_visited(crawled: Crawl) -> None:
    """A redirect to this machine leads nowhere, and what robots.txt denies is not asked for."""
    hosts = {urlsplit(line["url"]).hostname for line in crawled.fetch_log()}
    assert hosts == {"httpbin.test", "wpt.test"}
    denied = [line for line in crawled.fetch_log() if line["url"].endswith("/deny")]
    assert all("total_ms" not in line for line in denied), json.dumps(denied)
