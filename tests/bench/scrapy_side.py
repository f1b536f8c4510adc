"""The other side: one Scrapy process over the same pages, as its own guide to broad crawls sets it up.

``python -m tests.bench.scrapy_side --help``. It fetches the URLs it is given, obeys robots.txt and takes
the links out of each page; nothing is stored. With ``--follow`` it does what a crawl must: every link
becomes a request, is checked for having been seen, and is scheduled. Two ways to take links out: ``lxml``
is Scrapy's own ``LinkExtractor``, ``selectolax`` what a user who wants speed would write instead. The last
line on stdout is JSON: {"pages", "links", "robots", "errors", "finish_reason"}.
"""

# Scrapy is an extra, so types are checked where it is installed and where it isn't.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-return"
from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from selectolax.lexbor import LexborHTMLParser
from twisted.internet import defer

LOOPBACK = "127.0.0.1"

BROAD_CRAWL: dict[str, object] = {
    # docs.scrapy.org/en/latest/topics/broad-crawls.html
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "ERROR",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    # what would cost something and give us nothing
    "TELNETCONSOLE_ENABLED": False,
    "LOGSTATS_INTERVAL": 0,
    "MEMUSAGE_ENABLED": False,
    # the same manners as ours
    "ROBOTSTXT_OBEY": True,
    "DOWNLOAD_DELAY": 0,
    "USER_AGENT": "Milliarde-bench",
}


class LoopbackResolver(CachingThreadedResolver):
    """Every name is 127.0.0.1, without a look-up: cheaper than any real resolver."""

    def getHostByName(self, name: str, timeout: object = ()) -> Any:  # Twisted's name
        del name, timeout
        return defer.succeed(LOOPBACK)


def lead_to(port: int) -> None:
    """Connections to port 443 go to ``port``, as our own ``connect_to`` does for us."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    connect = reactor.connectTCP

    def connect_tcp(host: str, wanted: int, *args: Any, **kwargs: Any) -> Any:
        return connect(host, port if wanted == 443 else wanted, *args, **kwargs)

    reactor.connectTCP = connect_tcp


def lxml_links(response: Any) -> Iterable[str]:
    """Scrapy's own way."""
    return [link.url for link in _EXTRACTOR.extract_links(response)]


def selectolax_links(response: Any) -> Iterable[str]:
    """Anchors through selectolax from bytes, joined as Scrapy joins, each once."""
    found: dict[str, None] = {}
    for node in LexborHTMLParser(response.body).css("a[href]"):
        href = node.attributes.get("href")
        if href:
            found[response.urljoin(href.strip())] = None
    return found


_EXTRACTOR = LinkExtractor()
LINKS = {"lxml": lxml_links, "selectolax": selectolax_links}


class BenchSpider(scrapy.Spider):
    """Takes the links out of every page, and follows them if asked; yields no items."""

    name = "bench"

    def __init__(self, urls: list[str], port: int, links: str, follow: bool) -> None:
        super().__init__()
        self._urls = urls
        self._port = port
        self._links = LINKS[links]
        self._follow = follow
        self.pages = 0
        self.links = 0

    async def start(self) -> AsyncIterator[Any]:
        lead_to(self._port)
        for url in self._urls:
            yield scrapy.Request(url)

    def parse(self, response: Any) -> Iterator[Any]:
        self.pages += 1
        for url in self._links(response):
            self.links += 1
            if self._follow:
                yield scrapy.Request(url)


def main() -> None:
    """Crawl, then say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=Path, required=True, help="file with a URL a line")
    parser.add_argument("--follow", action="store_true", help="and the links found in the pages")
    parser.add_argument("--port", type=int, required=True, help="where port 443 of every host is")
    parser.add_argument("--links", choices=sorted(LINKS), required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--per-domain", type=int, required=True)
    parser.add_argument("--first-only", action="store_true", help="one page, to see what a start costs")
    args = parser.parse_args()
    urls = args.urls.read_text().split()
    process = CrawlerProcess(
        {
            **BROAD_CRAWL,
            "CONCURRENT_REQUESTS": args.concurrency,
            "CONCURRENT_REQUESTS_PER_DOMAIN": args.per_domain,
            "TWISTED_DNS_RESOLVER": LoopbackResolver,
        }
    )
    crawler = process.create_crawler(BenchSpider)
    process.crawl(
        crawler,
        urls=urls[:1] if args.first_only else urls,
        port=args.port,
        links=args.links,
        follow=args.follow,
    )
    process.start()
    stats: Any = crawler.stats
    spider: Any = crawler.spider
    print(
        json.dumps(
            {
                "pages": spider.pages,
                "links": spider.links,
                "robots": stats.get_value("robotstxt/response_count", 0),
                "errors": stats.get_value("log_count/ERROR", 0)
                + stats.get_value("downloader/exception_count", 0),
                "finish_reason": stats.get_value("finish_reason"),
            }
        )
    )


if __name__ == "__main__":
    main()
