"""The fetch log: one line per request, whatever stands in it."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.errors import DiskError
from node.store import fetchlog
from node.store.fetchlog import FetchLog, LogEntry
from node.store.warc import Position

ENTRY = LogEntry(
    t=1_796_155_200.123456,
    url="https://h.test/a?b",
    outcome="page",
    status=200,
    type="text/html",
    bytes=31_000,
    ms=(12.4, 80.6, 101.0),
    ip="192.0.2.7",
    depth=2,
    tries=1,
    hop=1,
    position=Position("f01-000001.warc.gz", 1024, 31_456, "sha1:6VMT7HTE2K745SIQUUYG3CKPEJVFD5GH"),
    truncated="length",
    detail="content-signal: search=yes",
)


def test_a_line_is_as_documented(tmp_path: Path) -> None:
    """Reports and other people's scripts read these names and this order."""
    log = FetchLog(tmp_path, "fetch-f01")
    log.add(ENTRY)
    log.note("https://h.test/private", "robots_denied", 3)
    log.close()
    first, second = (tmp_path / "fetch-f01-000001.jsonl").read_text().splitlines()
    assert list(json.loads(first).items()) == [
        ("t", "2026-12-01T20:00:00.123456Z"),
        ("url", "https://h.test/a?b"),
        ("outcome", "page"),
        ("status", 200),
        ("type", "text/html"),
        ("bytes", 31_000),
        ("connect_ms", 12),
        ("ttfb_ms", 81),
        ("total_ms", 101),
        ("ip", "192.0.2.7"),
        ("depth", 2),
        ("tries", 1),
        ("hop", 1),
        ("truncated", "length"),
        ("detail", "content-signal: search=yes"),
        ("file", "f01-000001.warc.gz"),
        ("offset", 1024),
        ("length", 31_456),
        ("digest", "sha1:6VMT7HTE2K745SIQUUYG3CKPEJVFD5GH"),
    ]
    assert list(json.loads(second)) == ["t", "url", "outcome", "depth"]
    assert all(key in str(fetchlog.__doc__) for key in json.loads(first))


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    """All fetchers' files, in the order of their names; times to the microsecond."""
    for name in ("fetch-f01", "fetch-f02"):
        log = FetchLog(tmp_path, name)
        log.add(ENTRY)
        log.close()
    first, second = fetchlog.read(tmp_path)
    assert first == second
    assert first.t == pytest.approx(ENTRY.t, abs=1e-6)
    assert list(first.ms) == [12, 81, 101]
    assert first.position == ENTRY.position
    assert first.detail == ENTRY.detail


@given(st.text(st.characters(exclude_categories=[]), max_size=50))
@example("bytes of a header that are no text: \udcff")
@example("\n\r\0\x1b\x85\u2028")
@settings(max_examples=200, deadline=None, derandomize=True)
def test_nothing_in_an_entry_can_break_its_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Control characters, line separators and bytes that are no text come from servers."""
    folder = tmp_path_factory.mktemp("log")
    log = FetchLog(folder, "f")
    log.add(LogEntry(t=0, url="u" + text, outcome="page", type="t" + text, detail="d" + text))
    log.close()
    data = (folder / "f-000001.jsonl").read_bytes()
    assert data.count(b"\n") == 1
    assert not any(byte < 32 for byte in data[:-1])
    (entry,) = fetchlog.read(folder)
    readable = text.encode("utf-8", "backslashreplace").decode()
    assert (entry.url, entry.type, entry.detail) == ("u" + readable, "t" + readable, "d" + readable)


def test_a_torn_last_line_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A crash tears at most the last line of each file, and the next start begins a new file."""
    log = FetchLog(tmp_path, "f")
    for _ in range(3):
        log.add(ENTRY)
    log.close()
    path = tmp_path / "f-000001.jsonl"
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 7), len(whole) - 1):
        path.write_bytes(whole[:size])
        assert len(list(fetchlog.read(tmp_path))) == whole[:size].count(b"\n")
    assert caplog.records == [], "a torn line is no damage"
    again = FetchLog(tmp_path, "f")
    again.add(ENTRY)
    again.close()
    assert [file.name for file in fetchlog.log_files(tmp_path)] == ["f-000001.jsonl", "f-000002.jsonl"]
    assert len(list(fetchlog.read(tmp_path))) == 3


def test_a_bad_line_in_the_middle_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Damage is not passed over in silence, and costs one line."""
    log = FetchLog(tmp_path, "f")
    log.add(ENTRY)
    log.close()
    path = tmp_path / "f-000001.jsonl"
    line = path.read_bytes()
    path.write_bytes(line + b"\0\0\0\n" + b'{"t": 5}\n' + line.replace(b"2026-", b"26-") + b'"\xff"\n' + line)
    with caplog.at_level(logging.WARNING):
        assert len(list(fetchlog.read(tmp_path))) == 2
    lines = [record.args[1] for record in caplog.records if isinstance(record.args, tuple)]
    assert lines == [2, 3, 4, 5]


def test_a_file_is_closed_at_its_size(tmp_path: Path) -> None:
    """Rotation loses and repeats nothing."""
    log = FetchLog(tmp_path, "f", rotate_bytes=5000)
    for number in range(100):
        log.note(f"https://h.test/{number}", "excluded", 0)
        if number % 3 == 0:
            log.flush()
    log.close()
    files = fetchlog.log_files(tmp_path)
    assert len(files) > 1
    assert all(path.stat().st_size < 5600 for path in files)
    assert [entry.url for entry in fetchlog.read(tmp_path)] == [
        f"https://h.test/{number}" for number in range(100)
    ]


def test_nothing_to_log_makes_no_file(tmp_path: Path) -> None:
    """No empty files."""
    log = FetchLog(tmp_path, "f")
    log.flush()
    log.close()
    assert fetchlog.log_files(tmp_path) == []


async def test_commit_may_run_beside_a_rotation(tmp_path: Path) -> None:
    """A flush that closes the file must not pull the descriptor away under the thread that syncs it."""
    log = FetchLog(tmp_path, "f", rotate_bytes=500)
    for number in range(50):
        log.note(f"https://h.test/{number}", "excluded", 0)
        commit = asyncio.create_task(log.commit())
        await asyncio.sleep(0)
        log.note(f"https://h.test/{number}", "excluded", 1)
        log.flush()
        await commit
    log.close()
    assert len(list(fetchlog.read(tmp_path))) == 100


def test_a_full_disk_keeps_the_lines_until_there_is_room(tmp_path: Path) -> None:
    """The file holds whole lines only, and nothing is lost or doubled."""
    log = FetchLog(tmp_path, "f")
    log.add(ENTRY)
    log.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        for _ in range(20):
            log.add(ENTRY)
        for _ in range(2):
            with pytest.raises(DiskError, match="make room"):
                log.flush()
            assert len(list(fetchlog.read(tmp_path))) == 1
            assert (tmp_path / "f-000001.jsonl").read_bytes().endswith(b"}\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.close()
    assert len(list(fetchlog.read(tmp_path))) == 21


def test_lines_that_wait_are_bounded(tmp_path: Path) -> None:
    """A disk that stays full is an error before it fills the memory."""
    log = FetchLog(tmp_path, "f")
    big = LogEntry(t=0, url="u" * 1_000_000, outcome="page")
    for _ in range(34):
        log.add(big)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(DiskError):
            log.add(big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.close()
    assert len(list(fetchlog.read(tmp_path))) == 34
