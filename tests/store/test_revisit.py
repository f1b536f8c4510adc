"""Records that refer to another for their payload: written, checked, recovered, indexed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecordType
from warcio.archiveiterator import ArchiveIterator

from node.rules.outcome import Outcome
from node.store.archive_check import recover, verify
from node.store.fetchlog import FetchLog
from node.store.index import build
from node.store.warc import IDENTICAL, Original, Position, payload_digest
from tests.store.responses import GZIPPED, SENT_UNIX_S, gzipped_response, response, write
from tests.store.test_index import entry, parsed

FIRST = gzipped_response(1)
AGAIN = response(
    "https://h.test/again",
    FIRST.body,
    headers=(*GZIPPED, (b"Content-Length", b"%d" % len(FIRST.body)), (b"X-Its", b"own")),
    date_unix_s=SENT_UNIX_S + 70,
    digest=payload_digest(FIRST.body),
    same_as=Original(FIRST.url, FIRST.date_unix_s),
)


def archived(folder: Path) -> tuple[Path, list[Position]]:
    """A file with a page, the same page at another URL, and another page."""
    positions = write(folder, FIRST, AGAIN, gzipped_response(2))
    return folder / positions[0].file, positions


def test_a_revisit_is_what_the_standard_says_to_other_readers(tmp_path: Path) -> None:
    """Profile, digest, what it refers to, its own head and no body: as warcio and FastWARC read it."""
    path, positions = archived(tmp_path)
    assert positions[1].length < 700 < positions[0].length
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream, check_digests="raise"):
            body = record.raw_stream.read()
            if record.rec_type == "revisit":
                warc = {name.lower(): value for name, value in record.rec_headers.headers}
                http = record.http_headers
                assert body == b""
    assert warc["warc-profile"] == IDENTICAL
    assert warc["warc-target-uri"] == AGAIN.url
    assert warc["warc-refers-to-target-uri"] == FIRST.url
    assert warc["warc-refers-to-date"] == "2026-12-01T20:00:00.123456Z"
    assert warc["warc-payload-digest"] == positions[0].digest == positions[1].digest
    assert warc["warc-truncated"] == "length"
    assert (http.get_statuscode(), http.get_header("X-Its")) == ("200", "own")
    assert http.get_header("Content-Length") == str(len(FIRST.body))
    with path.open("rb") as stream:
        kinds = [record.record_type for record in FastIterator(stream, parse_http=True)]
    assert kinds[1:] == [WarcRecordType.response, WarcRecordType.revisit, WarcRecordType.response]


def test_a_file_with_revisits_is_whole(tmp_path: Path) -> None:
    """The digest is that of a body which lies elsewhere, so it is not held against what is there."""
    path, _positions = archived(tmp_path)
    verdict = verify(path)
    assert (verdict.ok, verdict.records, verdict.responses, verdict.revisits) == (True, 4, 2, 1)
    assert verdict.skipped == 0


def test_recovery_tells_a_revisit_from_a_page(tmp_path: Path) -> None:
    """A parser must not be sent to a record that has no body."""
    path, positions = archived(tmp_path)
    found = recover(path.rename(f"{path}.open")).found
    assert [each.position for each in found] == positions
    assert [each.revisit for each in found] == [False, True, False]
    assert (found[1].url, found[1].status, found[1].truncated) == (AGAIN.url, 200, None)


def test_the_index_names_revisits_as_cdxj_indexer_does(tmp_path: Path) -> None:
    """Replay tools know by the type that the payload lies elsewhere."""
    path, positions = archived(tmp_path / "warc")
    log = FetchLog(tmp_path / "log", "fetch-f01")
    for one, position in zip((FIRST, AGAIN), positions, strict=False):
        outcome = Outcome.DUPLICATE if one.same_as else Outcome.PAGE
        log.add(entry(one.url, one.date_unix_s, position, outcome=outcome))
    log.close()
    build(tmp_path / "log", tmp_path / "index.cdxj", warc_folder=tmp_path / "warc")
    ours = parsed((tmp_path / "index.cdxj").read_text())
    assert [fields["mime"] for _, _, fields in ours] == ["text/html", "warc/revisit"]
    command = [sys.executable, "-c", "from cdxj_indexer.main import main; main()", "--sort", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    theirs = [line for line in parsed(result.stdout) if not line[0].endswith("/2")]
    assert ours == theirs
