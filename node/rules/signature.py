"""Web Bot Auth: what is signed of a request, and how it is written down.

HTTP message signatures (RFC 9421) over who is asked and who asks, as draft-ietf-webbotauth-httpsig-protocol
profiles them: Ed25519, ``created`` and ``expires``, the key named by its thumbprint (RFC 7638, RFC 8037), tag
``web-bot-auth``, and a Signature-Agent header that says where the key is published. Signing itself is for
whoever holds the key (``work/signing.py``).

A signature is about an authority, not about a request, so it holds for all requests to it until it expires.
Over plain http the scheme is signed, too: what somebody on the way picks up there is of no use over https.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence
from typing import NamedTuple

LABEL = "sig1"
TAG = "web-bot-auth"
DIRECTORY_TAG = "http-message-signatures-directory"
DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
DIRECTORY_TYPE = "application/http-message-signatures-directory+json"
MAX_VALID_S = 86_400.0
"""The draft recommends that signatures expire within a day."""

_ORIGIN = re.compile(r"https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[1-9][0-9]{0,4})?")


class Unsigned(NamedTuple):
    """What is to be signed, and the lines that say so."""

    base: bytes
    """The signature base (RFC 9421 section 2.5)."""
    lines: str
    label: str

    def signed(self, signature: bytes) -> str:
        """Header lines, each with its CRLF, once there is the signature of ``base``."""
        return f"{self.lines}Signature: {self.label}=:{b64encode(signature).decode('ascii')}:\r\n"


def is_origin(text: str) -> bool:
    """Is it the ASCII form of an https origin, without a path?"""
    return _ORIGIN.fullmatch(text) is not None


def jwk(public_key: bytes) -> dict[str, str]:
    """The members of an Ed25519 key's JWK that its thumbprint is made of (RFC 8037), in their order."""
    return {"crv": "Ed25519", "kty": "OKP", "x": _base64url(public_key)}


def thumbprint(public_key: bytes) -> str:
    """The key's name: the SHA-256 thumbprint of its JWK (RFC 7638), base64url."""
    members = ",".join(f'"{name}":"{value}"' for name, value in jwk(public_key).items())
    return _base64url(hashlib.sha256(f"{{{members}}}".encode("ascii")).digest())


def request(authority: str, *, https: bool, agent: str, keyid: str, created: int, expires: int) -> Unsigned:
    """What is signed for requests to ``authority`` (the value of the Host header).

    ``agent``: the origin that publishes the key. ``created``, ``expires``: Unix seconds.
    """
    covered = [('"@authority"', authority)]
    if not https:
        covered.append(('"@scheme"', "http"))
    covered.append((f'"signature-agent";key="{LABEL}"', f'"{agent}"'))
    unsigned = _unsigned(LABEL, covered, created, expires, keyid, TAG)
    return unsigned._replace(lines=f'Signature-Agent: {LABEL}="{agent}"\r\n{unsigned.lines}')


def directory(
    body: bytes, authority: str, *, number: int, keyid: str, created: int, expires: int
) -> tuple[str, Unsigned]:
    """What one key signs of the answer that publishes it: the value of Content-Digest, and the rest.

    It proves that who serves the keys holds them. ``number`` tells the signatures of several keys apart.
    """
    digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode('ascii')}:"
    covered = [('"@authority";req', authority), ('"content-digest"', digest)]
    return digest, _unsigned(f"key{number}", covered, created, expires, keyid, DIRECTORY_TAG)


def _unsigned(
    label: str, covered: Sequence[tuple[str, str]], created: int, expires: int, keyid: str, tag: str
) -> Unsigned:
    """``covered``: the components as RFC 9421 writes them, and their values."""
    components = " ".join(name for name, _ in covered)
    parameters = f'({components});created={created};expires={expires};keyid="{keyid}";tag="{tag}"'
    base = "".join(f"{name}: {value}\n" for name, value in covered) + f'"@signature-params": {parameters}'
    return Unsigned(base.encode("ascii"), f"Signature-Input: {label}={parameters}\r\n", label)


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).decode("ascii").rstrip("=")
