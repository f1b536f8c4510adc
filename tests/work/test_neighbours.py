"""Many domains at one address, by fetchers at work: what its web sees, and what first visits know."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from node.rules.addresses import FORGET, counts, words
from node.settings import Settings, build
from node.store import keys
from node.store.address_record import unpack
from node.work import neighbours
from node.work.neighbours import Neighbours
from tests.conftest import missing
from tests.fleet.shell import Failed, missing_programs, run
from tests.redis_server import RedisServer
from tests.work import one_address
from tests.work.one_address import ANSWER_S, FETCHERS, PAGES, VISITS_AT_ONCE, VISITS_PER_S

REPO = Path(__file__).resolve().parents[2]
INSIDE = (
    "ip link set lo up && ip address add $1/32 dev lo && ip address add $2/32 dev lo && shift 2 && exec $@"
)


def unshared() -> list[str]:
    """The command that runs another in a network of its own."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--net", *as_root, "--"]


def why_not() -> str | None:
    """Why no network can be made here, if so."""
    gone = missing_programs("unshare", "ip")
    if gone:
        return f"not installed: {', '.join(gone)}"
    try:
        run(*unshared(), "ip", "link", "set", "lo", "up")
    except Failed as error:
        return str(error)
    return None


def test_two_fetchers_keep_the_limit_of_one_address(tmp_path: Path, redis_server: RedisServer) -> None:
    """By the web's own log: all fetchers together, many domains that nobody had visited. Only the first that
    each fetcher meets is beside the count, while it is the only one."""
    reason = why_not()
    if reason is not None:
        missing(reason)
    with redis_server.client() as client:
        client.flushall()
    child: list[str | Path] = [sys.executable, "-m", "tests.work.one_address"]
    child += [redis_server.socket, tmp_path / "data"]
    addresses = [one_address.SHARED, one_address.OTHER]
    done = run(*unshared(), "sh", "-c", INSIDE, "sh", *addresses, *child, env={"PYTHONPATH": str(REPO)})
    log = sorted(json.loads(done.stdout), key=lambda row: row[2])
    there = [tuple(row[2:]) for row in log if row[1] != one_address.ALONE]
    assert len(there) == one_address.DOMAINS * PAGES
    counted = [(begun, ended) for begun, ended, is_first in there if not is_first]
    assert len(there) - len(counted) <= FETCHERS
    assert most_at_once(counted) <= VISITS_AT_ONCE
    # there is no hurry: three at once are fewer than the rate allows
    took_s = counted[-1][1] - counted[0][0]
    assert len(counted) <= VISITS_AT_ONCE * (took_s / ANSWER_S + 1)
    assert len(counted) <= VISITS_PER_S * (took_s + 1) + 1
    with redis_server.client() as client:
        assert [unpack(client.get(key)).out for key in client.keys(keys.address("*"))] in ([], [0])
        assert int(client.hget(keys.LEDGER, "address_waits")) > 0


def most_at_once(visits: list[tuple[float, float]]) -> int:
    """How many were under way at the fullest moment."""
    return max(sum(begun <= at < ended for begun, ended in visits) for at, _ in visits)


def settings(**sections: dict[str, object]) -> Settings:
    return build({"paths": {"data": "/nowhere"}} | sections)


def test_an_address_counts_once_two_domains_were_met_there() -> None:
    """One domain can't exceed its limit; from the second on all visits are counted, the first one's, too."""
    known = Neighbours(settings())

    def counted(domain: str, ip: str) -> bool:
        place = known.place(f"https://{domain}/", ip, domain)
        assert words(place) == ip
        return counts(place)

    assert not counted("a.test", "192.0.2.7")
    assert not counted("a.test", "192.0.2.7")
    assert counted("b.test", "192.0.2.7")
    assert counted("a.test", "192.0.2.7")
    assert not counted("c.test", "192.0.2.8")


@pytest.mark.parametrize(
    ("crawl", "addresses"),
    [({"delay_s": 0.0}, {"visits_at_once": 4}), ({"delay_s": 5.0}, {"visits_per_s": 0.1})],
)
def test_where_one_domain_may_exceed_the_limit_it_counts(
    crawl: dict[str, object], addresses: dict[str, object]
) -> None:
    """Without a delay it may be visited several times at once; with a short one, too often."""
    known = Neighbours(settings(crawl=crawl, addresses=addresses))
    assert counts(known.place("https://a.test/", "192.0.2.7", "a.test"))


def test_what_is_met_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """I4: of the addresses met with one domain the oldest is forgotten first, so of those with several."""
    monkeypatch.setattr(neighbours, "MOST_MET", 3)
    known = Neighbours(settings())

    def counted(domain: str, number: int) -> bool:
        return counts(known.place(f"https://{domain}/", f"192.0.2.{number}", domain))

    for number in range(9):
        assert not counted("a.test", number)
    assert not counted("b.test", 0)
    assert counted("b.test", 8)
    for number in range(10, 20):
        counted("a.test", number)
        assert counted("b.test", number)
    assert counted("c.test", 19)
    assert not counted("c.test", 8)


def test_connect_to_is_exempt() -> None:
    """What goes to an address of the operator's choice is not counted, and needs no look-up; a rule that only
    changes the port leaves the address to DNS, which counts."""
    known = Neighbours(settings(dns={"connect_to": ["a.test:443:127.0.0.1:8443", "b.test:443::8443"]}))
    assert known.place("https://a.test/x", "127.0.0.1", "a.test") == FORGET
    assert not known.must_look_up("https://a.test/x")
    assert words(known.place("https://b.test/x", "192.0.2.7", "b.test")) == "192.0.2.7"
    assert known.must_look_up("https://b.test/x")


def test_a_gateway_is_exempt() -> None:
    """Whose address a site has is nobody's business then; nor is it looked up."""
    gateway: dict[str, object] = {"mode": "proxy", "proxy": "http://192.0.2.1:3128"}
    known = Neighbours(settings(gateway=gateway))
    assert known.place("https://a.test/", "192.0.2.7", "a.test") == b""
    assert not known.must_look_up("https://a.test/")
    assert settings(gateway=gateway).address_limits.classes == []


def test_a_crawl_without_a_delay_has_no_limit_unless_set() -> None:
    """Sites that asked for it are not held back by what is for those that didn't."""
    assert not Neighbours(settings(crawl={"delay_s": 0.0})).must_look_up("https://a.test/")
    limits = settings(crawl={"delay_s": 0.0}, addresses={"visits_at_once": 4}).address_limits
    assert [(limit.per_s, limit.at_once) for limit in limits.classes] == [(0.0, 4)]
    assert [(limit.per_s, limit.at_once) for limit in settings().address_limits.classes] == [(5.0, 10)]
