"""One request, one response, and an ``Outcome`` whatever happens.

``Client.fetch`` asks for one URL under one deadline (DNS, connecting, TLS, headers and body together)
and gives back what came, as received: no redirect is followed, nothing is decoded, no cookie is kept.
No exception gets past it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from node.rules import headers as headers_of
from node.rules import request
from node.rules.gateway import Speaker
from node.rules.outcome import Outcome
from node.rules.pressure import Reason
from node.rules.usage import Said
from node.work.answer import Accept, Answer, MaySend, Truncated
from node.work.connect import Connection, Connector, Progress
from node.work.failure import TIMED_OUT, Failure, words
from node.work.resolve import Addresses, Resolver
from node.work.tls import TlsContexts

if TYPE_CHECKING:
    from node.work.signing import Signer

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.1"
ACCEPT_ENCODING = "gzip"
"""What costs least to undo: 0.12 ms for a page of 147 KB (isal), where brotli takes half as much again and
saves 2 to 7 % of the bytes."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Fetched:
    """What became of one request.

    ``headers`` are the raw pairs in order, ``body`` is as received with chunked coding undone and
    content coding kept. ``truncated`` is the WARC term for why the body is not whole. ``request`` is
    what was sent. Milliseconds count from the call: ``connect_ms`` to the connection (DNS and TLS
    included; 0 on a kept one), ``ttfb_ms`` to the end of the headers, ``total_ms`` to the end; 0 where
    it did not come to that. ``wire_bytes`` is all that was received, headers and framing included.
    """

    outcome: Outcome
    status: int | None
    reason: str
    http_version: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    truncated: Truncated | None
    ip: str | None
    started_unix_s: float
    connect_ms: int
    ttfb_ms: int
    total_ms: int
    detail: str
    wire_bytes: int
    request: bytes
    speaker: Speaker = Speaker.TARGET
    """Who answered, or failed to."""
    said: Said = ()
    """What is known to be said about the use of the page; whoever visits finds out."""

    @property
    def latency_ms(self) -> int:
        """From the connection to the end of the headers: what the site itself took. 0 = no answer."""
        return max(1, self.ttfb_ms - self.connect_ms) if self.ttfb_ms > 0 else 0


class Fetching(Protocol):
    """Who does the fetching for a fetcher: ``Client``, or a gateway."""

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
        """See ``Client.fetch``."""

    async def look_up(self, url: str) -> Addresses:
        """Where a request for ``url`` would go; none where nobody can tell."""

    def room(self, in_hand: int) -> int:
        """How many visits more it can serve soon, beside those in hand."""

    @property
    def short_of(self) -> Reason:
        """Why there is no room, where there is none."""

    async def tend(self) -> None:
        """To be called about once a second, also while nothing is fetched."""

    async def close(self) -> None:
        """Close all connections."""


def header_values(fetched: Fetched, name: bytes) -> list[str]:
    """All values of the headers called ``name`` (lower case), each byte one character."""
    return headers_of.every(fetched.headers, name)


def content_type(fetched: Fetched) -> str | None:
    """The Content-Type as written, or None."""
    return headers_of.text(fetched.headers, b"content-type")


def content_encoding(fetched: Fetched) -> str:
    """The content codings, in lower case as they were applied (``gzip``, ``gzip, br``), or ``""``."""
    return ", ".join(header_values(fetched, b"content-encoding")).strip().lower()


def location(fetched: Fetched) -> str | None:
    """Where a redirect points, as written; None where it says nothing."""
    return headers_of.location(fetched.headers)


class Client:
    """Fetches URLs; one per process, used inside its event loop.

    ``user_agent`` is sent as it is. More than ``max_connections`` requests at once are refused as a
    ``LOCAL_ERROR``: whoever gives out the work must not give out more. ``keep_idle_s`` > 0 keeps
    connections open for that long, for crawls that come back at once (``delay_s`` = 0); otherwise each
    request has a connection of its own. ``headers`` are further lines for every request; ``connector``
    connects in another way. ``signer`` adds a signature to each request.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        tls: TlsContexts,
        resolver: Resolver,
        max_connections: int = 1_000,
        keep_idle_s: float = 0.0,
        headers: Sequence[str] = (),
        connector: Connector | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.tls = tls
        self.resolver = resolver
        self._connector = connector or Connector(resolver, tls, keep_idle_s=keep_idle_s)
        self._signer = signer
        self._max_connections = max_connections
        self._under_way = 0
        lines = [
            f"User-Agent: {user_agent}",
            f"Accept: {ACCEPT}",
            f"Accept-Encoding: {ACCEPT_ENCODING}",
            f"Connection: {'keep-alive' if keep_idle_s else 'close'}",
            *headers,
        ]
        self._fixed = "".join(line + "\r\n" for line in lines).encode("ascii")

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
        """GET the canonical ``url``; the response, or what became of the request, within ``deadline_s``.

        The body is cut after ``max_wire_bytes``. A 2xx answer whose type ``accept`` refuses is cut at its
        headers. ``cookies`` is the value of the Cookie header. Where ``may_send`` says no, once connected,
        nothing is sent (``WITHHELD``). Raises nothing but ``CancelledError``.
        """
        started_unix_s, started = time.time(), time.monotonic()
        answer = Answer(asyncio.get_running_loop(), max_wire_bytes, accept, may_send)
        progress = Progress()
        sent = b""
        try:
            target = request.target_of(url)
            fixed = self._fixed
            if self._signer is not None:
                fixed += self._signer.lines(target, started_unix_s)
            sent = request.head(target, fixed, cookies)
        except ValueError as error:
            answer.failure = Failure(Outcome.NOT_SENT, str(error))
        else:
            await self._exchange(target, sent, answer, progress, deadline_s)
        outcome, detail = answer.conclude()
        message = answer.message
        return Fetched(
            outcome=outcome,
            status=None if message is None else message.code,
            reason="" if message is None else _reason(message.reason),
            http_version="" if message is None else f"{message.version.major}.{message.version.minor}",
            headers=answer.headers,
            body=answer.body,
            truncated=answer.truncated,
            ip=progress.ip,
            started_unix_s=started_unix_s,
            connect_ms=_ms(started, progress.connected),
            ttfb_ms=_ms(started, answer.head_at),
            total_ms=_ms(started, time.monotonic()),
            detail=detail,
            wire_bytes=answer.wire_bytes,
            request=sent,
            speaker=progress.speaker,
        )

    async def look_up(self, url: str) -> Addresses:
        """See ``Fetching``."""
        try:
            target = request.target_of(url)
        except ValueError as error:
            return Addresses((), Outcome.NOT_SENT, str(error))
        return await self.resolver.resolve(target.host, target.port)

    def room(self, in_hand: int) -> int:
        """Each visit has a connection at most, so it has no limit of its own."""
        return self._max_connections

    @property
    def short_of(self) -> Reason:
        """See ``room``."""
        return Reason.BUSY

    async def tend(self) -> None:
        """Nothing to tend."""

    async def close(self) -> None:
        """Close all connections and give up all look-ups."""
        self._connector.close()
        await self.resolver.close()

    async def _exchange(
        self,
        target: request.Target,
        sent: bytes,
        answer: Answer,
        progress: Progress,
        deadline_s: float,
    ) -> None:
        """Fill ``answer`` within the deadline."""
        if self._under_way >= self._max_connections:
            answer.failure = Failure(Outcome.LOCAL_ERROR, f"{self._under_way} requests are under way")
            return
        self._under_way += 1
        try:
            async with asyncio.timeout(deadline_s):
                kept = self._connector.idle(target)
                if kept is not None and await self._ask_kept(kept, target, sent, answer, progress):
                    return
                made = await self._connector.connect(target, sent, answer, progress)
                if isinstance(made, Failure):
                    answer.failure = made
                else:
                    await self._read(made, target, answer)
        except TimeoutError:
            if progress.connected is None:
                answer.failure = TIMED_OUT[progress.step()]
            else:
                answer.out_of_time()
        except Exception as error:
            # a fault of ours: it must not stop the visit, nor be taken for the site's
            _log.exception("a fetch failed in a way nobody foresaw")
            answer.failure = Failure(Outcome.LOCAL_ERROR, words(f"{type(error).__name__}: {error}"))
        finally:
            self._under_way -= 1

    async def _ask_kept(
        self, kept: Connection, target: request.Target, sent: bytes, answer: Answer, progress: Progress
    ) -> bool:
        """Ask on a kept connection; False where it turned out to be dead before it said anything."""
        progress.ip, progress.connected = kept.ip, time.monotonic()
        kept.ask(sent, answer)
        await self._read(kept, target, answer)
        if answer.wire_bytes or answer.failure is None or answer.failure.outcome is Outcome.WITHHELD:
            return True
        progress.ip = progress.connected = answer.failure = None
        return False

    async def _read(self, connection: Connection, target: request.Target, answer: Answer) -> None:
        """Wait for the answer; keep the connection or close it."""
        try:
            await connection.done
        except BaseException:
            self._connector.drop(connection)
            raise
        if connection.handshake is not None and answer.message is not None:
            connection.handshake.keep_session()
        if answer.reusable:
            self._connector.keep(target, connection)
        else:
            self._connector.drop(connection)


def _ms(start: float, end: float | None) -> int:
    """Whole milliseconds between two moments; 0 where the second never came."""
    return round(1000 * (end - start)) if end else 0


def _reason(text: str) -> str:
    """The reason phrase without what is not printable."""
    return text if text.isascii() and text.isprintable() else words(text)
