"""Headers read, heads mended, requests written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules import headers, request
from node.rules.http_head import end_of_head, mend
from node.rules.request import Target, target_of


def test_location() -> None:
    """One Location counts, the first, with raw bytes read as browsers read them (N14)."""
    assert headers.location([(b"location", b"/a"), (b"Location", b"/b")]) == "/a"
    assert headers.location([(b"LOCATION", "/ä".encode())]) == "/ä"
    assert headers.location([(b"Location", b"/\xe4")]) == "/ä"
    assert headers.location([(b"Location", b"")]) is None
    assert headers.location([(b"X-Location", b"/")]) is None


def test_control_characters() -> None:
    """A header with a control character is left out and named; the others stay (N05)."""
    pairs = [(b"A", b"1"), (b"Set-Cookie", b"a\x01b"), (b"B", b"tab\tand \xe4")]
    assert headers.unclean(pairs)
    kept, dropped = headers.clean(pairs)
    assert kept == ((b"A", b"1"), (b"B", b"tab\tand \xe4"))
    assert dropped == ("set-cookie",)
    assert not headers.unclean(kept)


NO_COLON, BROKEN_NAME = "a line without a colon", "a header with a broken name"


@pytest.mark.parametrize(
    ("head", "mended", "dropped"),
    [
        (b"HTTP/1.1 200\r\n\r\n", b"HTTP/1.1 200 \r\n\r\n", ()),
        (b"HTTP/2 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", ()),
        (b"http/1.0 404 No\n\n", b"HTTP/1.0 404 No\r\n\r\n", ()),
        (b"HTTP/1.1 200 OK\r\nnonsense\r\nA: 1\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n", (NO_COLON,)),
        (b"HTTP/1.1 200 OK\r\nA : 1\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n", ()),
        (b"HTTP/1.1 200 OK\r\nA: 1\r\n  2\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: 1 2\r\n\r\n", ()),
        (b"HTTP/1.1 200 OK\r\nX(\xe4): 1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", (BROKEN_NAME,)),
        (b"HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", ("a",)),
        (b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", ("a",)),
        (b"HTTP/1.1 200 O\x01K\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", ()),
    ],
)  # fmt: skip
def test_mend(head: bytes, mended: bytes, dropped: tuple[str, ...]) -> None:
    """What browsers read in spite of the standard is read; what is no header is named."""
    result = mend(head)
    assert result is not None
    assert (result.head, result.dropped) == (mended, dropped)


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        (["5"], b"5"),
        (["5", "5"], b"5"),
        (["5, 5"], b"5"),
        (["5", "6"], None),
        (["5\x00"], None),
        (["abc"], None),
        (["-1"], None),
        (["+5"], None),
        ([""], None),
        (["99999999999999999999"], None),
        (["9223372036854775808"], None),
        (["5,"], None),
    ],
)
def test_lengths(lengths: list[str], kept: bytes | None) -> None:
    """A length that is a number, once, is believed; else the body lasts until the close (N07)."""
    lines = "".join(f"Content-Length: {value}\r\n" for value in lengths)
    result = mend(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode())
    assert result is not None
    expected = b"" if kept is None else b"Content-Length: " + kept + b"\r\n"
    assert result.head == b"HTTP/1.1 200 OK\r\n" + expected + b"\r\n"
    assert bool(result.dropped) == (kept is None)


def test_length_beside_chunked() -> None:
    """Chunked coding wins over any Content-Length (RFC 9112 section 6.3)."""
    result = mend(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert result is not None
    assert result.head == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"<html>\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 20000 OK\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
    ],
)
def test_not_http(head: bytes) -> None:
    """What doesn't begin with a status line is not taken for a response."""
    assert mend(head) is None


@given(st.binary(max_size=200))
def test_mended_heads_are_clean(noise: bytes) -> None:
    """Whatever stood there, a mended head is one head: nothing of it ends early or injects a line."""
    result = mend(b"HTTP/1.1 200 OK\r\n" + noise + b"\r\n\r\n")
    assert result is not None
    assert end_of_head(result.head) == len(result.head)
    again = mend(result.head)
    assert again is not None
    assert again.head == result.head


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h.test/", Target(False, "h.test", 80, "h.test", "/")),
        ("https://h.test", Target(True, "h.test", 443, "h.test", "/")),
        ("http://h.test:8080/a/b?c=d#e", Target(False, "h.test", 8080, "h.test:8080", "/a/b?c=d")),
        ("https://h.test:443/", Target(True, "h.test", 443, "h.test", "/")),
        ("http://h.test?x/y", Target(False, "h.test", 80, "h.test", "/?x/y")),
        ("http://h.test/?a://b@c/", Target(False, "h.test", 80, "h.test", "/?a://b@c/")),
        ("http://u:p@h.test/", Target(False, "h.test", 80, "h.test", "/")),
        ("http://[::1]/", Target(False, "[::1]", 80, "[::1]", "/")),
        ("http://[::1]:81/", Target(False, "[::1]", 81, "[::1]:81", "/")),
    ],
)
def test_target(url: str, target: Target) -> None:
    """A canonical URL gives host, port and request target; userinfo and fragment are never sent."""
    assert target_of(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h.test/",
        "h.test",
        "",
        "http://",
        "http:///x",
        "http://:80/",
        "http://h.test:99999/",
        "http://h.test:x/",
        "http://h.test/ HTTP/1.1\r\nX: y",
        "http://h.test/\n",
        "http://h\x00.test/",
        "http://h.test/ä",
    ],
)
def test_unsendable(url: str) -> None:
    """Nothing that is not a canonical URL reaches the wire; no line can be injected into a request."""
    with pytest.raises(ValueError):  # noqa: PT011  (the words are for the log)
        target_of(url)


def test_request_head() -> None:
    """The request is exactly its lines, and a cookie can't end its line."""
    target = target_of("http://h.test:81/a?b")
    fixed = b"User-Agent: x\r\n"
    assert (
        request.head(target, fixed, None) == b"GET /a?b HTTP/1.1\r\nHost: h.test:81\r\nUser-Agent: x\r\n\r\n"
    )
    with_cookie = request.head(target, fixed, "a=b\r\nX: y; c=\xe4\u20ac")
    assert b"\r\nCookie: a=bX: y; c=\xe4\r\n" in with_cookie
