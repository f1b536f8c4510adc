"""A page read to the end: which of its addresses are followed, and why the others aren't."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from node.rules.page import Reading, read
from node.rules.refusal import Refusal

URL = "https://h.test/list/1?p=2"
HEAD = "<link rel=canonical href='../list/1'><link rel=next href='1?p=3'><link rel=prev href='1?p=1'>"
LINK = "<a href=/a>a</a>"


def page(body: str, follow: Collection[str] = (), tags: tuple[str, ...] = ()) -> Reading:
    return read(
        body.encode(),
        URL,
        content_type="text/html; charset=utf-8",
        robots_tags=tags,
        token="Milliarde",
        max_links=10,
        follow=follow,
    )


@pytest.mark.parametrize(
    ("follow", "more"),
    [
        ((), []),
        (("canonical",), ["https://h.test/list/1"]),
        (("next",), ["https://h.test/list/1?p=3"]),
        (("canonical", "next"), ["https://h.test/list/1", "https://h.test/list/1?p=3"]),
    ],
)
def test_relations_are_links_where_they_are_asked_for(follow: tuple[str, ...], more: list[str]) -> None:
    """``rel=canonical`` and ``rel=next`` are followed each by its own setting; by default neither is."""
    assert list(page(HEAD + LINK, follow).targets.values()) == ["https://h.test/a", *more]


def test_relations_pass_the_same_gates() -> None:
    """They are relative to the base, refused like links, and not followed where the page asks for none."""
    based = "<base href='http://other.test/x/'><link rel=canonical href=c><link rel=next href='mailto:x'>"
    assert list(page(based, ("canonical", "next")).targets.values()) == [
        "http://other.test/x/c",
        Refusal.SCHEME,
    ]
    for reading in (
        page(HEAD + "<meta name=robots content=nofollow>", ("canonical", "next")),
        page(HEAD, ("canonical", "next"), ("nofollow",)),
    ):
        assert set(reading.targets.values()) == {Refusal.NOFOLLOW}


def test_a_relation_to_what_is_linked_adds_nothing() -> None:
    """One address is followed once; a ``rel=nofollow`` on its link says nothing about the relation."""
    both = page("<a href=/c>c</a><a rel=nofollow href=/n>n</a>", ())
    assert both.targets["/n"] is Refusal.NOFOLLOW
    head = "<link rel=canonical href=/c><link rel=next href=/n>"
    both = page(head + "<a href=/c>c</a><a rel=nofollow href=/n>n</a>", ("canonical", "next"))
    assert both.targets == {"/c": "https://h.test/c", "/n": "https://h.test/n"}
