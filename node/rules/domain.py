"""From a host to its registrable domain: the unit of sharding, pace, budget and exclusion.

The public suffix list comes with ``publicsuffixlist``, private section included: a blog host's
users are sites of their own. All nodes must use one list, so its version is part of a crawl's
fingerprint.
"""

from __future__ import annotations

from functools import lru_cache

import publicsuffixlist

PSL_VERSION: str = publicsuffixlist.__version__
"""Version of the list; ends in its date."""

CACHED_HOSTS = 32_768
"""Hosts whose domain is remembered, about 300 bytes each: 10 MB a process."""

_suffixes = publicsuffixlist.PublicSuffixList()


def is_address(host: str) -> bool:
    """Whether a canonical host is an IP literal.

    The URL standard's host parser makes an IPv4 address of every host whose last label is a number,
    or refuses it, so in a canonical URL the last character decides all but names like ``h2``.
    """
    if host[-1:].isdigit():
        return host.rpartition(".")[2].isdigit()
    return host[:1] == "["


@lru_cache(maxsize=CACHED_HOSTS)
def registrable(host: str) -> str:
    """The registrable domain of a host as it stands in a canonical URL (ASCII, lower case).

    IP literals, single labels and hosts that are themselves public suffixes are their own domain. A
    trailing dot says only that the name is complete, so it is dropped.
    """
    name = host[:-1] if host[-1:] == "." else host
    if is_address(name):
        return name
    return _suffixes.privatesuffix(name) or name
