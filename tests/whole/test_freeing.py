"""A crawl that keeps no page longer than it takes to read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.web.running import MiniWeb
from tests.whole.crawl import Crawl, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]


def test_files_go_once_they_are_parsed(tmp_path: Path, tls_dir: Path) -> None:
    """Every page is crawled and read, though most of the archive goes meanwhile; the index names what is
    left, and all of that is whole."""
    with (
        MiniWeb(tmp_path / "web", domains=6, pages_per_domain=20, mean_bytes=30_000, tls_dir=tls_dir) as web,
        Crawl(
            tmp_path / "out",
            web,
            *("--delay", "0.2", "--fetchers", "2", "--parsers", "1", "--seeds", web.ordinary_seeds),
            settings=[
                *("archive.keep=spool", "archive.free_after_s=0.5", "archive.rotate_bytes=20000"),
                "crawl.hop_gap_s=0.1",
            ],
        ) as crawl,
    ):
        crawl.start()
        freed = until(lambda: crawl.out.is_dir() and _freed(crawl), "files go while it crawls")
        assert freed > 0
        assert crawl.wait() == 0, crawl.said
        summary = crawl.summary
        assert summary["pages"] == len(web.expected().pages)
        assert summary["ledger"]["gap"] == summary["dead_letters"] == 0
        left = {path.name for path in (crawl.out / "warc").iterdir()}
        lines = (crawl.out / "index.cdxj").read_text().splitlines()
        named = {json.loads(line.split(" ", 2)[2])["filename"] for line in lines}
        assert named <= left
        assert len(lines) < summary["pages"]
        done = milliarde("verify", crawl.out)
        assert (done.returncode, done.stderr) == (0, "")
        made = (crawl.out / "index.cdxj").read_bytes()
        done = milliarde("index", crawl.out, "--only-here")
        assert "records of files that are not here" in done.stdout
        assert (crawl.out / "index.cdxj").read_bytes() == made


def _freed(crawl: Crawl) -> int:
    """How many files have gone, by what ``status`` tells of the tally."""
    folder = crawl.out / "warc"
    if not (crawl.out / "node.toml").is_file() or not folder.is_dir():
        return 0
    numbers = [int(path.name.split("-")[-1].split(".")[0]) for path in folder.glob("*-f01-*")]
    return min(numbers, default=1) - 1
