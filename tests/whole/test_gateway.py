"""A whole crawl through a scraping API that limits, refuses and runs out: complete, and its key nowhere."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.web.running import MiniWeb
from tests.whole import stored
from tests.whole.crawl import Crawl, milliarde, until
from tests.work.standin import TARGET_STATUS, StandIn, reply

pytestmark = [pytest.mark.whole, pytest.mark.timeout(180)]

KEY = "k3y/of-the+PLAN-0815"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    folder = tmp_path_factory.mktemp("gateway-web")
    with MiniWeb(folder, domains=6, pages_per_domain=5, mean_bytes=4_000, tls_dir=tls_dir) as running:
        yield running


def all_bytes(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path, gzip.decompress(data) if path.name.endswith(".gz") else data


def test_a_crawl_through_a_gateway(tmp_path: Path, web: MiniWeb) -> None:
    """The key is refused, then put right; calls are limited, the quota ends for a moment. In the end every
    page is stored once, every request went through the gateway, no domain was slowed, and the key is
    in no file, no output and no command line.
    """
    key_file = tmp_path / "gateway.key"
    key_file.write_text("wrong-key-4711")
    with StandIn(web, KEY) as standin:
        turns = itertools.count()
        out_of_quota = False

        def own(url: str) -> bytes | None:
            nonlocal out_of_quota
            turn = next(turns)
            if turn == 25:
                out_of_quota = True
                return reply(509, f"no more for {KEY}", X_Reset="3")
            return reply(429, f"slow down, {KEY}") if turn % 17 == 16 else None

        standin.own = own
        standin.mangle = lambda raw, _: raw.replace(b"\r\n", f"\r\nX-Billed-To: {KEY}\r\n".encode(), 1)
        crawl = Crawl(
            tmp_path / "out",
            web,
            *("--seeds", web.ordinary_seeds, "--delay", "0.1", "--fetchers", "2", "--parsers", "1"),
            settings=[
                "gateway.mode=api",
                f"gateway.url=http://127.0.0.1:{standin.port}/v1?key={{key}}&url={{url}}",
                f"gateway.credentials_file={key_file}",
                "gateway.ceiling_per_s=100",
                f"gateway.target_status_header={TARGET_STATUS}",
                "gateway.reset_header=X-Reset",
                "crawl.hop_gap_s=0.05",
            ],
        )
        with crawl:
            crawl.start()
            until(lambda: crawl.out.is_dir() and "paused" in crawl.said, "it pauses", every_s=0.2)
            shown = crawl.command("status").stdout
            assert "gateway: it refuses our calls (401)" in shown
            assert not web.requests()
            key_file.write_text(KEY + "\n")
            crawl.command("resume")
            code = crawl.wait()
            assert code == 0, crawl.said
            shown += crawl.command("status").stdout + crawl.command("status", "--json").stdout
            shown += crawl.command("inspect", "site-00000.test", "--json").stdout + crawl.said
        pages = stored.pages(crawl.out)
        assert pages == Counter(web.expected().pages)
        assert out_of_quota
        assert crawl.summary["ledger"]["gap"] == 0
        assert {name for name in crawl.summary["outcomes"] if name.startswith("gateway_")} == set()
        told = json.loads(crawl.command("status", "--json").stdout)["gateway"]
        assert told["limited"] >= 1
        assert told["quota"] == 1
        assert told["refused"] >= 1
        assert len(web.requests()) == told["passed"] < len(standin.calls) <= told["turns"]
        for domain in ("site-00000.test", "site-00001.test"):
            state = json.loads(crawl.command("inspect", domain, "--json").stdout)["state"]
            assert state["delay_ms"] == 100, domain
    forms = [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode()]
    for form in forms:
        assert form not in shown
        for path, data in all_bytes(crawl.out):
            assert form.encode() not in data, path


def test_a_missing_key_file_is_said_before_anything_starts(tmp_path: Path, web: MiniWeb) -> None:
    """One sentence and the exit code for wrong settings; no page is fetched without the gateway."""
    before = len(web.requests())
    done = milliarde(
        *("crawl", "--out", tmp_path / "out", "--seeds", web.ordinary_seeds),
        *("--set", "gateway.mode=proxy", "--set", "gateway.proxy=http://127.0.0.1:9"),
        *("--set", f"gateway.credentials_file={tmp_path / 'none'}"),
    )
    assert done.returncode == 3, done.stderr
    assert "can't be read" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(web.requests()) == before
