"""Taking the worst URLs out of queues: of named domains, of all that are too long, of the longest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from node.rules.domain import registrable
from node.settings import Settings
from node.store.connection import Store
from node.store.frontier import Frontier
from node.store.taken import TRIMMED
from node.work.domains import states, top
from node.work.operate import Taken, host_of, take_out


def named(names: Iterable[str]) -> list[str]:
    """The registrable domains of what a user typed, each once. Raises ``InputError``."""
    return list(dict.fromkeys(registrable(host_of(name)) for name in names))


def longer_than(store: Store, frontier: Frontier, urls: int) -> list[str]:
    """Domains with more than ``urls`` URLs waiting, the longest queue first."""
    found = {  # a scan may give a domain twice
        state.domain: waiting
        for state in states(store, frontier)
        if (waiting := state.queued + state.later) > urls
    }
    return sorted(found, key=lambda domain: (-found[domain], domain))


def longest(store: Store, frontier: Frontier, most: int) -> list[str]:
    """The ``most`` domains with the longest queues."""
    return list(dict.fromkeys(state.domain for state in top(store, frontier, most)))


def trim(
    store: Store,
    frontier: Frontier,
    settings: Settings,
    domains: Iterable[str],
    keep: int,
    *,
    dry_run: bool = False,
) -> Iterator[Taken]:
    """Keep the ``keep`` best URLs of each domain's queue; the rest goes to a file, a domain at a time.

    ``dry_run`` only counts what would go. Domains with nothing to take are passed over.
    """
    for domain in domains:
        taken = take_out(
            store, frontier, settings, domain, keep=keep, host="", reason=TRIMMED, dry_run=dry_run
        )
        if taken.urls:
            yield taken
