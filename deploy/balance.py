"""How a list of domains falls on the nodes of a fleet, before anything is rented."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import InputError
from node.rules import url as urls
from node.rules.domain import registrable
from node.rules.seeds import Seed, parse_line
from node.rules.shard import node_of


class ListError(InputError):
    """The list can't be used; says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Registrable domains per node; ``junk_lines`` of the list could not be used."""

    domains: int
    per_node: list[int]
    junk_lines: int

    @property
    def mean(self) -> float:
        return self.domains / len(self.per_node)

    @property
    def worst_to_mean(self) -> float:
        """The fullest node's share against the mean, 1.0 = even."""
        return max(self.per_node) / self.mean if self.domains else 1.0


def domains_in(path: Path) -> Iterator[str | None]:
    """The registrable domain of each line of a list (plain, ``rank,domain``, .gz); None for junk.

    Raises ``ListError`` where the file can't be read.
    """
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                found = parse_line(raw.decode("utf-8", "replace"), number, path.name)
                if isinstance(found, Seed):
                    yield registrable(urls.host(found.url))
                elif found is not None:
                    yield None
    except (OSError, EOFError) as error:
        raise ListError(f"the list {path} can't be read: {error}") from None


def balance(path: Path, nodes: int) -> Balance:
    """Count each domain of the list once, on the node it belongs to."""
    per_node = [0] * nodes
    known: set[str] = set()
    junk = 0
    for domain in domains_in(path):
        if domain is None:
            junk += 1
        elif domain not in known:
            known.add(domain)
            per_node[node_of(domain, nodes)] += 1
    if not known:
        raise ListError(f"there is no usable line in {path}")
    return Balance(len(known), per_node, junk)
