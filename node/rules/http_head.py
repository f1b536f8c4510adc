"""Mending the head of a response that a strict parser refuses.

Servers send heads that no standard allows and every browser reads. The kinds met here: a header that
is none (no colon, a broken name, a control character), lengths that are no number, contradict each
other or stand beside chunked coding, and status lines of an odd version. A header that can't be read
is left out and named; framing that can't be trusted falls back to "until the connection closes"
(RFC 9112 section 6.3 has the order).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/(\d)(?:\.(\d))?[ \t]+(\d{3})(?:[ \t]+(.*))?", re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_REFUSED_NAMES = frozenset({b"sec-websocket-key1"})
"""Harmless headers that the parser behind us refuses whatever they say."""
_MAX_LENGTH = 2**63


class Mended(NamedTuple):
    """A head any parser reads, and what had to be left out ("content-length: …")."""

    status: int
    head: bytes
    dropped: tuple[str, ...]


def end_of_head(data: bytes | bytearray, start: int = 0) -> int:
    """Where the body begins; -1 while the head is not complete. No end is looked for before ``start``."""
    match = _END.search(data, start)
    return -1 if match is None else match.end()


def mend(head: bytes) -> Mended | None:
    """Mend ``head`` (status line to empty line); None where it is no HTTP/1 response at all."""
    lines = _LINE.split(head.strip(b"\r\n"))
    status_line = _STATUS_LINE.fullmatch(lines[0].rstrip())
    if status_line is None:
        return None
    major, minor, status, reason = status_line.groups()
    version = b"1.0" if (major, minor) == (b"1", b"0") else b"1.1"
    headers, dropped = _headers(lines[1:])
    headers = _framing(headers, dropped)
    clean_reason = _CONTROL.sub(b"", reason or b"")
    mended = [b"HTTP/%b %b %b" % (version, status, clean_reason)]
    mended += [b"%b: %b" % pair for pair in headers]
    return Mended(int(status), b"\r\n".join(mended) + b"\r\n\r\n", tuple(dropped))


def _headers(lines: list[bytes]) -> tuple[list[tuple[bytes, bytes]], list[str]]:
    """The readable headers; the names of the others."""
    unfolded: list[bytes] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and unfolded:  # an obsolete way to write long values
            unfolded[-1] += b" " + line.strip()
        elif line:
            unfolded.append(line)
    headers: list[tuple[bytes, bytes]] = []
    dropped: list[str] = []
    for line in unfolded:
        name, colon, value = line.partition(b":")
        name, value = name.strip(), value.strip()
        if not colon:
            dropped.append("a line without a colon")
        elif not _NAME.fullmatch(name):
            dropped.append("a header with a broken name")
        elif _CONTROL.search(value) or name.lower() in _REFUSED_NAMES:
            dropped.append(name.decode("ascii").lower())
        else:
            headers.append((name, value))
    return headers, dropped


def _framing(headers: list[tuple[bytes, bytes]], dropped: list[str]) -> list[tuple[bytes, bytes]]:
    """Leave at most one way to tell where the body ends."""
    lengths = [
        part.strip()
        for name, value in headers
        if name.lower() == b"content-length"
        for part in value.split(b",")
    ]
    if not lengths:
        return headers
    first = next(at for at, (name, _) in enumerate(headers) if name.lower() == b"content-length")
    others = [pair for pair in headers if pair[0].lower() != b"content-length"]
    chunked = any(name.lower() == b"transfer-encoding" for name, _ in others)
    if not chunked and len(set(lengths)) == 1 and _is_length(lengths[0]):
        return [*others[:first], (headers[first][0], lengths[0]), *others[first:]]
    dropped.append("content-length")
    return others


def _is_length(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) < 20 and int(digits) < _MAX_LENGTH
