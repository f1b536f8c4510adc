"""Excluding by name and by a list: what is taken out, what is brought back, and what is written down."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from node import settings as settings_of
from node.errors import InputError
from node.rules import url as urls
from node.rules.domain import registrable
from node.rules.entry import Entry, unpack
from node.rules.shard import lane_of
from node.rules.url import dedup_key
from node.store.connection import Store
from node.store.exclusions import LIST_NAME, in_force
from node.store.frontier import Frontier, Group
from node.work import excluding, exclusion_list, operate
from tests.redis_server import RedisServer

QUEUED = (
    "https://a.test/1",
    "https://a.test/2",
    "https://www.a.test/3",
    "https://b.test/1",
    "https://deep.b.test/2",
    "https://c.test/1",
    "https://user.github.io/1",
)


@dataclass
class Node:
    """A stopped node with URLs in its queues, as commands find it."""

    settings: settings_of.Settings
    store: Store
    frontier: Frontier

    def exclude(self, *names: str) -> None:
        excluding.exclude(self.store, self.frontier, self.settings, names, "asked")

    def include(self, *names: str) -> list[str]:
        """Answers what stays excluded below."""
        return excluding.include(self.store, self.frontier, self.settings, names)[1]

    def use(self, *lines: str) -> exclusion_list.ListReport:
        """``exclude --list`` with these lines."""
        path = self.settings.data / "list.txt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        report = exclusion_list.put_in_force(self.settings, path, "asked")
        self.settle()
        return report

    def settle(self) -> None:
        for change in (exclusion_list.purge, exclusion_list.bring_back):
            list(change(self.store, self.frontier, self.settings))

    def covers(self, host: str) -> bool:
        return in_force(self.store, self.settings.data).covers(host)

    def queued(self) -> set[str]:
        """All that waits."""
        shown: list[str] = []
        for domain in operate.all_domains(self.store):
            verb = self.frontier.trim(self.store.now_ms(), domain, lane_of(domain), 0)
            found = self.store.call(verb)
            shown += found
        return {unpack(entry).url for entry in shown}

    def audit(self) -> list[dict[str, Any]]:
        lines = (self.settings.data / "taken" / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def node(tmp_path: Path, redis_server: RedisServer) -> Iterator[Node]:
    with redis_server.client() as client:
        client.flushall()
    paths = {"data": str(tmp_path), "redis_socket": str(redis_server.socket)}
    settings = settings_of.build({"paths": paths})
    store = Store(settings)
    store.begin()
    frontier = Frontier(settings)
    groups: dict[str, Group] = {}
    for url in QUEUED:
        domain = registrable(urls.host(url))
        group = groups.setdefault(domain, Group(domain, lane_of(domain), store.now_ms()))
        group.entries.append(Entry(url, 0, 0).pack())
        group.slots += frontier.slots(dedup_key(url))
    store.call(frontier.offer(store.now_ms(), groups.values()))
    yield Node(settings, store, frontier)
    store.close()


def test_a_list_takes_out_what_it_names(node: Node) -> None:
    """Domains with all that is under them, hosts below a domain, and all of a public suffix."""
    report = node.use("# ours", "", "A.test", "deep.b.test  # by mail", "*.github.io", "never-seen.test")
    assert (report.names, report.before, report.junk_lines) == (4, 0, 0)
    assert node.queued() == {"https://b.test/1", "https://c.test/1"}
    assert [node.covers(host) for host in ("www.a.test", "b.test", "x.deep.b.test")] == [True, False, True]
    (line,) = node.audit()
    assert (line["names"], line["reason"]) == (4, "asked")
    assert line["exclude_list"].endswith("list.txt")


def test_lines_that_can_not_be_used_are_told(node: Node) -> None:
    """With number and reason, the first twenty of them; the others count, and the good ones hold."""
    report = node.use("a.test", "not a name", *["com"] * 30, "c.test")
    assert (report.names, report.junk_lines, len(report.junk)) == (2, 31, 20)
    assert [(junk.line, junk.where) for junk in report.junk[:2]] == [(2, "list.txt"), (3, "list.txt")]
    assert not node.queued() & {"https://a.test/1", "https://c.test/1"}


def test_a_list_without_a_name_changes_nothing(node: Node) -> None:
    """An empty file is a mistake, and must not lift what others were promised."""
    node.use("a.test")
    for lines in ([], ["# nothing"], ["???"]):
        with pytest.raises(InputError, match="no usable name"):
            node.use(*lines)
    with pytest.raises(InputError, match="can't be read"):
        exclusion_list.write(node.settings, node.settings.data / "absent.txt")
    assert node.covers("a.test")


def test_the_same_list_again_changes_nothing(node: Node) -> None:
    """A deployment may say it every time: no new file, no line in the audit."""
    node.use("a.test", "c.test")
    before = (node.settings.data / LIST_NAME).stat()
    report = node.use("c.test", "a.test", "a.test")
    assert (report.unchanged, report.names) == (True, 2)
    assert (node.settings.data / LIST_NAME).stat().st_ino == before.st_ino
    assert len(node.audit()) == 1


def test_a_gzipped_list(node: Node) -> None:
    """As such lists are given away."""
    path = node.settings.data / "list.gz"
    path.write_bytes(gzip.compress(b"a.test\nc.test\n"))
    assert exclusion_list.write(node.settings, path).names == 2
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="can't be read"):
        exclusion_list.write(node.settings, path)


def test_another_list_brings_back_what_it_does_not_name(node: Node) -> None:
    """What was taken out is kept in files, and returns once nobody excludes it."""
    node.use("a.test", "c.test")
    report = node.use("c.test")
    assert (report.names, report.before) == (1, 2)
    assert node.queued() == set(QUEUED) - {"https://c.test/1"}
    exclusion_list.lift(node.settings)
    node.settle()
    assert node.queued() == set(QUEUED)
    assert not node.covers("c.test")
    with pytest.raises(InputError, match="no list"):
        exclusion_list.lift(node.settings)


def test_what_is_on_the_list_can_be_included(node: Node) -> None:
    """By an exception, which outlives the next list; and which an exclusion by name ends."""
    node.use("a.test", "www.a.test", "c.test")
    assert node.include("a.test") == ["www.a.test"]
    assert node.queued() >= {"https://a.test/1", "https://a.test/2"}
    assert "https://www.a.test/3" not in node.queued(), "it is on the list by itself"
    assert not node.covers("a.test")
    node.use("a.test", "www.a.test", "c.test", "other.test")
    assert not node.covers("a.test")
    assert "https://a.test/1" in node.queued()
    node.exclude("a.test")
    assert node.covers("a.test")
    assert "https://a.test/1" not in node.queued()
    node.include("a.test", "www.a.test")
    assert node.queued() == set(QUEUED) - {"https://c.test/1"}


def test_a_host_under_an_excluded_name_can_be_included(node: Node) -> None:
    """The nearest name counts; excluding the domain anew ends the exception."""
    node.exclude("a.test")
    node.include("www.a.test")
    assert [node.covers("a.test"), node.covers("www.a.test")] == [True, False]
    assert node.queued() == set(QUEUED) - {"https://a.test/1", "https://a.test/2"}
    node.exclude("a.test")
    assert node.covers("www.a.test")
    assert "https://www.a.test/3" not in node.queued()


def test_a_list_keeps_exceptions_queued(node: Node) -> None:
    """A list that comes later and covers a host included by name leaves its URLs in the queue."""
    node.exclude("a.test")
    node.include("www.a.test")
    node.use("a.test", "deep.b.test")
    assert node.queued() == set(QUEUED) - {"https://a.test/1", "https://a.test/2", "https://deep.b.test/2"}
