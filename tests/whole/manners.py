"""How a crawler behaved, judged by a server's access log alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from tests.web.log import Entry


def domain_of(host: str) -> str:
    """The registrable domain; in the miniature web that is the last two labels."""
    return ".".join(host.rsplit(".", 2)[-2:])


def by_domain(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The requests of each domain, in the order in which they came."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda each: each.t_ms):
        if entry.host is not None:
            found[domain_of(entry.host)].append(entry)
    return found


def gaps_ms(entries: Iterable[Entry]) -> Iterator[tuple[float, Entry, Entry]]:
    """Between each request and the next to the same domain, from arrival to arrival."""
    for requests in by_domain(entries).values():
        for before, after in pairwise(requests):
            yield after.t_ms - before.t_ms, before, after


def visits(requests: list[Entry], hops: Mapping[str, int]) -> list[list[Entry]]:
    """The requests of one domain by visits.

    ``hops``: URL -> which hop of its visit it was, by the fetch log. robots.txt belongs to what follows it.
    """
    out: list[list[Entry]] = []
    robots: list[Entry] = []
    for request in requests:
        robots.append(request)
        if not is_robots(request):
            if hops[request.url]:
                out[-1] += robots
            else:
                out.append(robots)
            robots = []
    return out


def hops(visit: list[Entry]) -> int:
    """Requests of a visit beyond its page and robots.txt."""
    return max(0, sum(not is_robots(each) for each in visit) - 1)


def is_robots(entry: Entry) -> bool:
    return entry.path == "/robots.txt"


def origin(entry: Entry) -> str:
    return f"{entry.scheme}://{entry.host}"


def full_handshakes(entries: Iterable[Entry]) -> dict[str, int]:
    """Host -> connections over TLS that resumed no session."""
    found: dict[str, int] = defaultdict(int)
    seen: set[int] = set()
    for entry in entries:
        if entry.scheme == "https" and entry.conn not in seen:
            seen.add(entry.conn)
            found[entry.sni or ""] += not entry.resumed
    return found
