"""TLS for outgoing connections: verification, and sessions that are resumed at the next visit.

A resumed handshake saves the certificates, on both sides. A session belongs to one host name: its
certificate was checked for that name, and is not shown again when the session is resumed. In TLS 1.3
tickets arrive after the handshake, so a session is taken when the response is complete. Handing a
session in and taking one out each cost a copy inside Python's ``ssl`` (0.15 ms with OpenSSL 3.0, which
decodes the certificate in it again), so one is taken only when it is needed.

uvloop and asyncio ask whatever they get as ``ssl`` for nothing but ``wrap_bio``. A ``Handshake`` has
that method, so each connection has its own, and knows what came of it.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable
from typing import Any, cast

from node.errors import SettingsError

_RECORD_BYTES = 1 << 14
"""The most that a TLS record carries (RFC 8446, 5.1)."""
_GIVE_UP_AFTER = 3
"""A host that refuses, or doesn't give, this many sessions in a row is offered no more."""


class _Known:
    """What we hold of one host's sessions. ``session`` None: it does not resume, don't try."""

    __slots__ = ("refusals", "session", "stale_at")

    def __init__(self) -> None:
        self.session: ssl.SSLSession | None = None
        self.stale_at = 0.0
        self.refusals = 0


class Handshake:
    """The TLS side of one connection to ``host``."""

    __slots__ = ("_contexts", "_host", "_known", "ssl_object")

    def __init__(self, contexts: TlsContexts, host: str, known: _Known | None) -> None:
        self._contexts = contexts
        self._host = host
        self._known = known
        self.ssl_object: ssl.SSLObject | None = None
        """None until the TCP connection stands, and again when its session has been kept."""

    @property
    def context(self) -> ssl.SSLContext:
        """Ourselves, under the type that ``create_connection`` is declared to take."""
        return cast(ssl.SSLContext, self)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | None = None,
    ) -> ssl.SSLObject:
        """Called by the event loop when TCP is connected. Raises ``ssl.SSLError``."""
        session = self._known.session if self._known is not None else None
        try:
            self.ssl_object = self._contexts.client.wrap_bio(
                incoming, outgoing, server_side, server_hostname, session
            )
        except ValueError as error:  # also UnicodeError: no certificate can have such a name
            raise ssl.SSLError(f"{error} in the host name") from None
        return self.ssl_object

    def keep_session(self) -> None:
        """Remember the session for the next connection to this host; call with the response complete.

        Further responses on the same connection have nothing to add.
        """
        ssl_object, self.ssl_object = self.ssl_object, None
        if ssl_object is not None:
            self._contexts._learn(self._host, ssl_object, self._known)


class _Connection(ssl.SSLObject):
    """Holds less while it waits for its peer, as most of ours do most of the time."""

    def getpeercert(self, binary_form: bool = False) -> None:
        """Nothing: uvloop has the certificate taken apart at each handshake and keeps it (3 KB), and nobody
        reads it. It is verified before that."""

    def read(self, len: int = 1024, buffer: Any = None) -> bytes:
        """As ever, and no more than a record holds, which is all that one call can give: uvloop asks for 256
        KB each time, and all of that is taken from the heap first.

        Having met a ticket, OpenSSL (3.0) keeps a buffer to write from (16 KB) until something was written.
        To write nothing sends nothing, and is enough.
        """
        try:
            return super().read(min(len, _RECORD_BYTES), buffer)
        except ssl.SSLWantReadError:
            with contextlib.suppress(ssl.SSLError):  # it may have been shut down by now
                super().write(b"")
            raise


class TlsContexts:
    """The client context of a process, and its cache of sessions.

    ``verify`` checks certificates against the system's roots and those of ``ca_file`` (PEM).
    ``max_sessions`` bounds the cache (5–7 KB each, the least recently used goes first); it should
    hold the hosts visited in turn, or none is there when its host comes round again. ``clock`` is
    monotonic seconds. Raises ``SettingsError`` for a ``ca_file`` that can't be used.
    """

    def __init__(
        self,
        *,
        verify: bool = True,
        ca_file: str | None = None,
        max_sessions: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.client = _client_context(verify=verify, ca_file=ca_file)
        self.full = 0
        """Complete handshakes made, and ..."""
        self.resumed = 0
        """... those that resumed a session."""
        self._max_sessions = max_sessions
        self._known: dict[str, _Known] = {}

    def __len__(self) -> int:
        """Hosts in the cache."""
        return len(self._known)

    def handshake(self, host: str) -> Handshake:
        """The TLS side of a new connection to ``host``, with its session where we have one."""
        return Handshake(self, host, self._known.get(host))

    def session(self, host: str) -> ssl.SSLSession | None:
        """The session that the next handshake with ``host`` will offer."""
        known = self._known.get(host)
        return None if known is None else known.session

    def _learn(self, host: str, ssl_object: ssl.SSLObject, offered: _Known | None) -> None:
        now = self._clock()
        known = offered or _Known()
        if ssl_object.session_reused:
            self.resumed += 1
            known.refusals = 0
            # a server may well take a ticket again; TLS 1.2 gives no fresh session when it resumes one
            wanted = now >= known.stale_at and ssl_object.version() == "TLSv1.3"
        else:
            self.full += 1
            if known.session is not None:
                known.refusals += 1
            wanted = known.refusals < _GIVE_UP_AFTER
            if not wanted:
                known.session = None
        if wanted:
            _take(known, ssl_object, now)
        self._store(host, known)

    def _store(self, host: str, known: _Known) -> None:
        self._known.pop(host, None)  # put in again below, it is the most recently used
        self._known[host] = known
        if len(self._known) > self._max_sessions:
            del self._known[next(iter(self._known))]


def _take(known: _Known, ssl_object: ssl.SSLObject, now: float) -> None:
    session = ssl_object.session
    if session is None or not (session.has_ticket or session.id):
        known.session = None
        known.refusals += 1
        return
    lifetime_s = session.timeout
    if session.ticket_lifetime_hint:
        lifetime_s = min(lifetime_s, session.ticket_lifetime_hint)
    known.session = session
    known.stale_at = now + lifetime_s / 2


def _client_context(*, verify: bool, ca_file: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslobject_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context.load_default_certs()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError:
            raise SettingsError(f"tls.ca_file {ca_file} holds no PEM certificate") from None
        except OSError as error:
            raise SettingsError(f"tls.ca_file {ca_file} can't be read: {error.strerror}") from None
    return context
