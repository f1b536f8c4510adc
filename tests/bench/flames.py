"""Where the time of a fetcher and of a parser goes: flame graphs of both in a crawl of the bench's pages.

py-spy looks a hundred times a second at what each does, C functions of libraries included. Both are looked at
in one crawl, when connections, sessions and caches are there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.crawls import CONTACT
from tests.bench.looking import counters
from tests.bench.plan import IN_FLIGHT
from tests.bench.processes import RunError
from tests.bench.served import Web
from tests.whole.crawl import Crawl

LOOKS_A_SECOND = 100
SECONDS = 8
_BEGUN_PAGES = 300
_PATIENCE_S = 120.0


def draw(web: Web, work: Path, into: Path, say: Callable[[str], None]) -> list[Path]:
    """Crawl, look and draw; answers the pictures. Raises ``RunError`` where that can't be done here."""
    spy = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    out = work / "flames"
    shutil.rmtree(out, ignore_errors=True)
    words = ("--seeds", web.tree.seeds, "--delay", "0", "--idle", "20", "--contact", CONTACT)
    few = ("--fetchers", "1", "--parsers", "1")
    own = (f"fetcher.in_flight={IN_FLIGHT}", "watch.port=0")
    with web.serve() as server, Crawl(out, server.nginx, *words, *few, settings=own) as crawl:
        crawl.start()
        _wait(crawl)
        pids = crawl.children()
        into.mkdir(parents=True, exist_ok=True)
        pictures = [into / f"flame-{role}.svg" for role in ("fetcher", "parser")]
        say(f"looking at fetcher and parser for {SECONDS} s")
        looking = [
            _look(spy, pids[f"{role} 1"], picture)
            for role, picture in zip(("fetcher", "parser"), pictures, strict=True)
        ]
        for each in looking:
            told = each.communicate()[1].decode(errors="replace")
            if each.returncode:
                raise RunError(f"py-spy could not look: {told.strip()[-500:]}")
        crawl.interrupt()
    shutil.rmtree(out)
    return pictures


def _look(spy: str, pid: int, picture: Path) -> subprocess.Popen[bytes]:
    command = [spy, "record", "--pid", str(pid), "--duration", str(SECONDS), "--rate", str(LOOKS_A_SECOND)]
    command += ["--native", "--format", "flamegraph", "--output", str(picture)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _wait(crawl: Crawl) -> None:
    """Until it is well under way."""
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        time.sleep(0.1)
        told = counters(crawl, "pages")
        if told is not None and told[0] >= _BEGUN_PAGES:
            return
    raise RunError(f"the crawl did not get under way: {crawl.said[-500:]}")
