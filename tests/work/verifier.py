"""An independent verifier of signed requests: the library http-message-signatures, on what was sent."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    VerifyResult,
    algorithms,
)


@dataclass
class Request:
    """A request as a server saw it; ``headers`` keep what was sent, one value a name."""

    method: str
    url: str
    headers: dict[str, str]


@dataclass
class Response:
    """A response, and the request that it answers."""

    status_code: int
    headers: dict[str, str]
    request: Request


class Directory(HTTPSignatureKeyResolver):
    """The keys of a published directory, by their names in it."""

    def __init__(self, document: str) -> None:
        self.keys = {key["kid"]: key for key in json.loads(document)["keys"]}

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        """The key called ``key_id``; ``KeyError`` if it isn't published."""
        return Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(self.keys[key_id]["x"] + "="))


def parsed(head: bytes, scheme: str) -> Request:
    """The request that begins with these bytes, sent over ``scheme``."""
    line, *lines = head.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
    method, path, _ = line.split(" ")
    headers = dict(each.split(": ", 1) for each in lines)
    return Request(method, f"{scheme}://{headers['Host']}{path}", headers)


def verified(message: Request | Response, document: str, tag: str) -> list[VerifyResult]:
    """The signatures with this tag, all of them good. Raises ``InvalidSignature``."""
    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Directory(document))
    return verifier.verify(message, expect_tag=tag)
