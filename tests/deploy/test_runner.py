"""Runs over a fleet: what became of each host, what is kept, and one sentence where nothing can be run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deploy import exclusions, runner, status
from deploy.errors import ExitCode, FleetError, InputError, InterruptedRunError
from deploy.inventory import Fleet, find
from deploy.nodes import ask, said, trouble
from deploy.runner import Host, Run, State
from deploy.status import failed_share
from deploy.text import harmless, names
from node.errors import ExitCode as NodeExitCode
from tests.conftest import REPO
from tests.deploy.crawls import fleet

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three hosts, all this machine, whose ``milliarde`` prints its arguments; records lie in tmp_path."""
    monkeypatch.setenv("MILLIARDE_RUNS", str(tmp_path / "runs"))
    program = tmp_path / "milliarde"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    hosts = {name: {"ansible_connection": "local"} for name in ("node1", "node2", "node10")}
    told = {
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "milliarde_program": str(program),
    }
    path = tmp_path / "fleet.yml"
    path.write_text(json.dumps({"nodes": {"hosts": hosts, "vars": told}}))
    return path


def with_host(inventory: Path, name: str, **variables: object) -> Fleet:
    """The same inventory with one more host."""
    told = json.loads(inventory.read_text())
    told["nodes"]["hosts"][name] = variables
    inventory.write_text(json.dumps(told))
    return Fleet(inventory)


def test_arguments_arrive_as_they_were_typed(inventory: Path) -> None:
    """Templates, quotes, variables and control characters go unchanged; each host gets its own."""
    words = ["exclude", "a b", "{{ 7 * 7 }}", "{% raw %}", "\"'$HOME;`id`", "ü\t\x1b[31m"]
    run = ask(Fleet(inventory), {"*": words, "node2": ["top"]})
    assert run.code is ExitCode.OK
    assert json.loads(run.hosts["node1"].results["Milliarde"]["stdout"]) == words
    assert json.loads(said(run.hosts["node2"])) == ["top"]


def test_others_go_on_where_one_fails_or_is_away(inventory: Path) -> None:
    """A host that fails, or can't be reached, is told with the reason; all others have done their work."""
    with_host(inventory, "broken", ansible_connection="local", milliarde_program="/bin/false")
    run = ask(with_host(inventory, "away", ansible_host="127.0.0.1", ansible_port=9), ["status"])
    assert {host.name for host in run.of(State.OK)} == {"node1", "node2", "node10"}
    assert [host.name for host in run.of(State.FAILED)] == ["broken"]
    (away,) = run.of(State.UNREACHABLE)
    assert "port 9" in away.why
    assert "ssh" in away.why
    assert run.code is ExitCode.HOST_FAILED
    assert ask(Fleet(inventory, ("node1", "away")), ["status"]).code is ExitCode.HOST_UNREACHABLE


def test_a_host_without_milliarde_is_told_apart(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is installed there: that is said, and which command does it."""
    bare = with_host(
        inventory, "bare", ansible_connection="local", milliarde_program="/nonexistent/milliarde"
    )
    trouble(ask(bare, ["status"]))
    told = capsys.readouterr().err
    assert told == "bare failed: Milliarde is not installed there ('milliarde-fleet up' does that)\n"


def test_records_are_kept_without_secrets_and_pruned(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done is on record, the operator's environment is not, and the oldest records go."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setattr(runner, "RUNS_KEPT", 2)
    fleet_ = Fleet(inventory, ("node1",))
    for number in range(3):
        last = ask(fleet_, [f"run-{number}"], changes=True)
    ask(fleet_, ["status"])
    assert len(list((tmp_path / "runs" / "runs").iterdir())) == 2
    assert len(list((tmp_path / "runs" / "looks").iterdir())) == 1
    events = [path.read_text() for path in (last.record / "job_events").iterdir()]
    assert any("run-2" in text for text in events)
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert not any("hush-hush" in path.read_text(errors="replace") for path in files)
    assert not any(path.stat().st_mode & 0o077 for path in (tmp_path / "runs" / "runs").iterdir())


@pytest.mark.parametrize("message", [None, "Task failed: Action failed: Unknown error."])
def test_what_never_said_what_was_wanted_is_quoted(message: str | None) -> None:
    """Of a task that is asked till its answer is right, and never was: Ansible gives no reason."""
    result = {
        "rc": 0,
        "stdout": "start watch\r\n  watch is failed: no room\r\n",
        "stderr": "",
        "attempts": 10,
    }
    words = runner.failure_words(result | ({"msg": message} if message else {}))
    assert words == "start watch watch is failed: no room"


def test_a_rescued_failure_is_none() -> None:
    """What a play has mended by itself does not count against a host."""
    hearing = runner._Hearing(runner.Silent())
    about = {"host": "node1", "task": "try", "res": {"msg": "no"}}
    stats = {"rescued": {"node1": 1}, "failures": {}}
    states = []
    for kind, data in (("runner_on_failed", about), ("playbook_on_stats", stats)):
        hearing.event({"event": kind, "event_data": data})
        states.append(hearing.hosts["node1"].state)
    assert states == [State.FAILED, State.OK]


def test_ctrl_c_is_heard_when_ansible_has_just_ended(
    inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nothing is left to be broken off, it still ends what would go on after this run."""
    import ansible_runner

    run = ansible_runner.run

    def run_and_interrupt(**words: Any) -> Any:
        ended = run(**words)
        os.kill(os.getpid(), signal.SIGINT)
        return ended

    monkeypatch.setattr(ansible_runner, "run", run_and_interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(InterruptedRunError):
        ask(Fleet(inventory, ("node1",)), ["status"])
    assert signal.getsignal(signal.SIGINT) is before


class _Interrupts:
    """Ctrl-C comes while it is cleared away, where an exception has nobody who hears it."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_between_two_looks_ends_the_watching(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in the program it is heard."""
    looks = []

    def look(fleet: Fleet) -> tuple[list[status.Row], None]:
        looks.append(fleet)
        if len(looks) == 2:
            _Interrupts()
        assert len(looks) < 5, "it goes on for ever"
        return [], None

    monkeypatch.setattr(status, "look", look)
    before = signal.getsignal(signal.SIGINT)
    assert status._watch(Fleet(inventory), 0.01, as_json=True) is ExitCode.OK
    assert len(looks) == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_ends_a_run(inventory: Path, tmp_path: Path) -> None:
    """Ctrl-C ends Ansible too, soon, and says that the same command does the rest."""
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 120\n")
    slow.chmod(0o755)
    told = json.loads(inventory.read_text())
    told["nodes"]["vars"]["milliarde_program"] = str(slow)
    inventory.write_text(json.dumps(told))
    program = "import sys; from deploy.fleet import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "resume", "--inventory", inventory, "--limit", "node1"],
        cwd=REPO,
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < give_up
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert talk.startswith("milliarde-fleet resume: interrupted")


@pytest.mark.parametrize(
    ("words", "content", "code", "says"),
    [
        (["status"], None, ExitCode.BAD_SETTINGS, "which fleet? give --inventory FILE"),
        (["status", "-i", "gone.yml"], None, ExitCode.BAD_SETTINGS, "there is no inventory gone.yml"),
        (["status"], "web: {hosts: {a: }}", ExitCode.BAD_SETTINGS, "no hosts in a group named 'nodes'"),
        (["drain"], "nodes: [", ExitCode.BAD_SETTINGS, "can't be read"),
        (["up"], "nodes: {hosts: }", ExitCode.BAD_SETTINGS, "no hosts in a group named 'nodes'"),
        (["up"], "nodes: [", ExitCode.BAD_SETTINGS, "can't be read"),
        (["pause", "--limit", "b"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "b is no node of"),
        (["replace", "b"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "b is no node of"),
        (["up", "--list", "gone"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "there is no list gone"),
        (["seed", "gone"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "the list gone can't be read"),
        (["exclude", "no domain"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "neither a domain nor"),
        (["trim"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "name domains, or give --over N"),
        (["trim", "a.test"], "nodes: {hosts: {a: }}", ExitCode.BAD_INPUT, "--keep N"),
        (["trim", "a.test", "--keep", "1"], "nodes: {hosts: {a: }}", ExitCode.REFUSED, "--yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, words: list[str], content: str | None, code: ExitCode, says: str
) -> None:
    """What can't work is told in one line with its own exit code, before anything is done."""
    inventory = tmp_path / "fleet.yml"
    if content is not None:
        inventory.write_text(content)
    done = fleet(*words, inventory=inventory if content is not None else None, runs=tmp_path / "runs")
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(f"milliarde-fleet {words[0]}: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not (tmp_path / "excluded.txt").exists()


def test_ansible_that_is_missing_is_named(inventory: Path, tmp_path: Path) -> None:
    """Without Ansible there is a sentence that says how to get it, not an exit code of a shell."""
    python = tmp_path / "bin" / "python3"  # a Python that has our packages, and no Ansible beside it
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    program = "import sys; from deploy.fleet import main; sys.exit(main())"
    environment = {"PATH": "/usr/bin:/bin", "MILLIARDE_RUNS": str(tmp_path / "runs"), "HOME": str(tmp_path)}
    paths = [str(REPO), *(path for path in sys.path if path.endswith("site-packages"))]
    done = subprocess.run(
        [python, "-c", program, "status", "-i", inventory],
        env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.NOT_INSTALLED, done.stderr
    assert "scripts/setup --fleet" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_inventory_keeps_what_is_excluded(inventory: Path) -> None:
    """The list beside the inventory: comments and order stay, a name is there once, and goes with include."""
    fleet_ = find(inventory)
    path = exclusions.path_of(fleet_)
    path.write_text("# of the legal team\nOld.test # since 2024\n\n")
    assert exclusions.add(fleet_, ["new.test", "old.test", "new.test"], "a\nmail") == ["new.test"]
    assert exclusions.read(path) == ["old.test", "new.test"]
    assert path.read_text().startswith("# of the legal team\nOld.test # since 2024\n\nnew.test  # 20")
    assert path.read_text().endswith(" a mail\n")
    assert exclusions.remove(fleet_, ["old.test", "never.test"]) == ["old.test"]
    assert exclusions.read(path) == ["new.test"]
    assert exclusions.host_of("https://WWW.Straße.test/a?b") == "www.xn--strae-oqa.test"
    with pytest.raises(InputError):
        exclusions.host_of("two words")


def test_a_directory_is_an_inventory_too(inventory: Path, tmp_path: Path) -> None:
    """Our lists beside an inventory that is a folder are not taken for hosts."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    inventory.rename(folder / "fleet.yml")
    exclusions.add(find(folder), ["a.test"], "")
    (folder / ".seeds" / "inventory").mkdir(parents=True)
    (folder / ".seeds" / "inventory" / "0123-list.csv").write_text("1,b.test\n")
    assert find(folder).hosts() == ("node1", "node2", "node10")


def test_exit_codes_agree_with_the_nodes() -> None:
    """A number means the same in both commands."""
    for code in ExitCode:
        if code < 20 or code == 130:
            assert NodeExitCode(code).name == code.name


def test_what_is_shown_is_harmless() -> None:
    """No escape sequence that a site, a log or a host put into words reaches the terminal."""
    assert harmless("a\x1b[2Jb\x07\u202ec\u0085\n") == "a�[2Jb�\u202ec�\n".replace("\u202e", "�")
    assert names(["node10", "node2"], 3) == "node2, node10"
    assert names([f"n{i}" for i in range(5)], 5) == "all 5 nodes"
    assert names([f"n{i}" for i in range(5)], 9) == "n0, n1 … (5 nodes)"


def test_errors_are_requests_that_came_to_nothing() -> None:
    """The share of errors counts what was sent and is no success; what was never sent is no error."""
    assert failed_share({"page": 6, "redirected": 2, "timeout": 1, "not_found": 0, "server_error": 1}) == 0.2
    assert failed_share({"robots_denied": 5, "of_a_newer_version": 3}) is None


def test_a_run_says_whether_any_host_failed(tmp_path: Path) -> None:
    """The exit code is that of the worst host."""

    def code(*states: State) -> ExitCode:
        hosts = {str(n): Host(str(n), state) for n, state in enumerate(states)}
        return Run(hosts, tmp_path, 0.0).code

    assert code(State.OK) is ExitCode.OK
    assert code(State.OK, State.UNREACHABLE) is ExitCode.HOST_UNREACHABLE
    assert code(State.UNREACHABLE, State.FAILED, State.OK) is ExitCode.HOST_FAILED


def test_ansible_that_gives_up_is_quoted(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A playbook that can't even be read ends in a sentence that names the record."""
    broken = inventory.parent / "broken.yml"
    broken.write_text("- hosts: nodes\n  tasks: [{nonsense: }]\n")
    monkeypatch.setattr("deploy.places.playbook", lambda _name: broken)
    with pytest.raises(FleetError, match=r"Ansible gave up: .*nonsense.*stdout\)"):
        runner.play(Fleet(inventory), "broken")
