"""``exclude`` and ``include``: hosts and domains by name, on a node that runs or not."""

from __future__ import annotations

from collections.abc import Iterable

from node.settings import Settings
from node.store import keys
from node.store.connection import Store
from node.store.exclusions import Exclusions, in_force
from node.store.frontier import Frontier
from node.store.taken import EXCLUDED, TRIMMED
from node.work.operate import Taken, audit, bring_back, domains_under, host_of, take_out


def is_under(host: str, name: str) -> bool:
    """Is ``host`` this name, or below it?"""
    return host == name or host.endswith(f".{name}")


def exclude(
    store: Store, frontier: Frontier, settings: Settings, names: Iterable[str], reason: str
) -> list[Taken]:
    """Never visit these hosts or domains, nor anything under them, from two seconds on."""
    hosts = [host_of(name) for name in names]
    included = in_force(store, settings.data).included
    lifted = [name for name in included if any(is_under(name, host) for host in hosts)]
    commands: list[tuple[str, ...]] = [("SADD", keys.EXCLUDED, *hosts), ("INCR", keys.EXCLUDED_VERSION)]
    if lifted:
        commands.append(("SREM", keys.INCLUDED, *lifted))
    store.calls([], extra=commands)
    audit(settings, exclude=hosts, reason=reason)
    out = []
    for name in hosts:
        for domain in domains_under(store, name):
            host = "" if is_under(domain, name) else name
            out.append(take_out(store, frontier, settings, domain, keep=0, host=host, reason=EXCLUDED))
    return out


def include(
    store: Store, frontier: Frontier, settings: Settings, names: Iterable[str]
) -> tuple[list[Taken], list[str]]:
    """Visit these hosts or domains again, and bring back what ``exclude`` and ``trim`` took out of them.

    What a list or a name above them excludes is visited all the same. Names below them that are excluded by
    themselves stay so; the second answer tells which.
    """
    hosts = [host_of(name) for name in names]
    before = in_force(store, settings.data)
    without = Exclusions(before.names - set(hosts), before.included)
    without.look(settings.data)
    exceptions = [host for host in hosts if without.covers(host)]
    commands: list[tuple[str, ...]] = [("SREM", keys.EXCLUDED, *hosts), ("INCR", keys.EXCLUDED_VERSION)]
    if exceptions:
        commands.append(("SADD", keys.INCLUDED, *exceptions))
    store.calls([], extra=commands)
    audit(settings, include=hosts)
    now = in_force(store, settings.data)
    out = []
    for name in hosts:

        def wanted(host: str, name: str = name) -> bool:
            return is_under(host, name) and not now.covers(host)

        for domain in domains_under(store, name):
            for reason in (EXCLUDED, TRIMMED):
                out.append(bring_back(store, frontier, settings, domain, reason, wanted))
    still = sorted({each for host in hosts for each in now.under(host)})
    return [taken for taken in out if taken.urls], still
