"""Undoing content codings: honest bodies, lies, damage, bombs."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from node.store.decode import Decoded, DecodeState, decode_body, is_supported, undo_gzip
from tests.store.responses import PEAK_KB, page

REPO = Path(__file__).resolve().parents[2]
CAP = 250_000
PAGE = page(1, 60_000)


def raw_deflate(data: bytes) -> bytes:
    """RFC 1951 without any wrapper, as some servers send it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zstd_stream(data: bytes) -> bytes:
    """A frame that doesn't state its size and has a checksum, as a server makes it on the fly."""
    packer = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compressobj()
    return packer.compress(data) + packer.flush()


def br(data: bytes) -> bytes:
    """Brotli as servers use it; its default quality takes a second for a page."""
    return bytes(brotli.compress(data, quality=5))


CODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", br),
    ("zstd", zstandard.compress),
    ("zstd", zstd_stream),
]
coders = pytest.mark.parametrize(
    ("name", "code"), CODERS, ids=lambda one: one if isinstance(one, str) else ""
)


@coders
@pytest.mark.parametrize("size", [0, 1, 60_000, CAP])
def test_what_was_coded_comes_back(name: str, code: Callable[[bytes], bytes], size: int) -> None:
    """Every coding we name, up to exactly the cap."""
    body = page(2, CAP * 2)[:size]
    assert decode_body(code(body), name.upper(), CAP) == (body, DecodeState.WHOLE)


@coders
def test_an_empty_body_is_whole(name: str, code: Callable[[bytes], bytes]) -> None:
    """Redirects often name a coding and have no body: nothing is broken there."""
    assert decode_body(b"", name, CAP) == (b"", DecodeState.WHOLE)


@coders
def test_one_byte_over_the_cap_is_cut(name: str, code: Callable[[bytes], bytes]) -> None:
    """The cap is on decoded bytes, to the byte."""
    body = page(2, CAP * 2)[: CAP + 1]
    decoded = decode_body(code(body), name, CAP)
    assert decoded == (body[:CAP], DecodeState.CUT)
    assert decoded.cut


@coders
def test_a_body_that_ends_too_soon_gives_what_it_has(name: str, code: Callable[[bytes], bytes]) -> None:
    """N01: a connection that broke leaves a page that is worth parsing."""
    coded = code(PAGE)
    decoded = decode_body(coded[: len(coded) * 2 // 3], name, CAP)
    assert decoded.state is DecodeState.BROKEN
    assert decoded.cut
    assert PAGE.startswith(decoded.body)
    # A zstd block is all or nothing, and this page is one block.
    assert len(decoded.body) > 10_000 or name == "zstd"


@pytest.mark.parametrize(("name", "code"), [coder for coder in CODERS if coder[0] != "zstd"])
def test_a_body_broken_in_the_middle_gives_all_before(name: str, code: Callable[[bytes], bytes]) -> None:
    """A decoder that raises has thrown away what it had; that is got back, to the last byte or nearly."""
    coded = bytearray(code(PAGE))
    middle = len(coded) // 2
    before = decode_body(bytes(coded[:middle]), name, CAP).body
    coded[middle:] = b"\xff" * (len(coded) - middle)
    decoded = decode_body(bytes(coded), name, CAP)
    assert decoded.state is DecodeState.BROKEN
    assert len(before) > 10_000
    assert decoded.body[: len(before) - 300] == before[: len(before) - 300]


def test_a_zstd_body_broken_in_a_later_block_gives_the_earlier_ones() -> None:
    """Damage in the second block leaves the first."""
    body = page(3, 400_000)
    coded = bytearray(zstd_stream(body))
    coded[len(coded) * 3 // 4 :] = b"\xff" * (len(coded) - len(coded) * 3 // 4)
    decoded = decode_body(bytes(coded), "zstd", 1 << 20)
    assert decoded.state is DecodeState.BROKEN
    assert len(decoded.body) >= 100_000
    assert body.startswith(decoded.body)


def test_a_wrong_checksum_costs_no_content() -> None:
    """Browsers show such a page, so we read it."""
    coded = gzip.compress(PAGE)
    assert decode_body(coded[:-8] + b"12345678", "gzip", CAP) == (PAGE, DecodeState.BROKEN)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip, br", "deflate, gzip"])
@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><title>x</title>",
        b"\xef\xbb\xbf\r\n <html lang=en>\n\t<body>" + PAGE,
        b"<p>\xc3\xbc",
        b"<?xml version='1.0'?><urlset/>",
        b"<a>",
    ],
)
def test_plain_text_that_claims_a_coding_is_kept(name: str, body: bytes) -> None:
    """N08: the body is kept as it came, its first two bytes included."""
    assert decode_body(body, name, CAP) == (body, DecodeState.PLAIN)


def test_anything_without_the_magic_number_is_not_gzip() -> None:
    """N08 for bodies that are no markup."""
    assert decode_body(b"User-agent: *\n", "gzip", CAP) == (b"User-agent: *\n", DecodeState.PLAIN)
    assert decode_body(b'{"a": 1}', "zstd", 5) == (b'{"a":', DecodeState.PLAIN)


def test_each_coding_is_undone_once_per_mention() -> None:
    """N11: gzip in gzip is undone as often as the header says, never further."""
    once, twice = gzip.compress(PAGE), gzip.compress(gzip.compress(PAGE))
    assert decode_body(twice, "gzip, gzip", CAP) == (PAGE, DecodeState.WHOLE)
    assert decode_body(twice, "gzip", CAP) == (once, DecodeState.WHOLE)
    assert decode_body(once, "gzip, gzip", CAP) == (PAGE, DecodeState.PLAIN)
    assert decode_body(brotli.compress(once), "gzip,br", CAP) == (PAGE, DecodeState.WHOLE)
    assert decode_body(once, "identity, gzip,", CAP) == (PAGE, DecodeState.WHOLE)


def test_no_coding_is_only_capped() -> None:
    """The common case of the other kind: nothing to undo."""
    assert decode_body(PAGE, "", CAP) == (PAGE, DecodeState.WHOLE)
    assert decode_body(PAGE, "identity", 100) == (PAGE[:100], DecodeState.CUT)


@pytest.mark.parametrize("name", ["compress", "gzip, sdch", "aes128gcm", "gzip;q=1", ",".join(["gzip"] * 5)])
def test_an_unknown_coding_is_never_taken_for_a_page(name: str) -> None:
    """N10: what can't be decoded must not reach the HTML parser as if it were text."""
    assert not is_supported(name)
    assert decode_body(b"<a href=/x>", name, CAP) == (b"", DecodeState.UNSUPPORTED)


@pytest.mark.parametrize("name", ["", "gzip", "x-gzip", "br", "zstd", "deflate", "identity", "GZIP, Br"])
def test_codings_we_know(name: str) -> None:
    """The fetcher asks before it calls an answer a page."""
    assert is_supported(name)


def test_gzip_members_that_follow_each_other_are_one_body() -> None:
    """RFC 1952 section 2.2; some servers flush that way. What follows the last member is ignored."""
    coded = b"".join(gzip.compress(PAGE[at : at + 10_000]) for at in range(0, len(PAGE), 10_000))
    assert decode_body(coded + b"\0\0trailing", "gzip", CAP) == (PAGE, DecodeState.WHOLE)
    assert decode_body(coded, "gzip", 15_000) == (PAGE[:15_000], DecodeState.CUT)


def test_zstd_frames_that_follow_each_other_are_one_body() -> None:
    """RFC 8878 section 3."""
    coded = zstandard.compress(PAGE[:9000]) + zstd_stream(PAGE[9000:])
    assert decode_body(coded + b"trailing", "zstd", CAP) == (PAGE, DecodeState.WHOLE)
    assert decode_body(coded, "zstd", 15_000) == (PAGE[:15_000], DecodeState.CUT)


def test_a_thousand_tiny_members_take_no_time() -> None:
    """A megabyte of members of 20 bytes is not allowed to cost a copy of the megabyte each."""
    for coded, name in ((gzip.compress(b""), "gzip"), (zstandard.compress(b""), "zstd")):
        started = time.process_time()
        decoded = decode_body(coded * ((1 << 20) // len(coded)), name, CAP)
        assert time.process_time() - started < 2
        assert decoded.state is DecodeState.CUT


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_bomb_is_cut_at_the_decoded_cap_with_flat_memory(name: str) -> None:
    """N11: 100 MB of zeros in 100 KB; the cap counts what comes out, and memory stays flat."""
    code = f"""{PEAK_KB}
import sys
from node.store.decode import decode_body
raw = sys.stdin.buffer.read()
before = peak_kb()
body, state = decode_body(raw, {name!r}, {CAP})
assert state == "cut" and body == bytes({CAP}), (state, len(body))
print(peak_kb() - before)
"""
    zeros = bytes(100_000_000)
    coded = {
        "gzip": lambda: gzip.compress(zeros, 6),
        "deflate": lambda: zlib.compress(zeros, 6),
        "br": lambda: brotli.compress(zeros, quality=3),
        "zstd": lambda: zstandard.compress(zeros),
        "gzip, gzip": lambda: gzip.compress(gzip.compress(zeros, 6)),
    }[name]()
    result = subprocess.run(
        [sys.executable, "-c", code], input=coded, capture_output=True, check=True, cwd=REPO
    )
    assert int(result.stdout) < 12_000, "KB"


def test_runs_in_zstd_are_followed_to_the_end() -> None:
    """A block that repeats one byte takes one byte, whatever its size says."""
    assert decode_body(zstd_stream(bytes(200_000)), "zstd", CAP) == (bytes(200_000), DecodeState.WHOLE)


def test_only_gzip_has_members() -> None:
    """What follows a zlib stream is not part of the body."""
    coded = zlib.compress(PAGE) + gzip.compress(b"more")
    assert decode_body(coded, "deflate", CAP) == (PAGE, DecodeState.WHOLE)


def test_a_zstd_frame_that_wants_too_much_memory_is_refused() -> None:
    """RFC 9659: a window of 128 MB is not for the web."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    coded = packer.compress(random.Random(1).randbytes(1000)) + packer.flush()
    assert decode_body(coded, "zstd", CAP) == (b"", DecodeState.BROKEN)


def test_a_file_that_is_gzip_by_itself_is_undone_twice_at_most() -> None:
    """By its bytes and under the cap; what could not be undone before stays said."""
    text = Decoded(b"http://h.test/" * 9, DecodeState.WHOLE)
    once = Decoded(gzip.compress(text.body), DecodeState.WHOLE)
    twice = Decoded(gzip.compress(once.body), DecodeState.CUT)
    thrice = Decoded(gzip.compress(twice.body), DecodeState.WHOLE)
    assert undo_gzip(text, CAP) == undo_gzip(once, CAP) == text
    assert undo_gzip(twice, CAP) == Decoded(text.body, DecodeState.CUT)
    assert undo_gzip(thrice, CAP) == once
    assert undo_gzip(once, 20) == Decoded(text.body[:20], DecodeState.CUT)
    assert undo_gzip(Decoded(once.body[:-9], DecodeState.WHOLE), CAP).state is DecodeState.BROKEN


@given(
    st.sampled_from(
        ["gzip", "deflate", "br", "zstd", "gzip, gzip", "br, zstd, gzip", "", "x", "gzip,,identity"]
    ),
    st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda coded, keep, garbage: coded[:keep] + garbage + coded[keep:],
            st.sampled_from([code(PAGE[:9000]) for _, code in CODERS]),
            st.integers(0, 3000),
            st.binary(max_size=20),
        ),
    ),
    st.integers(1, 3000),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_body_raises_or_exceeds_the_cap(content_encoding: str, body: bytes, cap: int) -> None:
    """A server may send anything under any coding; the answer is a value of bounded size."""
    decoded = decode_body(body, content_encoding, cap)
    assert len(decoded.body) <= cap
    assert decoded.state is not DecodeState.UNSUPPORTED or decoded.body == b""
