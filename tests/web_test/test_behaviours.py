"""The misbehaving domains do what their rows of the table say: pace, refusals, doors, broken HTTP."""

from __future__ import annotations

import re
import socket
import ssl
import zlib

import brotli
import pytest
import zstandard

from tests.web.behaviours import sitemaps
from tests.web.behaviours.table import TABLE, Certificate, Door
from tests.web.running import MiniWeb
from tests.web_test.client import Answer, address, ask, connect, request_bytes


def test_robots_txt_is_what_the_table_says(web: MiniWeb) -> None:
    """Each row with a fixed robots.txt serves it, so that no site is open or shut by accident."""
    rows = [row for row in TABLE if row.robots is not None and row.https is Door.OPEN]
    for row in (row for row in rows if row.certificate is Certificate.GOOD):
        answer = ask(web, f"https://{row.name}/robots.txt")
        assert (row.name, answer.status, answer.content.decode()) == (row.name, 200, row.robots)


def test_plain_http_leads_to_https(web: MiniWeb) -> None:
    """Domains serve https only, and say so, except the one that is there for the opposite."""
    answer = ask(web, "http://www.other.test/page/1?x=y")
    assert (answer.status, answer.header("Location")) == (301, "https://www.other.test/page/1?x=y")
    assert ask(web, "http://httponly.test/").status == 200
    with pytest.raises(ConnectionRefusedError):
        ask(web, "https://httponly.test/")


# Slow, endless, too large


def test_slow_waits_before_the_first_byte(web: MiniWeb) -> None:
    """slow.test takes at least the time its path asks for, and the log tells how long."""
    assert ask(web, "https://slow.test/wait/0.3").status == 200
    assert web.requests("slow.test")[-1].ms >= 300
    by_default = ask(web, "https://slow.test/", timeout=0.5)
    assert (by_default.raw, by_default.end) == (b"", "silence")
    assert ask(web, "https://slow.test/wait/abc").status == 404


@pytest.mark.parametrize(("path", "in_head"), [("/", False), ("/head", True)])
def test_drip_is_silent_between_single_bytes(web: MiniWeb, path: str, in_head: bool) -> None:
    """drip.test sends next to nothing, never ends, and keeps below a time-out between reads."""
    answer = ask(web, f"https://drip.test{path}", timeout=0.3)
    assert answer.end == "silence"
    assert (b"\r\n\r\n" not in answer.raw) is in_head
    assert answer.raw.endswith(b".")


@pytest.mark.parametrize(
    ("url", "kind"), [("endless.test/", "text/html"), ("endless-audio.test/live.mp3", "audio")]
)
def test_endless_bodies_go_on(web: MiniWeb, url: str, kind: str) -> None:
    """More than a megabyte comes without a declared length, and more would."""
    answer = ask(web, f"https://{url}", enough=1_200_000)
    assert (answer.status, answer.end, answer.header("Content-Length")) == (200, "enough", None)
    assert (answer.header("Content-Type") or "").startswith(kind)


def test_giant_has_a_link_at_either_end(web: MiniWeb) -> None:
    """giant.test is 30 MB; only a reader without a cap finds the second link."""
    body = ask(web, "https://giant.test/").body
    assert len(body) == 30_000_000
    assert body.index(b'href="/early"') < 1024
    assert body.index(b'href="/late"') > 29_900_000


def test_bomb_is_small_until_unpacked(web: MiniWeb) -> None:
    """100 KB on the wire hold 100 MB; once more packed in the nested case."""
    answer, nested = ask(web, "https://bomb.test/"), ask(web, "https://bomb.test/nested")
    assert len(answer.body) < 120_000
    assert len(zlib.decompress(answer.body, 31)) == 100_000_000
    assert nested.header("Content-Encoding") == "gzip, gzip"
    assert zlib.decompress(nested.body, 31) == answer.body


# Saying no


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("notfound.test/", 404),
        ("notfound.test/robots.txt", 404),
        ("unavailable.test/", 503),
        ("servererror.test/", 500),
        *((f"status.test/{code}", code) for code in (204, 304, 401, 402, 403, 410, 418, 451, 599)),
        ("status.test/600", 404),
    ],
)
def test_statuses(web: MiniWeb, url: str, status: int) -> None:
    """A domain that says no says it with the status of its row, and the log has it."""
    assert ask(web, f"https://{url}").status == status
    assert web.requests()[-1].status == status


def test_ratelimited_allows_three_a_second(web: MiniWeb) -> None:
    """The fourth request within a second is turned away with Retry-After; any text can be had there."""
    answers = [ask(web, "https://ratelimited.test/page/1") for _ in range(4)]
    times = [entry.t_ms for entry in web.requests("ratelimited.test")]
    assert [answer.status for answer in answers[:3]] == [200, 200, 200]
    if times[-1] - times[-4] < 900:  # else this machine was too slow to be turned away
        assert (answers[3].status, answers[3].header("Retry-After")) == (429, "2")
    late = ask(web, "https://ratelimited.test/retry-after/Wed,%2032%20Foo")
    assert (late.status, late.header("Retry-After")) == (429, "Wed, 32 Foo")


def test_flaky_answers_the_second_time(web: MiniWeb) -> None:
    """Each URL of flaky.test fails once, by itself, and then never again."""
    statuses = [ask(web, f"https://flaky.test/page/{number}").status for number in (1, 2, 1, 2, 1)]
    assert statuses == [503, 503, 200, 200, 200]


def test_moody_changes_its_mood(web: MiniWeb) -> None:
    """A test can make moody.test misbehave and behave again while a crawl runs."""
    seen = {}
    for mood in ("limiting", "unavailable", "giant", "healthy"):
        assert ask(web, f"https://moody.test/-/mood/{mood}").status == 200
        answer = ask(web, "https://moody.test/page/1")
        seen[mood] = (answer.status, len(answer.raw) > 1_900_000)
    assert seen == {
        "limiting": (429, False),
        "unavailable": (503, False),
        "giant": (200, True),
        "healthy": (200, False),
    }


# Nobody there, wrong certificates


def test_dead_and_silent_doors(web: MiniWeb) -> None:
    """dead.test refuses, blackhole.test says nothing, and neither is where the others are."""
    with pytest.raises(ConnectionRefusedError):
        ask(web, "https://dead.test/")
    with pytest.raises(ConnectionRefusedError):
        ask(web, "http://dead.test/")
    with pytest.raises(TimeoutError):
        ask(web, "https://blackhole.test/", timeout=0.2)
    assert ask(web, "http://blackhole.test/", timeout=0.2) == Answer(b"", "silence")
    ports = {
        address(web, name, 443) for name in ("dead.test", "blackhole.test", "tls-drip.test", "other.test")
    }
    assert len(ports) == 4


def test_tls_drip_never_completes_a_record(web: MiniWeb) -> None:
    """tls-drip.test begins a handshake record and doesn't come to its end."""
    with socket.create_connection(address(web, "tls-drip.test", 443), 3) as connection:
        assert connection.recv(100) == b"\x16"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("badcert.test", "mismatch"), ("selfsigned.test", "self-signed"), ("expired.test", "expired")],
)
def test_bad_certificates_are_refused_for_their_reason(web: MiniWeb, name: str, reason: str) -> None:
    """Each bad certificate is bad in one way only."""
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        ask(web, f"https://{name}/")


# Broken HTTP


def test_reset_breaks_off_in_the_body(web: MiniWeb) -> None:
    """reset.test ends in an RST after ten of fifty kilobytes."""
    answer = ask(web, "https://reset.test/")
    assert (answer.status, answer.end, answer.header("Content-Length")) == (200, "reset", "50000")
    assert len(answer.body) == 10_000


def test_truncated_promises_more_than_comes(web: MiniWeb) -> None:
    """truncated.test ends cleanly, and too early."""
    answer = ask(web, "https://truncated.test/")
    assert (answer.header("Content-Length"), len(answer.body), answer.end) == ("50000", 5000, "eof")


def test_chunks_without_an_end(web: MiniWeb) -> None:
    """nochunkend.test never sends the last chunk, or a size that is none."""
    plain, bad = ask(web, "https://nochunkend.test/"), ask(web, "https://nochunkend.test/bad-size")
    assert plain.header("Transfer-Encoding") == "chunked"
    assert not plain.raw.endswith(b"0\r\n\r\n")
    assert b"\r\nzzz\r\n" in bad.raw


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/garbage", rb"\A\x00\x01\xfe"),
        ("/content-length/abc", rb"\r\nContent-Length: abc\r\n"),
        ("/content-length/12%00", rb"\r\nContent-Length: 12\x00\r\n"),
        ("/double-content-length", rb"Content-Length: \d+\r\nContent-Length: \d+\r\n"),
        ("/length-and-chunked", rb"Content-Length: \d+\r\nTransfer-Encoding: chunked\r\n"),
        ("/control-in-header", rb"Set-Cookie: a=\x01b\r\n"),
        ("/no-reason", rb"\AHTTP/1.1 200\r\n"),
        ("/no-status", rb"\A<!DOCTYPE"),
        ("/http-2", rb"\AHTTP/2 200 OK\r\n"),
        ("/folded", rb"X-Long: one\r\n two\r\n"),
        ("/bare-lf", rb"\AHTTP/1.1 200 OK\n[^\r]*\Z"),
        ("/nothing", rb"\A\Z"),
        ("/", rb"(?s)\AHTTP/1.1 200 OK\r\n.*/garbage"),
    ],
)
def test_malformed_heads(web: MiniWeb, path: str, pattern: bytes) -> None:
    """malformed.test breaks HTTP in the way its path names, byte for byte."""
    assert re.search(pattern, ask(web, f"https://malformed.test{path}").raw)


def test_big_headers(web: MiniWeb) -> None:
    """bigheaders.test sends 20 KB of them: many, one, or without end."""
    many, one = ask(web, "https://bigheaders.test/"), ask(web, "https://bigheaders.test/one")
    assert len(many.head) > 20_000
    assert max(map(len, many.head.split("\r\n"))) < 1000
    assert max(map(len, one.head.split("\r\n"))) > 20_000
    endless = ask(web, "https://bigheaders.test/endless", enough=300_000)
    assert (endless.end, b"\r\n\r\n" in endless.raw) == ("enough", False)


def test_codings_that_lie(web: MiniWeb) -> None:
    """Plain under the label gzip; gzip cut short; brotli and zstandard that nobody asked for."""
    plain, cut = ask(web, "https://notgzip.test/"), ask(web, "https://notgzip.test/cut")
    assert (plain.header("Content-Encoding"), plain.body[:9]) == ("gzip", b"<!DOCTYPE")
    unpacked = zlib.decompressobj(31).decompress(cut.body)
    assert b'href="/kept"' in unpacked
    assert not unpacked.endswith(b"</html>\n")
    br, zstd = ask(web, "https://br.test/", Accept_Encoding="gzip"), ask(web, "https://br.test/zstd")
    assert b"<h1>" in brotli.decompress(br.body)
    assert b"<h1>" in zstandard.ZstdDecompressor().decompress(zstd.body)


def test_sitemaps_are_what_their_names_say(web: MiniWeb) -> None:
    """sitemaps.test serves each kind: gzip as a file, UTF-16, one cut in an address, an index in an index."""

    def body(path: str) -> bytes:
        answer = ask(web, f"https://sitemaps.test{path}")
        assert (answer.status, answer.header("Content-Encoding")) == (200, None)
        return answer.body

    for path in sitemaps.INDEXED:
        assert path.encode() in body("/index.xml")
    assert b"/gz/2</loc>" in zlib.decompress(body("/pages.xml.gz"), 31)
    assert "/utf16/1</loc>" in body("/utf16.xml").decode("utf-16")
    assert body("/cut.xml").endswith(b"/torn")
    assert b"too-deep.xml" in body("/nested.xml")
    assert ask(web, "https://sitemaps.test/moved.xml").header("Location") == "/moved-here.xml"
    assert ask(web, "https://sitemaps.test/missing.xml").status == 404


def test_healthy_domains_are_answered_while_others_misbehave(web: MiniWeb) -> None:
    """No misbehaviour holds up a healthy domain: all these are still going on when it has answered."""
    urls = (
        "endless.test/",
        "drip.test/",
        "slow.test/wait/60",
        "robots-timeout.test/robots.txt",
        "giant.test/",
    )
    others = [connect(web, f"https://{url}") for url in urls]
    try:
        for connection, url in zip(others, urls, strict=True):
            connection.send(request_bytes(f"https://{url}"))
        for number in range(1, 11):
            assert ask(web, f"https://other.test/page/{number}").status == 200
        assert "/wait/60" not in {entry.path for entry in web.requests()}
    finally:
        for connection in others:
            connection.close()
