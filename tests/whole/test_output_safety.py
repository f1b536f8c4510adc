"""Whatever a site says reaches no terminal, no log line, no file name, no metric as it was said."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import REPO
from tests.whole.crawl import Crawl, until
from tests.work.net import Exchange, Server

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

EVIL = b"\x1b]0;pwned\x07\x1b[2J\x9b31m\xe2\x80\xae\x08\x7f"
"""A window title, clearing the screen, colours in one byte, text from right to left, what hides words."""
WORDS = b"$(touch pwned);`touch pwned`|'\"<script>alert(1)</script>%s{0}"
ROBOTS = b"User-agent: *\nDisallow: /no" + EVIL + b"\nContent-Signal: " + EVIL + b"=no\nSitemap: /" + EVIL
PAGE = b"".join(
    (
        b"<meta charset='", EVIL, b"'><title>", EVIL, WORDS, b"</title><base href='http://evil.test/d/../'>",
        *(b"<a href='/%b'>%b</a>" % (name, EVIL) for name in (
            b"more/1",
            b"reason", b"type", b"location", b"away", b"price", b"malformed", b"header", b"encoding",
            b"length", b"..%2f..%2f..%2fetc%2fpasswd", b"a%00b", b"q?" + EVIL, EVIL, WORDS.replace(b"'", b""),
            b"%1b%5b2J", b"no" + EVIL + b"/1",
        )),
        b"<a href='ftp://", EVIL, b"/'>x</a><a href='http://", EVIL, b".test/'>x</a>",
        b"<a href='http://xn--", EVIL, b"/'>x</a><a href='http://evil.test:", EVIL, b"/'>x</a>",
    )
)  # fmt: skip


def _answer(exchange: Exchange) -> None:
    path = exchange.request.split()[1]
    html = b"Content-Type: text/html\r\nContent-Length: %d\r\n\r\n%b"
    if path == b"/robots.txt":
        exchange.send(b"HTTP/1.1 200 OK\r\n" + html.replace(b"html", b"plain") % (len(ROBOTS), ROBOTS))
        return
    if path.startswith(b"/more/"):
        body = b"<a href='/more/%d'>" % (int(path[6:]) + 1)  # it goes on while we look
        exchange.send(b"HTTP/1.1 200 OK\r\n" + html % (len(body), body))
        return
    known = {
        b"/reason": b"HTTP/1.1 404 " + EVIL + b"\r\nContent-Length: 0\r\n\r\n",
        b"/type": b"HTTP/1.1 200 OK\r\nContent-Type: a/" + EVIL + b"\r\nContent-Length: 1\r\n\r\nx",
        b"/location": b"HTTP/1.1 302 X\r\nLocation: /l" + EVIL + b"\r\nContent-Length: 0\r\n\r\n",
        b"/away": b"HTTP/1.1 302 X\r\nLocation: http://" + EVIL + b"/\r\nContent-Length: 0\r\n\r\n",
        b"/price": b"HTTP/1.1 402 X\r\ncrawler-price: " + EVIL + b"\r\nContent-Length: 0\r\n\r\n",
        b"/malformed": EVIL + WORDS + b"\r\n\r\n",
        b"/header": b"HTTP/1.1 200 OK\r\nX-" + EVIL + b": y\r\n" + html % (1, b"x"),
        b"/encoding": b"HTTP/1.1 200 OK\r\nContent-Encoding: " + EVIL + b"\r\n" + html % (1, b"x"),
        b"/length": b"HTTP/1.1 200 OK\r\nContent-Length: " + EVIL + b"\r\n\r\nx",
    }
    exchange.send(known.get(path) or b"HTTP/1.1 200 OK\r\n" + html % (len(PAGE), PAGE))


def _is_clean(said: str) -> bool:
    """Nothing that a terminal obeys: text and ends of lines."""
    return {c for c in said if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} <= {"\n"}


def test_what_sites_say_is_only_shown(tmp_path: Path) -> None:
    """A crawl of a site that says evil things wherever it can say anything: talk, status, top, inspect, logs,
    index, metrics and the names of files have none of it as it was."""
    with Server(_answer) as server:
        crawl = Crawl(
            tmp_path / "out",
            None,
            *("http://evil.test/", "--delay", "0.2", "--fetchers", "1", "--parsers", "1", "--idle", "10m"),
            *("--connect-to", f"evil.test:80:127.0.0.1:{server.port}"),
            settings=["crawl.hop_gap_s=0", "watch.port=0"],
        )
        with crawl:
            crawl.start()
            wanted = {b"/reason", b"/type", b"/location", b"/away", b"/price", b"/malformed", b"/header"}
            wanted |= {b"/encoding", b"/length", b"/a%00b"}
            until(lambda: wanted <= {each.split()[1] for each in server.requests}, "all was said")
            port = until(
                lambda: crawl.status()["control"].get("metrics_port"), "metrics are served", every_s=0.3
            )
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                metrics = answer.read().decode()
            said = {"metrics": metrics}
            for words in (
                *(
                    ("status",),
                    ("status", "--json"),
                    ("top",),
                    ("top", "--json"),
                    ("dead",),
                    ("dead", "--json"),
                ),
                *(("inspect", "evil.test"), ("inspect", "evil.test", "--json"), ("check",)),
            ):
                done = crawl.command(*words)
                said[" ".join(words)] = done.stdout + done.stderr
            assert crawl.interrupt() == 130
        said["talk"] = crawl.said
        for path in sorted(crawl.out.rglob("*")):
            assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name), ascii(path)
            if path.suffix in (".jsonl", ".cdxj", ".json", ".toml", ".log", ".txt"):
                said[str(path)] = path.read_text()
        assert any(name.endswith("index.cdxj") for name in said)
        assert any("fetch-" in name for name in said)
        assert not [name for name, text in said.items() if not _is_clean(text)]
        assert any("evil.test" in text for text in said.values())
        assert list(text_string_to_metric_families(metrics))
        for name, text in said.items():
            if name.endswith(".jsonl"):
                assert all(json.loads(line) for line in text.splitlines())
    assert not list(REPO.glob("pwned")) + list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("folder", ["node", "deploy"])
def test_no_text_becomes_a_command(folder: str) -> None:
    """No part of ours hands a line of text to a shell, or to Python, to be run."""
    found = []
    for path in (REPO / folder).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                name = ast.unparse(call.func)
                by_shell = any(each.arg == "shell" for each in call.keywords)
                if by_shell or name in ("eval", "exec", "os.system", "os.popen", "compile"):
                    found.append(f"{path.name}:{call.lineno}: {name}")
    assert not found
