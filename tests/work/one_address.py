"""Two fetchers, and a web of many domains at one public address: a process of its own, since that address
must be of a network of its own (``unshare --net``). ``python -m tests.work.one_address REDIS_SOCKET FOLDER``

Nothing of a fetcher is replaced: names are resolved at a name server, and the connections go where it says.
Prints the web's own log when all pages are fetched: of each page the fetcher (it says its number in its
User-Agent), the domain, when it was asked for and when it had been answered (s), and whether it is the first
page of the domain that this fetcher met first.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from node.rules.entry import Entry
from node.rules.shard import lane_of
from node.rules.url import dedup_key
from node.settings import Settings, build
from node.store import keys
from node.store.connection import AsyncStore
from node.store.frontier import Frontier, Group
from node.work.fetcher import Fetcher
from node.work.process import Stop
from tests.work.net import NameServer

SHARED, OTHER = "11.1.0.1", "11.2.0.1"
"""Public addresses, as the guard sees it, of the network that this runs in."""
ALONE = "other.test"
"""The domain at the address of its own."""
DOMAINS, PAGES = 14, 2
FETCHERS = 2
VISITS_PER_S, VISITS_AT_ONCE = 12.0, 3
ANSWER_S = 0.3
DEADLINE_S = 90.0
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Web:
    """Answers every page after ``ANSWER_S``."""

    def __init__(self) -> None:
        self.log: list[tuple[int, str, float, float, bool]] = []
        self.met: dict[int, str] = {}
        """Of each fetcher the first domain at the shared address of which it asked for anything."""
        self.first: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        begun_s = time.monotonic()
        fetcher, host = int(_between(head, "fetcher-", ")")), _between(head, "\r\nHost: ", "\r\n")
        if host != ALONE:
            self.met.setdefault(fetcher, host)
        if head.startswith("GET /robots.txt "):
            writer.write(MISSING)
        else:
            is_first = self.met.get(fetcher) == host and fetcher not in self.first
            if is_first:
                self.first.add(fetcher)
            await asyncio.sleep(ANSWER_S)
            self.log.append((fetcher, host, begun_s, time.monotonic(), is_first))
            writer.write(PAGE)
        await writer.drain()
        writer.close()


def _between(text: str, before: str, after: str) -> str:
    return text.partition(before)[2].partition(after)[0]


def settings(socket: str, folder: str, name_server: str, fetcher: int) -> Settings:
    """Of one fetcher of a node whose one address bears little."""
    return build(
        {
            "paths": {"data": folder, "redis_socket": socket},
            "identity": {"contact": f"fetcher-{fetcher}"},
            "crawl": {"delay_s": 0.2},
            "dns": {"servers": [name_server]},
            "addresses": {
                "visits_per_s": VISITS_PER_S,
                "visits_at_once": VISITS_AT_ONCE,
                "networks": [{"network": f"{OTHER}/32"}],
            },
            "archive": {"disk_reserve_bytes": 0},
        }
    )


async def _offer(store: AsyncStore, frontier: Frontier, domains: list[str]) -> None:
    groups = []
    for domain in domains:
        group = Group(domain, lane_of(domain), store.now_ms() - 1)
        for number in range(PAGES):
            url = f"http://{domain}/{number}"
            group.entries.append(Entry(url, 0, 0).pack())
            group.slots += frontier.slots(dedup_key(url))
        groups.append(group)
    await store.call(frontier.offer(store.now_ms(), groups))


async def _crawl(of: list[Settings], domains: list[str]) -> None:
    """By a fetcher for each of ``of``, until every page is fetched."""
    store, frontier = AsyncStore(of[0]), Frontier(of[0])
    await store.begin()
    await _offer(store, frontier, domains)
    stop = Stop()
    running = [asyncio.create_task(Fetcher(each, number, stop).run()) for number, each in enumerate(of, 1)]
    try:
        async with asyncio.timeout(DEADLINE_S):
            pages = b""
            while pages != b"%d" % (len(domains) * PAGES):
                pages = await store.redis.execute_command("HGET", keys.LEDGER, "pages")
                await asyncio.sleep(0.05)
    finally:
        stop.request()
        await asyncio.gather(*running)
        await store.close()


async def main(socket: str, folder: str) -> None:
    """Crawl, then print the log."""
    shared = [f"d{number}.test" for number in range(DOMAINS)]
    web = Web()
    server = await asyncio.start_server(web.serve, "0.0.0.0", 80)
    with NameServer() as names:
        names.zone.update({(domain, "A"): [(60, SHARED)] for domain in shared})
        names.zone[ALONE, "A"] = [(60, OTHER)]
        of = [settings(socket, folder, names.address, number) for number in range(1, FETCHERS + 1)]
        await _crawl(of, [*shared, ALONE])
    server.close()
    sys.stdout.write(json.dumps(web.log))


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(sys.argv[1], sys.argv[2]))
