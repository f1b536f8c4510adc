"""Real servers for the network tests, each in threads of its own: raw bytes, TLS, DNS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Script = Callable[["Exchange"], None]
"""What a server does with one connection, after the request was read."""


class Exchange:
    """One connection at the server: ``request`` is the head that came, the methods answer it."""

    def __init__(self, sock: socket.socket, request: bytes, stopped: threading.Event) -> None:
        self.sock = sock
        self.request = request
        self.stopped = stopped

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def next_request(self) -> bytes:
        """Read another request on this connection; empty when the client is gone."""
        self.request = read_head(self.sock)
        return self.request

    def hold(self) -> None:
        """Say nothing more until the client has gone."""
        with contextlib.suppress(OSError):
            while self.sock.recv(65_536):
                pass

    def pour(self, data: bytes) -> None:
        """Send ``data`` again and again until the client has gone."""
        with contextlib.suppress(OSError):
            while not self.stopped.is_set():
                self.sock.sendall(data)

    def drip(self, data: bytes, every_s: float) -> None:
        """Send ``data`` again and again with pauses until the client has gone."""
        with contextlib.suppress(OSError):
            while not self.stopped.wait(every_s):
                self.sock.sendall(data)

    def finish(self) -> None:
        """End our side in order, and wait for the client's end."""
        self.sock.shutdown(socket.SHUT_WR)
        self.hold()

    def reset(self) -> None:
        """Close with a TCP reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def plays(*parts: bytes) -> Script:
    """A script that sends ``parts`` and closes."""

    def script(exchange: Exchange) -> None:
        for part in parts:
            exchange.send(part)

    return script


def read_head(sock: socket.socket) -> bytes:
    """A request up to its empty line."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65_536)
        if not more:
            break
        data += more
    return data


class Shaken(NamedTuple):
    """A line of a TLS server's own log: one handshake."""

    version: str | None
    reused: bool


class Server:
    """A TCP server on a free port of 127.0.0.1 that runs ``script`` on each connection.

    With ``tls`` it speaks TLS first and notes every handshake in ``handshakes``. The script begins when
    a request has been read, or with ``listens`` False when there is a connection.
    """

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None, *, listens: bool = True) -> None:
        self.script = script
        self.tls = tls
        self.listens = listens
        self.requests: list[bytes] = []
        self.handshakes: list[Shaken] = []
        self.connections = 0
        self.asked = threading.Semaphore(0)
        """Released each time a request has come, and ..."""
        self.gone = threading.Semaphore(0)
        """... each time a connection has been served to its end."""
        self.stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self.stopped.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        self._open.add(sock)
        plain = sock
        try:
            with contextlib.suppress(OSError):
                if self.tls is not None:
                    sock = self.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                    self._open.add(sock)
                    sock.do_handshake()
                    self.handshakes.append(Shaken(sock.version(), bool(sock.session_reused)))
                request = read_head(sock) if self.listens else b""
                self.requests.append(request)
                self.asked.release()
                self.script(Exchange(sock, request, self.stopped))
        finally:
            self._open -= {sock, plain}
            sock.close()
            self.gone.release()


class Authority:
    """A certificate authority of one root; leaves are made on demand below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test root")])
        root = self._sign(self._name, self._key, None, timedelta(days=3650))
        self.ca_file = folder / "root.pem"
        self.ca_file.write_bytes(root.public_bytes(serialization.Encoding.PEM))

    def server(self, *hosts: str, expired: bool = False) -> ssl.SSLContext:
        """A server context with a certificate for ``hosts``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        leaf = self._sign(subject, key, hosts, timedelta(days=-1 if expired else 365))
        path = self.folder / f"{hosts[0]}-{leaf.serial_number}.pem"
        path.write_bytes(
            leaf.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        hosts: Sequence[str] | None,
        valid: timedelta,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + valid)
            .add_extension(x509.BasicConstraints(ca=hosts is None, path_length=None), critical=True)
        )
        if hosts is not None:
            names = [x509.DNSName(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


class NameServer:
    """A DNS server on UDP at a free port of 127.0.0.1.

    ``zone`` maps (name, "A" or "AAAA") to records (TTL, address), or to a response code; it may be
    changed at any time. A name that is missing does not exist; one that maps to None is not answered.
    ``asked`` lists the questions that came. ``hold`` keeps answers back until it is set.
    """

    NXDOMAIN, SERVFAIL, REFUSED = 3, 2, 5

    def __init__(self) -> None:
        self.zone: dict[tuple[str, str], list[tuple[int, str]] | int | None] = {}
        self.aliases: dict[str, tuple[int, str]] = {}
        self.asked: list[tuple[str, str]] = []
        self.answering = threading.Event()
        self.answering.set()
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        self._sock.settimeout(0.05)
        self.address = f"127.0.0.1:{self._sock.getsockname()[1]}"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.answering.set()
        self._thread.join()
        self._sock.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                query, client = self._sock.recvfrom(4_096)
            except TimeoutError:
                continue
            reply = self._reply(query)
            self.answering.wait()
            if reply is not None:
                self._sock.sendto(reply, client)

    def _reply(self, query: bytes) -> bytes | None:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii"))
            at += 1 + query[at]
        name = ".".join(labels).lower()
        kind = {1: "A", 28: "AAAA"}.get(struct.unpack_from("!H", query, at + 1)[0], "?")
        question = query[12 : at + 5]
        self.asked.append((name, kind))
        records: list[bytes] = []
        owner = b"\xc0\x0c"  # the name in the question
        if name in self.aliases:
            ttl, name = self.aliases[name]
            alias = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
            records.append(owner + struct.pack("!HHIH", 5, 1, ttl, len(alias)) + alias)
            owner = alias
        found = self.zone.get((name, kind), self.NXDOMAIN)
        if found is None:
            return None
        code = 0
        if isinstance(found, int):
            code = found
        else:
            for ttl, ip in found:
                packed = socket.inet_pton(socket.AF_INET6 if kind == "AAAA" else socket.AF_INET, ip)
                number = 28 if kind == "AAAA" else 1
                records.append(owner + struct.pack("!HHIH", number, 1, ttl, len(packed)) + packed)
        header = query[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return header + question + b"".join(records)


@contextlib.contextmanager
def dead_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> Iterator[int]:
    """A port of 127.0.0.1 that nobody answers on, and nobody else is given meanwhile."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]
