"""What went wrong with a request, as an ``Outcome`` and a few words.

The errors of the operating system, of ``ssl`` and of the event loop become values here.
"""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from enum import Enum, auto

from node.rules.outcome import Outcome

NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""No more files may be open here; nothing was sent."""
_OURS = frozenset({errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EADDRINUSE})
"""We ran out of something else (memory, local ports); the site has nothing to do with it."""
_DETAIL_CHARS = 160


class Step(Enum):
    """What a request is waiting for."""

    DNS = auto()
    CONNECT = auto()
    TLS = auto()
    ANSWER = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer."""

    outcome: Outcome
    detail: str


TIMED_OUT: dict[Step, Failure] = {
    Step.DNS: Failure(Outcome.DNS_TIMEOUT, "no answer from DNS within the deadline"),
    Step.CONNECT: Failure(Outcome.CONNECT_TIMEOUT, "no connection within the deadline"),
    Step.TLS: Failure(Outcome.TIMEOUT, "no end of the TLS handshake within the deadline"),
    Step.ANSWER: Failure(Outcome.TIMEOUT, "no headers within the deadline"),
}
"""What the deadline means, by what was being waited for."""


def failure_of(error: BaseException, step: Step) -> Failure:
    """What an error of a connection is, by what was being waited for."""
    connecting = step is Step.CONNECT
    match error:
        case ssl.SSLCertVerificationError():
            return Failure(Outcome.TLS_FAILED, words(f"certificate: {error.verify_message}"))
        case ssl.SSLError():
            # one that is raised in Python, as by the name check, has no reason
            return Failure(Outcome.TLS_FAILED, words(f"TLS: {getattr(error, 'reason', None) or error}"))
        case ConnectionRefusedError():
            return Failure(Outcome.REFUSED, "connection refused")
        case TimeoutError():  # the kernel's, not ours
            outcome = Outcome.CONNECT_TIMEOUT if connecting else Outcome.TIMEOUT
            return Failure(outcome, "the other side stopped answering")
        case ConnectionError() if connecting:
            return Failure(Outcome.REFUSED, "reset while connecting")
        case ConnectionError():
            where = "in the TLS handshake" if step is Step.TLS else "before an answer"
            return Failure(Outcome.DISCONNECTED, f"closed {where}")
        case OSError(errno=number) if number in NO_FILES:
            return Failure(Outcome.NO_FILES, words(str(error.strerror)))
        case OSError(errno=number) if number in _OURS:
            return Failure(Outcome.LOCAL_ERROR, words(str(error.strerror)))
        case OSError() if connecting:
            return Failure(Outcome.UNREACHABLE, words(str(error.strerror or error)))
        case _:
            return Failure(Outcome.DISCONNECTED, words(str(error) or type(error).__name__))


def words(text: str) -> str:
    """One short printable line, whatever a server or a library put into it."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:_DETAIL_CHARS])
