"""Lists of names in a file: exact answers, whole files only."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.errors import DiskError, InputError
from node.store import namelist
from node.store.namelist import NameList, build

names = st.from_regex(r"[a-c-]{1,3}(\.[a-c]{1,2}){0,3}", fullmatch=True)


def made(path: Path, *hosts: str) -> NameList:
    build(path, hosts, source="here", made="2026-12-02T08:00:00Z")
    return NameList(path)


@example({"a.b", "b.a.b", "a-c.b", "b"}, "a.b")
@given(st.sets(names, min_size=1, max_size=40), names)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_it_answers_as_a_set_does(
    tmp_path_factory: pytest.TempPathFactory, hosts: set[str], asked: str
) -> None:
    """Each name that is in it is, no other is, and what lies under one is found complete."""
    listed = made(tmp_path_factory.mktemp("list") / "names", *hosts)
    assert all(host in listed for host in hosts)
    assert (asked in listed) == (asked in hosts)
    below = {host for host in hosts if host.endswith(f".{asked}")}
    assert set(listed.under(asked)) == below
    assert len(listed) == len(hosts)
    listed.close()


def test_a_filter_that_errs_does_not_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the filter says yes to everything the answers are the same."""
    monkeypatch.setattr(namelist, "ERROR_RATE", 0.9)
    hosts = [f"host-{number}.example" for number in range(500)]
    listed = made(tmp_path / "names", *hosts)
    others = [f"other-{number}.example" for number in range(500)]
    assert sum(other in listed._filter for other in others) > 200
    assert not any(other in listed for other in others)
    assert all(host in listed for host in hosts)


def test_the_filter_spares_nearly_every_search(tmp_path: Path) -> None:
    """Of names that are not in it one in a thousand is looked up."""
    chance = random.Random(1)
    hosts = [f"{chance.randrange(10**9)}.example" for _ in range(20_000)]
    listed = made(tmp_path / "names", *hosts)
    passed = sum(f"{number}.other.test" in listed._filter for number in range(20_000))
    assert passed < 60
    assert listed.header.filter_bytes < 2 * len(hosts)


def test_names_come_once_and_equal_lists_are_not_made_again(tmp_path: Path) -> None:
    """Whatever their order: so a deployment that says the same again changes nothing."""
    path = tmp_path / "names"
    header = build(path, ["b.test", "a.test", "b.test"], source="one", made="then")
    assert header is not None
    assert header.names == 2
    before = path.stat().st_ino
    assert build(path, ["a.test", "b.test"], source="two", made="now") is None
    assert path.stat().st_ino == before
    assert build(path, ["a.test"], source="three", made="now") is not None


def test_who_has_the_old_list_keeps_it(tmp_path: Path) -> None:
    """A list is replaced as a whole under running processes."""
    path = tmp_path / "names"
    old = made(path, "a.test", "b.test")
    new = made(path, "c.test")
    assert ["a.test" in old, "c.test" in old, "a.test" in new, "c.test" in new] == [True, False, False, True]
    assert old.identity != new.identity
    assert [each.name for each in tmp_path.iterdir()] == ["names"]


def test_an_empty_list_is_refused(tmp_path: Path) -> None:
    """It is a mistake, and would lift everything; what was there stays."""
    listed = made(tmp_path / "names", "a.test")
    with pytest.raises(InputError, match="no usable name in list"):
        build(tmp_path / "names", [], source="list.txt", made="now")
    assert NameList(tmp_path / "names").identity == listed.identity


@pytest.mark.parametrize("cut", [0, 1, 20, -1, -9])
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, cut: int) -> None:
    """Nobody takes half a list for a list."""
    path = tmp_path / "names"
    made(path, *(f"host-{number}.test" for number in range(50)))
    path.write_bytes(path.read_bytes()[: cut or None] if cut else b"")
    with pytest.raises(InputError, match="no whole list of names"):
        NameList(path)


def test_a_foreign_file_and_none_are_told_apart(tmp_path: Path) -> None:
    """In words, not as a traceback."""
    (tmp_path / "text").write_text("example.com\nexample.org\n")
    (tmp_path / "json").write_text('{"format": "other"}\n')
    for name in ("text", "json"):
        with pytest.raises(InputError, match="exclude --list"):
            NameList(tmp_path / name)
    with pytest.raises(InputError, match="can't be read"):
        NameList(tmp_path / "absent")


def test_where_it_can_not_be_written_that_is_said(tmp_path: Path) -> None:
    """The list is as it was."""
    with pytest.raises(DiskError, match="can't be written"):
        build(tmp_path / "no-folder" / "names", ["a.test"], source="here", made="now")
