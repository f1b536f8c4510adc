"""The certificate authority of the miniature web: real chains, made once and kept in a folder.

Two kinds of chain, as they are met on the web: ``rsa`` (an RSA-2048 leaf under an RSA-2048
intermediate) and ``ec`` (a P-256 leaf under a P-384 intermediate). Each registrable domain has a
certificate of its own for ``domain`` and ``*.domain``, signed when it is first asked for; all
leaves of a kind share one key, since making keys is what costs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.web.shape import draw

ChainKind = Literal["rsa", "ec", "mixed"]
"""``mixed``: half of the domains have one kind of chain, half the other; ``root`` holds both roots."""

_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_FROM = datetime(2020, 1, 1, tzinfo=UTC)
_UNTIL = datetime(2049, 12, 31, tzinfo=UTC)
_LONG_AGO = datetime(2020, 2, 1, tzinfo=UTC)


def _rsa_key() -> _Key:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


_KEYS: dict[str, tuple[Callable[[], _Key], Callable[[], _Key]]] = {
    "rsa": (_rsa_key, _rsa_key),
    "ec": (lambda: ec.generate_private_key(ec.SECP384R1()), lambda: ec.generate_private_key(ec.SECP256R1())),
}
"""Kind -> how the authority's keys are made, how the leaf's is."""


def _digest(key: _Key) -> hashes.SHA256 | hashes.SHA384:
    large = isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size > 256
    return hashes.SHA384() if large else hashes.SHA256()


def _certificate(
    subject: str,
    key: _Key,
    issuer: str,
    signer: _Key,
    *,
    names: tuple[str, ...] = (),
    until: datetime = _UNTIL,
) -> x509.Certificate:
    """A certificate for ``names``, or one of an authority where there are none."""
    authority = not names
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=not authority,
                key_cert_sign=authority,
                crl_sign=authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if names:
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(alternatives, critical=False).add_extension(usage, critical=False)
    return builder.sign(signer, _digest(signer))


def _pem(*parts: x509.Certificate | _Key) -> bytes:
    return b"".join(
        part.public_bytes(serialization.Encoding.PEM)
        if isinstance(part, x509.Certificate)
        else part.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        for part in parts
    )


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, even where two processes write the same file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)


class _Chain:
    """One kind of chain in a folder: ``root.pem``, ``authority.pem`` (intermediate and keys), ``leaf/``."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.root = folder / "root.pem"
        self._leaves = folder / "leaf"
        self._leaves.mkdir(parents=True, exist_ok=True)
        self._issuer = f"Miniature Web {kind.upper()} Intermediate"
        stored = folder / "authority.pem"
        with _locked(folder):
            if not stored.exists():
                self._make(kind, stored)
        data = stored.read_bytes()
        self._intermediate = x509.load_pem_x509_certificate(data)
        keys = [
            b"-----BEGIN PRIVATE KEY-----" + part for part in data.split(b"-----BEGIN PRIVATE KEY-----")[1:]
        ]
        self._signer, self._leaf_key = (_load_key(key) for key in keys)

    def _make(self, kind: str, stored: Path) -> None:
        for stale in self._leaves.iterdir():
            stale.unlink()
        authority_key, leaf_key = _KEYS[kind]
        root_key, signer = authority_key(), authority_key()
        root_name = f"Miniature Web {kind.upper()} Root"
        _write(self.root, _pem(_certificate(root_name, root_key, root_name, root_key)))
        intermediate = _certificate(self._issuer, signer, root_name, root_key)
        _write(stored, _pem(intermediate, signer, leaf_key()))

    def leaf(self, domain: str, make: Callable[[], tuple[x509.Certificate, ...]] | None = None) -> Path:
        """PEM file with the key and the chain for ``domain`` and its subdomains."""
        path = self._leaves / f"{domain}.pem"
        if not path.exists():
            _write(path, _pem(self._leaf_key, *(make() if make else self.signed(domain))))
        return path

    def signed(self, domain: str, until: datetime = _UNTIL) -> tuple[x509.Certificate, ...]:
        """A certificate for ``domain`` and its subdomains, and the intermediate that signed it."""
        names = (domain, f"*.{domain}")
        leaf = _certificate(domain, self._leaf_key, self._issuer, self._signer, names=names, until=until)
        return leaf, self._intermediate

    def self_signed(self, domain: str) -> tuple[x509.Certificate, ...]:
        """A certificate for ``domain`` that nobody but itself vouches for."""
        return (_certificate(domain, self._leaf_key, domain, self._leaf_key, names=(domain, f"*.{domain}")),)


def _load_key(data: bytes) -> _Key:
    # We made these keys: checking again that their numbers are prime costs 50 ms each, at every start.
    key = serialization.load_pem_private_key(data, password=None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise TypeError(f"the authority's folder holds a key of another kind: {type(key).__name__}")
    return key


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time makes an authority in a folder."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Authority:
    """Issues certificates, from and into ``folder``. Several processes may share a folder."""

    def __init__(self, folder: Path, kind: ChainKind = "rsa") -> None:
        kinds = ("rsa", "ec") if kind == "mixed" else (kind,)
        folder.mkdir(parents=True, exist_ok=True)
        self._chains = [_Chain(folder / each, each) for each in kinds]
        self.root = self._chains[0].root
        """PEM file with what a client must trust."""
        if kind == "mixed":
            self.root = folder / "roots.pem"
            _write(self.root, b"".join(chain.root.read_bytes() for chain in self._chains))

    def _chain(self, domain: str) -> _Chain:
        return self._chains[draw("chain", domain) % len(self._chains)]

    def leaf(self, domain: str) -> Path:
        """PEM file (key, leaf, intermediate) that is right for ``domain`` and ``*.domain``."""
        return self._chain(domain).leaf(domain)

    def self_signed(self, domain: str) -> Path:
        """The same, signed by itself."""
        chain = self._chain(domain)
        return chain.leaf(f"{domain}.self-signed", lambda: chain.self_signed(domain))

    def expired(self, domain: str) -> Path:
        """The same, and no longer valid."""
        chain = self._chain(domain)
        return chain.leaf(f"{domain}.expired", lambda: chain.signed(domain, until=_LONG_AGO))
