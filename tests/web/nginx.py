"""Folders behind a real nginx with TLS: for documentation trees, and where the server must be fast."""

from __future__ import annotations

import json
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.web.certs import Authority
from tests.web.log import Entry

_START_SECONDS = 10.0
_STOP_SECONDS = 5.0

_LOG_FIELDS = {
    "ms": "$request_time",
    "end": "$msec",
    "conn": "$connection",
    "status": "$status",
    "bytes": "$bytes_sent",
    "scheme": '"$scheme"',
    "host": '"$host"',
    "sni": '"$ssl_server_name"',
    "method": '"$request_method"',
    "path": '"$request_uri"',
    "reused": '"$ssl_session_reused"',
    "user_agent": '"$http_user_agent"',
    "accept_encoding": '"$http_accept_encoding"',
    "cookie": '"$http_cookie"',
    "referer": '"$http_referer"',
}
_LOG_FORMAT = "'{" + ",".join(f'"{name}":{variable}' for name, variable in _LOG_FIELDS.items()) + "}'"

_CONFIG = """\
# Written by tests/web/nginx.py for one run.
daemon off;
worker_processes 1;
worker_rlimit_nofile {most_files};
error_log {folder}/error.log warn;
pid {folder}/nginx.pid;
{user}
events {{ worker_connections {most_connections}; }}
http {{
    types {{
        text/html html htm shtml;
        application/xhtml+xml xhtml;
        text/css css;
        text/xml xml;
        text/plain txt;
        application/javascript js;
        application/json json;
        application/pdf pdf;
        application/epub+zip epub;
        application/zip zip;
        application/gzip gz;
        image/png png;
        image/gif gif;
        image/jpeg jpg jpeg;
        image/svg+xml svg;
        image/x-icon ico;
        font/woff2 woff2;
    }}
    types_hash_bucket_size 128;
    default_type {default_type};
    log_format entries escape=json {log_format};
    access_log {access_log};
    client_body_temp_path {folder}/temp;
    proxy_temp_path {folder}/temp;
    fastcgi_temp_path {folder}/temp;
    uwsgi_temp_path {folder}/temp;
    scgi_temp_path {folder}/temp;
    server_names_hash_max_size 65536;
    server_names_hash_bucket_size 128;
    server_tokens off;
    tcp_nodelay on;
    output_buffers 2 128k;
    open_file_cache max=20000 inactive=600s;
    open_file_cache_valid 600s;
    open_file_cache_errors on;
    keepalive_timeout {keepalive_timeout};
    port_in_redirect off;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache off;
    ssl_session_tickets {tickets};
    {compression}
    server {{
        listen 127.0.0.1:{https_port} ssl default_server backlog=4096;
        ssl_certificate {default_chain};
        ssl_certificate_key {default_chain};
        return 421;
    }}
    server {{
        listen 127.0.0.1:{http_port} default_server backlog=4096;
        return 301 https://$host$request_uri;
    }}
    include {folder}/sites.conf;
}}
"""

_SITE = """\
server {{
    listen 127.0.0.1:{port} ssl;
    server_name {host};
    ssl_certificate {chain};
    ssl_certificate_key {chain};
    root {root};
    index index.html index.htm;{precompressed}
}}
"""

_PRECOMPRESSED_INDEX = """
    rewrite ^(.*/)$ $1index.html;"""
"""nginx looks for an index file by its plain name, which isn't there where only the ``.gz`` is."""


def find_nginx() -> Path | None:
    """The nginx binary: on the PATH, or where Debian puts it."""
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


class Nginx:
    """Serves ``sites`` (host -> folder) over TLS on a free port of loopback, while the ``with`` block lasts.

    Plain HTTP on a second port redirects to https; hosts that aren't in ``sites`` get 421.

    - ``authority`` signs the certificates (default: its own of kind ``rsa``, in ``folder/tls``)
    - ``tickets=False``: no TLS session is ever resumed
    - ``keepalive=False``: each answer ends its connection
    - ``precompressed``: ``NAME.gz`` is served for NAME (unpacked for clients that don't accept gzip)
    - ``access_log``: requests are logged, for ``log_entries``
    - ``default_type``: Content-Type of files without a known extension

    Raises ``FileNotFoundError`` where nginx isn't installed, ``RuntimeError`` with nginx's own words
    where it doesn't start.
    """

    def __init__(
        self,
        folder: Path,
        sites: Mapping[str, Path],
        *,
        authority: Authority | None = None,
        tickets: bool = True,
        keepalive: bool = True,
        precompressed: bool = False,
        access_log: bool = False,
        default_type: str = "text/html",
    ) -> None:
        self._folder = folder.resolve()
        self._sites = {host: root.resolve() for host, root in sites.items()}
        self._authority = authority or Authority(self._folder / "tls")
        self._tickets, self._keepalive, self._precompressed = tickets, keepalive, precompressed
        self._access_log, self._default_type = access_log, default_type
        self._process: subprocess.Popen[bytes] | None = None
        self.https_port = self.http_port = 0

    @property
    def ca(self) -> Path:
        """PEM file that a client must trust."""
        return self._authority.root

    @property
    def log(self) -> Path:
        """The access log, a line per request; there is none before the first."""
        return self._folder / "access.log"

    @property
    def connect_to(self) -> list[str]:
        """curl's ``--connect-to`` entries: any host leads here."""
        return [f":443:127.0.0.1:{self.https_port}", f":80:127.0.0.1:{self.http_port}"]

    @property
    def pid(self) -> int:
        """The master process; its one child does the work."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        binary = find_nginx()
        if binary is None:
            raise FileNotFoundError(
                "nginx isn't installed; on Debian and Ubuntu: apt-get install nginx-light"
            )
        (self._folder / "temp").mkdir(parents=True, exist_ok=True)
        (self._folder / "nginx.pid").unlink(missing_ok=True)
        with ExitStack() as stack:
            https, http = (stack.enter_context(socket.socket()) for _ in range(2))
            for each in (https, http):
                each.bind(("127.0.0.1", 0))
                each.listen(4096)
            self.https_port, self.http_port = https.getsockname()[1], http.getsockname()[1]
            self._write_config()
            fds = (https.fileno(), http.fileno())
            # nginx takes over listening sockets named in NGINX, as when it upgrades itself: so the
            # ports are ours from the moment they are chosen.
            self._process = subprocess.Popen(
                [
                    binary,
                    "-p",
                    self._folder,
                    "-e",
                    self._folder / "error.log",
                    "-c",
                    self._folder / "nginx.conf",
                ],
                env={**os.environ, "NGINX": "".join(f"{fd};" for fd in fds)},
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._wait_until_up()
        return self

    def _write_config(self) -> None:
        user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        config = _CONFIG.format(
            folder=self._folder,
            most_files=most_files,
            most_connections=min(16_384, most_files // 2),
            user=user,
            default_type=self._default_type,
            log_format=_LOG_FORMAT,
            access_log=f"{self.log} entries" if self._access_log else "off",
            keepalive_timeout="60s" if self._keepalive else "0",
            tickets="on" if self._tickets else "off",
            compression="gzip_static always; gunzip on;" if self._precompressed else "gzip off;",
            https_port=self.https_port,
            http_port=self.http_port,
            default_chain=self._authority.leaf("localhost"),
        )
        sites = (
            _SITE.format(
                port=self.https_port,
                host=host,
                chain=self._authority.leaf(".".join(host.rsplit(".", 2)[-2:])),
                root=root,
                precompressed=_PRECOMPRESSED_INDEX if self._precompressed else "",
            )
            for host, root in self._sites.items()
        )
        (self._folder / "sites.conf").write_text("".join(sites))
        (self._folder / "nginx.conf").write_text(config)

    def _wait_until_up(self) -> None:
        """Until the pid file is there: nginx writes it when its configuration is good."""
        assert self._process is not None
        until = time.monotonic() + _START_SECONDS
        while not (self._folder / "nginx.pid").exists():
            if self._process.poll() is not None or time.monotonic() > until:
                self._stop()
                raise RuntimeError(f"nginx didn't start: {(self._folder / 'error.log').read_text()[-2000:]}")
            time.sleep(0.005)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def log_entries(self) -> list[Entry]:
        """The access log, in the order of the requests. ``t_ms`` is wall-clock time in milliseconds here."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sorted(map(self._entry, lines), key=lambda entry: entry.t_ms)

    def _entry(self, line: str) -> Entry:
        raw = json.loads(line)
        https = raw["scheme"] == "https"
        entry = Entry(
            t_ms=(raw["end"] - raw["ms"]) * 1000,
            conn=raw["conn"],
            scheme=raw["scheme"],
            port=self.https_port if https else self.http_port,
            ms=raw["ms"] * 1000,
            resumed=raw["reused"] == "r" if https else None,
            status=raw["status"],
            bytes=raw["bytes"],
        )
        for name in ("host", "sni", "method", "path", "user_agent", "accept_encoding", "cookie", "referer"):
            setattr(entry, name, raw[name] or None)
        return entry
