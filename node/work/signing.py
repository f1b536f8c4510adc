"""Web Bot Auth: the key, and the signing of requests with it. What is signed is in ``rules/signature.py``.

One key is for the whole fleet, in a file that nobody else can read; it appears nowhere else. A signature
holds for an authority and for minutes, so it is kept and sent again while most of its life is left: a domain
that is visited once in 70 s costs one signature in three or four requests.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from node.errors import DiskError, SettingsError
from node.rules import signature
from node.rules.request import Target

MAX_KEPT = 20_000
"""Authorities whose signature is kept; about 600 bytes each."""
RENEW_AT = 0.75
"""A signature is made anew when so much of its life is over: clocks differ, and requests take time."""
DIRECTORY_VALID_S = 90 * 86_400
"""What is signed of the published directory holds this long."""


class Key:
    """An Ed25519 key that can't be printed."""

    __slots__ = ("_private", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"Key({self.id})"

    @property
    def id(self) -> str:
        """Its thumbprint."""
        return signature.thumbprint(self.public)

    def sign(self, unsigned: signature.Unsigned) -> str:
        """The header lines of a signature."""
        return unsigned.signed(self._private.sign(unsigned.base))


class Signer:
    """Signs requests; one per process. ``agent``: the https origin that publishes the key."""

    def __init__(self, key: Key, agent: str, valid_s: float, *, max_kept: int = MAX_KEPT) -> None:
        self._key = key
        self._keyid = key.id
        self._agent = agent
        self._valid_s = max(1, round(valid_s))
        self._max_kept = max_kept
        self._kept: OrderedDict[tuple[bool, str], tuple[int, bytes]] = OrderedDict()
        """(https, authority) -> when it was made, and the lines."""

    def lines(self, target: Target, unix_s: float) -> bytes:
        """The three header lines for a request to ``target`` that is sent at ``unix_s``."""
        whom = (target.https, target.authority)
        kept = self._kept.get(whom)
        if kept is None or not 0 <= unix_s - kept[0] < RENEW_AT * self._valid_s:
            made_s = int(unix_s)
            unsigned = signature.request(
                target.authority,
                https=target.https,
                agent=self._agent,
                keyid=self._keyid,
                created=made_s,
                expires=made_s + self._valid_s,
            )
            kept = self._kept[whom] = made_s, self._key.sign(unsigned).encode("ascii")
            if len(self._kept) > self._max_kept:
                self._kept.popitem(last=False)
        self._kept.move_to_end(whom)
        return kept[1]


def read_key(path: Path) -> Key:
    """Raises ``SettingsError`` where there is no key that is ours alone; its words don't show the file."""
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()
    except FileNotFoundError:
        raise SettingsError(f"there is no key {path}: 'milliarde key' makes one") from None
    except OSError as error:
        raise SettingsError(f"the key {path} can't be read: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise SettingsError(f"others can read the key {path}: chmod 600 it, or make a new one")
    try:
        private = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise SettingsError(f"{path} holds no Ed25519 key (PEM, PKCS #8, without a passphrase)")
    return Key(private)


def make_key(path: Path) -> Key:
    """Make a key where there is none, in a file for its owner alone. Raises ``DiskError``."""
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}") from None
    return Key(private)


def directory(keys: Sequence[Key]) -> str:
    """The document that publishes the keys, a JWKS, as it is to be served."""
    entries = [{**signature.jwk(key.public), "kid": key.id, "use": "sig"} for key in keys]
    return msgspec.json.format(msgspec.json.encode({"keys": entries}), indent=2).decode("ascii") + "\n"


def directory_headers(keys: Sequence[Key], agent: str, unix_s: float) -> str:
    """The header lines to serve that document with, exactly as it is; each key proves that it is ours."""
    body = directory(keys).encode("ascii")
    made_s = int(unix_s)
    lines, digest = "", ""
    for number, key in enumerate(keys, 1):
        digest, unsigned = signature.directory(
            body,
            agent.removeprefix("https://"),
            number=number,
            keyid=key.id,
            created=made_s,
            expires=made_s + DIRECTORY_VALID_S,
        )
        lines += key.sign(unsigned)
    lines = (
        f"Content-Type: {signature.DIRECTORY_TYPE}\r\nCache-Control: max-age=86400\r\n"
        f"Content-Digest: {digest}\r\n{lines}"
    )
    return lines.replace("\r\n", "\n")
