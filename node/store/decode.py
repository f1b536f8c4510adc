"""Undoing a content coding (RFC 9110 section 8.4), under a cap on what comes out.

Servers lie: a body that says gzip may be plain, damaged in the middle, cut short, or a bomb. Each
of these is a value here, and memory never exceeds a few times the cap.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import brotli
import zstandard
from isal import isal_zlib

from node.store.gzmember import Buffer, IsalError

_Step: TypeAlias = Callable[[Buffer, int], bytes]
"""Decode the next input; at most (about) so many bytes come out."""

_GZIP_WBITS: Final = 31
_ZLIB_WBITS: Final = 15
_RAW_WBITS: Final = -15
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\f\r")) + b"\x7f"
_PIECE_BYTES: Final = 64 * 1024

_MAX_CODINGS: Final = 4
"""More codings than this on one body are no page."""
_MAX_PARTS: Final = 256
"""Gzip members or zstd frames one after the other. Each costs a copy of what follows it."""
_ZSTD: Final = zstandard.ZstdDecompressor(max_window_size=8 << 20)
"""RFC 9659: a decoder of the zstd content coding keeps 8 MB, and refuses frames that want more."""


class DecodeState(StrEnum):
    """How far decoding went."""

    WHOLE = "whole"
    """To the end."""
    CUT = "cut"
    """To the cap; there is more."""
    BROKEN = "broken"
    """The stream is damaged or ends too soon; what could be decoded is there."""
    PLAIN = "plain"
    """The coding was claimed but not applied; the body is as it came (at most up to the cap)."""
    UNSUPPORTED = "unsupported"
    """A coding we don't know; the body is empty, since nothing must take it for a page."""


class Decoded(NamedTuple):
    """A decoded body, and whether it is all of it."""

    body: bytes
    state: DecodeState

    @property
    def cut(self) -> bool:
        """Whether something is missing at the end."""
        return self.state in (DecodeState.CUT, DecodeState.BROKEN)


def is_supported(content_encoding: str) -> bool:
    """Whether ``decode_body`` knows every coding of a ``Content-Encoding`` value."""
    codings = _codings(content_encoding)
    return len(codings) <= _MAX_CODINGS and all(coding in _DECODERS for coding in codings)


def decode_body(raw: bytes, content_encoding: str, max_bytes: int) -> Decoded:
    """Undo the codings that are listed, last first, each once; at most ``max_bytes`` come out.

    Never raises for what a server may send.
    """
    if not content_encoding or not (codings := _codings(content_encoding)):
        return _capped(raw, max_bytes, DecodeState.WHOLE)
    if not is_supported(content_encoding):
        return Decoded(b"", DecodeState.UNSUPPORTED)
    if not raw:
        # Redirects often name a coding and have no body.
        return Decoded(raw, DecodeState.WHOLE)
    body, state = raw, DecodeState.WHOLE
    for coding in reversed(codings):
        step = _DECODERS[coding](body, max_bytes)
        if step.state is DecodeState.BROKEN and _looks_plain(body):
            step = _capped(body, max_bytes, DecodeState.PLAIN)
        body = step.body
        state = _worse(state, step.state)
    return Decoded(body, state)


def undo_gzip(decoded: Decoded, max_bytes: int) -> Decoded:
    """The same without the gzip that a file is in by itself, whatever its headers say (``sitemap.xml.gz``).

    Twice at most: some servers gzip such a file once more and label it so only once.
    """
    body, state = decoded
    for _ in range(2):
        if body.startswith(_GZIP_MAGIC):
            body, step = _gzip(body, max_bytes)
            state = _worse(state, step)
    return Decoded(body, state)


def _codings(content_encoding: str) -> list[str]:
    names = [name.strip() for name in content_encoding.lower().split(",")]
    return [name for name in names if name not in ("", "identity")]


def _worse(one: DecodeState, other: DecodeState) -> DecodeState:
    order = (DecodeState.BROKEN, DecodeState.CUT, DecodeState.PLAIN, DecodeState.WHOLE)
    return min(one, other, key=order.index)


def _capped(body: bytes, max_bytes: int, state: DecodeState) -> Decoded:
    if len(body) <= max_bytes:
        return Decoded(body, state)
    return Decoded(body[:max_bytes], DecodeState.CUT if state is DecodeState.WHOLE else state)


def _looks_plain(body: bytes) -> bool:
    """Whether this begins as markup does, and not as a compressed stream that happens to."""
    start = body[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(b"<") and start == start.translate(None, _CONTROLS)


def _gzip(body: bytes, max_bytes: int) -> Decoded:
    if not body.startswith(_GZIP_MAGIC):
        return _capped(body, max_bytes, DecodeState.PLAIN)
    return _inflate(body, _GZIP_WBITS, max_bytes)


def _deflate(body: bytes, max_bytes: int) -> Decoded:
    # The standard means zlib (RFC 1950); some of those who send it mean raw deflate (RFC 1951).
    # No raw stream begins as zlib's header does, unless an encoder pads a stored block with ones.
    is_zlib = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return _inflate(body, _ZLIB_WBITS if is_zlib else _RAW_WBITS, max_bytes)


def _inflate(body: bytes, wbits: int, max_bytes: int) -> Decoded:
    """Inflate; in gzip, all members that follow each other. What stands behind the last is ignored."""
    out: list[bytes] = []
    size = at = 0
    for _ in range(_MAX_PARTS):
        view = memoryview(body)[at:] if at else body
        room = max_bytes + 1 - size
        inflater = isal_zlib.decompressobj(wbits=wbits)
        try:
            piece = inflater.decompress(view, room)
            ended = inflater.eof
        except IsalError:
            piece = _up_to_damage(view, room, lambda: isal_zlib.decompressobj(wbits=wbits).decompress)
            ended = False
        out.append(piece)
        size += len(piece)
        if size > max_bytes:
            return Decoded(b"".join(out)[:max_bytes], DecodeState.CUT)
        if not ended:
            return Decoded(b"".join(out), DecodeState.BROKEN)
        at = len(body) - len(inflater.unused_data)
        if wbits != _GZIP_WBITS or not body.startswith(_GZIP_MAGIC, at):
            return Decoded(b"".join(out), DecodeState.WHOLE)
    return Decoded(b"".join(out), DecodeState.CUT)


def _brotli(body: bytes, max_bytes: int) -> Decoded:
    decoder = brotli.Decompressor()
    try:
        out = decoder.process(body, output_buffer_limit=max_bytes + 1)
        ended = decoder.is_finished()
    except brotli.error:
        out, ended = _up_to_damage(body, max_bytes + 1, _start_brotli), False
    if len(out) > max_bytes:
        return Decoded(out[:max_bytes], DecodeState.CUT)
    return Decoded(out, DecodeState.WHOLE if ended else DecodeState.BROKEN)


def _start_brotli() -> _Step:
    process = brotli.Decompressor().process
    return lambda data, limit: process(data, output_buffer_limit=limit)


def _up_to_damage(body: Buffer, room: int, start: Callable[[], _Step]) -> bytes:
    """What a damaged stream gives before the damage, found in coarse steps and then in finer ones.

    A decoder that raises keeps what it had decoded in that call, so the last call must be a small one.
    """
    view = memoryview(body)
    good = 0
    out: list[bytes] = []
    for stride in (4096, 64, 1):
        step = start()
        out = [step(view[:good], room)]
        left = room - len(out[0])
        try:
            while left > 0 and good < len(view):
                out.append(step(view[good : good + stride], left))
                left -= len(out[-1])
                good += stride
        except (IsalError, brotli.error):
            continue
        break
    return b"".join(out)


def _zstd(body: bytes, max_bytes: int) -> Decoded:
    """Decompress all frames that follow each other. What stands behind the last is ignored."""
    if not body.startswith(_ZSTD_MAGIC):
        return _capped(body, max_bytes, DecodeState.PLAIN)
    out: list[bytes] = []
    size = at = 0
    for _ in range(_MAX_PARTS):
        end = _zstd_frame_end(body, at)
        reader = _ZSTD.stream_reader(memoryview(body)[at:end])
        try:
            while size <= max_bytes and (piece := reader.read(_PIECE_BYTES)):
                out.append(piece)
                size += len(piece)
        except zstandard.ZstdError:
            return _capped(b"".join(out), max_bytes, DecodeState.BROKEN)
        if size > max_bytes:
            return Decoded(b"".join(out)[:max_bytes], DecodeState.CUT)
        if end > len(body):
            return Decoded(b"".join(out), DecodeState.BROKEN)
        at = end
        if not body.startswith(_ZSTD_MAGIC, at):
            return Decoded(b"".join(out), DecodeState.WHOLE)
    return Decoded(b"".join(out), DecodeState.CUT)


def _zstd_frame_end(body: bytes, start: int) -> int:
    """Where the frame at ``start`` ends (RFC 8878 section 3.1.1); beyond the body if that is cut short.

    The decoder itself doesn't tell a stream that ended from one that stopped.
    """
    beyond = len(body) + 1
    try:
        header = body[start : start + 18]
        at = start + zstandard.frame_header_size(header)
        checksum_bytes = 4 if zstandard.get_frame_parameters(header).has_checksum else 0
    except zstandard.ZstdError:
        return beyond
    last = False
    while not last:
        word = body[at : at + 3]
        if len(word) < 3:
            return beyond
        block = int.from_bytes(word, "little")
        last = bool(block & 1)
        is_run = block >> 1 & 3 == 1
        at += 3 + (1 if is_run else block >> 3)
    return min(at + checksum_bytes, beyond)


_DECODERS: Final[dict[str, Callable[[bytes, int], Decoded]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
