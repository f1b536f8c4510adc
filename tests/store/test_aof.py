"""The end of Redis's log after a power cut: cut off where it is no command, and kept aside."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.errors import DiskError
from node.store import aof
from tests.redis_server import RedisServer
from tests.store.full_disk import FullDisk, disk_that_was_full

_VALUES = 200


@pytest.fixture
def log(new_redis: Callable[..., RedisServer]) -> tuple[RedisServer, Path]:
    """A Redis that died over a log of values, the last ones written by a script; and that log."""
    redis = new_redis(appendonly="yes", appendfsync="always")
    with redis.client() as client:
        for number in range(_VALUES):
            client.set(f"value:{number}", "*3\r\n$3\r\nSET\r\n" * 10)
        client.eval("redis.call('SET', 'a', 1) redis.call('SET', 'b', 2)", 0)
    redis.kill()
    path = aof.newest(redis.folder)
    assert path is not None
    return redis, path


def _survivors(redis: RedisServer) -> set[str]:
    redis.start()
    with redis.client() as client:
        return {key.decode() for key in client.execute_command("KEYS", "*")}


@pytest.fixture
def full_disk(redis_binary: str, tmp_path: Path) -> Iterator[FullDisk]:
    with disk_that_was_full(redis_binary, tmp_path / "disk") as found:
        yield found


_ALL = {f"value:{number}" for number in range(_VALUES)} | {"a", "b"}


def test_a_whole_log_is_left_alone(log: tuple[RedisServer, Path]) -> None:
    """Nothing is cut, nothing kept; the whole file is a row of commands."""
    redis, path = log
    data = path.read_bytes()
    assert aof.whole_bytes(data) == len(data)
    assert aof.mend(redis.folder) is None
    assert path.read_bytes() == data


@pytest.mark.parametrize("tail", [b"\0" * 5_000, b"garbage", b"*3\r\n$3\r\nSET\r\n$1", b"*x\r\n", b"\r\n"])
def test_what_is_no_command_is_cut_off(log: tuple[RedisServer, Path], tail: bytes) -> None:
    """Zeros, bytes of something else, half a command: Redis starts with what was whole; the end is kept."""
    redis, path = log
    data = path.read_bytes()
    path.write_bytes(data + tail)
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert f"{len(tail):,} bytes" in mended.words
    assert mended.kept is not None
    assert (path.read_bytes(), mended.kept.read_bytes()) == (data, tail)
    assert _survivors(redis) == _ALL


def test_half_a_script_is_cut_off_whole(log: tuple[RedisServer, Path]) -> None:
    """A script is all or nothing: what it did before the damage goes, too."""
    redis, path = log
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"*1\r\n$4\r\nEXEC")] + b"\0\0\0")
    assert aof.mend(redis.folder) is not None
    assert _survivors(redis) == _ALL - {"a", "b"}


def test_wherever_it_was_cut(log: tuple[RedisServer, Path]) -> None:
    """At each byte of the last commands: what is left is a row of whole ones."""
    _, path = log
    data = path.read_bytes()
    for size in range(len(data) - 400, len(data)):
        whole = aof.whole_bytes(data[:size])
        assert whole <= size
        assert aof.whole_bytes(data[:whole]) == whole


def test_damage_far_from_the_end_is_for_people(
    log: tuple[RedisServer, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Much would be lost: it is refused in words, and nothing changed."""
    redis, path = log
    data = bytearray(path.read_bytes())
    data[200:210] = b"\xff" * 10
    data += b"\0"
    path.write_bytes(data)
    monkeypatch.setattr(aof, "MAX_CUT_BYTES", 1_000)
    with pytest.raises(DiskError, match="too far from its end"):
        aof.mend(redis.folder)
    assert path.read_bytes() == data


def test_few_ends_are_kept(log: tuple[RedisServer, Path]) -> None:
    """A disk that damages every end does not fill."""
    redis, path = log
    for _ in range(aof.KEPT + 3):
        with path.open("ab") as file:
            file.write(b"garbage")
        assert aof.mend(redis.folder) is not None
    assert len(list((redis.folder / "cut-off").iterdir())) == aof.KEPT


def test_a_full_disk_does_not_keep_redis_from_starting(
    log: tuple[RedisServer, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no room for what is cut off: then it is not kept, and said so."""
    redis, path = log
    data = path.read_bytes()
    path.write_bytes(data + b"garbage")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", _failing_once(os.fsync, full))
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert mended.words.endswith("are lost, for want of room")
    assert path.read_bytes() == data


def _failing_once(sync: Callable[[int], None], error: OSError) -> Callable[[int], None]:
    errors = [error]

    def fsync(fd: int) -> None:
        if errors:
            raise errors.pop()
        sync(fd)

    return fsync


def test_as_the_unit_runs_it(
    log: tuple[RedisServer, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words on stderr where something was done; a folder without a log is fine."""
    redis, path = log
    with path.open("ab") as file:
        file.write(b"garbage")
    assert aof.main([str(redis.folder)]) == 0
    assert "7 bytes" in capsys.readouterr().err
    assert aof.main([str(redis.folder)]) == aof.main([str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("size", [1, 2, 3, 4, 375, 999, 1_000, 1_001, 1_002, 1_003, 2_001, 70_000])
def test_a_hole_between_commands_is_closed(log: tuple[RedisServer, Path], size: int) -> None:
    """Zeros with whole commands on both sides, of any length, in more than one place: nothing is cut off."""
    redis, path = log
    data = path.read_bytes()
    first = aof.whole_bytes(data[: len(data) // 3])
    second = data.rindex(b"*1\r\n$5\r\nMULTI")
    path.write_bytes(data[:first] + b"\0" * size + data[first:second] + b"\0" * size + data[second:])
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert (mended.holes, mended.cut_bytes, mended.kept) == (2, 0, None)
    assert "2 places" in mended.words
    assert aof.mend(redis.folder) is None
    assert _survivors(redis) == _ALL


def test_a_hole_and_a_torn_end(log: tuple[RedisServer, Path]) -> None:
    """Each is seen to."""
    redis, path = log
    data = path.read_bytes()
    first = aof.whole_bytes(data[: len(data) // 3])
    path.write_bytes(data[:first] + b"\0" * 400 + data[first:] + b"*3\r\n$3\r\nSET")
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert (mended.holes, mended.cut_bytes) == (1, 11)
    assert _survivors(redis) == _ALL


def test_zeros_that_took_something_with_them_are_no_hole(log: tuple[RedisServer, Path]) -> None:
    """What a power cut leaves: before or behind them half a command is missing, so all from there on goes."""
    redis, path = log
    data = path.read_bytes()
    at = len(data) // 2
    path.write_bytes(data[:at] + b"\0" * 4_096 + data[at + 4_096 :])
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert mended.holes == 0
    assert mended.cut_bytes == len(data) - aof.whole_bytes(data[:at])
    assert 50 < len(_survivors(redis)) < 150


def test_damage_is_seen_though_the_end_is_whole(log: tuple[RedisServer, Path]) -> None:
    """A disk that is full a second time: what was answered is gone from in front of the zeros. Megabytes
    follow, all whole, but of a state that never was."""
    redis, path = log
    data = path.read_bytes()
    at = aof.whole_bytes(data[: len(data) // 2])
    more = b"*3\r\n$3\r\nSET\r\n$4\r\nmore\r\n$2000\r\n" + b"x" * 2_000 + b"\r\n"
    path.write_bytes(data[: at - 56] + b"\0" * 495 + data[at:] + more * 1_000)
    assert 1_000 * len(more) > aof.TAIL_BYTES
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert mended.holes == 0
    assert mended.cut_bytes > len(data) // 2
    assert "more" not in _survivors(redis)


def test_zeros_inside_a_transaction_are_no_hole(log: tuple[RedisServer, Path]) -> None:
    """Redis writes those in one piece."""
    redis, path = log
    data = path.read_bytes()
    at = data.rindex(b"*1\r\n$4\r\nEXEC")
    path.write_bytes(data[:at] + b"\0" * 10 + data[at:])
    mended = aof.mend(redis.folder)
    assert mended is not None
    assert mended.holes == 0
    assert _survivors(redis) == _ALL - {"a", "b"}


def test_values_that_look_like_a_hole_are_left_alone(new_redis: Callable[..., RedisServer]) -> None:
    """Sites write what they like into a robots.txt."""
    redis = new_redis(appendonly="yes", appendfsync="always")
    value = b"\r\n\0\0\0*1\r\n$4\r\nPING\r\n"
    with redis.client() as client:
        client.set("robots", value)
    redis.kill()
    assert aof.mend(redis.folder) is None
    redis.start()
    with redis.client() as client:
        assert client.get("robots") == value


def test_a_full_disk_behind_a_rewrite_loses_nothing(full_disk: FullDisk) -> None:
    """A real one: Redis's log is rewritten, the disk is full for a moment, much is written, Redis dies."""
    full_disk.server.kill()
    had_hole = full_disk.has_hole
    mended = aof.mend(full_disk.folder)
    assert (mended is not None) == had_hole
    assert mended is None or (mended.cut_bytes, mended.holes) == (0, 1)
    assert _survivors(full_disk.server) >= full_disk.written
