"""From a host to the addresses we may connect to: DNS with a cache, and the address guard (I7).

Whatever DNS says, and whatever address a URL spells out, is checked here, and the caller connects to
exactly what comes out, so an answer that changes between check and connection changes nothing. Only
``connect_to`` targets are exempt, and the gateway, whose address stands in the settings.

DNS alone is asked: /etc/hosts is not consulted, nor search domains. A records are asked for; AAAA only
with ``ipv6``, and then IPv4 is tried first (no happy eyeballs: a crawler has time, and half as many
connections to make). Look-ups of one name under way are shared; each name waits only for its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import aiodns
import pycares

from node.rules.address import is_public, literal
from node.rules.connect_to import ConnectTo
from node.rules.outcome import Outcome

_NO_ANSWER = frozenset(
    {
        aiodns.error.ARES_ETIMEOUT,
        aiodns.error.ARES_ECONNREFUSED,
        aiodns.error.ARES_EREFUSED,
        aiodns.error.ARES_ENOMEM,
        aiodns.error.ARES_EFILE,
        aiodns.error.ARES_ECANCELLED,
        aiodns.error.ARES_EDESTRUCTION,
    }
)
"""c-ares errors that tell about our name server or ourselves, and nothing about the name."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where to connect: (IP address, port) in the order to try them.

    Where there is none, ``outcome`` says why (``DNS_FAILED``, ``DNS_SERVFAIL``, ``DNS_TIMEOUT``,
    ``PRIVATE_ADDRESS``) and ``detail`` says it in words.
    """

    found: tuple[tuple[str, int], ...]
    outcome: Outcome | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is cached of a name: its public addresses, or why it has none."""

    expires: float
    ips: tuple[str, ...]
    outcome: Outcome | None = None
    detail: str = ""


class Resolver:
    """Looks up hosts. One per process; its first look-up must be made inside the event loop.

    ``servers`` are ``ip[:port]`` (none = those of the system). A TTL is honoured between
    ``ttl_floor_s`` and ``ttl_ceiling_s`` (c-ares has a cache of its own and may repeat an answer while
    its TTL lasts, at most an hour, so a lower ceiling asks c-ares again, not always the server).
    Failures are remembered for ``negative_ttl_s``. The cache holds ``max_entries`` names, oldest out
    first. ``guard`` False also answers private addresses: for what the operator named himself, and for
    nothing that a page did. ``clock`` is monotonic seconds. Raises ``ValueError`` for a server that is no
    address.
    """

    def __init__(
        self,
        *,
        servers: Iterable[str] = (),
        connect_to: ConnectTo | None = None,
        ttl_floor_s: float = 30.0,
        ttl_ceiling_s: float = 3600.0,
        negative_ttl_s: float = 30.0,
        timeout_s: float = 5.0,
        max_entries: int = 200_000,
        ipv6: bool = False,
        guard: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = tuple(servers)
        self._connect_to = connect_to or ConnectTo(())
        self._ttl_floor_s = ttl_floor_s
        self._ttl_ceiling_s = ttl_ceiling_s
        self._negative_ttl_s = negative_ttl_s
        self._timeout_s = timeout_s
        self._max_entries = max_entries
        self._types = ("A", "AAAA") if ipv6 else ("A",)
        self._guard = guard
        self._clock = clock
        self._cache: dict[str, _Answer] = {}
        self._under_way: dict[str, asyncio.Task[_Answer]] = {}
        self._dns: aiodns.DNSResolver | None = None
        for server in self._servers:
            _check_server(server)

    async def resolve(self, host: str, port: int) -> Addresses:
        """The addresses for ``host`` (lower case; an IPv6 address in brackets) and ``port``."""
        redirected = self._connect_to.target(host, port)
        if redirected is not None:
            address, port = redirected
            if address is not None:
                return Addresses(((address, port),))
        spelled = literal(host)
        if spelled is not None:
            if self._allowed(spelled):
                return Addresses(((spelled, port),))
            return Addresses((), Outcome.PRIVATE_ADDRESS, f"{spelled} is not public")
        name = host.rstrip(".")
        if name == "localhost" or name.endswith(".localhost"):  # RFC 6761: never a question for a name server
            if not self._guard:
                return Addresses((("127.0.0.1", port),))
            return Addresses((), Outcome.PRIVATE_ADDRESS, f"{name} is this machine")
        answer = await self._answer(name)
        return Addresses(tuple([(ip, port) for ip in answer.ips]), answer.outcome, answer.detail)

    def is_cached(self, host: str) -> bool:
        """Whether ``host`` can be answered without asking."""
        known = self._cache.get(host.rstrip("."))
        return known is not None and self._clock() < known.expires

    def would_ask(self, host: str, port: int) -> bool:
        """Whether a name server would be asked for ``host`` now."""
        redirected = self._connect_to.target(host, port)
        if redirected is not None:
            address, _ = redirected
            if address is not None:
                return False
        return literal(host) is None and not self.is_cached(host)

    def forget_failures(self) -> None:
        """Ask anew for names without an address: our own line was down, and they may have one."""
        self._cache = {name: known for name, known in self._cache.items() if known.outcome is None}

    def demote(self, host: str, ip: str) -> None:
        """``ip`` did not take a connection: try it last for as long as this answer lasts."""
        known = self._cache.get(host.rstrip("."))
        if known is not None and ip in known.ips:
            others = tuple([other for other in known.ips if other != ip])
            self._cache[host.rstrip(".")] = replace(known, ips=(*others, ip))

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._dns is not None:
            await self._dns.close()
            self._dns = None

    async def _answer(self, name: str) -> _Answer:
        known = self._cache.get(name)
        if known is not None and self._clock() < known.expires:
            return known
        task = self._under_way.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._look_up(name))
            self._under_way[name] = task
            task.add_done_callback(lambda _: self._under_way.pop(name, None))
        try:
            # who asked first may give up; the others still want the answer
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if this is not None and this.cancelling():
                raise
            return self._no_address(Outcome.DNS_TIMEOUT, "the resolver was closed")

    async def _look_up(self, name: str) -> _Answer:
        answer = await self._ask(name)
        self._cache.pop(name, None)
        self._cache[name] = answer
        if len(self._cache) > self._max_entries:
            del self._cache[next(iter(self._cache))]
        return answer

    async def _ask(self, name: str) -> _Answer:
        """Ask for every type we want; one usable address is enough."""
        if self._dns is None:
            self._dns = aiodns.DNSResolver(self._servers or None, timeout=self._timeout_s / 2, tries=2)
        records: list[pycares.DNSRecord] = []
        failure: tuple[Outcome, str] | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                results = await asyncio.gather(
                    *(self._dns.query_dns(name, kind) for kind in self._types), return_exceptions=True
                )
        except TimeoutError:
            return self._no_address(Outcome.DNS_TIMEOUT, "no answer from the name server")
        except ValueError as error:  # also UnicodeError: nothing DNS could have
            return self._no_address(Outcome.DNS_FAILED, f"not a name for DNS: {error}")
        for result in results:
            if isinstance(result, pycares.DNSResult):
                records += result.answer
            elif isinstance(result, aiodns.error.DNSError):
                code, words = result.args
                failure = failure or (_outcome_of(code), str(words))
            else:
                raise result
        return self._judge(records, failure)

    def _judge(self, records: list[pycares.DNSRecord], failure: tuple[Outcome, str] | None) -> _Answer:
        """Keep the public addresses; the shortest TTL on the way to them counts."""
        ips = [
            record.data.addr
            for record in records
            if isinstance(record.data, pycares.ARecordData | pycares.AAAARecordData)
        ]
        public = tuple([ip for ip in ips if self._allowed(ip)])
        if public:
            ttl_s = max(min(record.ttl for record in records), self._ttl_floor_s)
            return _Answer(self._clock() + min(ttl_s, self._ttl_ceiling_s), public)
        if ips:
            return self._no_address(Outcome.PRIVATE_ADDRESS, f"resolves to {ips[0]}, which is not public")
        return self._no_address(*(failure or (Outcome.DNS_FAILED, "the name has no address")))

    def _allowed(self, ip: str) -> bool:
        return not self._guard or is_public(ip)

    def _no_address(self, outcome: Outcome, detail: str) -> _Answer:
        return _Answer(self._clock() + self._negative_ttl_s, (), outcome, detail)


def _outcome_of(code: int) -> Outcome:
    """What an error of c-ares is."""
    if code in _NO_ANSWER:
        return Outcome.DNS_TIMEOUT
    return Outcome.DNS_SERVFAIL if code == aiodns.error.ARES_ESERVFAIL else Outcome.DNS_FAILED


def _check_server(server: str) -> None:
    host, colon, port = server.rpartition(":")
    if not colon or (server.count(":") > 1 and not server.startswith("[")):
        host, port = server, "53"  # a bare address, IPv6 perhaps
    bare = host if host.startswith("[") or ":" not in host else f"[{host}]"
    if literal(bare) is None or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError(f"dns.servers: {server!r} is not ip[:port]")
