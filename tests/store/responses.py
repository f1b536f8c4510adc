"""Responses to archive, and other people's readers to hold what we wrote against."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecordType
from warcio.archiveiterator import ArchiveIterator

from node.store.archive import ArchiveWriter
from node.store.warc import Position, Response

INFO = {"software": "milliarde/test", "http-header-user-agent": "milliarde (+https://h.test/)"}
SENT_UNIX_S = 1_796_155_200.123456
"""2026-12-01T20:00:00.123456Z."""

PEAK_KB = """
def peak_kb():
    # Not getrusage: its maximum goes on from the process that started this one.
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
"""Source of a function for code that runs in a process of its own: the most memory it had, in KB."""

Headers = Sequence[tuple[bytes, bytes]]
HTML: Headers = ((b"Content-Type", b"text/html; charset=utf-8"),)
GZIPPED: Headers = (*HTML, (b"Content-Encoding", b"gzip"))


def response(url: str = "https://h.test/", body: bytes = b"<p>hello", **fields: Any) -> Response:
    """A response with everything that a test doesn't care about filled in."""
    values: dict[str, Any] = {
        "status": 200,
        "reason": "OK",
        "http_version": "1.1",
        "headers": HTML,
        "ip": "192.0.2.7",
        "date_unix_s": SENT_UNIX_S,
    }
    return Response(url=url, body=body, **(values | fields))


def page(seed: int, size: int = 20_000) -> bytes:
    """Markup of about ``size`` bytes that deflates about as real pages do."""
    words = random.Random(seed)
    lines = [
        b'<p class="c%d">%d %d</p>\n' % tuple(words.randrange(10**n) for n in (1, 4, 9))
        for _ in range(size // 30)
    ]
    return b"<!doctype html>\n" + b"".join(lines)


def gzipped_response(seed: int, size: int = 20_000) -> Response:
    """A page as most servers send it."""
    body = gzip.compress(page(seed, size), 6, mtime=0)
    return response(f"https://h.test/{seed}", body, headers=GZIPPED)


def new_writer(folder: Path, prefix: str = "f01", **settings: Any) -> ArchiveWriter:
    """A writer that leaves flushing to the system unless asked otherwise."""
    defaults: dict[str, Any] = {"info": INFO, "fsync": False}
    return ArchiveWriter(folder, prefix, **(defaults | settings))


def write(folder: Path, *responses: Response, **settings: Any) -> list[Position]:
    """Archive these responses and publish them; where they lie."""

    async def run() -> list[Position]:
        writer = new_writer(folder, **settings)
        positions = [writer.append(one) for one in responses]
        await writer.close()
        return positions

    return asyncio.run(run())


def written(folder: Path, *responses: Response) -> Path:
    """The one published file that holds these responses."""
    return folder / write(folder, *responses)[0].file


class Read:
    """One response record as another reader sees it."""

    def __init__(self, warc: dict[str, str], status: str, http: list[tuple[str, str]], body: bytes) -> None:
        self.warc = {name.lower(): value for name, value in warc.items()}
        self.url = self.warc["warc-target-uri"]
        self.status = status
        self.http = http
        self.body = body

    def header(self, name: str) -> str | None:
        """The value of an HTTP header, or None."""
        return next((value for label, value in self.http if label.lower() == name.lower()), None)


def by_warcio(path: Path) -> list[Read]:
    """The responses as warcio reads them, which also checks every digest; body in its content coding."""
    read = []
    with path.open("rb") as stream:
        records = ArchiveIterator(stream, check_digests="raise")
        for record in records:
            raw = record.raw_stream.read()
            if record.rec_type == "response":
                http = record.http_headers
                read.append(Read(dict(record.rec_headers.headers), http.get_statuscode(), http.headers, raw))
    return read


def by_fastwarc(path: Path) -> list[Read]:
    """The responses as FastWARC reads them; body in its content coding."""
    read = []
    with path.open("rb") as stream:
        for record in FastIterator(stream, record_types=WarcRecordType.response, parse_http=False):
            record.parse_http(auto_decode="none")
            http = record.http_headers
            body = record.reader.read()
            read.append(
                Read(dict(record.headers.astuples()), str(http.status_code), list(http.astuples()), body)
            )
    return read
