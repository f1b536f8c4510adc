"""Draws docs/images/crawl.svg: ``python -m tests.picture`` crawls the miniature web and renders it.

The table is drawn from a look at the running crawl by the code that draws it on a terminal.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from node import settings
from node.errors import MilliardeError
from node.store import snapshot
from node.store.connection import LOST, Store
from node.store.snapshot import Snapshot
from node.work.progress import Progress, show_summary
from tests.web.running import MiniWeb

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "crawl.svg"
PAGES = 1_000


def _crawl(web: MiniWeb, out: Path) -> tuple[list[str], subprocess.Popen[bytes]]:
    shown = ["milliarde", "crawl", "--seeds", "domains.txt", "--pages", f"{PAGES}", "--delay", "0.2"]
    words = [sys.executable, "-m", "node", "crawl", "--seeds", str(web.ordinary_seeds), "--out", str(out)]
    words += ["--pages", str(PAGES), "--delay", "0.2", "--ca-file", str(web.ca)]
    for rule in web.connect_to:
        words += ["--connect-to", rule]
    return shown, subprocess.Popen(words, stderr=subprocess.DEVNULL)


def _watch(out: Path, progress: Progress, process: subprocess.Popen[bytes]) -> Snapshot:
    """The look at which most was in flight, after half of the pages."""
    best: Snapshot | None = None
    store: Store | None = None
    while process.poll() is None:
        time.sleep(0.2)
        try:
            if store is None:
                opened = Store(settings.load(out / "node.toml"))
                opened.begin()
                store = opened
            look = snapshot.take(store)
        except (*LOST, MilliardeError):  # not there yet, or gone again
            continue
        progress.show(look)
        busy = look.count("leased")
        if look.pages > PAGES // 2 and (best is None or busy > best.count("leased")):
            best = look
    assert best is not None, "the crawl was over too soon to be drawn"
    return best


def main() -> int:
    console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "crawl"
        with MiniWeb(Path(folder) / "web", domains=60, pages_per_domain=40) as web:
            shown, process = _crawl(web, out)
            progress = Progress(Console(file=io.StringIO()))
            look = _watch(out, progress, process)
        told = json.loads((out / "summary.json").read_text())
    told["folder"] = "crawl"
    console.print(Text("$ " + " ".join(shown), style="bold"))
    console.print(progress.table(look))
    console.print(Text("\n … and at the end:\n", style="dim"))
    show_summary(told, console)
    svg = console.export_svg(title="milliarde crawl", theme=MONOKAI)
    # whoever looks at it has a fixed-width font; nothing is to be fetched for it
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
