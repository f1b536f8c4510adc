"""``connect_to``: connections to one host go to an address of our choice (curl's ``--connect-to``).

Test hosts and staging sites get a real name, a real certificate and a real Host header this way,
without DNS. These targets are the only ones exempt from the guard against private addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from node.rules.address import literal

_RULE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):(\d*):(\[[^\[\]]*\]|[^:\[\]]*):(\d*)", re.ASCII)


class ConnectTo:
    """A list of rules ``HOST1:PORT1:HOST2:PORT2``, looked up by (host, port).

    An empty HOST1 or PORT1 stands for any, an empty HOST2 or PORT2 for "as asked". IPv6 addresses are
    in brackets. The most particular rule wins: host and port, then host, then port, then any; of
    equal ones the first. Raises ``ValueError`` in one sentence for a rule that can't be used.
    """

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[str]) -> None:
        self._rules: dict[tuple[str, int | None], tuple[str | None, int | None]] = {}
        for text in rules:
            source, target = _parse(text)
            self._rules.setdefault(source, target)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def target(self, host: str, port: int) -> tuple[str | None, int] | None:
        """Where to connect for ``host`` and ``port``: (address, or None = still ask DNS; port).

        None where no rule fits. ``host`` is lower case, an IPv6 address in brackets.
        """
        if not self._rules:
            return None
        host = host.rstrip(".")
        for key in ((host, port), (host, None), ("", port), ("", None)):
            found = self._rules.get(key)
            if found is not None:
                address, other_port = found
                return address, port if other_port is None else other_port
        return None


def _parse(text: str) -> tuple[tuple[str, int | None], tuple[str | None, int | None]]:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"connect_to {text!r} is not HOST1:PORT1:HOST2:PORT2 (IPv6 in brackets)")
    host, port, other_host, other_port = match.groups()
    address = None
    if other_host:
        address = "127.0.0.1" if other_host == "localhost" else literal(other_host)
        if address is None:
            raise ValueError(f"connect_to {text!r}: {other_host!r} must be an address, not a name")
    return (host.lower().rstrip("."), _port(port, text)), (address, _port(other_port, text))


def _port(digits: str, text: str) -> int | None:
    if not digits:
        return None
    port = int(digits) if len(digits) <= 5 else 0
    if not 0 < port < 65_536:
        raise ValueError(f"connect_to {text!r}: {digits} is no port")
    return port
