"""Which hosts are excluded: by name, by a list, and what is visited all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.errors import InputError
from node.store.exclusions import CACHED_HOSTS, LIST_NAME, Exclusions
from node.store.namelist import build


def put(folder: Path, *hosts: str) -> None:
    build(folder / LIST_NAME, hosts, source="here", made="now")


@pytest.fixture
def exclusions(tmp_path: Path) -> Exclusions:
    put(tmp_path, "listed.test", "deep.parent.test", "192.0.2.7")
    made = Exclusions(["named.test", "own.listed.test"], ["www.named.test", "fine.listed.test"])
    assert made.look(tmp_path)
    return made


@pytest.mark.parametrize(
    ("host", "excluded"),
    [
        ("named.test", True),
        ("a.b.named.test", True),
        ("www.named.test", False),
        ("a.www.named.test", False),
        ("wwww.named.test", True),
        ("listed.test", True),
        ("x.listed.test", True),
        ("fine.listed.test", False),
        ("own.listed.test", True),
        ("notlisted.test", False),
        ("parent.test", False),
        ("deep.parent.test", True),
        ("x.deep.parent.test", True),
        ("test", False),
        ("192.0.2.7", True),
        ("listed.test.", True),
        ("x.named.test.", True),
    ],
)
def test_the_nearest_name_counts(exclusions: Exclusions, host: str, excluded: bool) -> None:
    """A host is under its names; the nearest that is known says whether it is visited. A trailing dot says
    nothing. Asked twice, the answer is the same."""
    assert [exclusions.covers(host), exclusions.covers(host)] == [excluded, excluded]


def test_what_is_excluded_below_a_name(exclusions: Exclusions) -> None:
    """For an operator who includes a domain: what stays excluded of it."""
    assert exclusions.under("listed.test") == ["own.listed.test"]
    assert exclusions.under("parent.test") == ["deep.parent.test"]
    assert exclusions.under("other.test") == []


def test_a_change_is_seen_and_verdicts_are_new(exclusions: Exclusions, tmp_path: Path) -> None:
    """Another list, other names, no list: each look tells whether anything changed."""
    assert not exclusions.look(tmp_path)
    assert not exclusions.covers("new.test")
    put(tmp_path, "new.test")
    assert not exclusions.covers("new.test"), "it has not looked yet"
    assert exclusions.look(tmp_path)
    assert [exclusions.covers(host) for host in ("new.test", "listed.test", "named.test")] == [
        True,
        False,
        True,
    ]
    exclusions.replace(["other.test"])
    assert [exclusions.covers(host) for host in ("other.test", "named.test")] == [True, False]
    (tmp_path / LIST_NAME).unlink()
    assert exclusions.look(tmp_path)
    assert not exclusions.covers("new.test")
    assert not exclusions.look(tmp_path)


def test_a_list_that_is_broken_is_not_passed_over(exclusions: Exclusions, tmp_path: Path) -> None:
    """Better no visits than one that was not wanted; the list that was in force still is."""
    (tmp_path / "torn").write_bytes(b"torn")
    (tmp_path / "torn").replace(tmp_path / LIST_NAME)
    with pytest.raises(InputError, match="no whole list"):
        exclusions.look(tmp_path)
    assert exclusions.covers("listed.test")


def test_verdicts_are_bounded(exclusions: Exclusions) -> None:
    """However many hosts a page links to."""
    for number in range(CACHED_HOSTS + 10):
        exclusions.covers(f"h{number}.test")
    assert len(exclusions._verdicts) == 10
