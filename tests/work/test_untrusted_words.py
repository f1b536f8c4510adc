"""Words of a page or a robots.txt on a terminal; types that are wanted by setting."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from node import cli
from node.rules.outcome import Outcome
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.work.visiting import visits

EVIL = "\x1b[31m\x1b]0;title\x07\x9b2J\r\x08\x7f"
"""Colours, a window title, clearing the screen, and what hides the words before it."""


def no_control(said: str) -> None:
    """Nothing in it but text and ends of lines."""
    assert {each for each in said if unicodedata.category(each) == "Cc"} <= {"\n"}, ascii(said)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_page_says_nothing_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """Escape sequences in hrefs, titles and base are shown escaped by ``milliarde links``."""
    page = tmp_path / "page.html"
    page.write_text(
        f"<meta charset=utf-8><title>{EVIL}</title><a href='ftp://x/{EVIL}'>x</a><a href='/{EVIL}'>y</a>"
        f"<a rel=nofollow href='/n{EVIL}'>z</a><link rel=canonical href='/{EVIL}'>",
        encoding="utf-8",
    )
    words = ["links", str(page), "--base", "http://h.test/", *(["--json"] if as_json else [])]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "ftp" in said
    no_control(said)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_robots_txt_says_nothing_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """Nor do rules and signals by ``milliarde explain``, nor the URL that it is asked about."""
    robots = tmp_path / "robots.txt"
    evil = EVIL.replace("\r", "")
    lines = (
        "User-agent: *",
        f"Content-Signal: search=yes{evil}",
        f"Content-Usage: {evil}=n",
        f"Disallow: /a{evil}",
    )
    robots.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    more = ["--json"] if as_json else []
    for url in (f"http://h.test/a{evil}", f"ftp://h.test/{EVIL}", f"http://{evil}/"):
        cli.main(["explain", url, "--robots", str(robots), *more])
        no_control(capsys.readouterr().out)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=1, mean_bytes=3_000) as running:
        yield running


@pytest.mark.parametrize(
    ("wanted", "outcome"),
    [
        (["text/html"], Outcome.UNWANTED_TYPE),
        (["text/html", "text/plain"], Outcome.PAGE),
    ],
)
async def test_text_is_wanted_by_setting(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer, wanted: list[str], outcome: Outcome
) -> None:
    """Plain text is cut at its headers, or read to its end where ``fetcher.wanted_types`` names it."""
    async with visits(tmp_path, web, redis_server, fetcher={"wanted_types": wanted}) as one:
        assert one.outcome(await one.visit("https://wrongtype.test/notes.txt")) is outcome
