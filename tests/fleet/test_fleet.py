"""The fleet test: three machines, from bare to a crawl, and all that can happen to them in the middle.

Real systemd, real sshd, ``milliarde-fleet`` as an operator runs it. Only the control namespace serves the
web, so its log shows what each node did. The tests are the steps of one story, in this order; where one
fails, the rest is skipped. What takes longer is in ``scripts/soak fleet``.
"""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from node.rules.shard import node_of
from tests.conftest import missing
from tests.fleet import proof
from tests.fleet.crawling import (
    BOXES,
    DATA,
    DELAY_S,
    DOMAINS,
    FETCHERS,
    FIRST,
    HOP_GAP_S,
    PARSERS,
    PATIENCE_S,
    SECOND,
    Story,
    begun,
)
from tests.fleet.operator import workers
from tests.fleet.ready import need_boxes, need_root_and
from tests.fleet.steps import in_order
from tests.web.log import now_ms
from tests.web.shape import domain_name
from tests.whole import manners
from tests.whole.crawl import until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1_000)]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Three bare boxes, a web larger than they can crawl in this time, and an operator."""
    need_boxes()
    if importlib.util.find_spec("ansible_runner") is None:
        missing("ansible-runner is not installed (scripts/setup --fleet installs it)")
    need_root_and("rsync")
    with begun(tmp_path_factory.mktemp("fleet")) as running:
        yield running


@pytest.fixture(autouse=True)
def _in_order(story: Story, request: pytest.FixtureRequest) -> Iterator[None]:
    yield from in_order(story, request)


def test_up_makes_a_crawl_of_bare_machines(story: Story) -> None:
    """One command; then nine fetchers and six parsers run on each machine, and each crawls."""
    story.operator.run("up")
    wanted = {f"fetcher@{n}" for n in range(1, FETCHERS + 1)} | {f"parser@{n}" for n in range(1, PARSERS + 1)}
    for box in story.fleet:
        assert workers(box).keys() == wanted
    story.goes_on()
    assert story.operator.status()["totals"]["versions"] == [FIRST]


def test_a_second_up_changes_nothing(story: Story) -> None:
    """The same command again: no task changes anything on any host, and no worker was started anew."""
    story.wheels.begin(SECOND)  # beside it
    before = story.fleet.each(workers)
    story.operator.run("up")
    recap = story.operator.recap()
    assert recap.keys() == {box.name for box in story.fleet}
    for host, counts in recap.items():
        assert counts["changed"] == counts["failed"] == counts["unreachable"] == 0, (host, counts)
    assert story.fleet.each(workers) == before


def test_an_excluded_domain_is_left_alone_in_two_seconds(story: Story) -> None:
    """No request to it later than two seconds after its node was told, nor after the command has ended."""
    story.excluded = domain = domain_name(0)
    began_ms = now_ms()
    until(
        lambda: any(each.t_ms > began_ms for each in story.of(domain)),
        "it is being crawled",
        within_s=PATIENCE_S,
    )
    story.operator.run("exclude", domain, "--reason", "its owner asks for it")
    ended_ms = now_ms()
    line = story.owner(domain).ssh(f"tail -n 1 {DATA}/taken/audit.jsonl").stdout
    noted = json.loads(line)
    assert noted["exclude"] == [domain]
    # to the second, and the web's clock counts from the boot
    at = datetime.strptime(noted["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() + 1
    told_ms = 1000 * at + now_ms() - 1000 * time.time()
    others = [each for each in story.fleet if each is not story.owner(domain)]
    until(lambda: now_ms() > ended_ms + 5_000, "some visits more would have been due")
    story.goes_on(*others)
    last_ms = max(each.t_ms for each in story.of(domain))
    assert last_ms <= min(told_ms, ended_ms) + 2_000
    assert domain in (story.operator.inventory.parent / "excluded.txt").read_text()


def test_killed_workers_are_back(story: Story) -> None:
    """kill -9 of all workers of all machines at once: systemd starts them again, and each crawls on."""
    before = [frozenset(found.values()) for found in story.fleet.each(workers)]
    story.fleet.ssh("systemctl kill --signal=KILL 'milliarde-fetcher@*' 'milliarde-parser@*'")
    for box, killed in zip(story.fleet, before, strict=True):
        story.at_full_strength(box, without=killed)
    story.goes_on()
    told = story.operator.run("logs", "--unit", "fetcher", "-n", "5")
    assert all(box.name in told for box in story.fleet)


def test_a_power_cut_is_survived(story: Story) -> None:
    """A machine goes down without a word: the others don't notice; when it boots it goes on by itself."""
    first, second, third = story.fleet
    second.kill_leader()
    story.goes_on(first, third)
    second.boot()
    story.at_full_strength(second)
    story.goes_on(second)


def test_a_cut_line_is_survived(story: Story) -> None:
    """A machine that can't be reached is reported, the others are shown; it goes on when it is back."""
    first, second, third = story.fleet
    third.link(up=False)
    told = story.operator.status(ends="unreachable")
    assert {name: row["state"] for name, row in told["nodes"].items()} == {
        first.name: "crawling",
        second.name: "crawling",
        third.name: "unreachable",
    }
    story.goes_on(first, second)
    third.link(up=True)
    story.goes_on(third)


def test_a_full_disk_is_survived(story: Story) -> None:
    """Not a byte is left: the node stops fetching, and its status can be asked; with room it goes on."""
    box = story.fleet.boxes[0]
    box.fill(DATA)
    quiet_s = 5 * DELAY_S
    until(
        lambda: now_ms() - story.last_ms(box) > 1000 * quiet_s,
        "it stops fetching",
        within_s=PATIENCE_S,
        every_s=0.5,
    )
    box.ssh("milliarde status --json")
    box.free(DATA)
    story.goes_on(box)
    story.at_full_strength(box)


def test_a_new_version_comes_to_one_node_after_the_other(story: Story) -> None:
    """A rolling deploy in the middle of a crawl: no node is touched before the one before it runs again."""
    story.wheels.wait()
    story.operator.run("deploy")
    story.began_one_after_the_other()
    assert story.operator.status()["totals"]["versions"] == [SECOND]
    story.goes_on()


def test_nothing_is_lost(story: Story) -> None:
    """After all that, and a drain, every URL that a node admitted is in exactly one place."""
    story.operator.run("drain")
    for box in story.fleet:
        assert "sound" in box.ssh("milliarde check").stdout
    totals = story.operator.status()["totals"]
    assert (totals["lost"], totals["under_way"]) == (0, 0)
    assert totals["pages"] > 500


def test_every_domain_was_crawled_by_exactly_one_node(story: Story) -> None:
    """By the web's own log: the requests of each domain came from one address, that of its shard's node."""
    callers = proof.callers(story.log.requests())
    for index in range(DOMAINS):
        domain = domain_name(index)
        assert callers.pop(domain) == {story.owner(domain).address}, domain
    assert not callers


def test_no_gap_was_broken(story: Story) -> None:
    """By the web's own log: whatever was killed, cut or deployed, no domain was visited too soon."""
    assert list(proof.broken_gaps(story.log.requests(), DELAY_S, HOP_GAP_S)) == []


def test_the_excluded_domain_stayed_excluded(story: Story) -> None:
    """Neither restarts nor a deploy brought it back."""
    last_ms = max(each.t_ms for each in story.of(story.excluded))
    others = [
        each.t_ms for each in story.log.requests() if manners.domain_of(each.host or "") != story.excluded
    ]
    assert max(others) - last_ms > 30_000


def test_nothing_goes_before_it_is_collected(story: Story, tmp_path: Path) -> None:
    """``down`` is refused; ``collect`` brings each node's own shard, whole; then all is down."""
    story.operator.run("down", ends="refused")
    assert all(story.fleet.each(workers))
    said = story.operator.run("collect", tmp_path, "--final")
    for box in story.fleet:
        assert re.search(rf"^{box.name}: .* whole$", said, re.MULTILINE), said
        urls = [
            json.loads(line)["url"]
            for log in (tmp_path / box.name / "log").iterdir()
            for line in log.read_text().splitlines()
        ]
        assert urls
        assert {node_of(manners.domain_of(urlsplit(url).hostname or ""), BOXES) for url in urls} == {
            story.fleet.boxes.index(box)
        }
        assert (tmp_path / box.name / "index.cdxj").stat().st_size > 0
    story.operator.run("down")
    for box in story.fleet:
        assert box.ssh("pgrep --uid milliarde", check=False).stdout == ""


def test_no_packet_passed_between_nodes(story: Story) -> None:
    """Nodes never talk: not a frame on the bridge, none dropped on the way to it; and the bridge counts."""
    first, second, _ = story.fleet
    assert story.fleet.network.passed() == {"ip": 0, "arp": 0, "ip6": 0}
    for box in story.fleet:
        for counter in ("to_nodes", "from_nodes"):
            assert "packets 0 bytes 0" in box.ssh(f"nft list counter inet milliarde {counter}").stdout
    words = f"python3 -c 'import socket; socket.socket().connect_ex((\"{second.address}\", 22))'"
    first.ssh(f"timeout 2 {words}", check=False)
    assert "packets 0 " not in first.ssh("nft list counter inet milliarde to_nodes").stdout
    assert story.fleet.network.passed()["ip"] == 0, "the firewall keeps it"
    first.ssh(f"nft delete table inet milliarde; timeout 5 {words}", check=False)
    assert story.fleet.network.passed()["ip"] > 0
