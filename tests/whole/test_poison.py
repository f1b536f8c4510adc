"""A page that hangs parsers, in a whole crawl: it is given up, and the crawl goes on to its end."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole import stored
from tests.whole.crawl import Crawl
from tests.work.net import Exchange, Server
from tests.work.test_page_guard import hanging_page

pytestmark = [pytest.mark.whole, pytest.mark.timeout(180)]

PAGES = 30
POISON = "http://poison.test/7"


def _answer(exchange: Exchange) -> None:
    path = exchange.request.split(b" ")[1].decode()
    if path == "/robots.txt":
        exchange.send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return
    if path == "/":
        body = b"".join(b'<a href="/%d">%d</a>' % (n, n) for n in range(PAGES))
    elif path == "/7":
        body = hanging_page(900_000)
    else:
        body = b"<p>page %s" % path.encode()
    body = gzip.compress(body, 6)
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nConnection: close\r\n"
    exchange.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(_answer) as running:
        yield running


def test_a_crawl_outlives_a_page_that_hangs_its_parsers(server: Server, tmp_path: Path) -> None:
    """Two parsers die of it, no other page is lost or charged, and the operator is told which it was."""
    crawl = Crawl(
        tmp_path / "out",
        None,
        *("http://poison.test/", "--delay", "0", "--fetchers", "1", "--parsers", "2"),
        *("--connect-to", f"poison.test:80:127.0.0.1:{server.port}"),
        settings=["parser.page_deadline_s=1.0", "parser.max_deaths=2", "parser.max_page_bytes=2000000"],
    )
    with crawl:
        summary = crawl.run()
        assert crawl.said.count("died (signal 27") == 2, crawl.said
        told = crawl.command("dead").stdout
    assert summary["reason"] == "finished"
    assert summary["dead_letters"] == 1
    assert summary["ledger"]["gap"] == 0
    assert len(stored.pages(crawl.out)) == PAGES + 1
    assert f"{POISON}\n    parser 2 of 2 took more than 1 s of CPU time" in told
    assert told.count("http://") == 1
