"""Reading single records back by their position."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from node.store.archive_read import ArchiveReader, BadRecordError
from node.store.warc import Position
from tests.store.responses import GZIPPED, PEAK_KB, gzipped_response, page, response, write

REPO = Path(__file__).resolve().parents[2]


def open_files() -> int:
    """Descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_response_comes_back_as_it_was_appended(tmp_path: Path) -> None:
    """The parser sees what the fetcher saw: raw body, headers in order, all codings."""
    headers = (
        *GZIPPED,
        (b"content-encoding", b"BR"),
        (b"X-Robots-Tag", b"noindex"),
        (b"Set-Cookie", b"\xffraw"),
    )
    sent = response("https://h.test/a?b", b"\x1f\x8bbody", headers=headers, status=203)
    (position,) = write(tmp_path, sent)
    got = ArchiveReader(tmp_path).read(position, 1 << 20)
    assert (got.url, got.status, got.headers, got.body) == (sent.url, 203, list(headers), sent.body)
    assert got.content_encoding == "gzip, br"
    assert not got.cut


@pytest.mark.parametrize("coded", [False, True])
def test_a_body_is_cut_at_the_cap(tmp_path: Path, coded: bool) -> None:
    """The cap holds for what is read, whatever lies in the file."""
    sent = gzipped_response(1, 900_000) if coded else response(body=page(1, 900_000))
    (position,) = write(tmp_path, sent)
    got = ArchiveReader(tmp_path).read(position, 100_000)
    assert (got.body, got.cut) == (sent.body[:100_000], True)
    whole = ArchiveReader(tmp_path).read(position, len(sent.body))
    assert (whole.body, whole.cut) == (sent.body, False)


def test_what_was_cut_when_it_was_fetched_says_so(tmp_path: Path) -> None:
    """A reader that must not believe a torn end learns of it, however whole the record is."""
    whole, torn = write(tmp_path, response(), response(truncated="disconnect"))
    reader = ArchiveReader(tmp_path)
    assert (reader.read(whole, 1 << 20).cut, reader.read(torn, 1 << 20).cut) == (False, True)


def test_a_bomb_in_the_file_costs_no_memory(tmp_path: Path) -> None:
    """300 MB of zeros, which fits in a few hundred KB, is cut while it is inflated."""
    (position,) = write(tmp_path, response(body=bytes(300_000_000)))
    code = f"""{PEAK_KB}
import sys
from pathlib import Path
from node.store.archive_read import ArchiveReader
from node.store.warc import Position
before = peak_kb()
got = ArchiveReader(Path(sys.argv[1])).read({position!r}, 1 << 20)
assert len(got.body) == 1 << 20 and got.cut
print(peak_kb() - before)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    read = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPO)
    assert int(read.stdout) < 20_000, "KB"


def test_files_kept_open_are_bounded(tmp_path: Path) -> None:
    """A parser that reads a thousand files must not hold a thousand descriptors."""
    positions = [write(tmp_path, gzipped_response(number))[0] for number in range(8)]
    reader = ArchiveReader(tmp_path, max_open=3)
    before = open_files()
    for _ in range(2):
        for number, position in enumerate(positions):
            assert reader.read(position, 1 << 20).url == f"https://h.test/{number}"
    assert open_files() == before + 3
    reader.close()
    assert open_files() == before
    assert reader.read(positions[0], 1 << 20).url == "https://h.test/0"
    reader.close()


def test_a_position_that_names_no_record_is_said_so(tmp_path: Path) -> None:
    """A parser can put such a pointer aside; it must not die of it."""
    (good,) = write(tmp_path, gzipped_response(1))
    reader = ArchiveReader(tmp_path)
    bad = [
        (Position("f01-000099.warc.gz", 0, 10), "is not there"),
        (Position("../f01-000001.warc.gz", 0, 10), "no name"),
        (Position(good.file, good.offset, good.length + 1), "the file ends"),
        (Position(good.file, good.offset, good.length - 1), "cut off"),
        (Position(good.file, good.offset + 1, good.length - 1), "at "),
        (Position(good.file, 0, good.offset), "no response"),
    ]
    for position, words in bad:
        with pytest.raises(BadRecordError, match=words):
            reader.read(position, 1 << 20)
    reader.close()
