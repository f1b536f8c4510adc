"""A visit: robots.txt first, the page, its hops, and nothing that must not be sent."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from node.rules.entry import Lease
from node.rules.outcome import Outcome, Signal
from node.store import keys
from node.store.domain_record import unpack
from node.store.fetchlog import read
from node.store.frontier import Kind
from tests.redis_server import RedisServer
from tests.web.running import MiniWeb
from tests.web_test.client import ask
from tests.work.visiting import Visits, visits


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniWeb]:
    with MiniWeb(tmp_path_factory.mktemp("web"), domains=2, mean_bytes=5_000) as running:
        yield running


@pytest.fixture
async def one(tmp_path: Path, web: MiniWeb, redis_server: RedisServer) -> AsyncIterator[Visits]:
    async with visits(tmp_path, web, redis_server) as made:
        yield made


_marks = itertools.count()


def all_logged(web: MiniWeb) -> int:
    """How many lines the log has, once it holds everything that was asked before.

    The web writes a line when its answer has ended, maybe after we have it. So ask for something
    ourselves, and wait until that is in the log.
    """
    mark = f"/asked-{next(_marks)}"
    ask(web, f"https://notfound.test{mark}")
    give_up = time.monotonic() + 5
    while not any(entry.path == mark for entry in web.log_entries()):
        assert time.monotonic() < give_up, "the web does not log"
        time.sleep(0.01)
    return len(web.log_entries())


def asked(web: MiniWeb, domain: str, since: int) -> list[str]:
    """Paths that the web was asked for at ``domain`` (hosts under it, too), after the first ``since``."""
    all_logged(web)
    return [
        entry.path
        for entry in web.log_entries()[since:]
        if entry.path is not None
        and entry.host is not None
        and (entry.host == domain or entry.host.endswith("." + domain))
    ]


async def test_a_page_comes_after_its_robots(one: Visits, web: MiniWeb) -> None:
    """robots.txt of an origin is asked for before its first page, and not again for its second."""
    since = all_logged(web)
    first = await one.visit("https://other.test/")
    await asyncio.sleep(0.06)
    second = await one.visit("https://other.test/page/1")
    assert asked(web, "other.test", since) == ["/robots.txt", "/", "/page/1"]
    assert (first.settlement.kind, second.settlement.kind) == (Kind.PAGE, Kind.PAGE)
    assert first.settlement.pointer.endswith(" 0 https://other.test/")


async def test_no_url_races_past_an_unread_robots(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """Twenty URLs of a new host at once, robots.txt is slow and denies: one request, no page (R35)."""
    async with visits(tmp_path, web, redis_server, crawl={"delay_s": 0.0}) as many:
        since = all_logged(web)
        await many.offer(*(f"https://robots-late.test/page/{i}" for i in range(20)))
        async with asyncio.TaskGroup() as group:
            leases = await many.lease(20)
            tasks = [group.create_task(many.visitor.visit(lease)) for lease in leases]
        assert len(tasks) == 4  # the width a domain begins with
        assert {many.outcome(task.result()) for task in tasks} == {Outcome.ROBOTS_DENIED}
        assert asked(web, "robots-late.test", since) == ["/robots.txt"]


@pytest.mark.parametrize("host", ["robots-503.test", "robots-429.test", "robots-reset.test"])
async def test_a_robots_that_cannot_be_had_denies_for_now(one: Visits, web: MiniWeb, host: str) -> None:
    """5xx, 429 and network errors on robots.txt: no page, the URL waits, its domain slows (R23, R25)."""
    since = all_logged(web)
    visited = await one.visit(f"https://{host}/")
    assert visited.settlement.kind is Kind.LATER
    assert visited.settlement.wait_ms >= 2_000
    assert visited.settlement.signal is Signal.THROTTLE
    assert set(asked(web, host, since)) <= {"/robots.txt"}


async def test_an_origin_that_waits_is_not_asked_again_meanwhile(one: Visits, web: MiniWeb) -> None:
    """The second URL of an origin without robots.txt costs no request at all."""
    await one.visit("https://robots-503.test/")
    await asyncio.sleep(0.2)
    since = all_logged(web)
    visited = await one.visit("https://robots-503.test/page/1")
    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.LATER, False)
    assert asked(web, "robots-503.test", since) == []


async def test_a_challenge_in_place_of_robots_is_not_believed_for_long(one: Visits) -> None:
    """Its status allows, but there may be rules behind it: they are asked for again within the hour."""
    visited = await one.visit("https://robots-challenge.test/")
    assert one.outcome(visited) is Outcome.PAGE
    value = await one.store.redis.hget("robots:robots-challenge.test", "https://robots-challenge.test")
    assert 0 < int(value.split()[0]) - one.store.now_ms() <= 3_600_000


async def test_robots_redirects_are_followed_five_times(one: Visits, web: MiniWeb) -> None:
    """A chain of five leads to the rules, which then hold; a chain of six is unavailable (R22)."""
    denied = await one.visit("https://robots-redirect-5.test/page/1")
    assert one.outcome(denied) is Outcome.ROBOTS_DENIED
    unavailable = await one.visit("https://robots-redirect-6.test/")
    assert unavailable.settlement.kind is Kind.LATER


async def test_a_crawl_delay_reaches_the_scheduler(one: Visits, web: MiniWeb) -> None:
    """Crawl-delay: 3 makes the domain due three seconds later, though ours is 50 ms; the page waits, too."""
    since = all_logged(web)
    visited = await one.visit("https://robots-delay.test/")
    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.BACK, True)
    assert asked(web, "robots-delay.test", since) == ["/robots.txt"]
    assert visited.settlement.crawl_delay_ms == 3_000
    due = float(
        await one.store.redis.zscore(f"ready:{visited.settlement.lease.lane}", "robots-delay.test") or 0
    )
    assert due >= one.store.now_ms() + 2_500


@pytest.mark.parametrize("on_time", [True, False])
async def test_the_time_an_answer_took_reaches_the_pace(one: Visits, on_time: bool) -> None:
    """From the connection to the headers; not while our own loop is late, since then it is not the site's."""
    one.visitor.on_time = lambda: on_time
    visited = await one.visit("https://slow.test/wait/0.2")
    assert one.outcome(visited) is Outcome.PAGE
    assert visited.settlement.ttfb_ms >= 200 if on_time else visited.settlement.ttfb_ms == 0
    packed = await one.store.redis.get(keys.domain("slow.test"))
    assert unpack(packed).pace.ttfb_count == int(on_time)


async def test_hops_are_followed_registered_and_paid_for(one: Visits, web: MiniWeb) -> None:
    """Five hops end at the page; each is a URL of its own in the ledger, and a delay owed."""
    since = all_logged(web)
    visited = await one.visit("https://redirects.test/chain/5")
    assert one.outcome(visited) is Outcome.PAGE
    assert visited.settlement.lease.hops == 5
    assert asked(web, "redirects.test", since)[1:] == ["/chain/5", *(f"/chain/5/{n}" for n in range(1, 6))]
    ledger = await one.store.redis.hgetall("ledger")
    counts = dict(zip(ledger[::2], map(int, ledger[1::2]), strict=True))
    assert (counts[b"admitted"], counts[b"done"], counts[b"spooled"], counts[b"leased"]) == (6, 5, 1, 0)


@pytest.mark.parametrize(
    ("path", "outcome", "requests"),
    [
        ("/chain/6", Outcome.REDIRECT_LOOP, 6),
        ("/self", Outcome.REDIRECT_LOOP, 1),
        ("/loop/a", Outcome.REDIRECT_LOOP, 2),
        ("/cookiewall", Outcome.PAGE, 2),
        ("/newcookie", Outcome.REDIRECT_LOOP, 6),
        ("/session", Outcome.PAGE, 2),
        ("/nolocation", Outcome.BAD_REDIRECT, 1),
        ("/unparsable", Outcome.BAD_REDIRECT, 1),
        ("/other-scheme", Outcome.BAD_REDIRECT, 1),
        ("/to/other.test", Outcome.REDIRECTED_AWAY, 1),
        ("/denied-target", Outcome.ROBOTS_DENIED, 1),
    ],
)
async def test_every_redirect_ends(
    one: Visits, web: MiniWeb, path: str, outcome: Outcome, requests: int
) -> None:
    """Loops, cookie walls, broken and foreign targets: a named end after a bounded number of requests."""
    since = all_logged(web)
    visited = await one.visit("https://redirects.test" + path)
    assert one.outcome(visited) is outcome
    assert len(asked(web, "redirects.test", since)) == 1 + requests  # robots.txt and these


async def test_a_target_that_is_known_is_not_fetched(one: Visits, web: MiniWeb) -> None:
    """Where the redirect leads to a URL that was admitted already, it is left to that one."""
    await one.visit("https://redirects.test/chain/1/1")
    since = all_logged(web)
    await asyncio.sleep(0.06)
    visited = await one.visit("https://redirects.test/chain/1")
    assert one.outcome(visited) is Outcome.REDIRECT_TO_SEEN
    assert asked(web, "redirects.test", since) == ["/chain/1"]


async def test_a_source_is_on_disk_before_it_is_done(one: Visits) -> None:
    """A fetcher that dies right after a hop was registered takes neither the record nor the line along."""
    await one.offer("https://redirects.test/chain/1")
    (lease,) = await one.lease(1)
    visit = asyncio.create_task(one.visitor.visit(lease))
    settings = one.visitor.settings
    while await one.store.redis.hget("ledger", "done") != b"1":
        assert not visit.done(), "the hop was not registered"
    (line,) = [each for each in read(settings.log_folder) if each.outcome == Outcome.REDIRECTED]
    assert (line.url, line.hop) == ("https://redirects.test/chain/1", 0)
    assert line.position is not None
    (warc,) = settings.warc_folder.glob("*.open")
    assert line.position.offset + line.position.length <= warc.stat().st_size
    await visit


async def test_a_target_queued_in_the_last_moment_ends_the_visit(one: Visits, web: MiniWeb) -> None:
    """The source was recorded as redirected by then: a second line says what came of it, no second record."""
    kept = one.recorder.kept

    async def kept_while_a_parser_offers() -> None:
        await kept()
        await one.offer("https://redirects.test/chain/1/1")

    one.recorder.kept = kept_while_a_parser_offers  # type: ignore[method-assign]
    since = all_logged(web)
    visited = await one.visit("https://redirects.test/chain/1")
    assert one.outcome(visited) is Outcome.REDIRECT_TO_SEEN
    assert asked(web, "redirects.test", since)[1:] == ["/chain/1"]
    await one.recorder.commit()
    lines = [each for each in read(one.visitor.settings.log_folder) if each.url.endswith("/chain/1")]
    assert [each.outcome for each in lines] == [Outcome.REDIRECTED, Outcome.REDIRECT_TO_SEEN]
    assert [each.position is not None for each in lines] == [True, False]


async def test_without_room_on_the_disk_no_hop_is_registered(one: Visits) -> None:
    """The source goes back, and is fetched again when there is room."""
    settings = one.visitor.settings
    settings.log_folder.rmdir()
    settings.log_folder.write_bytes(b"in the way")
    visited = await one.visit("https://redirects.test/chain/1")
    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.BACK, True)
    assert visited.settlement.lease.entry.url == "https://redirects.test/chain/1"
    assert one.recorder.disk_full
    settings.log_folder.unlink()
    settings.log_folder.mkdir()
    await asyncio.sleep(0.06)
    (lease,) = await one.lease(1)
    assert one.outcome(await one.visitor.visit(lease)) is Outcome.PAGE


async def test_a_redirect_away_is_an_offer_to_its_own_domain(one: Visits) -> None:
    """The visit ends; the target is found for whoever serves that domain, as deep as its source."""
    visited = await one.visit("https://redirects.test/to/other.test")
    assert visited.found == [("https://other.test/", 0)]
    assert visited.settlement.kind is Kind.DONE


async def test_a_bare_domain_falls_back_to_http(one: Visits, web: MiniWeb) -> None:
    """https first; where nobody listens there, http, as a URL of its own."""
    visited = await one.visit("https://httponly.test/", bare=True)
    assert one.outcome(visited) is Outcome.PAGE
    assert visited.settlement.pointer.endswith(" http://httponly.test/")
    await asyncio.sleep(0.12)  # the page and the hop are paid for
    visited = await one.visit("https://httponly.test/page/1")  # written with its scheme: taken at its word
    assert visited.settlement.kind is Kind.LATER


async def test_nothing_is_sent_on_a_lease_that_is_not_ours(one: Visits, web: MiniWeb) -> None:
    """A process that was stopped too long finds its lease gone, and keeps quiet."""
    since = all_logged(web)
    one.mine = False
    visited = await one.visit("https://other.test/")
    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.BACK, False)
    assert asked(web, "other.test", since) == []
    assert one.asked == ["https://other.test/"]


@pytest.mark.parametrize("known", [False, True])
async def test_nothing_is_sent_on_a_lease_that_was_lost_while_connecting(
    one: Visits, web: MiniWeb, known: bool
) -> None:
    """A process that was stopped between the question and the request asks once more, connected as it is."""
    if known:
        await one.visit("https://other.test/page/1")
        await asyncio.sleep(0.06)
    since = all_logged(web)
    asked_before = len(one.asked)

    def may_send(lease: Lease) -> bool:
        one.asked.append(lease.entry.url)
        return len(one.asked) == asked_before + 1

    one.visitor.may_send = may_send
    visited = await one.visit("https://other.test/")
    assert len(one.asked) == asked_before + 2
    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.BACK, False)
    assert visited.settlement.signal is Signal.NONE
    assert asked(web, "other.test", since) == []


@pytest.mark.parametrize("name", ["redirects.test", "test"])
async def test_nothing_is_sent_to_who_is_excluded(one: Visits, web: MiniWeb, name: str) -> None:
    """Exclusion covers the name and all under it, for what is leased already, robots.txt included."""
    since = all_logged(web)
    one.exclusions.replace([name])
    visited = await one.visit("https://redirects.test/chain/2")
    assert visited.settlement.kind is Kind.DROP
    assert visited.settlement.outcome == "excluded"
    assert asked(web, "redirects.test", since) == []


async def test_strict_politeness_makes_one_request_a_visit(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer
) -> None:
    """robots.txt is a visit of its own, and a redirect target waits its turn like any URL."""
    async with visits(tmp_path, web, redis_server, crawl={"strict_politeness": True}) as strict:
        since = all_logged(web)
        first = await strict.visit("https://redirects.test/chain/2")
        assert (first.settlement.kind, first.settlement.sent) == (Kind.BACK, True)
        assert asked(web, "redirects.test", since) == ["/robots.txt"]
        await asyncio.sleep(0.06)
        (lease,) = await strict.lease(1)
        second = await strict.visitor.visit(lease)
        assert second.found == [("https://redirects.test/chain/2/1", 0)]
        assert asked(web, "redirects.test", since) == ["/robots.txt", "/chain/2"]


@pytest.mark.parametrize(
    ("url", "outcome", "kind"),
    [
        ("https://notfound.test/x", Outcome.NOT_FOUND, Kind.DONE),
        ("https://status.test/402", Outcome.PAYMENT_REQUIRED, Kind.DONE),
        ("https://unavailable.test/", Outcome.UNAVAILABLE, Kind.RETRY),
        ("https://servererror.test/", Outcome.SERVER_ERROR, Kind.RETRY),
        ("https://ratelimited.test/retry-after/7", Outcome.RATE_LIMITED, Kind.RETRY),
        ("https://endless-audio.test/live.mp3", Outcome.UNWANTED_TYPE, Kind.DONE),
        ("https://endless.test/", Outcome.PAGE, Kind.PAGE),
        ("https://truncated.test/", Outcome.PAGE, Kind.PAGE),
    ],
)
async def test_each_answer_has_its_outcome(one: Visits, url: str, outcome: Outcome, kind: Kind) -> None:
    """The table of outcomes is what the visit goes by."""
    visited = await one.visit(url)
    assert (one.outcome(visited), visited.settlement.kind) == (outcome, kind)


@pytest.mark.parametrize("name", ["cloudflare", "imperva", "aws", "captcha", "redirect"])
async def test_a_challenge_is_no_page(one: Visits, web: MiniWeb, tmp_path: Path, name: str) -> None:
    """Whatever its status, a gate slows its domain, is not archived, nothing behind it is followed."""
    since = all_logged(web)
    visited = await one.visit(f"https://challenge.test/{name}")
    assert one.outcome(visited) is Outcome.CHALLENGED
    assert (visited.settlement.kind, visited.settlement.signal) == (Kind.RETRY, Signal.THROTTLE)
    assert (visited.settlement.pointer, visited.found) == ("", [])
    assert asked(web, "challenge.test", since) == ["/robots.txt", f"/{name}"]
    await one.recorder.commit()
    assert not list((tmp_path / "warc").iterdir())


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("article", Outcome.PAGE), ("sensors", Outcome.PAGE), ("login", Outcome.FORBIDDEN)],
)
async def test_a_page_about_challenges_is_a_page(one: Visits, name: str, outcome: Outcome) -> None:
    """What only speaks of gates, or has their scripts in it, is what its status says."""
    assert one.outcome(await one.visit(f"https://nochallenge.test/{name}")) is outcome


async def test_retry_after_is_passed_on(one: Visits) -> None:
    """What the site asks for is what the domain waits."""
    visited = await one.visit("https://ratelimited.test/retry-after/7")
    assert visited.settlement.pause_ms == 7_000
    assert visited.settlement.wait_ms >= 7_000


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/"])
async def test_private_addresses_are_refused(
    tmp_path: Path, web: MiniWeb, redis_server: RedisServer, url: str
) -> None:
    """An address that only means something here is never asked (I7); that is no fault of a site."""
    only = [rule for rule in web.connect_to if not rule.startswith(":")]
    async with visits(tmp_path, web, redis_server, dns={"connect_to": only}) as guarded:
        visited = await guarded.visit(url)
        # it is robots.txt that would be asked first
        assert visited.settlement.kind in (Kind.LATER, Kind.DONE, Kind.DROP)
        assert visited.settlement.signal is Signal.NONE


async def test_a_visit_that_is_stopped_gives_back_what_it_holds_by_then(one: Visits, web: MiniWeb) -> None:
    """After a hop that is the target, not the URL that was leased; and what was sent is owed for."""
    await one.offer("https://redirects.test/chain/3")
    (lease,) = await one.lease(1)
    visit = asyncio.create_task(one.visitor.visit(lease))
    while "https://redirects.test/chain/3/1" not in one.asked:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    visit.cancel()
    visited = await visit
    assert (visited.settlement.kind, visited.settlement.sent) == (Kind.BACK, True)
    assert visited.settlement.lease.entry.url.startswith("https://redirects.test/chain/3/")
    assert await one.settle([visited]) == "1"
