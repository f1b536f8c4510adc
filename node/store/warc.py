"""WARC 1.1 records: how a response is written down.

Source: ISO 28500:2017. What we write is one ``response`` record per response, or a ``revisit`` record
where another one holds the same payload, one gzip member per record. What we send is the same for every
request, so it stands once in the ``warcinfo`` record at the head of each file instead of in a ``request``
record per page.

- The body is kept as it came, content coding included. Transfer coding is undone by the HTTP
  client, so its header is renamed; so is a ``Content-Length`` that doesn't hold for what is stored.
- ``WARC-Payload-Digest`` is over the body after transfer decoding, before content decoding.
- A body that is already compressed is *stored* in its gzip member, anything else is deflated.
- Nothing that a server sends can start a new header line.
"""

from __future__ import annotations

import os
import re
from base64 import b32encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1
from typing import Final

import msgspec

from node.store import gzmember
from node.store.gzmember import Buffer

IDENTICAL: Final = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
"""The profile of our revisit records."""
RENAMED: Final = b"X-Archive-Orig-"
"""Put before the name of a header that no longer describes the stored body."""

_HTTP_HEAD_BYTES: Final = 192 * 1024
_EXTRA_CHARS: Final = 8192
"""Of one field that the caller adds; so a head stays below what a reader takes (``warc_read``)."""
_STANDARD: Final = "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_END: Final = b"\r\n\r\n"
_PLAIN, _LENGTH, _TRANSFER, _CODING, _TYPE = range(5)
_KINDS: Final = {
    b"content-length": _LENGTH,
    b"transfer-encoding": _TRANSFER,
    b"content-encoding": _CODING,
    b"content-type": _TYPE,
}
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME_TABLE: Final = bytes(byte if byte in _TOKEN else ord("_") for byte in range(256))
_VALUE_TABLE: Final = bytes(ord(" ") if byte in b"\r\n\0" else byte for byte in range(256))
_CODINGS: Final = re.compile(rb"gzip|deflate|br\b|zstd|compress", re.IGNORECASE)
_DENSE_TYPES: Final = re.compile(
    rb"\s*(image/(?!svg|bmp|x-icon|vnd\.microsoft)|video/|audio/(?!x-wav|wav)|font/woff"
    rb"|application/(pdf|zip|gzip|x-gzip|zstd|x-bzip2?|x-xz|x-7z|x-rar|vnd\.rar|java-archive|epub"
    rb"|vnd\.openxmlformats|font-woff))",
    re.IGNORECASE,
)
_GZIP_MAGIC: Final = b"\x1f\x8b"


class Original(msgspec.Struct, frozen=True):
    """The record that holds a payload which came once more: its target URI, and its date in Unix seconds."""

    url: str
    date_unix_s: float


class Response(msgspec.Struct, frozen=True):
    """One HTTP response as it came from the wire.

    ``headers`` keep order and case. ``body`` is what followed the head with chunked transfer coding
    undone and content coding kept. ``truncated`` is the WARC term for why it is not whole:
    ``length``, ``time`` or ``disconnect``. ``extra`` becomes further WARC headers. ``digest`` is that of the
    body where it is known already. ``same_as``: the record that has this very body; then only the head is
    stored, as a ``revisit``.
    """

    url: str
    status: int
    reason: str
    http_version: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    ip: str | None
    date_unix_s: float
    truncated: str | None = None
    extra: Mapping[str, str] = {}
    digest: str = ""
    same_as: Original | None = None


class Position(msgspec.Struct, frozen=True):
    """Where a record lies: ``length`` compressed bytes at ``offset`` of ``file``.

    ``file`` is the published name, also while the file still carries its working suffix.
    ``digest`` (``sha1:BASE32``) is known to who wrote the record; a position rebuilt from a pointer has none.
    """

    file: str
    offset: int
    length: int
    digest: str = ""


def record_id() -> str:
    """A fresh random (version 4) UUID in the form WARC wants it."""
    digits = os.urandom(16).hex()
    # Straight from the system, so that forked processes can't repeat each other's.
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}>"


def warc_date(unix_s: float) -> str:
    """Unix seconds as the UTC timestamp of WARC 1.1, with microseconds."""
    micros = round(unix_s * 1_000_000)
    return f"{_second(micros // 1_000_000)}.{micros % 1_000_000:06d}Z"


@lru_cache(maxsize=64)
def _second(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def payload_digest(body: Buffer) -> str:
    """``sha1:`` and base 32, the form that all WARC tools read (and the cheapest they accept)."""
    return "sha1:" + b32encode(sha1(body, usedforsecurity=False).digest()).decode("ascii")


def safe_uri(url: str) -> str:
    """The URL with every byte that is no visible ASCII character percent-encoded (UTF-8)."""
    if url.isascii() and url.isprintable() and " " not in url:
        return url
    octets = url.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in octets)


def warcinfo_member(file: str, info: Mapping[str, str], unix_s: float) -> tuple[str, list[Buffer], int]:
    """The first record of ``file``: its id, the parts of its gzip member, their size in bytes."""
    identity = record_id()
    fields = {"format": "WARC File Format 1.1", "conformsTo": _STANDARD} | dict(info)
    block = b"".join(_field(name, value) for name, value in fields.items())
    head = (
        b"WARC/1.1\r\nWARC-Type: warcinfo\r\n"
        + _field("WARC-Record-ID", identity)
        + _field("WARC-Date", warc_date(unix_s))
        + _field("WARC-Filename", file)
        + _field("Content-Type", "application/warc-fields")
        + _field("Content-Length", str(len(block)))
        + b"\r\n"
    )
    parts, size = gzmember.deflated([head, block, _END])
    return identity, parts, size


def response_member(response: Response, warcinfo_id: str) -> tuple[list[Buffer], int, str]:
    """A response record, or a revisit record where the response is ``same_as`` another.

    Answers the parts of its gzip member, their size in bytes, the payload digest.
    """
    http, dense = _http_head(response)
    digest = response.digest or payload_digest(response.body)
    original = response.same_as
    body = response.body if original is None else b""
    head = (
        f"WARC/1.1\r\nWARC-Type: {'response' if original is None else 'revisit'}\r\n"
        f"WARC-Record-ID: {record_id()}\r\n"
        f"WARC-Warcinfo-ID: {warcinfo_id}\r\nWARC-Date: {warc_date(response.date_unix_s)}\r\n"
        f"WARC-Target-URI: {safe_uri(response.url)}\r\nWARC-Payload-Digest: {digest}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http) + len(body)}\r\n"
    ).encode("ascii")
    if response.ip:
        head += _field("WARC-IP-Address", response.ip)
    if original is not None:
        head += _revisit_fields(original)
    elif response.truncated:
        head += _field("WARC-Truncated", response.truncated)
    protocol = _protocol(response.http_version)
    if protocol:
        head += _field("WARC-Protocol", protocol)
    for name, value in response.extra.items():
        head += _field(name, value[:_EXTRA_CHARS])
    store = gzmember.stored if dense and original is None else gzmember.deflated
    parts, size = store([head + b"\r\n" + http, body, _END])
    return parts, size, digest


def _revisit_fields(original: Original) -> bytes:
    """What makes a record a revisit by its payload (section 6.7.2): the body is truncated to nothing."""
    return (
        _field("WARC-Profile", IDENTICAL)
        + _field("WARC-Refers-To-Target-URI", safe_uri(original.url))
        + _field("WARC-Refers-To-Date", warc_date(original.date_unix_s))
        + _field("WARC-Truncated", "length")
    )


def _http_head(response: Response) -> tuple[bytes, bool]:
    """The HTTP head as stored, with its empty line; and whether the body is already compressed."""
    size = b"%d" % len(response.body)
    version = response.http_version if response.http_version in ("1.0", "1.1") else "1.1"
    lines = [b"HTTP/%b %d %b" % (version.encode(), response.status, _octets(response.reason))]
    coding = media_type = b""
    renamed = exact = False
    for name, value in response.headers:
        label, kind = _label(name)
        if kind:
            if kind == _CODING:
                coding = value
            elif kind == _TYPE:
                media_type = value
            elif kind == _LENGTH and value.strip() == size:
                exact = True
            else:
                label, renamed = RENAMED + label, True
        lines.append(label + value)
    if renamed and not exact:
        lines.append(b"Content-Length: " + size)
    block = b"\r\n".join(lines)
    if len(block) > _HTTP_HEAD_BYTES:
        lines = _shortened(lines)
        block = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if block.count(b"\n") != breaks or block.count(b"\r") != breaks or b"\0" in block:
        block = b"\r\n".join([line.translate(_VALUE_TABLE) for line in lines])
    return block + _END, _is_dense(coding, media_type, response.body)


def _is_dense(coding: bytes, media_type: bytes, body: bytes) -> bool:
    """Whether deflating would only cost time: 0.13 ms for 31 KB of gzip, to save nothing."""
    # Servers say gzip and send plain text; the first bytes know better.
    if coding == b"gzip":
        return body.startswith(_GZIP_MAGIC)
    if coding and _CODINGS.search(coding):
        return b"gzip" not in coding.lower() or body.startswith(_GZIP_MAGIC)
    return bool(media_type and _DENSE_TYPES.match(media_type))


def _shortened(lines: list[bytes]) -> list[bytes]:
    """A head that no reader would take: the lines that fit, and how many did not."""
    kept, room = 0, _HTTP_HEAD_BYTES
    while kept < len(lines) and (room := room - len(lines[kept]) - 2) >= 0:
        kept += 1
    return [*(lines[:kept] or [b"HTTP/1.1 0 "]), b"X-Archive-Dropped-Headers: %d" % (len(lines) - kept)]


@lru_cache(maxsize=4096)
def _label(name: bytes) -> tuple[bytes, int]:
    """``Name: `` with nothing in it that isn't a token (RFC 9110 section 5.6.2), and what it means to us."""
    clean = name.translate(_NAME_TABLE) or b"_"
    return clean + b": ", _KINDS.get(clean.lower(), _PLAIN)


def _field(name: str, value: str) -> bytes:
    """A header line of ours, incapable of starting another."""
    return _octets(name).translate(_NAME_TABLE) + b": " + _octets(value).translate(_VALUE_TABLE) + b"\r\n"


def _octets(text: str) -> bytes:
    """UTF-8, or the raw bytes the HTTP client escaped, or question marks: never an exception."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _protocol(version: str) -> str:
    """``WARC-Protocol`` where the status line can't say it: readers choke on ``HTTP/2``."""
    if version in ("1.0", "1.1"):
        return ""
    major = version.partition(".")[0]
    return f"h{major}" if major in ("2", "3") else f"http/{version}"
