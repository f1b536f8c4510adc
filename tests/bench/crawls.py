"""One run of ours and one of Scrapy, each over exactly the same pages, and checked to have fetched them all.

A run counts only if every page was fetched once and stored (ours) or parsed (Scrapy), by its own account
and by the server's. All that a node has is switched on in ours, and what is asserted here is what was on.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from node import settings as settings_of
from node.settings import Settings
from node.work.redis_server import socket_path
from tests.bench.looking import role_of
from tests.bench.plan import IN_FLIGHT, PER_DOMAIN
from tests.bench.processes import RunError, Usage, measure
from tests.bench.served import Seen, Web

REPO = Path(__file__).resolve().parents[2]
TIMEOUT_S = 900.0
CONTACT = "https://example.org/bench"

Side = Literal["ours", "scrapy-lxml", "scrapy-selectolax", "scrapy-lxml-crawl"]


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run. ``told``: what the program itself says (summary.json, Scrapy's counts)."""

    side: Side
    pages: int
    usage: Usage
    seen: Seen
    told: Mapping[str, Any]
    start_only: bool = False
    """One page only: what it costs to start and to stop."""


def ours(web: Web, work: Path, *, start_only: bool = False) -> Run:
    """A crawl of all pages by ``milliarde crawl`` with its default processes for this machine."""
    folder = work / "crawl"
    shutil.rmtree(folder, ignore_errors=True)
    with web.serve() as server:
        nginx = server.nginx
        command = [sys.executable, "-m", "node", "crawl", "--out", str(folder)]
        command += ["--seeds", str(web.one_seed if start_only else web.tree.seeds)]
        command += ["--delay", "0", "--idle", "20", "--contact", CONTACT, "--ca-file", str(nginx.ca)]
        command += ["--set", f"fetcher.in_flight={IN_FLIGHT}"]
        for rule in nginx.connect_to:
            command += ["--connect-to", rule]
        if web.max_depth is not None:
            command += ["--max-depth", str(web.max_depth)]
        if start_only:
            command += ["--pages", "1"]
        usage = measure(command, role_of=role_of, output=work / "crawl.log", timeout_s=TIMEOUT_S, cwd=REPO)
        told = json.loads((folder / "summary.json").read_text())
        pages = 1 if start_only else web.tree.pages
        seen = server.seen(pages)
    run = Run("ours", pages, usage, seen, told, start_only)
    if told["pages"] != pages or told["pages_parsed"] != pages or not (start_only or seen.pages == pages):
        raise RunError(
            f"our crawl stored {told['pages']:,} pages, parsed {told['pages_parsed']:,}, and the server "
            f"sent {seen.pages:,}, of {pages:,}: see {work / 'crawl.log'}"
        )
    _assert_everything_on(folder, pages)
    shutil.rmtree(folder)
    return run


def scrapy(web: Web, work: Path, side: Side, *, start_only: bool = False) -> Run:
    """One Scrapy process over all pages."""
    _, links, *rest = side.split("-")
    follow = rest == ["crawl"]
    with web.serve() as server:
        command = [sys.executable, "-m", "tests.bench.scrapy_side", "--links", links]
        command += ["--urls", str(web.home_list if follow or start_only else web.url_list)]
        command += ["--port", str(server.nginx.https_port)]
        command += ["--concurrency", str(IN_FLIGHT), "--per-domain", str(PER_DOMAIN)]
        command += ["--follow"] if follow else []
        command += ["--first-only"] if start_only else []
        output = work / f"{side}.log"
        usage = measure(command, role_of=lambda _: "scrapy", output=output, timeout_s=TIMEOUT_S, cwd=REPO)
        pages = 1 if start_only else web.tree.pages
        seen = server.seen(pages)
    told = json.loads(output.read_text().splitlines()[-1])
    if told["pages"] != pages or told["errors"] or seen.pages != pages:
        raise RunError(
            f"Scrapy parsed {told['pages']:,} pages with {told['errors']} errors, and the server sent "
            f"{seen.pages:,}, of {pages:,}: see {output}"
        )
    return Run(side, pages, usage, seen, told, start_only)


def _assert_everything_on(folder: Path, pages: int) -> None:
    """Raise ``RunError`` unless the crawl had all on that a real one has, and its files are there."""
    used = settings_of.load(folder / settings_name())
    wanted = {
        "archive.fsync": used.archive.fsync,
        "tls.verify": used.tls.verify,
        "a connection for each page": not used.fetcher.keep_alive,
        "append-only file": any(
            path.stat().st_size > 0 for path in (folder / "redis").rglob("*.aof") if path.is_file()
        ),
        "redis.appendfsync": used.redis.appendfsync != "no",
        "WARC": any((folder / "warc").glob("*.warc.gz")),
        "fetch log": any((folder / "log").glob("fetch-*.jsonl")),
        "index": sum(1 for _ in (folder / "index.cdxj").open("rb")) >= pages,
    }
    off = [name for name, on in wanted.items() if not on]
    if off:
        raise RunError(f"the crawl ran without: {', '.join(off)}")


def settings_name() -> str:
    """The file in a crawl's folder that holds the settings it ran with."""
    return "node.toml"


def settings(folder: Path, **sections: dict[str, object]) -> Settings:
    """Settings as ``milliarde crawl`` makes them, for measurements without the command."""
    tree: dict[str, object] = {
        "paths": {"data": str(folder), "redis_socket": str(socket_path(folder))},
        "identity": {"contact": CONTACT},
        **sections,
    }
    made = settings_of.build(tree, "the benchmark")
    for each in (made.data, made.warc_folder, made.log_folder):
        each.mkdir(parents=True, exist_ok=True)
    return made


def plain(run: Run) -> dict[str, Any]:
    """A run as it stands in bench.json."""
    made: dict[str, Any] = msgspec.to_builtins(run)
    return made
