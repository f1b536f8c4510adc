"""Twelve small nodes, each in a network namespace of its own, crawl one list: each its share, and never talk.

Only the control namespace serves the web, and a bridge counts what passes from one node to another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from node.rules.shard import node_of
from tests.fleet.network import Network, inside
from tests.fleet.ready import need_root_and
from tests.fleet.shell import run
from tests.fleet.slots import wires
from tests.web.log import Entry
from tests.web.running import MiniWeb
from tests.web.shape import domain_name
from tests.whole import manners, stored
from tests.whole.crawl import Crawl

pytestmark = [pytest.mark.whole, pytest.mark.timeout(300)]

NODES = 12
DOMAINS = 60
DELAY_S = 0.3
LONGEST_S = 200.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What twelve nodes left behind, and the wires that they were on."""

    network: Network
    web: MiniWeb
    crawls: list[Crawl]
    requests: list[Entry]
    passed: dict[str, int]

    def shares(self) -> list[list[str]]:
        """The domains of each node, by the rule."""
        found: list[list[str]] = [[] for _ in range(NODES)]
        for index in range(DOMAINS):
            found[node_of(domain_name(index), NODES)].append(domain_name(index))
        return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One crawl of sixty domains by twelve nodes, from the same list, to its end."""
    need_root_and("ip", "nft")
    folder = tmp_path_factory.mktemp("twelve")
    with ExitStack() as stack:
        network = stack.enter_context(wires(NODES))
        web = stack.enter_context(
            MiniWeb(
                folder / "web",
                domains=DOMAINS,
                pages_per_domain=6,
                mean_bytes=8_000,
                ca="ec",
                address=network.address,
                inside=inside(network.control),
            )
        )
        crawls = [
            stack.enter_context(_crawl(folder / f"node{me}", web, network, me)).start() for me in range(NODES)
        ]
        for crawl in crawls:
            assert crawl.wait(LONGEST_S) == 0, crawl.said
        yield Fleet(network, web, crawls, web.requests(), network.passed())


def _crawl(out: Path, web: MiniWeb, network: Network, me: int) -> Crawl:
    return Crawl(
        out,
        web,
        *("--seeds", web.ordinary_seeds, "--delay", str(DELAY_S), "--fetchers", "1", "--parsers", "1"),
        settings=[
            f"crawl.nodes={NODES}",
            f"crawl.me={me}",
            "crawl.hop_gap_s=0.1",
            "identity.contact=https://us.test/bot",
        ],
        inside=inside(network.nodes[me].namespace),
    )


def test_every_domain_is_crawled_by_the_one_node_it_falls_to(fleet: Fleet) -> None:
    """Shards are disjoint: by the web's log each domain's requests came from one address, the right one."""
    callers: dict[str, set[str | None]] = defaultdict(set)
    for entry in fleet.requests:
        callers[manners.domain_of(entry.host or "")].add(entry.peer)
    for me, share in enumerate(fleet.shares()):
        assert share, f"node {me} has nothing to do: the test needs more domains"
        for domain in share:
            assert callers.pop(domain) == {fleet.network.nodes[me].address}, domain
    assert not callers, "nothing else was visited"


def test_together_they_crawl_all_that_one_would(fleet: Fleet) -> None:
    """Shards are complete: every page of the web is in exactly one node's archive, once."""
    pages: Counter[str] = sum((stored.pages(crawl.out) for crawl in fleet.crawls), Counter())
    assert pages == Counter(fleet.web.expected().pages)
    assert len(pages) > 4 * DOMAINS


def test_each_node_asks_for_what_its_share_needs(fleet: Fleet) -> None:
    """No node asks for more than the URLs of its own domains, nor for any of them twice."""
    by_node: dict[str | None, Counter[str]] = defaultdict(Counter)
    for entry in fleet.requests:
        if not manners.is_robots(entry):
            by_node[entry.peer][entry.url] += 1
    for node, share in zip(fleet.network.nodes, fleet.shares(), strict=True):
        assert by_node[node.address] == Counter(fleet.web.expected(share).requested)


def test_every_ledger_adds_up(fleet: Fleet) -> None:
    """Each node has closed every URL that it admitted."""
    for crawl in fleet.crawls:
        ledger = crawl.summary["ledger"]
        assert crawl.summary["reason"] == "finished"
        assert ledger["admitted"] == ledger["done"] + ledger["dropped"] > 0
        assert ledger["gap"] == 0


def test_no_packet_passes_between_nodes(fleet: Fleet) -> None:
    """Nodes never talk: the bridge passed nothing from one to another, and counts when somebody tries."""
    assert len(fleet.requests) > 100, "they had reason to use their wires"
    assert fleet.passed == {"ip": 0, "arp": 0, "ip6": 0}
    first, second = fleet.network.nodes[:2]
    words = f"import socket; socket.socket().connect_ex(({second.address!r}, 9))"
    run(*inside(first.namespace, "python3", "-c", words))
    moved = fleet.network.passed()
    assert moved["arp"] >= 2, "the question and its answer"
    assert moved["ip"] >= 2, "the attempt and its refusal"
