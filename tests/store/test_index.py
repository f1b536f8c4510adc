"""The CDXJ index, held against cdxj-indexer (of pywb's makers) and against a plain sort."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from node.errors import DiskError
from node.store import index
from node.store.archive_read import ArchiveReader
from node.store.fetchlog import FetchLog, LogEntry
from node.store.index import build
from node.store.surt import surt
from node.store.warc import Position, Response
from tests.store.responses import GZIPPED, HTML, SENT_UNIX_S, gzipped_response, response, write

Parsed = tuple[str, str, dict[str, str]]


def parsed(text: str) -> list[Parsed]:
    """The lines of an index: key, timestamp, fields."""
    lines = [line.split(" ", 2) for line in text.splitlines()]
    return [(key, time, json.loads(fields)) for key, time, fields in lines]


def entry(url: str, t: float, position: Position | None, **fields: Any) -> LogEntry:
    """A line of the log for a page."""
    values: dict[str, Any] = {"outcome": "page", "status": 200, "type": "text/html"}
    return LogEntry(t=t, url=url, position=position, **(values | fields))


def archived(folder: Path, responses: list[Response]) -> None:
    """Write responses as a fetcher does: the record, and its line in the log."""
    log = FetchLog(folder / "log", "fetch-f01")
    positions = write(folder / "warc", *responses, rotate_bytes=40_000)
    for one, position in zip(responses, positions, strict=True):
        types = [value.decode().partition(";")[0] for name, value in one.headers if name == b"Content-Type"]
        media_type = types[0] if types else None
        log.add(entry(one.url, one.date_unix_s, position, status=one.status, type=media_type))
    log.close()


def test_the_index_equals_the_one_that_cdxj_indexer_makes(tmp_path: Path) -> None:
    """What pywb's tools would index is what we index: same keys, times, fields, values and order."""
    sent = [gzipped_response(seed, 9000) for seed in range(20)]
    sent += [
        response("https://www.h.test/B?z=1&a=2", date_unix_s=SENT_UNIX_S + 61),
        response("https://other.test:8443/x", status=404, reason="Not Found"),
        response("https://h.test/moved", b"", status=301, headers=((b"Location", b"/new"), *HTML)),
        response("https://h.test/bare", b"", headers=()),
        response("https://h.test/chunked", headers=(*GZIPPED, (b"Transfer-Encoding", b"chunked"))),
        response("https://192.0.2.7/h2", http_version="2", truncated="length"),
        response("https://h.test/caf%C3%A9/"),
    ]
    archived(tmp_path, sent)
    counts = build(tmp_path / "log", tmp_path / "index.cdxj", warc_folder=tmp_path / "warc")
    assert (counts.entries, counts.superseded, counts.dangling, counts.bad_lines) == (len(sent), 0, 0, 0)
    files = sorted(map(str, (tmp_path / "warc").glob("*.warc.gz")))
    assert len(files) > 1
    command = [sys.executable, "-c", "from cdxj_indexer.main import main; main()", "--sort", *files]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    ours = (tmp_path / "index.cdxj").read_text()
    assert parsed(ours) == parsed(result.stdout)


def test_each_url_has_one_entry_its_newest(tmp_path: Path) -> None:
    """A page that was fetched again after a crash is in the archive twice, and in the index once."""
    old, new = (
        response("https://h.test/a", b"old"),
        response("https://h.test/a", b"new", date_unix_s=SENT_UNIX_S + 0.5),
    )
    sibling = response("https://www.h.test/A", b"same key, another URL", date_unix_s=SENT_UNIX_S - 9)
    archived(tmp_path, [new, sibling, old])
    counts = build(tmp_path / "log", tmp_path / "index.cdxj")
    assert (counts.entries, counts.superseded) == (2, 1)
    lines = parsed((tmp_path / "index.cdxj").read_text())
    assert [(key, time, fields["url"]) for key, time, fields in lines] == [
        ("test,h)/a", "20261201195951", "https://www.h.test/A"),
        ("test,h)/a", "20261201200000", "https://h.test/a"),
    ]
    fields = lines[1][2]
    position = Position(fields["filename"], int(fields["offset"]), int(fields["length"]))
    assert ArchiveReader(tmp_path / "warc").read(position, 100).body == b"new"


@pytest.mark.parametrize("run_bytes", [300, 3_000, 1 << 20])
def test_any_number_of_runs_gives_the_same_index(
    tmp_path: Path, run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge sort agrees with a plain one, also when runs are merged in several passes."""
    monkeypatch.setattr(index, "_RUNS_AT_ONCE", 5)
    chance = random.Random(run_bytes)
    newest: dict[str, tuple[float, LogEntry]] = {}
    log = FetchLog(tmp_path / "log", "f", rotate_bytes=30_000)
    for number in range(1500):
        url = f"https://{chance.choice('abc')}.test/{chance.choice('xyXY')}{chance.randrange(200)}"
        t = SENT_UNIX_S + chance.randrange(10**9) / 1e6
        one = entry(url, t, Position("f-000001.warc.gz", number * 1000, 1000, f"sha1:{number}"))
        log.add(one)
        log.note(url, "robots_denied", 0)
        if url not in newest or t > newest[url][0]:
            newest[url] = (t, one)
    log.close()
    counts = build(tmp_path / "log", tmp_path / "index.cdxj", run_bytes=run_bytes)
    text = (tmp_path / "index.cdxj").read_bytes()
    lines = text.splitlines(keepends=True)
    assert lines == sorted(lines)
    got = {fields["url"]: (key, fields["digest"]) for key, _, fields in parsed(text.decode())}
    assert got == {url: (surt(url), one.position.digest) for url, (_, one) in newest.items() if one.position}
    assert (counts.entries, counts.superseded) == (len(newest), 1500 - len(newest))
    assert len(lines) == len(newest)
    assert [path.name for path in tmp_path.iterdir() if path.name != "log"] == ["index.cdxj"]


def test_entries_without_their_record_are_left_out(tmp_path: Path) -> None:
    """After a power cut a line may name what was never on disk; that a file was moved is no reason."""
    (tmp_path / "warc").mkdir()
    (tmp_path / "warc" / "f-000001.warc.gz").write_bytes(bytes(1000))
    (tmp_path / "warc" / "f-000002.warc.gz.open").write_bytes(bytes(1000))
    log = FetchLog(tmp_path / "log", "f")
    for file in ("f-000001.warc.gz", "f-000002.warc.gz", "f-000003.warc.gz"):
        for offset in (0, 500, 501):
            log.add(entry(f"https://h.test/{file[7]}/{offset}", SENT_UNIX_S, Position(file, offset, 500)))
    log.close()
    counts = build(tmp_path / "log", tmp_path / "index.cdxj", warc_folder=tmp_path / "warc")
    assert (counts.entries, counts.dangling) == (7, 2)
    urls = [fields["url"][-5:] for _, _, fields in parsed((tmp_path / "index.cdxj").read_text())]
    assert urls == ["t/1/0", "1/500", "t/2/0", "2/500", "t/3/0", "3/500", "3/501"]


def test_an_index_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    """Readers see a whole index or the one before, never half of one."""
    output = tmp_path / "index.cdxj"
    output.write_text("old")
    (tmp_path / "log" / "a-directory.jsonl").mkdir(parents=True)
    with pytest.raises(DiskError):
        build(tmp_path / "log", output)
    assert output.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.cdxj", "log"]
    with pytest.raises(DiskError, match="could not be made"):
        build(tmp_path / "log", tmp_path / "absent" / "index.cdxj")


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    """Damage in a log costs its line, and is said."""
    (tmp_path / "f.jsonl").write_bytes(
        b'{"file":\n{"t":1,"file":"x"}\n\xff"file":\n{"t":"2026-12-01T00:00:00Z"'
    )
    counts = build(tmp_path, tmp_path / "index.cdxj")
    assert (counts.entries, counts.bad_lines) == (0, 3)
    assert (tmp_path / "index.cdxj").read_bytes() == b""
