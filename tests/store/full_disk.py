"""A real disk that was full for a moment, with a real Redis whose log is on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import redis

from tests.conftest import missing
from tests.fleet.shell import run
from tests.redis_server import RedisServer
from tests.whole.crawl import until


@dataclass
class FullDisk:
    """``written``: what Redis said that it had written; ``server`` runs."""

    folder: Path
    server: RedisServer
    written: set[str] = field(default_factory=set)

    @property
    def has_hole(self) -> bool:
        """Are there zeros in its log?"""
        (log,) = (self.folder / "appendonlydir").glob("*.incr.aof")
        return b"\0" in log.read_bytes()

    def write(self, client: redis.Redis, name: str) -> bool:
        """False where it is refused."""
        try:
            client.set(name, "x" * 300)
        except redis.ResponseError:
            return False
        self.written.add(name)
        return True


@contextmanager
def disk_that_was_full(binary: str, folder: Path) -> Iterator[FullDisk]:
    """Redis 7.0 leaves a hole, which is made sure of; others need not. Skips where we are not root."""
    if os.geteuid() != 0:
        missing("only root can mount a small disk")
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=2m", "milliarde-aof", folder)
    server = RedisServer(binary, appendonly="yes", appendfsync="everysec", dir=str(folder))
    try:
        server.start()
        found = FullDisk(folder, server)
        with server.client() as client:
            _fill_and_free(found, client)
            version = client.info("server")["redis_version"]
        assert found.has_hole or not version.startswith("7.0.")
        yield found
    finally:
        server.close()
        run("umount", "-l", folder)


def _fill_and_free(disk: FullDisk, client: redis.Redis) -> None:
    for number in range(100):
        disk.write(client, f"before:{number}")
    client.bgrewriteaof()
    until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the log is rewritten")
    assert disk.write(client, "in the new log")  # so that its last page has some room
    filler = disk.folder / "filler"
    with filler.open("wb") as file:
        room = os.statvfs(disk.folder)
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    numbers = count()
    until(lambda: not disk.write(client, f"full:{next(numbers)}"), "the disk is full", every_s=0)
    filler.unlink()
    until(lambda: disk.write(client, f"room:{next(numbers)}"), "it writes again")
    for number in range(100):
        assert disk.write(client, f"after:{number}")
