"""What a crawl left on disk, read back with warcio and by hand: not with our own readers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator


@dataclass(frozen=True, slots=True)
class Stored:
    """One record of a response. ``truncated`` as in WARC-Truncated; ``body`` keeps its content coding.
    ``revisit``: its body is that of another record, and not here."""

    url: str
    status: int
    body: bytes
    truncated: str | None
    revisit: bool


def responses(out: Path) -> Iterator[Stored]:
    """All response records of a crawl; a file that breaks off fails the test."""
    return (each for each in _records(out) if not each.revisit)


def _records(out: Path) -> Iterator[Stored]:
    for path in sorted((out / "warc").iterdir()):
        if path.name.startswith("."):  # what number the next file gets
            continue
        assert path.name.endswith(".warc.gz"), f"{path.name} was left behind"
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type in ("response", "revisit"):
                    yield Stored(
                        record.rec_headers.get_header("WARC-Target-URI"),
                        int(record.http_headers.get_statuscode()),
                        record.raw_stream.read(),
                        record.rec_headers.get_header("WARC-Truncated"),
                        record.rec_type == "revisit",
                    )


def pages(out: Path) -> Counter[str]:
    """URL -> how often a page (2xx) is stored under it, be it by a reference to another."""
    return Counter(each.url for each in _records(out) if 200 <= each.status < 300)


def index(out: Path) -> list[dict[str, Any]]:
    """The entries of index.cdxj, in its order."""
    lines = (out / "index.cdxj").read_text().splitlines()
    assert lines == sorted(lines), "the index is not sorted"
    return [json.loads(line.split(" ", 2)[2]) for line in lines]


def indexed_pages(out: Path) -> Counter[str]:
    """URL -> entries of the index that have a page (2xx) for it. Each entry leads to its record."""
    found: Counter[str] = Counter()
    for entry in index(out):
        with (out / "warc" / entry["filename"]).open("rb") as file:
            file.seek(int(entry["offset"]))
            record = next(ArchiveIterator(file))
            assert record.rec_headers.get_header("WARC-Target-URI") == entry["url"]
            assert record.rec_headers.get_header("WARC-Payload-Digest") == entry["digest"]
        if entry["status"].startswith("2"):
            found[entry["url"]] += 1
    return found
