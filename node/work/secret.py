"""Credentials: read from a file, shown to nobody.

A ``Secret`` prints as asterisks. What comes back from a gateway is searched for it before it goes
anywhere, since services echo what they are sent: in headers, in error pages, in redirects.
"""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

from node.errors import SettingsError
from node.rules.headers import Headers

LEAST_CHARS = 6
"""Forms of a secret shorter than this are not searched for: ordinary text is full of them."""


class Secret:
    """An API key, or ``user:password``. ``reveal()`` is for whoever sends it."""

    __slots__ = ("_forms", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        coded = base64.b64encode(text.encode()).decode()
        forms = {text, quote(text, safe=""), quote(text), coded, coded.rstrip("=")}
        password = text.partition(":")[2]
        if password:
            forms |= {password, quote(password, safe="")}
        # the longest first, so that none leaves a rest of another
        self._forms = sorted((f.encode() for f in forms if len(f) >= LEAST_CHARS), key=len, reverse=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)"

    def reveal(self) -> str:
        """The secret itself."""
        return self._text

    @property
    def basic(self) -> str:
        """The value of a header for HTTP's Basic authentication (RFC 7617)."""
        return "Basic " + base64.b64encode(self._text.encode()).decode()

    def is_in(self, data: bytes) -> bool:
        """Does ``data`` hold the secret, in any form it is sent in?"""
        return any(form in data for form in self._forms)

    def cut_out(self, data: bytes) -> bytes:
        """``data`` with asterisks in its place."""
        for form in self._forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        return data

    def cut_out_of(self, headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
        """Headers with asterisks in its place."""
        return tuple((name, self.cut_out(value)) for name, value in headers)


def read_secret(path: str) -> Secret:
    """The one line of a credentials file. Raises ``SettingsError``, which doesn't show it."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise SettingsError(f"gateway.credentials_file {path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"gateway.credentials_file {path} is not plain ASCII") from None
    if not text or not text.isprintable() or " " in text:
        raise SettingsError(
            f"gateway.credentials_file {path} must hold one line: the key, or user:password of the proxy"
        )
    return Secret(text)
