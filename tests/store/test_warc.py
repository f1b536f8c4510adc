"""Records as they are written, read back by us, by warcio and by FastWARC."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from node.store import gzmember, warc
from node.store.archive_check import verify
from node.store.archive_read import ArchiveReader
from node.store.warc import Response
from tests.store.responses import (
    GZIPPED,
    HTML,
    INFO,
    Read,
    by_fastwarc,
    by_warcio,
    gzipped_response,
    page,
    response,
    write,
    written,
)

READERS = [by_warcio, by_fastwarc]
Reader = Callable[[Path], list[Read]]

TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MEANINGFUL = {b"content-length", b"transfer-encoding", b"content-encoding", b"content-type"}

arbitrary_text = st.text(st.characters(exclude_categories=[]), max_size=60)
arbitrary_headers = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=60)), max_size=8)
arbitrary_responses = st.builds(
    Response,
    url=arbitrary_text.map(lambda text: "https://h.test/" + text),
    status=st.integers(100, 599),
    reason=arbitrary_text,
    http_version=st.sampled_from(["1.0", "1.1", "2", "3"]),
    headers=arbitrary_headers.filter(lambda pairs: all(name.lower() not in MEANINGFUL for name, _ in pairs)),
    # Repeated, so that bodies also end near and beyond the 65,535 bytes that a stored block holds.
    body=st.builds(lambda piece, times: piece * times, st.binary(max_size=200), st.sampled_from([1, 3, 700])),
    ip=st.sampled_from([None, "192.0.2.7", "2001:db8::7"]),
    date_unix_s=st.floats(0, 4e9),
    truncated=st.sampled_from([None, "length", "time", "disconnect"]),
    extra=st.dictionaries(
        st.sampled_from(["WARC-Content-Signal", "X-Price"]), arbitrary_text.map(lambda text: "=" + text + "=")
    ),
)


def plain(value: bytes) -> bytes:
    """A header value as it must be stored: nothing in it can end the line."""
    return value.replace(b"\r", b" ").replace(b"\n", b" ").replace(b"\0", b" ")


def stripped(value: str | bytes) -> str:
    """Reduced to what all readers agree on: they decode and strip differently."""
    octets = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    try:
        return octets.decode("utf-8").strip()
    except UnicodeDecodeError:
        return octets.decode("latin-1").strip()


@example([response("https://h.test/\ud800\udcff", reason="\ud800\udcff")])
@given(st.lists(arbitrary_responses, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_whatever_a_server_sends_reads_back_equal_by_us_and_by_warcio(responses: list[Response]) -> None:
    """No header, URL, reason or body can break a record, inject into it, or come back changed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        positions = write(folder, *responses)
        (path,) = folder.glob("*.warc.gz")
        theirs = by_warcio(path)
        reader = ArchiveReader(folder)
        ours = [reader.read(position, 1 << 20) for position in positions]
        reader.close()
    for sent, us, they in zip(responses, ours, theirs, strict=True):
        expected = [
            (bytes(b if b in TOKEN else ord("_") for b in label) or b"_", plain(value))
            for label, value in sent.headers
        ]
        assert us.body == they.body == sent.body
        assert us.url == they.url
        assert unquote_to_bytes(us.url) == unquote_to_bytes(sent.url.encode("utf-8", "surrogatepass"))
        assert us.status == int(they.status) == sent.status
        assert us.headers == [(label, value.strip()) for label, value in expected]
        got = [(label, stripped(value)) for label, value in they.http]
        assert got == [(label.decode(), stripped(value)) for label, value in expected]
        assert they.warc.get("warc-truncated") == sent.truncated
        assert they.warc.get("warc-ip-address") == sent.ip
        assert len([name for name in they.warc if name in ("warc-content-signal", "x-price")]) == len(
            sent.extra
        )


@pytest.mark.parametrize("read", READERS)
def test_raw_body_with_its_coding_but_without_transfer_coding(tmp_path: Path, read: Reader) -> None:
    """W04: a gzip and chunked answer is stored with the coding it still has, and no header it hasn't."""
    body = gzip.compress(page(1))
    headers = (*GZIPPED, (b"transfer-encoding", b"chunked"), (b"Content-Length", b"12"))
    (record,) = read(written(tmp_path, response(body=body, headers=headers)))
    assert record.body == body
    assert record.header("Content-Encoding") == "gzip"
    assert record.header("Transfer-Encoding") is None
    assert record.header("X-Archive-Orig-transfer-encoding") == "chunked"
    assert record.header("X-Archive-Orig-Content-Length") == "12"
    assert record.header("Content-Length") == str(len(body))


def test_a_content_length_that_holds_is_left_alone(tmp_path: Path) -> None:
    """Only headers that no longer describe the stored body are renamed."""
    headers = ((b"content-length", b"5"), (b"Transfer-Encoding", b"chunked"))
    (record,) = by_warcio(written(tmp_path, response(body=b"hello", headers=headers)))
    assert record.http == [("content-length", "5"), ("X-Archive-Orig-Transfer-Encoding", "chunked")]


@pytest.mark.parametrize("read", READERS)
def test_a_header_value_cannot_start_another_header(tmp_path: Path, read: Reader) -> None:
    """W05: CR, LF and NUL in a value; exactly one empty line between head and body."""
    headers = ((b"X-A", b"1\r\nSet-Cookie: stolen=1\r\n\r\n<html>"), (b"X-B\r\nX-C", b"2\0\n3"))
    (record,) = read(written(tmp_path, response(body=b"body", headers=headers, reason="OK\r\nX: y")))
    assert [name for name, _ in record.http] == ["X-A", "X-B__X-C"]
    assert record.header("X-A") == "1  Set-Cookie: stolen=1    <html>"
    assert record.body == b"body"


def test_no_field_of_ours_can_start_another(tmp_path: Path) -> None:
    """What is noted beside a page (opt-outs, prices) comes from servers too."""
    extra = {"WARC-Content-Usage": "train-ai=n\r\nWARC-Type: metadata", "X\r\nY": "1"}
    (record,) = by_warcio(written(tmp_path, response(extra=extra)))
    assert record.warc["warc-type"] == "response"
    assert record.warc["warc-content-usage"] == "train-ai=n  WARC-Type: metadata"
    assert record.warc["x__y"] == "1"


def test_a_field_of_any_size_leaves_the_record_readable(tmp_path: Path) -> None:
    """A server may send a megabyte of opt-outs."""
    path = written(tmp_path, response(extra={"WARC-Content-Usage": "n" * 1_000_000}))
    assert verify(path).responses == 1


@pytest.mark.parametrize("read", READERS)
def test_the_protocol_stands_beside_a_status_line_that_all_readers_take(tmp_path: Path, read: Reader) -> None:
    """W07: ``HTTP/2`` in the status line breaks readers."""
    path = written(tmp_path, response(http_version="2", reason=""), response(http_version="1.0"))
    http2, http1 = read(path)
    assert (http2.status, http2.warc["warc-protocol"]) == ("200", "h2")
    assert "warc-protocol" not in http1.warc
    content = gzip.decompress(path.read_bytes())
    assert b"HTTP/1.1 200 \r\n" in content
    assert b"HTTP/1.0 200 OK\r\n" in content


@pytest.mark.parametrize("read", READERS)
def test_bad_bytes_in_a_url_are_encoded(tmp_path: Path, read: Reader) -> None:
    """W10: a control or non-ASCII character in the target URI breaks readers."""
    (record,) = read(written(tmp_path, response("https://h.test/\x08\xff \r\nX: y")))
    assert record.url == "https://h.test/%08%C3%BF%20%0D%0AX:%20y"


def test_a_head_that_no_reader_would_take_is_shortened(tmp_path: Path) -> None:
    """A megabyte of headers keeps its page, and says how many headers are missing."""
    headers = [(b"X-%d" % number, b"v" * 1000) for number in range(1000)]
    (position,) = write(tmp_path, response(body=b"kept", headers=headers))
    stored = ArchiveReader(tmp_path).read(position, 1 << 20)
    assert stored.body == b"kept"
    kept = len(stored.headers) - 1
    assert 100 < kept < 300
    assert stored.headers[-1] == (b"X-Archive-Dropped-Headers", b"%d" % (1000 - kept))


def test_file_begins_with_what_every_request_carried(tmp_path: Path) -> None:
    """What we sent is constant, so it stands once a file, in a warcinfo that the records point to."""
    path = written(tmp_path, response())
    with path.open("rb") as stream:
        first, second = list(ArchiveIterator(stream, no_record_parse=True))
        assert (first.rec_type, second.rec_type) == ("warcinfo", "response")
    assert first.rec_headers.get_header("WARC-Filename") == path.name
    assert second.rec_headers.get_header("WARC-Warcinfo-ID") == first.rec_headers.get_header("WARC-Record-ID")
    content = gzip.decompress(path.read_bytes()).decode()
    assert "".join(f"{name}: {value}\r\n" for name, value in INFO.items()) in content


def test_warcio_check_passes(tmp_path: Path) -> None:
    """The tool that others will run on our files finds nothing."""
    path = written(
        tmp_path,
        response(),
        gzipped_response(1),
        response("https://h.test/e", b""),
        gzipped_response(2, 400_000),
    )
    command = [sys.executable, "-m", "warcio.cli", "check", "-v", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert (result.returncode, result.stdout.count("digest pass")) == (0, 4), result.stdout


@pytest.mark.parametrize(
    ("headers", "body", "is_stored"),
    [
        (GZIPPED, gzip.compress(page(1)), True),
        (((b"content-encoding", b"br"),), b"\x1b" * 5000, True),
        (((b"CONTENT-ENCODING", b"ZSTD"),), b"\x28" * 5000, True),
        (((b"Content-Type", b"image/png"),), b"\x89PNG" * 5000, True),
        (((b"Content-Type", b"application/pdf"),), b"%PDF" * 5000, True),
        (((b"Content-Type", b"image/svg+xml"),), b"<svg>" * 5000, False),
        (HTML, page(1), False),
        (GZIPPED, page(1), False),
        (((b"Content-Encoding", b"identity"),), page(1), False),
    ],
)
def test_only_what_is_compressed_already_is_stored_as_it_is(
    headers: tuple[tuple[bytes, bytes], ...], body: bytes, is_stored: bool
) -> None:
    """Compressing again costs ten times as much and saves nothing; not compressing wastes the disk."""
    parts, size, _ = warc.response_member(response(body=body, headers=headers), "<urn:uuid:0>")
    assert size == sum(map(len, parts))
    assert (body in b"".join(parts)) == is_stored


@pytest.mark.parametrize("size", [0, 1, 65_000, 65_531, 65_535, 65_536, 131_070, 131_071, 1 << 20])
def test_stored_members_of_any_size_are_gzip(size: int) -> None:
    """Stored blocks hold 65,535 bytes at most, so the seams are where a hand-built member breaks."""
    body = bytes(range(256)) * (size // 256 + 1)
    parts, total = gzmember.stored([b"head", body[:size], b"end"])
    data = b"".join(parts)
    assert len(data) == total
    assert gzip.decompress(data) == b"head" + body[:size] + b"end"


def test_identifiers_are_random_uuids() -> None:
    """Two records, or two processes, never share an id."""
    ids = {warc.record_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(one) == 47 and one[24] == "4" for one in ids)
