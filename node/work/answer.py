"""The only user of aiohttp: one response, read from the bytes that arrive.

aiohttp's parser (llhttp, in C) does the reading. Its session, connector and request objects are not used:
they cost more than all our own work on a page, and lose the bytes that came just before a connection broke
(docs/decisions/0010 has the figures). What the parser refuses gets a second look
(``rules.http_head``), and whatever it raises is a ``Failure`` from here on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from aiohttp import StreamReader
from aiohttp.http import HttpResponseParser, RawResponseMessage

from node.rules import headers as headers_of
from node.rules import http_head
from node.rules.outcome import Outcome, of_status
from node.work.failure import TIMED_OUT, Failure, Step, failure_of, words

MAX_HEAD_BYTES = 65_536
"""Status line and headers (with those of 1xx answers before) may be this long."""
_MAX_HEADERS = 2_000
_READ_AT_ONCE = 2**20
"""More than an event loop hands over in one piece, so the parser never asks for a pause."""
_MAX_FRAMING = 8
"""Chunked coding may make a body this many times longer; one-byte chunks take six bytes each."""
_MAX_PIECES = 1_000
"""A body that arrives in tiny pieces is joined now and then: each piece costs 40 bytes by itself."""

Truncated = Literal["length", "time", "disconnect"]
"""WARC's words for why a body is not whole."""
Accept = Callable[[str | None], bool]
"""Whether the body of a 2xx response with this Content-Type (None = without one) is wanted."""
MaySend = Callable[[], bool]
"""Whether a request may still be sent, asked once the connection stands."""


class _Unpaused:
    """The protocol that aiohttp's parser asks to pause: it never needs to, see ``_READ_AT_ONCE``."""

    _reading_paused = False

    def pause_reading(self) -> None:
        """Everything is taken out at once; there is nothing to wait for."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """It was never paused."""


_UNPAUSED = _Unpaused()


class Answer:
    """One response, read from the bytes that arrive. It does no I/O and raises nothing."""

    __slots__ = (
        "_accept",
        "_body_bytes",
        "_chunks",
        "_loop",
        "_max_bytes",
        "_may_send",
        "_mending",
        "_odd",
        "_parser",
        "_payload",
        "_raw",
        "complete",
        "detail",
        "failure",
        "head_at",
        "headers",
        "message",
        "outcome",
        "truncated",
        "wire_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        max_bytes: int,
        accept: Accept | None,
        may_send: MaySend | None = None,
    ) -> None:
        self._loop = loop
        self._max_bytes = max_bytes
        self._accept = accept
        self._may_send = may_send
        self._parser = self._new_parser()
        self._payload: StreamReader | None = None
        self._raw = bytearray()  # what came while the head was not complete
        self._mending = False
        self._odd = False  # something on this connection was not as it should be
        self._chunks: list[bytes] = []
        self._body_bytes = 0
        self.message: RawResponseMessage | None = None
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        self.head_at = 0.0
        """``time.monotonic()`` when the headers were complete."""
        self.wire_bytes = 0
        self.outcome = Outcome.MALFORMED_HTTP
        """By the status and the content type, once there is a message."""
        self.complete = False
        self.truncated: Truncated | None = None
        self.failure: Failure | None = None
        """Why there is no response, or why its body is not whole."""
        self.detail = ""

    def _new_parser(self) -> HttpResponseParser:
        return HttpResponseParser(
            _UNPAUSED,  # type: ignore[arg-type]
            self._loop,
            _READ_AT_ONCE,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
            max_headers=_MAX_HEADERS,
            read_until_eof=True,
            auto_decompress=False,
        )

    @property
    def reusable(self) -> bool:
        """Whether the connection can serve another request."""
        message = self.message
        return self.complete and not self._odd and message is not None and not message.should_close

    @property
    def body(self) -> bytes:
        """The body so far."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    def may_ask(self) -> bool:
        """Whether the request may still be sent; if not, that is what became of it."""
        if self._may_send is None or self._may_send():
            return True
        self.failure = Failure(Outcome.WITHHELD, "not ours to ask any more")
        return False

    def feed(self, data: bytes) -> bool:
        """More bytes; True when nothing more is wanted."""
        self.wire_bytes += len(data)
        if self._payload is not None:
            return self._feed_body(data)
        if self._mending:
            self._raw += data
            # an end can begin three bytes before the new ones, and only there is it new
            return self._mend(len(self._raw) - len(data) - 3)
        try:
            messages, _, _ = self._parser.feed_data(data)
        except Exception:  # of aiohttp; whatever it is, it is about these bytes
            self._mending = self._odd = True
            self._raw += data
            return self._mend(0)
        for message, payload in messages:
            if message.code >= 200 or message.code in (0, 101):  # 1xx answers come before the real one
                self._odd = message.code == 101 or message is not messages[-1][0]
                return self._begin(message, payload) or self._take()
        self._raw += data
        return self._too_long()

    def end(self, error: BaseException | None) -> None:
        """The connection is gone, by ``error`` or by the ordinary close of the other side."""
        if self.complete or self.failure is not None:
            return
        if self._payload is None:
            if self.wire_bytes:
                self.failure = Failure(Outcome.DISCONNECTED, "closed within the headers")
            else:
                self.failure = failure_of(error or ConnectionResetError(), Step.ANSWER)
            return
        try:
            if error is not None:
                raise error
            self._parser.feed_eof()
        except Exception as reason:
            self._broken(Outcome.DISCONNECTED, f"the body ended early ({type(reason).__name__})")
        else:
            self._take()

    def out_of_time(self) -> None:
        """The deadline has come."""
        if self.complete:
            return
        self.failure = TIMED_OUT[Step.ANSWER]
        if self._payload is not None:
            self.truncated = "time"
            self.failure = Failure(Outcome.TIMEOUT, "no end of the body within the deadline")

    def conclude(self) -> tuple[Outcome, str]:
        """The outcome and its details, once nothing more will come."""
        if self.message is None:
            failure = self.failure or Failure(Outcome.DISCONNECTED, "no answer")
            return failure.outcome, failure.detail
        if self.failure is None:
            return self.outcome, self.detail
        if self.outcome is Outcome.PAGE and not self._body_bytes:
            return self.failure.outcome, self.failure.detail  # nothing worth keeping
        return self.outcome, "; ".join(filter(None, (self.failure.detail, self.detail)))

    # -- the head

    def _begin(self, message: RawResponseMessage, payload: StreamReader) -> bool:
        """The head is complete; True when the body is not wanted."""
        self.head_at = time.monotonic()
        self.message = message
        self._payload = payload
        self.headers = message.raw_headers
        self._raw.clear()
        if headers_of.unclean(self.headers):
            self.headers, dropped = headers_of.clean(self.headers)
            self._dropped(dropped)
        self.outcome = of_status(message.code)
        if (
            self._accept is not None
            and self.outcome is Outcome.PAGE
            and not self._accept(headers_of.text(self.headers, b"content-type"))
        ):
            self.outcome = Outcome.UNWANTED_TYPE
            return True
        return False

    def _mend(self, start: int) -> bool:
        """A second look at a head that the parser refused; True when nothing more is wanted."""
        while True:
            end = http_head.end_of_head(self._raw, max(start, 0))
            if end < 0:
                return self._too_long()
            mended = http_head.mend(bytes(self._raw[:end]))
            if mended is None:
                return self._malformed("not an HTTP response")
            del self._raw[:end]
            if not 100 <= mended.status < 200:
                break
            start = 0
        body = bytes(self._raw)
        self._dropped(mended.dropped)
        self._parser = self._new_parser()
        try:
            messages, _, _ = self._parser.feed_data(mended.head)
            message, payload = messages[0]
        except Exception as error:  # of aiohttp, or no message
            return self._malformed(f"headers beyond repair ({type(error).__name__})")
        return self._begin(message, payload) or self._feed_body(body)

    def _dropped(self, names: Sequence[str]) -> None:
        if names:
            self.detail = words("dropped: " + ", ".join(names))

    def _too_long(self) -> bool:
        if self.wire_bytes <= MAX_HEAD_BYTES:
            return False
        return self._malformed(f"more than {MAX_HEAD_BYTES} bytes of headers")

    def _malformed(self, detail: str) -> bool:
        self.failure = Failure(Outcome.MALFORMED_HTTP, detail)
        return True

    # -- the body

    def _feed_body(self, data: bytes) -> bool:
        try:
            self._parser.feed_data(data)
        except Exception as error:  # of aiohttp: broken framing, or bytes after the end
            self._odd = True
            return self._take() or self._broken(
                Outcome.MALFORMED_HTTP, f"broken framing of the body ({type(error).__name__})"
            )
        return self._take()

    def _take(self) -> bool:
        """Take over what the parser has made of the body; True at its end or at our cap."""
        payload = self._payload
        if payload is None:
            return False
        chunk = payload.read_nowait()
        if chunk:
            self._body_bytes += len(chunk)
            over = self._body_bytes - self._max_bytes
            if over > 0:
                self._body_bytes = self._max_bytes
                self._chunks.append(chunk[:-over])
                self.truncated = "length"
                return True
            self._chunks.append(chunk)
            if len(self._chunks) > _MAX_PIECES:
                self._chunks = [b"".join(self._chunks)]
        self.complete = payload.is_eof()
        if not self.complete and self.wire_bytes > _MAX_FRAMING * self._max_bytes + MAX_HEAD_BYTES:
            self.truncated = "length"
            return True
        return self.complete

    def _broken(self, outcome: Outcome, detail: str) -> bool:
        self.truncated = "disconnect"
        self.failure = Failure(outcome, detail)
        return True
