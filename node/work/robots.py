"""robots.txt of an origin, fetched when it is due and before anything else of that origin.

Visits that need the same origin at the same time wait for one request, so no URL races past an
unread robots.txt, however wide the domain is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from node.rules import url as urls
from node.rules.outcome import LINE, REDIRECT_STATUSES, TABLE, Outcome, Signal
from node.rules.refusal import Refusal
from node.rules.retry_after import retry_after_s
from node.rules.robots import MAX_BODY_BYTES, Access, Rules, of_response
from node.rules.robots import retry_after_s as ask_again_s
from node.store.decode import decode_body
from node.store.robots_cache import Known, RobotsCache
from node.work.challenged import challenge_in
from node.work.http import Fetched, Fetching, content_encoding, header_values, location

LIFETIME_S = 24 * 3600
"""RFC 9309 section 2.4: a copy is not used longer than a day."""
CHALLENGED_LIFETIME_S = 3600
"""What a challenge in the place of robots.txt allows (as its status says, section 2.3.1) is believed for
an hour: behind it may be rules."""
MAX_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What robots.txt says, and what asking for it cost.

    ``rules`` None = it can't be had for now; ``outcome`` and ``signal`` then tell why, ``wait_ms`` is
    when to ask again. ``requests`` were sent for it in this visit; ``cut_short``: asking was stopped
    because the lease is no longer ours. ``pause_ms``: Retry-After.
    """

    rules: Rules | None
    requests: int = 0
    outcome: Outcome = Outcome.PAGE
    signal: Signal = Signal.NONE
    wait_ms: int = 0
    pause_ms: int = 0
    cut_short: bool = False
    no_room: bool = False


class Robots:
    """Answers for any origin, from the cache or by asking.

    ``now_ms`` is the crawl's clock, ``jitter()`` a number in 0..1; ``on_request(url, fetched)`` is told of
    every request.
    """

    def __init__(
        self,
        client: Fetching,
        cache: RobotsCache,
        *,
        token: str,
        deadline_s: float,
        max_pause_s: float,
        now_ms: Callable[[], int],
        jitter: Callable[[], float],
        on_request: Callable[[str, Fetched], None],
    ) -> None:
        self._on_request = on_request
        self._client = client
        self._cache = cache
        self._token = token
        self._deadline_s = deadline_s
        self._max_pause_s = max_pause_s
        self._now_ms = now_ms
        self._jitter = jitter
        self._asking: dict[str, asyncio.Future[Asked]] = {}

    async def rules_for(
        self,
        domain: str,
        origin: str,
        before_each: Callable[[str], Awaitable[bool]],
        may_send: Callable[[str], bool],
    ) -> Asked:
        """The rules in force for ``origin``.

        ``before_each(url)`` is awaited before every request; it keeps the gap and answers whether the
        request may still be sent. So does ``may_send(url)`` when the connection stands.
        """
        under_way = self._asking.get(origin)
        if under_way is not None:
            # the visit that asks pays for the request; who waits for it does not
            answer = await asyncio.shield(under_way)
            return Asked(
                answer.rules,
                outcome=answer.outcome,
                wait_ms=answer.wait_ms,
                cut_short=answer.cut_short,
                no_room=answer.no_room,
            )
        future: asyncio.Future[Asked] = asyncio.get_running_loop().create_future()
        self._asking[origin] = future
        try:
            answer = await self._known_or_ask(domain, origin, before_each, may_send)
        except BaseException:
            # whoever waits must not wait for ever; to them it was a request that never went out
            future.set_result(Asked(None, cut_short=True))
            raise
        else:
            future.set_result(answer)
            return answer
        finally:
            del self._asking[origin]

    async def _known_or_ask(
        self,
        domain: str,
        origin: str,
        before_each: Callable[[str], Awaitable[bool]],
        may_send: Callable[[str], bool],
    ) -> Asked:
        known = await self._cache.get(domain, origin)
        now = self._now_ms()
        if known is not None and now < known.expires_ms:
            if known.rules is not None:
                return Asked(known.rules)
            return Asked(None, outcome=Outcome.ROBOTS_UNAVAILABLE, wait_ms=known.expires_ms - now)
        if known is None and not await self._cache.may_add(domain):
            return Asked(None, no_room=True)
        return await self._ask(domain, origin, known.failures if known else 0, before_each, may_send)

    async def _ask(
        self,
        domain: str,
        origin: str,
        failures: int,
        before_each: Callable[[str], Awaitable[bool]],
        may_send: Callable[[str], bool],
    ) -> Asked:
        url = origin + "/robots.txt"
        requests = 0
        while True:
            if not await before_each(url):
                return Asked(None, requests=requests, cut_short=True)
            fetched = await self._client.fetch(
                url,
                deadline_s=self._deadline_s,
                max_wire_bytes=MAX_BODY_BYTES,
                may_send=partial(may_send, url),
            )
            row = TABLE[fetched.outcome]
            if row.back:  # it never came to asking, which says nothing of the site
                if fetched.outcome in LINE:
                    self._on_request(url, fetched)
                return Asked(None, requests=requests + row.sent, cut_short=True)
            requests += 1
            self._on_request(url, fetched)
            if fetched.status not in REDIRECT_STATUSES:
                break
            target = location(fetched)
            joined = urls.canonical(target, url) if target is not None else Refusal.BAD_URL
            if isinstance(joined, Refusal) or requests > MAX_REDIRECTS:
                break
            url = joined
        return await self._conclude(domain, origin, failures, fetched, requests)

    async def _conclude(
        self, domain: str, origin: str, failures: int, fetched: Fetched, requests: int
    ) -> Asked:
        if fetched.outcome is Outcome.PRIVATE_ADDRESS:  # nothing was sent, and nothing is to be remembered
            return Asked(None, requests=requests - 1, outcome=fetched.outcome)
        now = self._now_ms()
        whole = fetched.status if fetched.truncated in (None, "length") else None
        body, _cut = decode_body(fetched.body, content_encoding(fetched), MAX_BODY_BYTES)
        verdict = of_response(whole, body, self._token)
        if verdict.access is not Access.UNAVAILABLE:
            gate = challenge_in(fetched)
            lifetime_s = LIFETIME_S if gate is None else CHALLENGED_LIFETIME_S
            await self._cache.put(domain, origin, Known(verdict.rules, now + lifetime_s * 1000))
            signal = Signal.SUCCESS if gate is None else TABLE[Outcome.CHALLENGED].signal
            return Asked(verdict.rules, requests=requests, signal=signal)
        failures += 1
        pause = retry_after_s(
            header_values(fetched, b"retry-after"), fetched.started_unix_s, self._max_pause_s
        )
        wait_ms = round(1000 * max(ask_again_s(failures, self._jitter()), pause or 0.0))
        await self._cache.put(domain, origin, Known(None, now + wait_ms, failures))
        return Asked(
            None,
            requests=requests,
            outcome=fetched.outcome,
            signal=TABLE[fetched.outcome].signal,
            wait_ms=wait_ms,
            pause_ms=round(1000 * (pause or 0.0)),
        )
