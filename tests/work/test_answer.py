"""Responses of any kind, whole and in pieces: one answer, and never an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.rules.outcome import Outcome
from node.work.answer import Answer

MAX_BYTES = 300


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that is never run: reading a response does no I/O."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def read(loop: asyncio.AbstractEventLoop, pieces: Sequence[bytes]) -> Answer:
    """What is made of ``pieces``, after which the connection closes."""
    answer = Answer(loop, MAX_BYTES, None)
    for piece in pieces:
        if answer.feed(piece):
            return answer
    answer.end(None)
    return answer


def cut_up(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[a:b] for a, b in pairwise(places) if a < b]


LINES = st.sampled_from(
    [
        b"Content-Type: text/html",
        b"Content-Length: 5",
        b"Content-Length: 400",
        b"Content-Length: x",
        b"Content-Length: 5, 5",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: identity",
        b"Connection: close",
        b"Upgrade: h2c",
        b"Set-Cookie: a\x01b",
        b"Set-Cookie: a\x00b",
        b"X: \xff\xfe",
        b"nonsense",
        b" folded",
        b": x",
        b"X\r: y",
        b"",
    ]
)
STATUS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 404 No",
        b"HTTP/1.1 100 Go on",
        b"HTTP/1.1 204 No",
        b"HTTP/2 301",
        b"ICY 200 OK",
    ]
)
BODIES = st.one_of(
    st.binary(max_size=400),
    st.lists(st.binary(min_size=1, max_size=60), max_size=8).map(
        lambda chunks: b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    ),
)
NEWLINE = st.sampled_from([b"\r\n", b"\r\n", b"\n"])


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    newline = draw(NEWLINE)
    lines = [draw(STATUS), *draw(st.lists(LINES, max_size=5))]
    again = draw(st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n\r\n"]))
    return newline.join(lines) + newline * 2 + again + draw(BODIES)


@given(data=st.one_of(st.binary(max_size=200), responses()), at=st.lists(st.integers(0, 10_000), max_size=30))
@example(data=b"HTTP/1.1 200 OK\r\n\r\n", at=[])
def test_any_bytes(loop: asyncio.AbstractEventLoop, data: bytes, at: list[int]) -> None:
    """Whatever arrives, in whatever pieces, has a named outcome and keeps to the cap."""
    answer = read(loop, cut_up(data, at))
    outcome, detail = answer.conclude()
    assert isinstance(outcome, Outcome)
    assert detail.isprintable()
    assert len(answer.body) <= MAX_BYTES
    assert answer.wire_bytes <= len(data)
    for name, value in answer.headers:
        assert name.isascii()
        assert not set(name + value) & set(b"\r\n\0")


@given(data=responses(), at=st.lists(st.integers(0, 10_000), max_size=30))
@example(data=b"HTTP/1.1 204 No\nContent-Length: 400\nConnection: close\n\nno body, yet bytes", at=[55])
def test_pieces_do_not_matter(loop: asyncio.AbstractEventLoop, data: bytes, at: list[int]) -> None:
    """How a response is cut up on its way changes nothing of what is read."""
    whole, pieces = read(loop, [data]), read(loop, cut_up(data, at))
    assert pieces.conclude()[0] is whole.conclude()[0]
    assert (pieces.body, pieces.truncated, pieces.headers) == (whole.body, whole.truncated, whole.headers)
