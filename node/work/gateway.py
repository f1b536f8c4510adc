"""Fetching through a gateway: a scraping API or a forward proxy, with a plan and a key of its own.

What the gateway says for itself never reaches a site's account: too many calls go to the one limiter of
the node (``store.gateway``), a refused key or a spent quota stops everything in words, and the URL goes
back as if it had not been taken. Its key comes from a file and is cut out of all that comes back.

The gateway's own address stands in the settings and is exempt from the guard against private addresses.
Sites' names are looked up by the gateway, not here; only addresses that a URL spells out are checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import replace

from node.errors import SettingsError
from node.rules import headers as headers_of
from node.rules import request
from node.rules.gateway import MAX_RESET_S, MAX_WAIT_S, Speaker, Told, expand, reset_in_s
from node.rules.outcome import Outcome
from node.rules.pressure import Reason
from node.rules.retry_after import retry_after_s
from node.settings import Settings
from node.store.connection import LOST, AsyncStore
from node.store.gateway import Event, Turn, gateway
from node.work.answer import Accept, MaySend
from node.work.failure import Failure
from node.work.gateway_answer import is_private, no_answer, of_target, signs_of
from node.work.http import Client, Fetched
from node.work.resolve import Addresses
from node.work.secret import Secret, read_secret

AHEAD_S = 2.0
"""No more is leased than can be called within this time."""
LATE_MS = 2_000
"""Who wakes so late for a turn was stopped in between: the lease may be somebody else's by now."""
LONG_WAIT_S = 60.0
"""A Retry-After longer than this is a stop that an operator is told of ..."""
MAX_RETRY_AFTER_S = 3_600.0
"""... and this is the longest that is believed."""

_OUTCOMES = {
    Told.LIMITED: Outcome.GATEWAY_LIMITED,
    Told.REFUSED: Outcome.GATEWAY_REFUSED,
    Told.QUOTA: Outcome.GATEWAY_QUOTA,
    Told.UNREACHABLE: Outcome.GATEWAY_UNREACHABLE,
    Told.FAILED: Outcome.GATEWAY_FAILED,
}
_STOPPED = _OUTCOMES | {Told.FAILED: Outcome.GATEWAY_UNREACHABLE}
"""While everything is stopped nothing is called, so whatever stopped it, the URL goes back."""
_OURS = frozenset({Outcome.LOCAL_ERROR, Outcome.NOT_SENT, Outcome.WITHHELD})
_NOBODY_THERE = frozenset(
    {
        Outcome.DNS_FAILED,
        Outcome.DNS_SERVFAIL,
        Outcome.DNS_TIMEOUT,
        Outcome.REFUSED,
        Outcome.UNREACHABLE,
        Outcome.CONNECT_TIMEOUT,
    }
)
_NO_ANSWER = frozenset({Outcome.TIMEOUT, Outcome.DISCONNECTED, Outcome.MALFORMED_HTTP})


class Gateway:
    """Fetches URLs by calls to a gateway; one per process, used inside its event loop.

    ``connect(secret)`` makes the client that talks to it; it is asked again where the credentials file has
    changed. Raises ``SettingsError`` where the file can't be used.
    """

    def __init__(
        self, settings: Settings, store: AsyncStore, connect: Callable[[Secret | None], Client]
    ) -> None:
        self._settings = settings.gateway
        self._store = store
        self._connect = connect
        self._signs = signs_of(settings.gateway)
        self._secret = self._read()
        self._client = connect(self._secret)
        self._former: list[Client] = []
        self._passed = 0  # calls that got through, not told to the limiter yet
        self._in_fetch = 0
        self._stop: Told | None = None
        self._rate = 0.0
        self._taken_until_ms = 0.0

    # -- what a fetcher asks

    async def fetch(
        self,
        url: str,
        *,
        deadline_s: float,
        max_wire_bytes: int,
        accept: Accept | None = None,
        cookies: str | None = None,
        may_send: MaySend | None = None,
    ) -> Fetched:
        """See ``Client.fetch``; the deadline begins when it is our turn. Also raises ``LOST``."""
        try:
            target = request.target_of(url)
        except ValueError as error:
            return no_answer(Outcome.NOT_SENT, str(error))
        if is_private(target.host):
            return no_answer(Outcome.PRIVATE_ADDRESS, f"{target.host} is not public")
        self._in_fetch += 1
        try:
            turn = await self._turn()
            if isinstance(turn, Failure):
                return no_answer(turn.outcome, turn.detail)
            secret = self._secret
            fetched = await self._client.fetch(
                self._address(url),
                deadline_s=deadline_s,
                max_wire_bytes=max_wire_bytes,
                accept=accept,
                cookies=cookies,
                may_send=may_send,
            )
            fetched.ip, fetched.request = None, request.head(target, b"", cookies)
            return await self._judge(fetched, secret, turn, accept)
        finally:
            self._in_fetch -= 1

    async def look_up(self, url: str) -> Addresses:
        """To which address the gateway goes, it doesn't say."""
        return Addresses(())

    def room(self, in_hand: int) -> int:
        """As many as calls can be made for soon, less those in hand that wait for something else."""
        if self._stop is not None:
            return 0
        ahead_s = max(0.0, self._taken_until_ms - self._store.now_ms()) / 1000
        if ahead_s > MAX_WAIT_S:
            return 0
        soon = math.ceil(self._rate * max(0.0, AHEAD_S - ahead_s)) - (in_hand - self._in_fetch)
        return max(soon, 0 if in_hand else 1)

    @property
    def short_of(self) -> Reason:
        """Its calls."""
        return Reason.GATEWAY

    async def tend(self) -> None:
        """Hear how calls stand, for all fetchers; end a stop whose time has come. May raise ``LOST``."""
        stopped = self._stop is not None
        await self._say()
        if stopped and self._stop is None:
            await self._take_key()

    async def close(self) -> None:
        """Close all connections; the last calls are told."""
        if self._passed:
            with contextlib.suppress(*LOST):
                await self._say()
        for client in (*self._former, self._client):
            await client.close()

    # -- our turn

    async def _turn(self) -> float | Failure:
        """Wait for our turn; when it came (the crawl's clock, ms), or why there is none."""
        turn = await self._say(wait=True)
        if turn.stop is not None:
            return Failure(_STOPPED[turn.stop], turn.why)
        if turn.at_ms is None:
            return Failure(Outcome.GATEWAY_LIMITED, f"no turn within {MAX_WAIT_S:g} s")
        wait_ms = turn.at_ms - self._store.now_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
            now = await self._say()
            if now.stop is not None:
                return Failure(_STOPPED[now.stop], now.why)
            if now.hold_ms or self._store.now_ms() - turn.at_ms > LATE_MS:
                return Failure(Outcome.GATEWAY_LIMITED, "our turn has passed")
        return turn.at_ms

    async def _say(self, *, wait: bool = False, event: Event | None = None) -> Turn:
        """Tell the limiter what became of calls; with ``wait`` take the next turn."""
        passed, self._passed = self._passed, 0
        verb = gateway(
            self._store.now_ms(),
            self._settings.ceiling_per_s,
            max_wait_ms=round(1000 * MAX_WAIT_S) if wait else None,
            successes=passed,
            event=event,
        )
        try:
            turn = await self._store.call(verb)
        except BaseException:
            self._passed += passed
            raise
        self._stop, self._rate = turn.stop, turn.rate
        self._taken_until_ms = self._store.now_ms() + max(turn.ahead_ms, turn.hold_ms)
        return turn

    def _address(self, url: str) -> str:
        if self._settings.mode == "proxy":
            return url
        return expand(self._settings.url, url, self._secret.reveal() if self._secret else "")

    # -- what came back

    async def _judge(
        self, fetched: Fetched, secret: Secret | None, sent_ms: float, accept: Accept | None
    ) -> Fetched:
        """The site's answer as it would have come without a gateway, or what the gateway's own means."""
        if secret is not None:
            fetched.detail = secret.cut_out(fetched.detail.encode()).decode()
        if self._settings.mode == "api":
            fetched.speaker = Speaker.EITHER
        if fetched.outcome in _OURS:
            return fetched
        told = self._told(fetched)
        if told is Told.REFUSED and self._is_outdated(secret):
            return no_answer(Outcome.GATEWAY_LIMITED, "called with a key that is no longer ours")
        if told is not Told.TARGET:
            return await self._own(fetched, told, sent_ms)
        self._passed += 1
        if fetched.speaker is not Speaker.TARGET and self._signs.quota_spent(fetched.headers):
            await self._say(event=self._event(fetched, Told.QUOTA, sent_ms))
        return of_target(fetched, accept, self._settings, self._signs, secret)

    def _told(self, fetched: Fetched) -> Told:
        status = fetched.status
        if status is None:
            if fetched.speaker is Speaker.TARGET:
                return Told.TARGET
            if fetched.outcome is Outcome.TLS_FAILED:
                return Told.REFUSED
            return Told.UNREACHABLE if fetched.outcome in _NOBODY_THERE else Told.FAILED
        told = self._signs.told(fetched.speaker, status, fetched.headers)
        if told is Told.TARGET and fetched.speaker is Speaker.EITHER and fetched.outcome in _NO_ANSWER:
            return Told.FAILED
        return told

    async def _own(self, fetched: Fetched, told: Told, sent_ms: float) -> Fetched:
        """The gateway spoke for itself: for the limiter to know, and no site's."""
        event = self._event(fetched, told, sent_ms)
        turn = await self._say(event=event)
        words = "answers " + str(fetched.status) if fetched.status else fetched.detail
        return replace(
            no_answer(_OUTCOMES[told], turn.why or f"the gateway {words}"),
            started_unix_s=fetched.started_unix_s,
            total_ms=fetched.total_ms,
            wire_bytes=fetched.wire_bytes,
        )

    def _event(self, fetched: Fetched, told: Told, sent_ms: float) -> Event:
        what = str(fetched.status) if fetched.status else fetched.detail
        resume = "'milliarde resume' goes on"
        if told is Told.LIMITED:
            wait_s = self._retry_after_s(fetched)
            why = f"gateway: it asks for {wait_s:g} s of quiet ({what}); {resume} before that"
            return Event(told, sent_ms, round(1000 * wait_s), why if wait_s > LONG_WAIT_S else "")
        if told is Told.REFUSED:
            file = self._settings.credentials_file or "the settings"
            why = f"gateway: it refuses our calls ({what}); check {file} and gateway.*, then {resume}"
            return Event(told, sent_ms, why=why)
        if told is Told.QUOTA:
            reset_s = self._reset_s(fetched)
            if reset_s is None:
                return Event(told, sent_ms, why=f"gateway: the quota is used up ({what}); {resume}")
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + reset_s))
            until_ms = math.ceil(self._store.now_ms() + 1000 * reset_s)
            why = f"gateway: the quota is used up ({what}) until {at}; {resume} before that"
            return Event(told, sent_ms, why=why, until_ms=until_ms)
        why = f"gateway: one call after another fails ({what}); tried again by and by, {resume} at once"
        return Event(told, sent_ms, why=why)

    def _retry_after_s(self, fetched: Fetched) -> float:
        values = headers_of.every(fetched.headers, b"retry-after")
        return retry_after_s(values, time.time(), MAX_RETRY_AFTER_S) or 0.0

    def _reset_s(self, fetched: Fetched) -> float | None:
        """Seconds until the quota begins anew, by the header named for it, else by Retry-After."""
        name = self._settings.reset_header.lower().encode("ascii")
        if name:
            value = headers_of.text(fetched.headers, name) or ""
            return reset_in_s(value, self._settings.reset_format, time.time())
        return retry_after_s(headers_of.every(fetched.headers, b"retry-after"), time.time(), MAX_RESET_S)

    # -- the key

    def _read(self) -> Secret | None:
        path = self._settings.credentials_file
        return None if path is None else read_secret(path)

    async def _take_key(self) -> None:
        """After a stop the key may be another one; a file that can't be read stops us again."""
        try:
            self._has_new_key(self._secret)
        except SettingsError as error:
            why = f"gateway: {error}; then 'milliarde resume' goes on"
            await self._say(event=Event(Told.REFUSED, self._store.now_ms(), why=why))

    def _is_outdated(self, used: Secret | None) -> bool:
        try:
            return self._has_new_key(used)
        except SettingsError:  # the refusal is reason enough to stop
            return False

    def _has_new_key(self, used: Secret | None) -> bool:
        """Has the key changed since ``used`` was? From now on the new one is used.

        Raises ``SettingsError`` where its file can't be read.
        """
        secret = self._read()
        if secret != self._secret:
            self._former.append(self._client)
            self._secret, self._client = secret, self._connect(secret)
        return self._secret != used
