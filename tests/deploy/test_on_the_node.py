"""What the roles run on a node: the small programs, each for itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).resolve().parents[2]
ROLES = REPO / "ansible" / "roles"


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


converge = _module(ROLES / "node" / "files" / "converge.py")


@pytest.mark.parametrize(
    ("words", "comes_from", "why"),
    [
        (["203.0.113.7"], "203.0.113.7 50000 10.0.0.1 22", ""),
        (["203.0.113.0/24", "2001:db8::/32"], "2001:db8::1 50000 2001:db8::2 22", ""),
        (["203.0.113.7"], "::ffff:203.0.113.7 50000 ::1 22", ""),
        (["203.0.113.7"], "", ""),
        (["203.0.113.7"], "203.0.113.8 50000 10.0.0.1 22", "you would be locked out"),
        ([], "203.0.113.8 50000 10.0.0.1 22", "milliarde_operator_addresses is empty"),
        (["office"], "", "does not appear to be an IPv4 or IPv6 network"),
    ],
)
def test_a_firewall_that_locks_the_operator_out_is_found(words: list[str], comes_from: str, why: str) -> None:
    """Before the firewall is raised, the operator's own connection is held against what it would admit."""
    done = subprocess.run(
        [sys.executable, ROLES / "base" / "files" / "admitted.py", *words],
        env={**os.environ, "SSH_CONNECTION": comes_from},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, why in done.stdout) == (1 if why else 0, True)


def _files(systemd: int) -> dict[str, str]:
    found: dict[str, str] = converge.wanted_files(REPO / "deploy" / "systemd", 3, 2, "1.0-abc", systemd)
    return found


def test_the_target_wants_as_many_processes_as_it_is_told() -> None:
    """Three fetchers and two parsers: these, and no others."""
    counts = _files(252)["milliarde.target.d/counts.conf"]
    assert [line for line in counts.splitlines() if line.startswith("Wants=")] == [
        "Wants=milliarde-parser@1.service",
        "Wants=milliarde-parser@2.service",
        "Wants=milliarde-fetcher@1.service",
        "Wants=milliarde-fetcher@2.service",
        "Wants=milliarde-fetcher@3.service",
    ]


def test_starts_wait_longer_each_time_where_systemd_can() -> None:
    """Debian 12's systemd does not know RestartSteps, and would murmur at every start."""
    name = "milliarde-fetcher@.service.d/deployed.conf"
    assert "RestartSteps" not in _files(252)[name]
    assert "RestartSteps=5\n" in _files(254)[name]
    for systemd in (252, 254):
        assert "Environment=MILLIARDE_DEPLOYED=1.0-abc\n" in _files(systemd)[name]


def test_a_process_tells_what_it_was_started_with() -> None:
    """By its environment: also where the drop-in says something else by now."""
    environment = {**os.environ, "MILLIARDE_DEPLOYED": "1.0-abc"}
    words = [sys.executable, "-c", "print(flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has started
        assert converge.Unit("x", "active", process.pid).deployed() == "1.0-abc"
        assert process.stdin is not None
        process.stdin.write(b"\n")
    assert converge.Unit("x", "active", process.pid).deployed() == ""
    assert converge.Unit("milliarde-fetcher@3.service", "active", 0).role == "fetcher"
    assert converge.Unit("milliarde-watch.service", "active", 0).role == "watch"


def test_files_are_left_alone_where_they_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only looking changes nothing; writing writes what differs; a second time there is nothing to say."""
    monkeypatch.setattr(converge, "SYSTEMD", tmp_path)
    files = _files(252)
    converge.install(files, dry_run=True)
    assert len(capsys.readouterr().out.splitlines()) == len(files)
    assert list(tmp_path.iterdir()) == []
    converge.install(files, dry_run=False)
    capsys.readouterr()
    (tmp_path / "milliarde.target").write_text("[Unit]\n")
    converge.install(files, dry_run=False)
    assert capsys.readouterr().out == "install milliarde.target\n"
    converge.install(files, dry_run=False)
    assert capsys.readouterr().out == ""
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == set(files)
