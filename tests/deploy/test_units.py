"""The units: systemd's own judgement of them, and what they promise for the processes they run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from node.errors import ExitCode
from node.store.connection import GRACE_MS
from node.work import child, fetcher, local
from tests.conftest import missing
from tests.deploy import units

PROCESSES = ("milliarde-fetcher@.service", "milliarde-parser@.service", "milliarde-watch.service")
SERVICES = (*PROCESSES, "milliarde-redis.service")


def _keys(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (units.UNITS / name).read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def test_systemd_has_nothing_to_say_against_them() -> None:
    """Every unit is read without a murmur, and none is more exposed than it must be."""
    program = units.analyzer()
    if program is None:
        missing("systemd-analyze")
    assert list(units.complaints(program)) == []


def test_a_murmur_is_heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key that systemd does not know, and a unit without its sandbox, are found."""
    program = units.analyzer()
    if program is None:
        missing("systemd-analyze")
    for path in units.files():
        text = path.read_text().replace("WatchdogSec", "WatchdogSek")
        if path.name == "milliarde-watch.service":
            text = "\n".join(
                line for line in text.splitlines() if not line.startswith(("Protect", "Private"))
            )
        (tmp_path / path.name).write_text(text)
    monkeypatch.setattr(units, "UNITS", tmp_path)
    said = "\n".join(units.complaints(program))
    assert "WatchdogSek" in said
    assert "milliarde-watch.service: " in said


@pytest.mark.parametrize("name", PROCESSES)
def test_what_a_restart_would_not_mend_is_not_restarted(name: str) -> None:
    """The same ends are final as under ``milliarde crawl``, but for a full disk, which empties again."""
    (told,) = _keys(name)["RestartPreventExitStatus"]
    assert {int(code) for code in told.split()} == child.FATAL - {ExitCode.NOT_WRITABLE}


@pytest.mark.parametrize("name", SERVICES)
def test_a_process_always_comes_back(name: str) -> None:
    """Restart=always, and no number of deaths in a row makes systemd give up: it waits in between instead."""
    keys = _keys(name)
    assert keys["Restart"] == ["always"]
    assert keys["Type"] == ["notify"]
    most_starts = int(keys["StartLimitIntervalSec"][0]) / int(keys["RestartSec"][0])
    assert most_starts <= int(keys["StartLimitBurst"][0])


def test_a_process_gets_the_time_it_needs_to_end() -> None:
    """A fetcher may drain before it is killed; and a stuck one is killed long after it stopped sending."""
    keys = _keys("milliarde-fetcher@.service")
    assert int(keys["TimeoutStopSec"][0]) >= fetcher.DRAIN_S + local.STOP_FETCHERS_S / 2
    assert 1000 * int(keys["WatchdogSec"][0]) > GRACE_MS
    assert int(_keys("milliarde-parser@.service")["TimeoutStopSec"][0]) >= local.STOP_PARSERS_S


def test_fetchers_end_before_parsers_and_redis_last() -> None:
    """Who fills the spool starts after those that empty it; systemd ends things the other way round."""
    fetchers, parsers = _keys("milliarde-fetcher@.service"), _keys("milliarde-parser@.service")
    assert "milliarde-parsers.target" in fetchers["After"][0].split()
    assert "milliarde-parsers.target" in parsers["Before"][0].split()
    assert "milliarde-redis.service" in fetchers["After"][0].split()
    assert "milliarde-redis.service" in parsers["After"][0].split()
    for name in (*SERVICES, "milliarde-parsers.target"):
        assert _keys(name)["PartOf"] == ["milliarde.target"]


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_written_where_the_disk_is_missing(name: str) -> None:
    """Each unit wants the data's file system mounted, and lives in the slice that leaves the system room."""
    keys = _keys(name)
    assert keys["RequiresMountsFor"] == ["/srv/milliarde"]
    assert keys["Slice"] == ["milliarde.slice"]
    assert {"MemoryMax", "CPUWeight", "TasksMax", "LimitNOFILE"} <= keys.keys()
