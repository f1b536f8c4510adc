"""Start a miniature web: ``python -m tests.web --dir DIR``.

Prints one JSON line when it is listening and runs until SIGTERM, SIGINT, or the end of stdin where
that is a pipe, a socket or a terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import stat
import sys
from pathlib import Path

from tests.web.behaviours.table import seed_lines
from tests.web.certs import Authority
from tests.web.log import AccessLog
from tests.web.ordinary import OrdinaryWeb
from tests.web.server import Server
from tests.web.shape import MEAN_PAGE_BYTES, Shape, domain_name


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.web", description=__doc__)
    parser.add_argument(
        "--dir", type=Path, required=True, help="for certificates, seed files and the access log"
    )
    parser.add_argument(
        "--tls-dir", type=Path, help="folder of the certificates, may be shared (default: DIR/tls)"
    )
    parser.add_argument("--domains", type=int, default=100, help="ordinary domains (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="another number, another web (default: %(default)s)"
    )
    parser.add_argument("--pages-per-domain", type=int, default=20, help="on average (default: %(default)s)")
    parser.add_argument(
        "--mean-bytes", type=int, default=MEAN_PAGE_BYTES, help="of a page (default: %(default)s)"
    )
    parser.add_argument(
        "--ca", choices=("rsa", "ec", "mixed"), default="mixed", help="kind of certificate chains"
    )
    parser.add_argument("--https-port", type=int, default=0, help="0 means any free one")
    parser.add_argument("--address", default="127.0.0.1", help="where to listen (default: %(default)s)")
    parser.add_argument("--http-port", type=int, default=0, help="0 means any free one")
    return parser.parse_args()


def _write_seeds(folder: Path, shape: Shape) -> tuple[Path, Path]:
    """Seed files: the ordinary domains alone, and with the misbehaving ones in front."""
    ordinary = "".join(f"{domain_name(index)}\n" for index in range(shape.domains))
    alone, everything = folder / "ordinary-seeds.txt", folder / "seeds.txt"
    alone.write_text(ordinary)
    everything.write_text("".join(f"{line}\n" for line in seed_lines()) + ordinary)
    return everything, alone


def _told_to_stop() -> asyncio.Event:
    """Set at SIGTERM, SIGINT, or when whoever holds our stdin lets go of it."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    mode = os.fstat(0).st_mode
    # A script's background job has /dev/null for stdin, which ends at once and means nothing.
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0):
        loop.add_reader(0, lambda: stop.set() if not os.read(0, 65_536) else None)
    return stop


async def _run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.dir
    shape = Shape(arguments.seed, arguments.domains, arguments.pages_per_domain, arguments.mean_bytes)
    authority = Authority(arguments.tls_dir or folder / "tls", arguments.ca)
    log_path = folder / "access.log"
    log = AccessLog(log_path)
    server = Server(OrdinaryWeb(shape), authority, log, arguments.address)
    stop = _told_to_stop()
    await server.start(arguments.https_port, arguments.http_port)
    seeds, ordinary_seeds = _write_seeds(folder, shape)
    print(
        json.dumps(
            {
                "https_port": server.https_port,
                "http_port": server.http_port,
                "ca": str(authority.root),
                "seeds": str(seeds),
                "ordinary_seeds": str(ordinary_seeds),
                "log": str(log_path),
                "connect_to": server.connect_to,
            }
        ),
        flush=True,
    )
    await stop.wait()
    await server.stop()
    log.close()


def main() -> None:
    """Parse the arguments and serve."""
    arguments = _arguments()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        arguments.dir.mkdir(parents=True, exist_ok=True)
        asyncio.run(_run(arguments))
    except (OSError, ValueError) as error:
        sys.exit(f"the miniature web can't start: {error}")


if __name__ == "__main__":
    main()
