"""How a list falls on the nodes of a fleet."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from deploy import fleet
from deploy.balance import ListError, balance
from deploy.errors import ExitCode
from node.rules.shard import node_of


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    path = tmp_path / "list.csv.gz"
    lines = [f"{rank},site-{rank}.test" for rank in range(1, 6001)]
    lines += ["7,www.site-1.test", "two words"]  # a domain is counted once
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_every_domain_falls_on_the_node_that_will_keep_it(domains: Path) -> None:
    """The count is the one that the nodes will come to, by the same hash."""
    found = balance(domains, 12)
    assert (found.domains, found.junk_lines) == (6000, 1)
    mine = [sum(1 for n in range(1, 6001) if node_of(f"site-{n}.test", 12) == node) for node in range(12)]
    assert found.per_node == mine
    assert found.worst_to_mean < 1.15


def test_the_command_prints_what_programs_read(domains: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data on stdout, talk on stderr."""
    assert fleet.main(["balance", str(domains), "--nodes", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    assert sum(json.loads(out)["per_node"]) == 6000
    assert "1 lines" in err


@pytest.mark.parametrize("content", [None, b"", b"\x1f\x8bnot gzip at all", b"two words\n"])
def test_a_list_that_is_none_is_refused_in_words(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence and the exit code for bad input."""
    path = tmp_path / "list"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ListError):
        balance(path, 4)
    assert fleet.main(["balance", str(path)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
