"""The ordinary domains: deterministic, like the web in size and texture, and known to the oracle."""

from __future__ import annotations

import re
import statistics
from urllib.parse import urljoin, urlsplit

from tests.web.graph import Kind, Place, find, links, page_url
from tests.web.oracle import Expected, reachable
from tests.web.pages import LINKS_WITHIN_BYTES, compress, render
from tests.web.running import MiniWeb
from tests.web.shape import Robots, Shape, domain_index, domain_name, traits
from tests.web_test.client import ask, connect, request_bytes


def test_what_is_served_is_a_pure_function(web: MiniWeb) -> None:
    """Another process makes the same bytes from the same shape; another seed makes others."""
    for index in range(4):
        place = Place(Kind.PAGE, index, 1)
        served = ask(web, page_url(web.shape, index, 1), Accept_Encoding="gzip").content
        assert served == render(web.shape, place)
    other = Shape(2, web.shape.domains, web.shape.pages_per_domain, web.shape.mean_bytes)
    assert render(other, Place(Kind.PAGE, 0)) != render(web.shape, Place(Kind.PAGE, 0))


def test_the_oracle_is_right(web: MiniWeb) -> None:
    """A walk over HTTP, which knows nothing of the graph, finds exactly what the oracle says."""
    found = Expected()
    queue = web.ordinary_seeds.read_text().split()
    denies = {
        name: b"Disallow: /private/" in ask(web, f"https://{name}/robots.txt").content for name in queue
    }
    queue = [f"https://{name}/" for name in queue]
    for name in list(denies):
        if ask(web, f"https://{name}/robots.txt").status == 301:
            denies[name] = b"Disallow: /private/" in ask(web, f"https://www.{name}/robots.txt").content
    known = set(queue)
    while queue:
        url = queue.pop()
        parts = urlsplit(url)
        domain = ".".join((parts.hostname or "").split(".")[-2:])
        private = parts.path.startswith("/private/") and not parts.path.startswith("/private/open-")
        if denies[domain] and (private or "?sort=" in url):
            found.denied.add(url)
            continue
        answer = ask(web, url)
        targets: list[str] = []
        if answer.status == 404:
            found.missing.add(url)
        elif answer.status == 301:
            targets = [answer.header("Location") or ""]
            found.redirects[url] = targets[0]
        elif answer.header("Content-Type") == "application/pdf":
            found.files.add(url)
        else:
            found.pages.add(url)
            targets = re.findall(r'<a [^>]*href="([^"#]*)', answer.content.decode())
        for target in targets:
            absolute = urljoin(url, target)
            if absolute not in known:
                known.add(absolute)
                queue.append(absolute)
    assert found == web.expected()
    assert min(map(len, (found.pages, found.missing, found.files, found.denied, found.redirects))) > 0


def test_denied_pages_lead_on_to_more_of_them(web: MiniWeb) -> None:
    """A crawler that ignores robots.txt meets pages and links there, so the log gives it away."""
    index = next(n for n in range(web.shape.domains) if traits(web.shape, n).robots is Robots.RULES)
    place = Place(Kind.DENIED, index, 0)
    urls = [link.url for link in links(web.shape, place)]
    assert not set(urls) & web.expected().requested
    assert ask(web, urls[0]).status == 200


def test_the_scope_is_kept_by_the_oracle() -> None:
    """Links out of the seeds' domains are known, and not followed."""
    shape = Shape(domains=10, pages_per_domain=4, mean_bytes=4000)
    inside = reachable(shape, ["site-00003.test"], {"site-00003.test"})
    assert inside.outside
    assert all(".site-00003.test/" in url.replace("//", "//.") for url in inside.requested)
    assert reachable(shape, ["site-00003.test"]).pages > inside.pages


def test_a_denied_seed_is_denied_through_its_redirect() -> None:
    """robots.txt is asked for through the same redirects as the page, so its rules hold before them."""
    shape = Shape(domains=40)
    rules = [traits(shape, n) for n in range(40) if traits(shape, n).robots is Robots.RULES]
    here = next(each for each in rules if each.home != each.name)
    seed = f"http://{here.name}/private/page-0.html"
    assert reachable(shape, [seed]) == Expected(denied={seed})


def test_every_page_can_be_reached() -> None:
    """From the home pages alone all pages of all domains are found, in the plain web and nothing else."""
    shape = Shape(domains=12, pages_per_domain=30, mean_bytes=4000)
    names = [domain_name(index) for index in range(shape.domains)]
    urls = {page_url(shape, i, n) for i in range(shape.domains) for n in range(traits(shape, i).pages)}
    assert urls <= reachable(shape, names).pages
    plain = Shape(domains=12, pages_per_domain=30, mean_bytes=4000, plain=True)
    expected = reachable(plain, names)
    assert (len(expected.pages), expected.requested - expected.pages, expected.denied) == (360, set(), set())


def test_pages_are_as_large_and_as_dense_as_on_the_web() -> None:
    """Log-normal sizes, about 150 links, gzip to a fifth; all links early enough for a parser's cut."""
    shape = Shape(domains=200)
    pages = [render(shape, Place(Kind.PAGE, index, 0)) for index in range(200)]
    sizes = [len(page) for page in pages]
    assert 120_000 < statistics.median(sizes) < 160_000
    assert 210_000 < statistics.mean(sizes) < 280_000
    assert 0.17 < statistics.mean(len(compress(page)) / len(page) for page in pages) < 0.25
    assert 120 < statistics.mean(page.count(b"<a ") for page in pages) < 180
    assert max(page.rfind(b"<a ") for page in pages) < LINKS_WITHIN_BYTES


def test_a_hundred_thousand_domains_cost_nothing_until_asked() -> None:
    """The last of very many domains answers like any other, and the next one doesn't exist."""
    shape = Shape(domains=100_000)
    home = traits(shape, 99_999).home
    assert find(shape, "https", home, "/") == Place(Kind.PAGE, 99_999)
    assert find(shape, "https", "site-100000.test", "/") is None
    assert domain_index(shape, "site-099999.test") is None


def test_hosts_and_codings_follow_the_traits(web: MiniWeb) -> None:
    """www, chunks and gzip are met where the traits of a domain say so, and only there."""
    for index in range(web.shape.domains):
        here = traits(web.shape, index)
        answer = ask(web, f"https://{here.home}/", Accept_Encoding="gzip;q=0.8, br")
        assert (answer.header("Content-Encoding") == "gzip") is here.gzip
        assert (answer.header("Transfer-Encoding") == "chunked") is here.chunked
        assert (
            ask(web, f"https://{here.home}/", Accept_Encoding="gzip;q=0").header("Content-Encoding") is None
        )
        robots = ask(web, f"https://{here.home}/robots.txt")
        assert robots.status == (404 if here.robots is Robots.ABSENT else 200)
        if here.home != here.name:
            assert ask(web, f"https://{here.name}/x").header("Location") == f"https://{here.home}/x"


def test_head_sends_no_body(web: MiniWeb) -> None:
    """HEAD is answered like GET, without the body, and the connection stays usable."""
    url = page_url(web.shape, 0, 0)
    with connect(web, url) as connection:
        for _ in range(2):
            connection.send(request_bytes(url, method="HEAD", close=False))
            assert connection.receive().endswith(b"\r\n\r\n")
