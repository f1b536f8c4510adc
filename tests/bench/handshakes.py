"""Fetches alone: what a TLS handshake costs, by kind of chain, full and resumed."""

from __future__ import annotations

import asyncio

from node.rules.entry import Entry, Lease
from node.settings import Settings
from node.work.fetcher import Fetcher
from node.work.http import Fetched
from node.work.process import Stop
from tests.bench.laps import VISIT, Laps
from tests.bench.plan import IN_FLIGHT
from tests.bench.processes import RunError
from tests.bench.served import Web

_CHAINS = {"rsa": "RSA", "ec": "EC under P-384"}


async def measure(settings: Settings, web: Web, laps: Laps, rounds: int) -> int:
    """Fetch the home pages of all domains, twice in a round; answers how many first visits there were."""
    first_visits = 0
    for number in range(2, rounds + 2):
        fetcher = Fetcher(settings, number, Stop())  # a new one: no TLS session is known to it
        for visit in ("full handshake", "resumed"):
            for kind, words in _CHAINS.items():
                hosts = [host for host in web.tree.sites if web.kind_of_chain(host) == kind]
                for start in range(0, len(hosts), IN_FLIGHT):
                    some = hosts[start : start + IN_FLIGHT]
                    with laps.lap("fetcher", f"fetch alone, {words}, {visit}", len(some), part_of=VISIT):
                        fetched = await asyncio.gather(*(_fetch(fetcher, host) for host in some))
                    if any(each.status != 200 for each in fetched):
                        raise RunError(f"a page could not be fetched: {fetched[0].outcome}")
                    if visit == "resumed":
                        _record(fetcher, laps, some, fetched)
                        await fetcher.recorder.commit()
                    else:
                        first_visits += len(some)
        await fetcher.archive.close()
        fetcher.log.close()
        await fetcher.client.close()
        await fetcher.store.close()
    return first_visits


async def _fetch(fetcher: Fetcher, host: str) -> Fetched:
    limits = fetcher.settings.fetcher
    return await fetcher.client.fetch(
        f"https://{host}/", deadline_s=limits.deadline_s, max_wire_bytes=limits.max_wire_bytes
    )


def _record(fetcher: Fetcher, laps: Laps, hosts: list[str], fetched: list[Fetched]) -> None:
    leases = [Lease(f"t 0 {host} e", 0, host, 0, Entry(f"https://{host}/", 0, 0), 0, 0) for host in hosts]
    with laps.lap("fetcher", "WARC record and log line alone", len(hosts), part_of=VISIT):
        for lease, each in zip(leases, fetched, strict=True):
            fetcher.recorder.record(lease, lease.entry.url, each, each.outcome)
