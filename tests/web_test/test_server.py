"""The server as a process: its log, its TLS, its start and its end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.conftest import REPO
from tests.web.certs import Authority
from tests.web.document import render
from tests.web.log import Entry, read_log
from tests.web.running import MiniWeb
from tests.web_test.client import ask, connect, read, request_bytes


def test_the_log_tells_all_of_a_request(web: MiniWeb) -> None:
    """A line says who asked for what, when, over which connection, and what was sent."""
    url = "https://www.other.test/page/1?a=b"
    answer = ask(web, url, Cookie="c=1", Referer="https://r.test/", Accept_Encoding="gzip")
    entry = web.requests("other.test")[-1]
    assert (entry.url, entry.status, entry.bytes) == (url, 200, len(answer.raw))
    assert (entry.scheme, entry.port, entry.sni) == ("https", web.https_port, "www.other.test")
    assert (entry.user_agent, entry.cookie, entry.referer) == ("probe", "c=1", "https://r.test/")
    assert (entry.accept_encoding, entry.resumed) == ("gzip", False)
    again = ask(web, "http://other.test/")
    last = web.requests("other.test")[-1]
    assert (last.scheme, last.resumed, last.bytes) == ("http", None, len(again.raw))
    assert last.t_ms > entry.t_ms
    assert last.conn > entry.conn


def test_a_connection_without_request_is_logged(web: MiniWeb) -> None:
    """Who hangs up, refuses a certificate or meets a silent port is in the log too."""
    with connect(web, "https://other.test/") as connection:
        connection.close()
    with pytest.raises(TimeoutError):
        ask(web, "https://blackhole.test/", timeout=0.1)
    with pytest.raises(OSError, match="certificate verify failed"):
        ask(web, "https://selfsigned.test/")
    wanted = {"other.test", "blackhole.test", "selfsigned.test"}
    for _ in range(200):
        silent = {entry.host for entry in web.log_entries() if entry.method is None}
        if wanted <= silent:
            break
        ask(web, "https://other.test/")  # time passes at the server, which writes these when they end
    assert wanted <= silent


def test_a_broken_off_answer_is_logged_with_what_was_sent(web: MiniWeb) -> None:
    """An endless answer ends when the client leaves, and is counted then."""
    ask(web, "https://endless.test/left", enough=1)
    for _ in range(200):
        if entries := [entry for entry in web.requests("endless.test") if entry.path == "/left"]:
            break
        ask(web, "https://other.test/")
    assert entries[0].status == 200
    assert entries[0].bytes > 1000


def test_keep_alive_and_close(web: MiniWeb) -> None:
    """Connections are kept as long as the client wants, and closed when it says so."""
    url = "https://other.test/page/2"
    with connect(web, url) as connection:
        connection.send(request_bytes(url, close=False))
        first = connection.receive()
        connection.send(request_bytes(url, close=True))
        second, end = read(connection)
    assert (b"Connection: keep-alive" in first, b"Connection: close" in second, end) == (True, True, "eof")
    last, before = web.requests("other.test")[-1], web.requests("other.test")[-2]
    assert last.conn == before.conn


@pytest.mark.parametrize("domain", ["site-00000.test", "site-00001.test", "other.test", "slow.test"])
def test_tls_sessions_are_resumed(web: MiniWeb, domain: str) -> None:
    """The second visit to a domain can resume the first one's session, and the log shows it."""
    url = f"https://{domain}/robots.txt"
    first = ask(web, url)
    second = ask(web, url, resume=first)
    assert (first.resumed, second.resumed) == (False, True)
    assert [entry.resumed for entry in web.requests(domain)][-2:] == [False, True]


@pytest.mark.parametrize(("kind", "key"), [("rsa", rsa.RSAPublicKey), ("ec", ec.EllipticCurvePublicKey)])
def test_chains_are_real_ones(tmp_path: Path, kind: str, key: type) -> None:
    """A leaf of the asked kind for the domain and its subdomains, under an intermediate, under a root."""
    authority = Authority(tmp_path, "rsa" if kind == "rsa" else "ec")
    leaf, intermediate = x509.load_pem_x509_certificates(authority.leaf("some.test").read_bytes())
    root = x509.load_pem_x509_certificate(authority.root.read_bytes())
    leaf.verify_directly_issued_by(intermediate)
    intermediate.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["some.test", "*.some.test"]
    assert isinstance(leaf.public_key(), key)
    if kind == "ec":
        signer = intermediate.public_key()
        assert isinstance(signer, ec.EllipticCurvePublicKey)
        assert signer.curve.name == "secp384r1"


def test_mixed_chains_are_served_side_by_side(web: MiniWeb) -> None:
    """Of many domains some have one kind of chain, some the other; one file trusts both."""
    ders = [ask(web, f"https://site-{n:05d}.test/robots.txt").certificate for n in range(12)]
    kinds = {type(x509.load_der_x509_certificate(der).public_key()).__name__ for der in ders}
    assert len(kinds) == 2


def test_certificates_are_kept(tmp_path: Path) -> None:
    """A second start issues nothing anew, so clients may go on trusting the first root."""
    first = Authority(tmp_path, "mixed")
    leaf = first.leaf("some.test").read_bytes()
    second = Authority(tmp_path, "mixed")
    assert second.root.read_bytes() == first.root.read_bytes()
    assert second.leaf("some.test").read_bytes() == leaf


def test_what_is_no_request_is_refused(web: MiniWeb) -> None:
    """Garbage gets 400, another method 405, and the connection ends."""
    with connect(web, "https://other.test/") as connection:
        connection.send(b"what is this\r\n\r\n")
        assert read(connection)[0].startswith(b"HTTP/1.1 400 ")
    assert ask(web, "https://other.test/", method="POST").status == 405


def test_it_ends_with_its_stdin_and_when_told(tmp_path: Path, tls_dir: Path) -> None:
    """No web outlives the process that started it; SIGTERM ends it orderly."""
    with MiniWeb(tmp_path / "a", domains=1, tls_dir=tls_dir) as web:
        assert ask(web, "https://other.test/").status == 200
    assert web.wait(0) == 0
    with MiniWeb(tmp_path / "b", domains=1, tls_dir=tls_dir) as web:
        os.kill(web.pid, signal.SIGTERM)
        assert web.wait(5) == 0
    assert (tmp_path / "b" / "server.err").read_text() == ""


def test_kill_is_at_once(tmp_path: Path, tls_dir: Path) -> None:
    """After kill() nobody listens any more."""
    with MiniWeb(tmp_path, domains=1, tls_dir=tls_dir) as web:
        web.kill()
        with pytest.raises(ConnectionRefusedError):
            ask(web, "https://other.test/")


def test_a_port_that_is_taken_is_said(tmp_path: Path, tls_dir: Path) -> None:
    """Asking for somebody else's port ends with one sentence, not with a traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.web",
                f"--dir={tmp_path}",
                f"--tls-dir={tls_dir}",
                f"--https-port={port}",
            ],
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert re.fullmatch(r"the miniature web can't start: .*in use.*\n", done.stderr)


def test_seed_files(web: MiniWeb) -> None:
    """One file has the ordinary domains, the other the misbehaving ones as well, one a line."""
    ordinary, everything = web.ordinary_seeds.read_text().split(), web.seeds.read_text().split()
    assert ordinary == [f"site-{index:05d}.test" for index in range(12)]
    assert everything[-12:] == ordinary
    assert {"dead.test", "slow.test", "https://slow.test/wait/0.5"} <= set(everything[:-12])


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """Reading the log while it is being written doesn't fail."""
    log = tmp_path / "access.log"
    log.write_text(
        '{"t_ms":2.0,"conn":1,"scheme":"http","port":1}\n{"t_ms":1.0,"conn":2,"scheme":"http","port":1}\n{"t'
    )
    assert [entry.conn for entry in read_log(log)] == [2, 1]
    assert read_log(tmp_path / "none") == []
    assert isinstance(read_log(log)[0], Entry)


def test_the_document_is_up_to_date() -> None:
    """docs/miniature-web.md is what the table renders to."""
    page = (REPO / "docs" / "miniature-web.md").read_text()
    assert page == render(), "run: python -m tests.web.document > docs/miniature-web.md"
