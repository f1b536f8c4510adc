"""The writer: places, commits, rotation, full disks, numbers."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.errors import DiskError, InputError, InUseError
from node.store.archive import ArchiveWriter
from node.store.archive_check import recover, verify
from node.store.archive_read import ArchiveReader
from tests.store.responses import by_fastwarc, by_warcio, gzipped_response, new_writer, response


def names(folder: Path) -> list[str]:
    """The files that lie in a folder, without hidden ones."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


async def test_nothing_to_write_makes_no_file(tmp_path: Path) -> None:
    """W08: no empty files, however often a writer starts, commits and closes."""
    for _ in range(3):
        writer = new_writer(tmp_path)
        assert await writer.commit() == {}
        await writer.close()
    assert names(tmp_path) == []


async def test_a_position_can_be_read_after_commit_and_after_publication(tmp_path: Path) -> None:
    """A pointer names what is on disk, and a rename under a reader changes nothing."""
    writer, reader = new_writer(tmp_path), ArchiveReader(tmp_path)
    position = writer.append(response(body=b"<p>one"))
    marks = await writer.commit()
    assert names(tmp_path) == ["f01-000001.warc.gz.open"]
    assert marks == {position.file: position.offset + position.length}
    assert (tmp_path / "f01-000001.warc.gz.open").stat().st_size == marks[position.file]
    assert reader.read(position, 100).body == b"<p>one"
    await writer.close()
    assert names(tmp_path) == [position.file]
    assert reader.read(position, 100).body == ArchiveReader(tmp_path).read(position, 100).body == b"<p>one"


async def test_each_record_is_a_member_that_can_be_read_alone(tmp_path: Path) -> None:
    """W11: a seek to the second of three records reads it without the first."""
    writer = new_writer(tmp_path)
    positions = [writer.append(gzipped_response(seed)) for seed in range(3)]
    await writer.close()
    data = (tmp_path / positions[1].file).read_bytes()
    alone = tmp_path / "alone.warc.gz"
    alone.write_bytes(data[positions[1].offset :][: positions[1].length])
    for read in (by_warcio, by_fastwarc):
        (record,) = read(alone)
        assert record.url == "https://h.test/1"


async def test_files_rotate_and_each_is_whole(tmp_path: Path) -> None:
    """W14: at the size limit the last record is as whole as the others, and every file stands alone."""
    writer = new_writer(tmp_path, rotate_bytes=50_000)
    sent = [gzipped_response(seed) for seed in range(40)]
    positions = []
    for one in sent:
        positions.append(writer.append(one))
        if len(positions) % 7 == 0:
            await writer.commit()
    await writer.close()
    files = names(tmp_path)
    assert len(files) > 3
    assert files == sorted({position.file for position in positions})
    assert all(name.endswith(".warc.gz") for name in files)
    read = []
    for name in files:
        verdict = verify(tmp_path / name)
        assert verdict.ok, verdict
        assert verdict.responses == verdict.records - 1 > 0
        assert verdict.skipped == 0
        assert (tmp_path / name).stat().st_size < 50_000 + 20_000
        read += by_warcio(tmp_path / name)
    assert [(one.url, one.body) for one in read] == [(one.url, one.body) for one in sent]


async def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    """A file that was collected and removed must not be followed by another of its name."""
    for expected in ("f01-000001.warc.gz", "f01-000002.warc.gz"):
        writer = new_writer(tmp_path)
        assert writer.append(response()).file == expected
        await writer.close()
    for name in names(tmp_path):
        (tmp_path / name).unlink()
    (tmp_path / "f01-000017.warc.gz.open").touch()
    (tmp_path / "other-000099.warc.gz").touch()
    assert new_writer(tmp_path).append(response()).file == "f01-000018.warc.gz"
    (tmp_path / "f01-000017.warc.gz.open").unlink()
    assert new_writer(tmp_path).append(response()).file == "f01-000003.warc.gz"


async def test_two_writers_of_one_name_do_not_mix(tmp_path: Path) -> None:
    """The second process with the same number is refused before it writes a byte."""
    first, second = new_writer(tmp_path), new_writer(tmp_path)
    first.append(response(body=b"first"))
    second.append(response(body=b"second"))
    await first.commit()
    with pytest.raises(InUseError, match="another process"):
        await second.commit()
    await first.close()
    assert [record.body for record in by_warcio(tmp_path / "f01-000001.warc.gz")] == [b"first"]


async def test_a_file_that_is_being_written_is_not_recovered(tmp_path: Path) -> None:
    """Recovery beside a living writer would cut its file."""
    writer = new_writer(tmp_path)
    writer.append(response())
    await writer.commit()
    with pytest.raises(InUseError, match="still being written"):
        recover(tmp_path / "f01-000001.warc.gz.open")
    await writer.close()


def test_a_prefix_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    """A prefix with a slash would leave the folder."""
    with pytest.raises(InputError, match="can't begin a file name"):
        new_writer(tmp_path, "../f01")


def test_a_folder_that_cannot_be_made_is_a_disk_error(tmp_path: Path) -> None:
    """The start fails with words, not the first page with a traceback."""
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="choose a folder"):
        new_writer(tmp_path / "file" / "warc")


class SlowDisk:
    """``fdatasync`` that counts, and waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.started = threading.Event()
        self.go = threading.Event()
        self._sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        self.calls += 1
        self.started.set()
        assert self.go.wait(20)
        self._sync(fd)

    async def until_started(self) -> None:
        """The thread is inside ``fdatasync``."""
        assert await asyncio.to_thread(self.started.wait, 20)


async def test_commits_at_the_same_time_share_a_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Group commit: a flush per page would cost more than the page; and appends go on during one."""
    disk = SlowDisk(monkeypatch)
    writer = new_writer(tmp_path, fsync=True)
    first = writer.append(response("https://h.test/first"))
    waiting = asyncio.create_task(writer.commit())
    await disk.until_started()
    during = [writer.append(gzipped_response(seed)) for seed in range(30)]
    commits = [asyncio.create_task(writer.commit()) for _ in range(30)]
    await asyncio.sleep(0)
    disk.go.set()
    assert await waiting == {first.file: first.offset + first.length}
    end = during[-1].offset + during[-1].length
    assert all(marks == {first.file: end} for marks in await asyncio.gather(*commits))
    assert disk.calls == 2
    await writer.close()
    assert verify(tmp_path / first.file).responses == 31


async def test_a_cancelled_commit_takes_nothing_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else waits for the flush still gets it, and nothing is written twice or not at all."""
    disk = SlowDisk(monkeypatch)
    writer = new_writer(tmp_path, fsync=True)
    position = writer.append(response())
    impatient = asyncio.create_task(writer.commit())
    patient = asyncio.create_task(writer.commit())
    await disk.until_started()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    disk.go.set()
    assert await patient == {position.file: position.offset + position.length}
    await writer.close()
    assert verify(tmp_path / position.file).responses == 1


async def test_a_commit_asked_for_as_a_flush_lands_waits_for_the_next(tmp_path: Path) -> None:
    """What came during the flush is not in it. To wait for a flush that is over is not to wait at all: the
    process stood still, spinning, until its supervisor ended it. So ask at every turn of the loop."""

    stuck = []

    def ring(_signal: int, _frame: object) -> None:
        stuck.append("the event loop got no turn for five seconds")
        raise AssertionError(stuck[0])

    writer = new_writer(tmp_path)
    commits, positions = [], []
    was = signal.signal(signal.SIGALRM, ring)
    try:
        for number in range(2_000):
            signal.setitimer(signal.ITIMER_REAL, 5)
            positions.append(writer.append(response(f"https://h.test/{number}")))
            commits.append(asyncio.create_task(writer.commit()))
            await asyncio.sleep(0)
            assert not stuck
        signal.setitimer(signal.ITIMER_REAL, 5)
        marks = await asyncio.gather(*commits)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, was)
    for position, durable in zip(positions, marks, strict=True):
        assert durable[position.file] >= position.offset + position.length
    await writer.close()
    assert verify(tmp_path / positions[0].file).responses == 2_000


@pytest.fixture
def file_limit() -> Iterator[int]:
    """No file of this process may grow beyond so many bytes: writes end short, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def lift_limit() -> None:
    """Let files grow again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def test_what_does_not_fit_is_cut_back_kept_and_written_later(tmp_path: Path, file_limit: int) -> None:
    """W02: a full disk leaves no half record, loses no response, and every place given out stays right."""
    writer = new_writer(tmp_path)
    good = [writer.append(gzipped_response(seed)) for seed in range(3)]
    marks = await writer.commit()
    too_much = [writer.append(gzipped_response(seed, 60_000)) for seed in range(3, 12)]
    path = tmp_path / (good[0].file + ".open")
    for _ in range(2):
        with pytest.raises(DiskError, match="make room"):
            await writer.commit()
        assert path.stat().st_size == marks[good[0].file]
        assert verify(path).responses == 3
    assert writer.marks == marks
    assert writer.waiting_bytes == sum(one.length for one in too_much)
    later = writer.append(gzipped_response(12))
    lift_limit()
    await writer.close()
    reader = ArchiveReader(tmp_path)
    urls = [reader.read(position, 1 << 20).url for position in (*good, *too_much, later)]
    assert urls == [f"https://h.test/{seed}" for seed in range(13)]
    assert verify(tmp_path / good[0].file).ok


async def test_a_disk_that_is_full_from_the_start_leaves_no_file(tmp_path: Path, file_limit: int) -> None:
    """W02 and W08 together: the file is made when there is room."""
    writer = new_writer(tmp_path)
    position = writer.append(response(body=os.urandom(300_000)))
    with pytest.raises(DiskError, match="make room"):
        await writer.commit()
    assert names(tmp_path) == []
    lift_limit()
    await writer.close()
    assert names(tmp_path) == [position.file]
    assert verify(tmp_path / position.file).ok


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


async def test_a_real_full_file_system(small_disk: Path) -> None:
    """W02 on a small tmpfs: ENOSPC, then room, then everything is there."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(150_000))
    writer = new_writer(small_disk, fsync=True)
    positions = [writer.append(gzipped_response(seed, 40_000)) for seed in range(12)]
    with pytest.raises(DiskError, match="No space left"):
        await writer.commit()
    assert names(small_disk) == ["ballast"]
    ballast.unlink()
    await writer.close()
    assert verify(small_disk / positions[0].file).responses == 12


async def test_what_waits_for_the_disk_is_bounded(tmp_path: Path) -> None:
    """A disk that is full for an hour must not fill the memory."""
    writer = new_writer(tmp_path, buffer_bytes=50_000)
    taken = 0
    while writer.waiting_bytes < 50_000:
        writer.append(gzipped_response(taken))
        taken += 1
    with pytest.raises(DiskError, match="too slow"):
        writer.append(gzipped_response(taken))
    await writer.commit()
    assert writer.waiting_bytes == 0
    writer.append(gzipped_response(taken))
    await writer.close()
    assert verify(tmp_path / "f01-000001.warc.gz").responses == taken + 1


async def test_a_failed_flush_is_not_believed_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error Linux drops the pages and reports success next time, so everything is written again."""
    sync, fail = os.fdatasync, [True]

    def failing(fd: int) -> None:
        if fail:
            os.pwrite(fd, b"\0" * 100, 300)
            raise OSError(fail.pop() * errno.EIO, "Input/output error")
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    writer = new_writer(tmp_path, fsync=True)
    position = writer.append(response())
    with pytest.raises(DiskError, match="Input/output error"):
        await writer.commit()
    assert writer.marks == {}
    assert await writer.commit() == {position.file: position.offset + position.length}
    await writer.close()
    assert verify(tmp_path / position.file).ok


async def test_a_write_that_ends_short_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take less than it was given, without an error."""
    write = os.pwritev

    def short(fd: int, parts: list[bytes], at: int) -> int:
        return write(fd, [b"".join(parts)[:777]], at)

    monkeypatch.setattr(os, "pwritev", short)
    writer = new_writer(tmp_path)
    positions = [writer.append(gzipped_response(seed)) for seed in range(3)]
    await writer.close()
    assert verify(tmp_path / positions[0].file).responses == 3


async def test_a_file_that_changed_under_us_is_not_published(tmp_path: Path) -> None:
    """W14: a finished file is read again and held against what was written before it gets its name."""
    writer = new_writer(tmp_path, rotate_bytes=10_000)
    first = writer.append(gzipped_response(1, 60_000))
    writer.append(response("https://h.test/next"))
    await _commit_and_meanwhile(writer, lambda: flip_a_bit(tmp_path / (first.file + ".open")))
    assert "does not hold what was written" in await _refusal(writer)
    await writer.close()
    assert names(tmp_path) == ["f01-000001.warc.gz.damaged", "f01-000002.warc.gz"]
    assert verify(tmp_path / "f01-000002.warc.gz").ok


def flip_a_bit(path: Path) -> None:
    """As a bad disk does."""
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)


async def _refusal(writer: ArchiveWriter) -> str:
    """What a commit says as soon as publication has failed."""
    for _ in range(1000):
        try:
            await writer.commit()
        except DiskError as error:
            return str(error)
        await asyncio.sleep(0.01)
    raise AssertionError("no commit was refused")


async def _commit_and_meanwhile(writer: ArchiveWriter, act: Callable[[], None]) -> None:
    """``act`` between the commit of a finished file and its publication."""
    pause = threading.Event()
    # Publication runs in the default pool: keep that busy until the act is done.
    pool = [asyncio.create_task(asyncio.to_thread(pause.wait, 20)) for _ in range(64)]
    await asyncio.sleep(0)
    await writer.commit()
    act()
    pause.set()
    await asyncio.gather(*pool)
