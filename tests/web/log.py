"""The access log: one JSON line per request, flushed, in the order in which the answers ended."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path


def now_ms() -> float:
    """CLOCK_BOOTTIME in milliseconds: comparable between all processes of this machine."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


@dataclass(slots=True)
class Entry:
    """One request as the server saw it, or a connection that never sent one (``method`` is None)."""

    t_ms: float
    """When the request's head was complete (for a connection without request: when it was accepted)."""
    conn: int
    """Number of the connection; two requests with the same number shared it."""
    scheme: str
    port: int
    peer: str | None = None
    """The address that the connection came from."""
    host: str | None = None
    """From the Host header, lower case, without port; for a connection without request the SNI name."""
    sni: str | None = None
    method: str | None = None
    path: str | None = None
    """The request target as sent, query included."""
    status: int | None = None
    """As sent; None where no status line was sent, or garbage."""
    bytes: int = 0
    """All that was sent in answer: head, framing and body (before TLS)."""
    ms: float = 0.0
    """From ``t_ms`` to the end of the answer."""
    resumed: bool | None = None
    """Whether the TLS session was resumed; None without TLS or where no handshake was completed."""
    user_agent: str | None = None
    accept_encoding: str | None = None
    cookie: str | None = None
    referer: str | None = None

    @property
    def url(self) -> str:
        """The URL asked for, as far as the client said (empty for a connection without request)."""
        return f"{self.scheme}://{self.host}{self.path}" if self.method is not None else ""


class AccessLog:
    """Appends entries to a file; each is on its way to the disk when ``write`` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, entry: Entry) -> None:
        """Append one entry."""
        self._file.write(json.dumps(asdict(entry), separators=(",", ":")) + "\n")
        self._file.flush()

    def close(self) -> None:
        """No entry after this."""
        self._file.close()


def read_log(path: Path) -> list[Entry]:
    """All whole entries, in order of ``t_ms``. A last line still being written is left out."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return sorted((Entry(**json.loads(line)) for line in lines), key=lambda entry: entry.t_ms)
