"""WARC records read back: the heads of a record, and the response in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

HEAD_LIMIT_BYTES: Final = 256 * 1024
"""More than any WARC head and HTTP head of ours together."""

_END: Final = b"\r\n\r\n"
_URI_FIELD: Final = b"\r\nWARC-Target-URI: "
_LENGTH_FIELD: Final = b"\r\nContent-Length: "
_TRUNCATED_FIELD: Final = b"\r\nWARC-Truncated: "


class StoredResponse(msgspec.Struct, frozen=True):
    """A response read back. ``body`` is still in its content coding; ``cut``: it is not all that the site
    has, be it by the reader's cap or because the record says so."""

    url: str
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    content_encoding: str
    cut: bool = False


class NotAResponse(ValueError):
    """The bytes are no response record with a target URI."""


def parse_fields(head: bytes) -> dict[str, str]:
    """A WARC head (status line and fields, no empty line): lower-case name -> value."""
    fields: dict[str, str] = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.decode("latin-1").lower()] = value.strip().decode("utf-8", "replace")
    return fields


def parse_http_head(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """An HTTP head without its empty line: status, and headers in order. Raises ``NotAResponse``."""
    first, *rest = head.split(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise NotAResponse("no HTTP status line")
    pairs = [line.partition(b":") for line in rest]
    return int(words[1]), [(name, value.strip()) for name, _, value in pairs]


def content_encoding(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """All ``Content-Encoding`` values, in order, comma-separated, lower case; empty if there is none."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    return b", ".join(values).decode("latin-1").lower()


def split_record(data: bytes) -> tuple[dict[str, str], int]:
    """A decompressed record: its WARC fields and where its block begins. Raises ``NotAResponse``."""
    end = data.find(_END)
    if end < 0 or not data.startswith(b"WARC/1."):
        raise NotAResponse("no WARC head")
    return parse_fields(data[:end]), end + 4


def parse_response(data: bytes, max_wire_bytes: int) -> StoredResponse:
    """A decompressed response record of ours, possibly cut short. Raises ``NotAResponse``."""
    start = data.find(_END) + 4
    end = data.find(_END, start)
    url, size = _own_field(data, _URI_FIELD, start), _own_field(data, _LENGTH_FIELD, start)
    if end < start or start < 4 or not url or not size.isdigit():
        raise NotAResponse("no response with a target URI")
    status, headers = parse_http_head(data[start:end])
    payload_bytes = int(size) - (end + 4 - start)
    body = data[end + 4 : end + 4 + min(payload_bytes, max_wire_bytes)]
    encoding = content_encoding(headers)
    cut = len(body) < payload_bytes or bool(_own_field(data, _TRUNCATED_FIELD, start))
    return StoredResponse(url.decode("latin-1"), status, headers, body, encoding, cut)


def _own_field(data: bytes, name: bytes, end: int) -> bytes:
    """The value of a field that we wrote, before ``end``; parsing them all would take five times as long."""
    at = data.find(name, 0, end)
    return data[at + len(name) : data.find(b"\r\n", at + len(name))] if at >= 0 else b""
