"""A name server as a process of its own: ``python -m tests.chaos.names DOMAINS``.

Prints its address when it listens; runs until its stdin ends. It answers for the hosts of the miniature web's
ordinary domains, which it spreads over four networks; with SERVFAIL to everything between SIGUSR1 and
SIGUSR2. (For silence, stop it.)
"""

from __future__ import annotations

import signal
import sys

from tests.web.shape import domain_name
from tests.work.net import NameServer

NETWORKS = ("11.1.0.1", "11.2.0.1", "11.3.0.1", "11.4.0.1")
"""Addresses of a public network, as the guard against private ones sees it, that nobody here can reach."""
TTL_S = 1


def zone(domains: int) -> dict[tuple[str, str], list[tuple[int, str]] | int | None]:
    """What is answered while all is well."""
    return {
        (f"{prefix}{domain_name(index)}", "A"): [(TTL_S, NETWORKS[index % len(NETWORKS)])]
        for index in range(domains)
        for prefix in ("", "www.", "blog.")
    }


def main() -> int:
    well = zone(int(sys.argv[1]))
    with NameServer() as server:
        server.zone.update(well)
        signal.signal(signal.SIGUSR1, lambda *_: server.zone.update(dict.fromkeys(well, NameServer.SERVFAIL)))
        signal.signal(signal.SIGUSR2, lambda *_: server.zone.update(well))
        sys.stdout.write(server.address + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
