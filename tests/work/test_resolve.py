"""DNS: lifetimes, failures, sharing, and the guard against private addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvloop

from node.rules.connect_to import ConnectTo
from node.rules.outcome import Outcome
from node.work.resolve import Addresses, Resolver
from tests.work.net import NameServer, dead_port

ONE, TWO = "93.184.216.34", "1.1.1.1"


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def dns() -> Iterator[NameServer]:
    with NameServer() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


def using(dns: NameServer, do: Callable[[Resolver], Awaitable[None]], **options: object) -> None:
    """Run ``do`` with a resolver that asks ``dns``, under uvloop as in production."""

    async def main() -> None:
        resolver = Resolver(servers=(dns.address,), **options)  # type: ignore[arg-type]
        try:
            await do(resolver)
        finally:
            await resolver.close()

    uvloop.run(main())


def test_addresses(dns: NameServer) -> None:
    """All addresses of a name are given, with the port, through an alias as well."""
    dns.zone["h.test", "A"] = [(60, ONE), (60, TWO)]
    dns.aliases["www.h.test"] = (60, "h.test")

    async def do(resolver: Resolver) -> None:
        for name in ("h.test", "h.test.", "www.h.test"):
            assert (await resolver.resolve(name, 8080)).found == ((ONE, 8080), (TWO, 8080))

    using(dns, do)
    assert dns.asked == [("h.test", "A"), ("www.h.test", "A")]


@pytest.mark.parametrize(
    ("ttl_s", "floor_s", "ceiling_s", "lives_s"),
    [(0, 0, 3_600, 0), (0, 30, 3_600, 30), (1, 30, 3_600, 30)],
)
def test_lifetimes(
    dns: NameServer, clock: Clock, ttl_s: int, floor_s: float, ceiling_s: float, lives_s: float
) -> None:
    """An answer lives as long as its TTL says, within our bounds; then the new address is used (N28)."""
    dns.zone["h.test", "A"] = [(ttl_s, ONE)]

    async def do(resolver: Resolver) -> None:
        assert (await resolver.resolve("h.test", 80)).found == ((ONE, 80),)
        dns.zone["h.test", "A"] = [(ttl_s, TWO)]
        if lives_s:
            clock.now += lives_s - 0.5
            assert (await resolver.resolve("h.test", 80)).found == ((ONE, 80),)
            clock.now += 1
            await asyncio.sleep(ttl_s * 1.05)  # c-ares has a clock and a cache of its own
        assert (await resolver.resolve("h.test", 80)).found == ((TWO, 80),)

    using(dns, do, clock=clock, ttl_floor_s=floor_s, ttl_ceiling_s=ceiling_s)
    assert len(dns.asked) == 2


def test_a_ceiling(dns: NameServer, clock: Clock) -> None:
    """A TTL of weeks is cut to our ceiling; until then nobody is asked."""
    dns.zone["h.test", "A"] = [(2_000_000, ONE)]

    async def do(resolver: Resolver) -> None:
        for passing_s, cached in ((0, False), (3_599, True), (2, False)):
            clock.now += passing_s
            assert resolver.is_cached("h.test") is cached
            assert (await resolver.resolve("h.test", 80)).found == ((ONE, 80),)

    using(dns, do, clock=clock)


def test_the_shortest_ttl_counts(dns: NameServer, clock: Clock) -> None:
    """An alias that is about to change limits the life of the addresses behind it."""
    dns.zone["h.test", "A"] = [(3_000, ONE)]
    dns.aliases["www.h.test"] = (100, "h.test")

    async def do(resolver: Resolver) -> None:
        await resolver.resolve("www.h.test", 80)
        clock.now += 99
        assert resolver.is_cached("www.h.test")
        clock.now += 2
        assert not resolver.is_cached("www.h.test")

    using(dns, do, clock=clock)


def test_this_machine_is_never_asked_for(dns: NameServer) -> None:
    """localhost and all below it is private, whatever a name server would say (RFC 6761)."""
    dns.zone["localhost", "A"] = [(60, ONE)]

    async def do(resolver: Resolver) -> None:
        for name in ("localhost", "localhost.", "api.localhost"):
            assert (await resolver.resolve(name, 80)).outcome is Outcome.PRIVATE_ADDRESS

    using(dns, do)
    assert dns.asked == []


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (NameServer.NXDOMAIN, Outcome.DNS_FAILED),
        ([], Outcome.DNS_FAILED),
        (NameServer.SERVFAIL, Outcome.DNS_SERVFAIL),
        (NameServer.REFUSED, Outcome.DNS_TIMEOUT),
    ],
)
def test_failures(dns: NameServer, clock: Clock, said: int | list[tuple[int, str]], outcome: Outcome) -> None:
    """A name without an address is told from a name server without an answer, and remembered for a while."""
    dns.zone["h.test", "A"] = said

    async def do(resolver: Resolver) -> None:
        first = await resolver.resolve("h.test", 80)
        assert (first.found, first.outcome) == ((), outcome)
        assert first.detail
        asked = len(dns.asked)
        assert await resolver.resolve("h.test", 80) == first
        assert len(dns.asked) == asked
        clock.now += 31
        assert not resolver.is_cached("h.test")

    using(dns, do, clock=clock)


@pytest.mark.parametrize("host", ["a..test", "x" * 64 + ".test", ".".join(["x" * 60] * 5), "h.test:80", ""])
def test_impossible_names(dns: NameServer, host: str) -> None:
    """What can't be a name for DNS is a failure of DNS, not an exception."""

    async def do(resolver: Resolver) -> None:
        assert (await resolver.resolve(host, 80)).outcome is Outcome.DNS_FAILED

    using(dns, do)


def test_silence_stalls_its_own_name_only(dns: NameServer) -> None:
    """A name whose servers don't answer ends as dns_timeout; others are looked up meanwhile."""
    dns.zone["silent.test", "A"] = None
    dns.zone["h.test", "A"] = [(60, ONE)]

    async def do(resolver: Resolver) -> None:
        silent = asyncio.ensure_future(resolver.resolve("silent.test", 80))
        assert (await resolver.resolve("h.test", 80)).found == ((ONE, 80),)
        assert not silent.done()
        assert (await silent).outcome is Outcome.DNS_TIMEOUT

    using(dns, do, timeout_s=0.3)


def test_no_name_server_at_all(dns: NameServer) -> None:
    """A name server that is down is our own trouble: dns_timeout, which charges no domain."""

    async def main() -> Addresses:
        with dead_port(socket.SOCK_DGRAM) as port:
            resolver = Resolver(servers=(f"127.0.0.1:{port}",), timeout_s=0.3)
            try:
                return await resolver.resolve("h.test", 80)
            finally:
                await resolver.close()

    assert uvloop.run(main()).outcome is Outcome.DNS_TIMEOUT


def test_look_ups_are_shared(dns: NameServer) -> None:
    """A hundred requests for one name cost one question; who gives up takes it from nobody."""
    dns.zone["h.test", "A"] = [(60, ONE)]

    async def do(resolver: Resolver) -> None:
        dns.answering.clear()
        many = [asyncio.ensure_future(resolver.resolve("h.test", 80)) for _ in range(100)]
        await asyncio.sleep(0)
        many[0].cancel()
        dns.answering.set()
        answers = await asyncio.gather(*many[1:])
        assert {answer.found for answer in answers} == {((ONE, 80),)}

    using(dns, do)
    assert len(dns.asked) == 1


def test_closed_meanwhile(dns: NameServer) -> None:
    """Who waits for an answer when the resolver is closed gets one, and is not cancelled with it."""
    dns.zone["h.test", "A"] = None

    async def do(resolver: Resolver) -> None:
        waiting = asyncio.ensure_future(resolver.resolve("h.test", 80))
        await asyncio.sleep(0)
        await resolver.close()
        assert (await waiting).outcome is Outcome.DNS_TIMEOUT

    using(dns, do)


def test_the_cache_is_bounded(dns: NameServer) -> None:
    """The cache keeps the latest ``max_entries`` names."""
    for at in range(5):
        dns.zone[f"h{at}.test", "A"] = [(60, ONE)]

    async def do(resolver: Resolver) -> None:
        for at in range(5):
            await resolver.resolve(f"h{at}.test", 80)
        assert [resolver.is_cached(f"h{at}.test") for at in range(5)] == [False, False, True, True, True]

    using(dns, do, max_entries=3)


def test_private_addresses(dns: NameServer) -> None:
    """A name that points inside is refused; of a mixed answer only what is public is used (I7)."""
    dns.zone["inside.test", "A"] = [(60, "10.0.0.1"), (60, "169.254.169.254")]
    dns.zone["mixed.test", "A"] = [(60, "127.0.0.1"), (60, ONE), (60, "192.168.0.1")]

    async def do(resolver: Resolver) -> None:
        inside = await resolver.resolve("inside.test", 80)
        assert (inside.found, inside.outcome) == ((), Outcome.PRIVATE_ADDRESS)
        assert "10.0.0.1" in inside.detail
        assert (await resolver.resolve("mixed.test", 80)).found == ((ONE, 80),)

    using(dns, do)


def test_rebinding(dns: NameServer, clock: Clock) -> None:
    """A name that turns inside later is checked anew when its answer has run out."""
    dns.zone["h.test", "A"] = [(0, ONE)]

    async def do(resolver: Resolver) -> None:
        assert (await resolver.resolve("h.test", 80)).found
        dns.zone["h.test", "A"] = [(0, "127.0.0.1")]
        clock.now += 31
        assert (await resolver.resolve("h.test", 80)).outcome is Outcome.PRIVATE_ADDRESS

    using(dns, do, clock=clock)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "0.0.0.0", "169.254.169.254"])
def test_private_literals(dns: NameServer, host: str) -> None:
    """An address in the URL passes the same guard, and asks no name server."""

    async def do(resolver: Resolver) -> None:
        assert (await resolver.resolve(host, 80)).outcome is Outcome.PRIVATE_ADDRESS

    using(dns, do)
    assert dns.asked == []


def test_public_literals(dns: NameServer) -> None:
    """A public address in the URL is used as it is."""

    async def do(resolver: Resolver) -> None:
        assert (await resolver.resolve(ONE, 81)).found == ((ONE, 81),)
        assert (await resolver.resolve("[2606:4700::1111]", 81)).found == (("2606:4700::1111", 81),)

    using(dns, do)
    assert dns.asked == []


def test_connect_to(dns: NameServer) -> None:
    """A connect_to target needs no DNS and is exempt from the guard; a mere change of port is not."""
    dns.zone["port.test", "A"] = [(60, "10.0.0.1")]
    rules = ConnectTo(["h.test:443:127.0.0.1:8443", "port.test:80::8080"])

    async def do(resolver: Resolver) -> None:
        assert (await resolver.resolve("h.test", 443)).found == (("127.0.0.1", 8443),)
        assert (await resolver.resolve("port.test", 80)).outcome is Outcome.PRIVATE_ADDRESS

    using(dns, do, connect_to=rules)
    assert dns.asked == [("port.test", "A")]


def test_ipv6(dns: NameServer) -> None:
    """AAAA is asked for only where it is wanted, and IPv4 is tried first."""
    dns.zone["both.test", "A"] = [(60, ONE)]
    dns.zone["both.test", "AAAA"] = [(60, "2606:4700::1111")]
    dns.zone["six.test", "A"] = []
    dns.zone["six.test", "AAAA"] = [(60, "2606:4700::1111"), (60, "fe80::1")]

    async def without(resolver: Resolver) -> None:
        assert (await resolver.resolve("both.test", 80)).found == ((ONE, 80),)
        assert (await resolver.resolve("six.test", 80)).outcome is Outcome.DNS_FAILED

    async def with_ipv6(resolver: Resolver) -> None:
        assert (await resolver.resolve("both.test", 80)).found == ((ONE, 80), ("2606:4700::1111", 80))
        assert (await resolver.resolve("six.test", 80)).found == (("2606:4700::1111", 80),)

    using(dns, without)
    assert {kind for _, kind in dns.asked} == {"A"}
    using(dns, with_ipv6, ipv6=True)


def test_demotion(dns: NameServer) -> None:
    """An address that took no connection is tried last from then on."""
    dns.zone["h.test", "A"] = [(60, ONE), (60, TWO)]

    async def do(resolver: Resolver) -> None:
        await resolver.resolve("h.test", 80)
        resolver.demote("h.test", ONE)
        assert (await resolver.resolve("h.test", 80)).found == ((TWO, 80), (ONE, 80))
        resolver.demote("never-seen.test", ONE)

    using(dns, do)


@pytest.mark.parametrize("server", ["1.1.1.1", "1.1.1.1:53", "2606:4700::1111", "[2606:4700::1111]:53"])
def test_server_forms(server: str) -> None:
    """Name servers are given as ip[:port], IPv6 with a port in brackets."""
    Resolver(servers=[server])


@pytest.mark.parametrize("server", ["", "dns.test", "1.1.1.1:x", "1.1.1.1:0", "1.1.1.1:70000", "[::1"])
def test_server_refused(server: str) -> None:
    """Anything else stops the start, by name."""
    with pytest.raises(ValueError, match=r"dns\.servers"):
        Resolver(servers=[server])


def test_what_the_operator_named_may_be_private(dns: NameServer) -> None:
    """A gateway may stand on this machine or in our own network: its address comes from the settings."""
    dns.zone["gw.test", "A"] = [(60, "10.1.2.3")]

    async def do(resolver: Resolver) -> None:
        found = [(await resolver.resolve(host, 80)).found for host in ("gw.test", "127.0.0.1", "localhost")]
        assert found == [(("10.1.2.3", 80),), (("127.0.0.1", 80),), (("127.0.0.1", 80),)]

    using(dns, do, guard=False)
