"""The Redis that a crawl starts for itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from node.settings import build
from node.work.redis_server import RedisServer, socket_path
from tests.redis_server import find_redis_server

_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MB = 1 << 20


def test_what_it_holds_lies_in_huge_pages(tmp_path: Path) -> None:
    """Where the kernel gives them to those that ask: most of a hundred megabytes of values."""
    if find_redis_server() is None or not _THP.exists() or "[never]" in _THP.read_text():
        pytest.skip("no Redis, or a kernel that gives nobody huge pages")
    socket = socket_path(tmp_path)
    settings = build({"paths": {"data": str(tmp_path), "redis_socket": str(socket)}})
    server = RedisServer(settings)
    server.start()
    try:
        with redis.Redis(unix_socket_path=str(socket)) as client:
            for number in range(100):
                client.setrange(f"value:{number}", _MB - 1, b"x")
        lines = Path(f"/proc/{server.pid}/smaps_rollup").read_text().splitlines()
        (huge_kb,) = (int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))
        assert huge_kb * 1024 > 50 * _MB
    finally:
        server.stop()
