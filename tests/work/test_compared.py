"""From pages on the spool to what is known of how alike they are: a real parser on a real Redis."""

from __future__ import annotations

import pytest

from node import cli
from node.rules.entry import Entry
from node.rules.similar import Likeness
from node.rules.url import dedup_key
from node.store import keys, near
from node.store.frontier import Group
from tests.work.test_page_guard import MakeNode, Node, make_node

__all__ = ["make_node"]

ARTICLE = b" ".join(b"word%d" % n for n in range(400))


def calendar(months: int) -> dict[str, bytes]:
    """Pages that differ in a number."""
    return {f"https://calendar.test/{n}": b"<p>%s<p>month %d" % (ARTICLE, n) for n in range(months)}


def likeness(node: Node, domain: str) -> Likeness:
    return near.unpack(node.store.redis.execute_command("GET", keys.near(domain)))


def test_a_parser_compares_the_pages_of_a_domain(
    make_node: MakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the first month of a calendar are nearly the same; pages of other domains are no part of it."""
    node = make_node(near_duplicates=1.0)
    group = Group("calendar.test", 0, 0)
    group.entries.append(Entry("https://calendar.test/later", 1, 1).pack())
    group.slots += node.frontier.slots(dedup_key("https://calendar.test/later"))
    node.store.call(node.frontier.offer(node.store.now_ms(), [group]))
    pages = calendar(12) | {"https://other.test/": b"<p>" + ARTICLE, "https://short.test/": b"<p>hello"}
    node.put(pages)
    node.start(1)
    node.until_done()
    found = likeness(node, "calendar.test")
    assert (found.compared, found.near, found.lowered) == (12, 11, 3)
    assert likeness(node, "other.test")[:2] == (1, 0)
    assert likeness(node, "short.test") == Likeness()
    assert (node.ledger("pages_compared"), node.ledger("pages_near")) == (13, 11)
    assert cli.main(["inspect", "calendar.test", "--config", str(node.config)]) == 0
    assert (
        "11 of 12 compared are nearly the same as another: priority lowered by 3" in capsys.readouterr().out
    )
    assert cli.main(["status", "--config", str(node.config)]) == 0
    assert "11 of 13 pages compared" in capsys.readouterr().out


def test_by_default_no_page_is_compared(make_node: MakeNode) -> None:
    """Off means that nothing is kept, of any domain."""
    node = make_node()
    node.put(calendar(12))
    node.start(1)
    node.until_done()
    assert node.store.redis.execute_command("KEYS", "near:*") == []
    assert node.ledger("pages_compared") == 0
