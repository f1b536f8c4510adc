"""Servers that nobody here wrote, each as a process: ``python -m tests.work.strangers NAME FOLDER``.

``httpbin`` is the well-known test service, under werkzeug's server; ``wptserve`` is the server of the
web-platform-tests, whose pipes and ``.asis`` files answer in ways that browsers are tested with.
Prints its port, and serves until its stdin ends.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def _httpbin(_: Path) -> tuple[int, Callable[[], None]]:
    from httpbin import app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port, server.shutdown


def _wptserve(folder: Path) -> tuple[int, Callable[[], None]]:
    from wptserve.server import WebTestHttpd

    server = WebTestHttpd(host="127.0.0.1", port=0, doc_root=str(folder))
    server.start()
    return server.port, server.stop


SERVERS = {"httpbin": _httpbin, "wptserve": _wptserve}


@contextmanager
def stranger(name: str, folder: Path) -> Iterator[int]:
    """The port of a server for as long as the block lasts; wptserve serves the files of ``folder``."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.work.strangers", name, str(folder)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said.strip().isdigit(), (folder / f"{name}.log").read_text()
        yield int(said)
    finally:
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def main() -> None:
    """Serve."""
    port, stop = SERVERS[sys.argv[1]](Path(sys.argv[2]))
    print(port, flush=True)
    sys.stdin.read()
    stop()


if __name__ == "__main__":
    main()
