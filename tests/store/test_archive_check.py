"""Verifying files, and recovering what a crash left open."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from node.errors import DiskError
from node.store import gzmember
from node.store.archive_check import left_over, recover, verify
from node.store.archive_read import ArchiveReader
from node.store.warc import Position
from tests.store.responses import by_warcio, gzipped_response, new_writer, page, response, write, written

REPO = Path(__file__).resolve().parents[2]


def test_a_whole_file_is_found_whole(tmp_path: Path) -> None:
    """Deflated and stored records, small and larger than any buffer of the reader."""
    path = written(
        tmp_path,
        response(),
        gzipped_response(1),
        response("https://h.test/big", page(2, 700_000)),
        gzipped_response(3, 3_000_000),
        response("https://h.test/empty", b""),
    )
    verdict = verify(path)
    assert (verdict.ok, verdict.records, verdict.responses, verdict.skipped) == (True, 6, 5, 0)


@pytest.mark.parametrize("last", [response(), gzipped_response(9)])
def test_a_cut_member_is_noticed_and_located(tmp_path: Path, last: object) -> None:
    """W01: other readers take a file without its last bytes for whole."""
    path, positions = _file(tmp_path)
    data = path.read_bytes()
    for missing in (1, 4, 8, 10, positions[-1].length - 1):
        path.write_bytes(data[:-missing])
        verdict = verify(path)
        assert not verdict.ok
        assert verdict.bad_offset == positions[-1].offset
        assert verdict.responses == len(positions) - 1


def test_damage_in_the_middle_is_located(tmp_path: Path) -> None:
    """One flipped bit anywhere in a record is found, at that record."""
    path, positions = _file(tmp_path)
    data = path.read_bytes()
    bad = positions[1]
    for at in (0, 2, bad.length // 3, bad.length // 2, bad.length - 6, bad.length - 1):
        damaged = bytearray(data)
        damaged[bad.offset + at] ^= 0x10
        path.write_bytes(damaged)
        verdict = verify(path)
        assert verdict.bad_offset == bad.offset, at
        assert verdict.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda record: record.replace(b"sha1:", b"sha1:A"), "digest"),
        (lambda record: record.replace(b"Content-Length: ", b"Content-Length: 9", 1), "length"),
        (lambda record: record.replace(b"WARC/1.1", b"WORK/1.1"), "no WARC head"),
        (lambda record: record[:-4] + b"more", "no whole record"),
    ],
)
def test_a_whole_member_with_wrong_content_is_noticed(
    tmp_path: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    """A checksum that fits is not enough: lengths and digests are read too."""
    path, positions = _file(tmp_path)
    data = path.read_bytes()
    content = change(gzip.decompress(data[positions[-1].offset :]))
    path.write_bytes(data[: positions[-1].offset] + gzip.compress(content))
    verdict = verify(path)
    assert verdict.bad_offset == positions[-1].offset
    assert reason in verdict.reason


def test_a_record_that_is_no_use_is_skipped_and_counted(tmp_path: Path) -> None:
    """W10: no target URI, or no HTTP in it, doesn't end the walk."""
    path, positions = _file(tmp_path)
    data = path.read_bytes()
    content = gzip.decompress(data[positions[1].offset :][: positions[1].length])
    nameless = content.replace(b"WARC-Target-URI: ", b"X: ", 1)
    block = b"nothing like HTTP"
    headless = content.split(b"Content-Length: ")[0] + b"Content-Length: %d\r\n\r\n%b\r\n\r\n" % (
        len(block),
        block,
    )
    odd = b"".join(b"".join(gzmember.deflated([record])[0]) for record in (nameless, headless))
    path.write_bytes(data[: positions[1].offset] + odd + data[positions[1].offset :])
    verdict = verify(path)
    assert (verdict.ok, verdict.responses, verdict.skipped) == (True, len(positions), 2)
    recovered = recover(path)
    assert (len(recovered.found), recovered.skipped, recovered.cut_bytes) == (len(positions), 2, 0)


def test_an_empty_or_absent_file_is_not_whole(tmp_path: Path) -> None:
    """Neither is anything a reader could use."""
    (tmp_path / "empty").touch()
    assert not verify(tmp_path / "empty").ok
    with pytest.raises(DiskError, match="can't be opened"):
        verify(tmp_path / "absent")


def test_a_torn_tail_is_cut_wherever_it_was_torn(tmp_path: Path) -> None:
    """The writer may die after any byte: every whole record stays, nothing else does."""
    path, positions = _file(tmp_path / "whole")
    data = path.read_bytes()
    ends = [position.offset + position.length for position in positions]
    torn = tmp_path / f"{path.name}.open"
    for size in (
        *range(0, len(data), 97),
        *(end + step for end in ends[:-1] for step in (-1, 0, 1)),
        len(data),
    ):
        torn.write_bytes(data[:size])
        recovered = recover(torn)
        whole = [end for end in ends if end <= size]
        assert [found.position for found in recovered.found] == positions[: len(whole)]
        assert recovered.size == torn.stat().st_size == size - recovered.cut_bytes
        if whole:
            assert recovered.size == whole[-1]


def test_only_what_lies_behind_the_mark_is_read(tmp_path: Path) -> None:
    """The mark is trusted: start-up doesn't read gigabytes again, and settles only what is new."""
    path, positions = _file(tmp_path)
    working = path.rename(f"{path}.open")
    with working.open("r+b") as file:
        file.seek(positions[0].offset + 50)
        file.write(b"\0" * 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\x1f\x8b\x08 torn")
    recovered = recover(working, positions[0].offset + positions[0].length)
    assert [found.position for found in recovered.found] == positions[1:]
    assert (recovered.cut_bytes, recovered.missing_bytes, recovered.skipped) == (8, 0, 0)
    found = recovered.found[0]
    assert (found.url, found.status, found.ip) == ("https://h.test/2", 200, "192.0.2.7")
    assert found.date == "2026-12-01T20:00:00.123456Z"
    assert (b"Content-Encoding", b"gzip") in found.headers
    assert working.exists(), "the name is given after what was found is settled"
    assert recovered.publish() == path
    assert recovered.file == path.name
    assert ArchiveReader(tmp_path).read(positions[2], 1 << 20).url == positions_url(2)


def positions_url(index: int) -> str:
    """The URL of a record of ``_file``."""
    return f"https://h.test/{index + 1}"


def test_a_file_shorter_than_its_mark_is_told(tmp_path: Path) -> None:
    """A disk that lost what it had confirmed is not passed over in silence."""
    path, positions = _file(tmp_path)
    size = path.stat().st_size
    os.truncate(path, size - 10)
    recovered = recover(path, size)
    assert recovered.missing_bytes == 10
    assert [found.position for found in recovered.found] == positions[:-1]


def test_nothing_but_a_torn_record_leaves_no_file(tmp_path: Path) -> None:
    """W08 after a crash: an empty file is removed, not published."""
    torn = tmp_path / "f01-000001.warc.gz.open"
    torn.write_bytes(b"\x1f\x8b\x08\0")
    assert recover(torn).publish() is None
    assert list(tmp_path.iterdir()) == []


def test_only_left_over_files_of_the_same_writer_are_listed(tmp_path: Path) -> None:
    """One fetcher must not touch what another one writes."""
    ours = [tmp_path / f"f01-{number:06d}.warc.gz.open" for number in (2, 10, 1_000_000)]
    for path in (*ours, tmp_path / "f01-000001.warc.gz", tmp_path / "f01-x-000003.warc.gz.open"):
        path.touch()
    (tmp_path / "f011-000004.warc.gz.open").touch()
    assert left_over(tmp_path, "f01") == ours


WRITE_UNTIL_KILLED = """
import asyncio, sys
from collections.abc import Callable
from pathlib import Path
from tests.store.responses import gzipped_response, new_writer

async def main():
    writer = new_writer(Path(sys.argv[1]), fsync=True)
    number = 0
    while True:
        for _ in range(20):
            position = writer.append(gzipped_response(number))
            number += 1
        marks = await writer.commit()
        print(number, marks[position.file], flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("commits", [1, 4])
def test_sigkill_loses_nothing_that_was_committed(tmp_path: Path, commits: int) -> None:
    """I5: kill -9 at any moment. All that a commit confirmed is there, whole, and the file is usable."""
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPO) as process:
        assert process.stdout is not None
        for _ in range(commits):
            confirmed, mark = map(int, process.stdout.readline().split())
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
    (working,) = left_over(tmp_path, "f01")
    shutil.copy(working, tmp_path / "copy")
    assert working.stat().st_size >= mark
    everything = recover(tmp_path / "copy")
    assert len(everything.found) >= confirmed
    recovered = recover(working, mark)
    assert recovered.missing_bytes == 0
    assert len(recovered.found) == len(everything.found) - confirmed
    published = recovered.publish()
    assert published is not None
    assert verify(published).ok
    urls = [record.url for record in by_warcio(published)]
    assert urls == [f"https://h.test/{number}" for number in range(len(urls))]
    assert new_writer(tmp_path).append(response()).file == "f01-000002.warc.gz"


def _file(folder: Path) -> tuple[Path, list[Position]]:
    """A published file of four responses, ``https://h.test/1`` to ``4``, and where they lie."""
    sent = [
        response("https://h.test/1"),
        gzipped_response(2, 6000),
        response("https://h.test/3"),
        gzipped_response(4),
    ]
    positions = write(folder, *sent)
    return folder / positions[0].file, positions
