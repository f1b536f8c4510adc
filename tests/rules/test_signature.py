"""The bytes that are signed, held against the standards' own examples."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest

from node.rules import signature

RFC_9421_KEY = urlsafe_b64decode("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs=")
"""The public key of RFC 9421, appendix B.1.4."""


@pytest.mark.parametrize(
    ("x", "thumbprint"),
    [
        # RFC 8037, appendix A.3
        ("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"),
        # the examples of draft-ietf-webbotauth-httpsig-protocol
        ("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"),
    ],
)
def test_a_key_is_named_by_its_thumbprint(x: str, thumbprint: str) -> None:
    """RFC 7638 for Ed25519: verifiers find the key by this name alone."""
    assert signature.thumbprint(urlsafe_b64decode(x + "=")) == thumbprint


def test_the_signature_base() -> None:
    """What is signed of a request over https, byte for byte as RFC 9421 section 2.5 writes it."""
    unsigned = signature.request(
        "example.com", https=True, agent="https://bot.test", keyid="K", created=1735689600, expires=1735689900
    )
    assert unsigned.base == (
        b'"@authority": example.com\n'
        b'"signature-agent";key="sig1": "https://bot.test"\n'
        b'"@signature-params": ("@authority" "signature-agent";key="sig1");created=1735689600'
        b';expires=1735689900;keyid="K";tag="web-bot-auth"'
    )
    assert unsigned.signed(b"\0\1\2") == (
        'Signature-Agent: sig1="https://bot.test"\r\n'
        'Signature-Input: sig1=("@authority" "signature-agent";key="sig1");created=1735689600'
        ';expires=1735689900;keyid="K";tag="web-bot-auth"\r\n'
        "Signature: sig1=:AAEC:\r\n"
    )


def test_http_is_signed_as_http() -> None:
    """What somebody reads on the way of a plain request is no signature for the same host over https."""
    unsigned = signature.request(
        "h.test:81", https=False, agent="https://b.test", keyid="K", created=1, expires=9
    )
    assert b'"@scheme": http\n' in unsigned.base
    assert '("@authority" "@scheme" "signature-agent";key="sig1")' in unsigned.lines


@pytest.mark.parametrize("text", ["https://bot.example.org", "https://a", "https://x.test:8443"])
def test_origins(text: str) -> None:
    """Who publishes a key is named by an https origin."""
    assert signature.is_origin(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "bot.test", "http://bot.test", "https://", "https://bot.test/", "https://bot.test/a"),
        *('https://a"b', "https://a b", "https://Bot.test", "https://u@bot.test", "https://bot.test:0"),
    ],
)
def test_no_origins(text: str) -> None:
    """Anything else could break the header, or is none."""
    assert not signature.is_origin(text)
