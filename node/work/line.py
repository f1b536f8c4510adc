"""Fetching that tells its own line from the sites': what fails while the link or the resolver is down is
charged to nobody.

Every result passes here. Where nothing came back, it may wait a moment for what others say (``rules/line``);
if it was our own line, it becomes ``LINE_DOWN``, or ``LINE_LOST`` where the request may have arrived, and the
URL goes back as if it had not been taken. While the line is down nothing is fetched but probes: ordinary
visits, a few at a time. The link and the resolver are judged apart, since sites whose addresses are known
still answer while the resolver is down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable

from node.rules import request
from node.rules import url as urls
from node.rules.domain import registrable
from node.rules.line import PROBES, Judgement, Line, network_of
from node.rules.outcome import TABLE, Outcome
from node.rules.pressure import Reason
from node.store.tally import Tally
from node.work.answer import Accept, MaySend
from node.work.http import Client, Fetched
from node.work.resolve import Addresses

NETWORKS = 3
"""Networks that must fail together before it is the link and no hoster."""
PROBE_LEASED_S = 1.0
"""It takes no longer than this until a probe that is due has its visits."""
LOOK_AGAIN_S = 1.0
"""Held back, a failure is looked at again as soon as somebody answers, and this often."""

_DNS = frozenset({Outcome.DNS_FAILED, Outcome.DNS_SERVFAIL, Outcome.DNS_TIMEOUT})
_log = logging.getLogger(__name__)


class LineWatch:
    """Fetches by ``client``; one per process, used inside its event loop.

    ``tally`` counts ``line_outages`` and ``line_spared``. ``clock`` is monotonic seconds, ``jitter()`` a
    number in 0..1.
    """

    def __init__(
        self,
        client: Client,
        tally: Tally,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._tally = tally
        self._clock = clock
        self._jitter = jitter
        self.link = Line(networks=NETWORKS)
        self.resolver = Line(networks=1)
        self._was_down = False
        self._under_way = 0
        self._held: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._up = asyncio.Event()

    # -- what a fetcher asks

    @property
    def down(self) -> bool:
        """Is the line held to be down?"""
        return self.link.down or self.resolver.down

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
        """See ``Client.fetch``. A failure may be held back for ``HOLD_S`` beyond the deadline.

        A probe that failed too waits until the line is up or the next probe is out: so that one goes to
        other domains, and this one is as free as all others the moment the line is back.
        """
        began_s, is_probe = self._clock(), self.down
        host = urls.host(url)
        asks = self._asks_dns(url, host)
        self._under_way += 1
        try:
            fetched = await self._client.fetch(
                url,
                deadline_s=deadline_s,
                max_wire_bytes=max_wire_bytes,
                accept=accept,
                cookies=cookies,
                may_send=may_send,
            )
            ended_s = self._clock()
            self._note(url, registrable(host), fetched, began_s, ended_s, asks_dns=asks)
            instead = TABLE[fetched.outcome].ours
            if fetched.truncated == "time":
                instead = Outcome.LINE_LOST
            if instead is not None and await self._is_ours(fetched.outcome, began_s, ended_s):
                self._spare(fetched, instead)
                if is_probe:
                    await self._sit_out()
            return fetched
        finally:
            self._under_way -= 1

    async def look_up(self, url: str) -> Addresses:
        """See ``Fetching``. What it says of the resolver is heard, as with a fetch."""
        asks, began_s = self._asks_dns(url, urls.host(url)), self._clock()
        found = await self._client.look_up(url)
        if asks:
            domain, now_s = registrable(urls.host(url)), self._clock()
            if found.outcome is None:
                self.resolver.answered(domain, "", began_s=began_s, now_s=now_s)
            elif found.outcome in _DNS:
                mute = TABLE[found.outcome].mute
                self.resolver.failed(domain, "", began_s=began_s, now_s=now_s, known=False, mute=mute)
            self._tell()
        return found

    def room(self, in_hand: int) -> int:
        """While the line is down, as many as a probe takes, now and then; else what the client says."""
        line = self.link if self.link.down else self.resolver
        if line.down and not line.probe_due(self._clock(), self._jitter()):
            return 0
        self._tell()
        if not self.down:
            return self._client.room(in_hand)
        self._client.resolver.forget_failures()  # a probe is to ask for itself
        return PROBES

    @property
    def short_of(self) -> Reason:
        """Why there is no room."""
        return Reason.LINE_DOWN if self.down else self._client.short_of

    async def tend(self) -> None:
        """See ``Fetching``."""
        await self._client.tend()

    async def close(self) -> None:
        """Close all connections. Who is held back goes on."""
        for _, wake in self._held:
            _set(wake)
        await self._client.close()

    # -- what results say

    def _asks_dns(self, url: str, host: str) -> bool:
        if self._client.resolver.is_cached(host):
            return False
        try:
            target = request.target_of(url)
        except ValueError:
            return False
        return self._client.resolver.would_ask(target.host, target.port)

    def _note(
        self, url: str, domain: str, fetched: Fetched, began_s: float, ended_s: float, *, asks_dns: bool
    ) -> None:
        row = TABLE[fetched.outcome]
        # who is asked for more than robots.txt has answered for that, maybe an earlier process
        known = not url.endswith("/robots.txt")
        if row.ours is not None:
            network = network_of(fetched.ip)
            self.link.failed(domain, network, began_s=began_s, now_s=ended_s, known=known, mute=row.mute)
        elif fetched.wire_bytes and fetched.truncated != "time":
            self.link.answered(domain, network_of(fetched.ip), began_s=began_s, now_s=ended_s)
        if asks_dns:
            if fetched.outcome in _DNS:
                self.resolver.failed(domain, "", began_s=began_s, now_s=ended_s, known=known, mute=row.mute)
            elif fetched.connect_ms:
                self.resolver.answered(domain, "", began_s=began_s, now_s=began_s + fetched.connect_ms / 1000)
        self._tell()

    async def _is_ours(self, outcome: Outcome, began_s: float, ended_s: float) -> bool:
        """Whose fault it is, as soon as that can be told."""
        lines = (self.link, self.resolver) if outcome in _DNS else (self.link,)
        while True:
            now_s = self._clock()
            judgements = [
                line.judge(began_s=began_s, ended_s=ended_s, now_s=now_s, under_way=self._under_way - 1)
                for line in lines
            ]
            if Judgement.OURS in judgements:
                return True
            if Judgement.OPEN not in judgements:
                return False
            await self._hold(ended_s)

    async def _hold(self, ended_s: float) -> None:
        """Wait until somebody who was asked later has answered, it is judged, or it is time to look again."""
        while self._held and self._held[0][1].done():
            self._held.popleft()
        wake = asyncio.get_running_loop().create_future()
        self._held.append((ended_s, wake))
        timer = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, _set, wake)
        try:
            await wake
        finally:
            timer.cancel()
            wake.cancel()

    def _tell(self) -> None:
        """Wake whom the last result concerns, and say so where the line went down or up."""
        changed = self.down != self._was_down
        while self._held and (changed or self._held[0][0] <= self.link.answered_began_s):
            _set(self._held.popleft()[1])
        if not changed:
            return
        self._was_down = self.down
        if self.down:
            self._up.clear()
            self._tally.add("line_outages")
            what = "link" if self.link.down else "resolver"
            _log.warning("our own %s seems to be down: fetching pauses, no site is charged", what)
        else:
            self._up.set()
            self._client.resolver.forget_failures()
            _log.warning("our own line is up again")

    async def _sit_out(self) -> None:
        if self.down:
            now_s = self._clock()
            next_in_s = max(line.next_probe_in_s(now_s) for line in (self.link, self.resolver))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._up.wait(), next_in_s + PROBE_LEASED_S)

    def _spare(self, fetched: Fetched, instead: Outcome) -> None:
        fetched.detail = f"{fetched.outcome}: {fetched.detail}" if fetched.detail else fetched.outcome
        fetched.outcome = instead
        self._tally.add("line_spared")


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
