"""A node without its detector of encodings, or with a broken one, does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.errors import ExitCode
from tests.whole.crawl import Crawl, milliarde

MISSING = "raise ModuleNotFoundError('no such module', name='chardet')\n"
BROKEN = "def detect(*words, **named): return {'encoding': None}\n"


@pytest.fixture(params=[MISSING, BROKEN], ids=["missing", "broken"])
def no_detector(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is started from here finds another chardet before the real one."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "chardet.py").write_text(request.param)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.usefixtures("no_detector")
def test_a_parser_does_not_start(tmp_path: Path) -> None:
    """One sentence that names the library, and an exit code that tells a supervisor not to try again."""
    config = tmp_path / "node.toml"
    config.write_text('[paths]\ndata = "data"\n')
    done = milliarde("parser", "1", "--config", config)
    assert done.returncode == ExitCode.NOT_INSTALLED
    assert "chardet is missing or broken" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.whole
@pytest.mark.usefixtures("no_detector", "redis_binary")
def test_a_crawl_stops_at_its_start(tmp_path: Path) -> None:
    """The parser's reason is the crawl's; nothing goes on without it, and nothing is left running."""
    with Crawl(tmp_path / "out", None, "http://127.0.0.1:9/", "--parsers", "1", "--fetchers", "1") as crawl:
        assert crawl.start().wait() == ExitCode.NOT_INSTALLED
    assert "chardet is missing or broken" in crawl.said
    assert "Traceback" not in crawl.said
