"""What a fetcher measures holds it up and lets it go on, with a real disk, a real Redis, real limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node.errors import DiskError
from node.rules.outcome import TABLE, Outcome, Signal
from node.rules.pressure import Reason
from node.rules.watermark import FILES_RESERVE
from node.settings import Settings, build
from node.store.archive import ArchiveWriter
from node.store.connection import AsyncStore
from node.store.fetchlog import FetchLog
from node.store.tally import Tally
from node.store.warc import Response
from node.work import gauges as module
from node.work.failure import Step, failure_of
from node.work.gauges import Gauges
from node.work.record import DiskRecorder
from tests.redis_server import RedisServer

MB = 1_000_000
ROOT = os.geteuid() == 0


class Ready:
    """Who does the fetching, and could."""

    short_of = Reason.BUSY

    def room(self, in_hand: int) -> int:
        return 1_000


def settings_in(folder: Path, **sections: dict[str, Any]) -> Settings:
    (folder / "run").mkdir(parents=True, exist_ok=True)
    archive = {"disk_reserve_bytes": 0} | sections.pop("archive", {})
    return build({"paths": {"data": str(folder)}, "archive": archive, **sections})


class Rig:
    """A fetcher's gauges with the archive they look at. ``why``: what keeps it from beginning a visit."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.archive = ArchiveWriter(settings.warc_folder, "f01", info={}, fsync=True, buffer_bytes=MB)
        log = FetchLog(settings.log_folder, "fetch-f01")
        self.recorder = DiskRecorder(self.archive, log, Tally("fetchers"))
        self.gauges = Gauges(settings, "f01", self.archive, self.recorder, clock=clock)

    def ask(self, in_hand: int = 0, *, has_lanes: bool = True) -> tuple[int, Reason | None]:
        return self.gauges.room(in_hand, Ready(), has_lanes=has_lanes)  # type: ignore[arg-type]

    def why(self) -> Reason | None:
        return self.ask()[1]


async def eventually(holds: Callable[[], Any], what: str, within_s: float = 30.0) -> None:
    give_up = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up, f"waited in vain: {what}"
        await asyncio.sleep(0.01)


def a_page(size: int = 1_000) -> Response:
    body = b"\x1f\x8b" + os.urandom(size)
    return Response("http://h.test/", 200, "OK", "1.1", (), body, None, 1_796_160_000.0, None)


# -- nothing holds


def test_it_may_begin_what_it_has_room_for(tmp_path: Path) -> None:
    """Less what is in hand, a batch at a time; where there is no lane it says so."""
    rig = Rig(settings_in(tmp_path, fetcher={"in_flight": 250, "lease_batch": 100}))
    assert rig.ask() == (100, None)
    assert rig.ask(220) == (30, None)
    assert rig.ask(250) == (0, Reason.BUSY)
    assert rig.ask(has_lanes=False) == (0, Reason.NO_LANES)


def test_the_gravest_reason_is_told(tmp_path: Path) -> None:
    """Of several the first of the table: who has no room on the disk need not care about lanes."""
    rig = Rig(settings_in(tmp_path))
    rig.recorder.disk_full = True
    assert rig.ask(has_lanes=False) == (0, Reason.DISK_LOW)
    rig.recorder.disk_full = False
    assert rig.why() is None


# -- the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB in memory."""
    if not ROOT:
        pytest.skip("only root can mount a file system")
    where = tmp_path / "small"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "milliarde-test", str(where)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_full_disk_is_waited_for_and_room_between_the_marks_changes_nothing(small_disk: Path) -> None:
    """Fetching pauses under the reserve, not at a byte more, and goes on once there is room to spare."""
    rig = Rig(settings_in(small_disk, archive={"disk_reserve_bytes": 8 * MB, "disk_resume_bytes": 12 * MB}))
    assert rig.why() is None
    fillers = [small_disk / str(number) for number in range(3)]
    for filler in fillers:
        filler.write_bytes(bytes(3 * MB))
    assert rig.why() is Reason.DISK_LOW
    fillers[0].unlink()  # 10 MB are free
    assert rig.why() is Reason.DISK_LOW
    fillers[1].unlink()
    assert rig.why() is None
    fillers[1].write_bytes(bytes(3 * MB))  # 10 MB again, from the other side
    assert rig.why() is None


@pytest.fixture
def freezing_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None], Callable[[], None]]]:
    """A disk, and how to make every write to it hang, and go on."""
    if not ROOT:
        pytest.skip("only root can freeze a file system")
    image, where = tmp_path / "image", tmp_path / "disk"
    where.mkdir()

    def run(*words: str | Path) -> None:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{words[0]}: {done.stderr.strip()}")

    image.touch()
    os.truncate(image, 16 << 20)
    try:
        run("mkfs.ext4", "-q", image)
        run("mount", "-o", "loop", image, where)
    except OSError as error:
        pytest.skip(f"no disk image can be mounted here: {error}")
    try:
        yield where, lambda: run("fsfreeze", "-f", where), lambda: run("fsfreeze", "-u", where)
    finally:
        with contextlib.suppress(OSError):
            run("fsfreeze", "-u", where)
        run("umount", "-l", where)


async def test_a_disk_that_hangs_is_waited_for_and_probed(
    freezing_disk: tuple[Path, Callable[[], None], Callable[[], None]],
) -> None:
    """While a write hangs nothing is begun. When it is through, the disk is asked until it is quick again,
    though there is nothing to write meanwhile.
    """
    where, freeze, thaw = freezing_disk
    rig = Rig(settings_in(where, archive={"slow_s": 0.2}))

    async def commit() -> None:
        with rig.gauges.disk_call():
            await rig.archive.commit()

    rig.archive.append(a_page())
    await commit()
    assert rig.why() is None
    freeze()
    try:
        rig.archive.append(a_page())
        hanging = asyncio.create_task(commit())
        await eventually(lambda: rig.why() is Reason.DISK_SLOW, "the disk is slow")
        rig.gauges.look(0)
        assert not hanging.done()
        await asyncio.sleep(1.0)  # this long the call takes, at least
    finally:
        thaw()
    await hanging
    assert rig.why() is Reason.DISK_SLOW
    looks = 0

    def is_quick() -> bool:
        nonlocal looks
        looks += 1
        rig.gauges.look(0)
        return rig.why() is None

    await eventually(is_quick, "the disk is quick again")
    assert looks > 1
    assert not list((where / "run").iterdir())
    await rig.archive.close()


async def test_pages_that_wait_to_be_written_hold_it_up(tmp_path: Path) -> None:
    """A queue that fills is a slow disk before it is full; it goes on when most of it is written."""
    rig = Rig(settings_in(tmp_path))
    while rig.why() is None:
        rig.archive.append(a_page(100_000))
    assert rig.why() is Reason.DISK_SLOW
    assert 0.75 <= rig.archive.fill < 1
    await rig.archive.commit()
    assert rig.archive.fill == 0
    assert rig.why() is None
    await rig.archive.close()


# -- Redis


async def test_a_slow_redis_is_waited_for(tmp_path: Path, new_redis: Callable[..., RedisServer]) -> None:
    """While a call takes longer than the mark nothing more is asked; quick answers end it."""
    server = new_redis()
    (tmp_path / "run").mkdir()
    settings = build(
        {
            "paths": {"data": str(tmp_path), "redis_socket": str(server.socket)},
            "archive": {"disk_reserve_bytes": 0},
            "redis": {"slow_s": 0.2},
        }
    )
    rig = Rig(settings)
    store = AsyncStore(settings)

    async def call() -> None:
        with rig.gauges.store_call():
            await store.calls([], extra=[("SET", "x", "y")])

    try:
        await call()
        assert rig.why() is None
        with server.client() as operator:
            operator.execute_command("CLIENT", "PAUSE", 1_500, "ALL")
        calling = asyncio.create_task(call())
        await eventually(lambda: rig.why() is Reason.STORE_SLOW, "Redis is slow")
        assert not calling.done()
        await calling
        calls = 0
        while rig.why() is not None:
            assert rig.why() is Reason.STORE_SLOW
            await call()
            calls += 1
            assert calls < 100
        assert calls > 0
    finally:
        await store.close()


# -- the event loop


async def test_a_late_loop_leases_fewer_and_comes_back(tmp_path: Path) -> None:
    """A quarter less than is in hand while it runs late; more and more when it is in time."""
    rig = Rig(settings_in(tmp_path, fetcher={"in_flight": 1_000}))
    watching = asyncio.create_task(rig.gauges.lag.watch())
    try:
        for _ in range(3):
            await asyncio.sleep(0)
            time.sleep(0.4)  # noqa: ASYNC251 what starves a loop
            await asyncio.sleep(0.11)
        rig.gauges.look(800)
        assert rig.gauges.limit == 600
        assert rig.gauges.worst_lag_ms > 100
        rig.gauges.look(700)  # nothing was measured since
        assert rig.gauges.limit == 630
    finally:
        watching.cancel()


# -- open files


def open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


@contextlib.contextmanager
def files_allowed(soft: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_near_the_limit_of_open_files_it_begins_nothing(tmp_path: Path) -> None:
    """From 95 % on until it is under 85 % again."""
    rig = Rig(settings_in(tmp_path, fetcher={"in_flight": 10}))
    here = open_files()
    limit = here + FILES_RESERVE + 20
    with files_allowed(limit), contextlib.ExitStack() as files:
        while open_files() < 0.96 * limit:
            files.enter_context(open(os.devnull, "rb"))  # noqa: PTH123
        rig.gauges.look(5)
        assert rig.why() is Reason.NO_FILES
        with contextlib.ExitStack() as some:
            some.push(files.pop_all())
        rig.gauges.look(5)
        assert rig.why() is None


def test_running_out_of_files_is_no_site_s_fault() -> None:
    """Whatever a request was about to do then: the URL goes back as if it had not been taken, untried."""
    here = open_files()
    with contextlib.ExitStack() as files, files_allowed(here):
        for _ in range(here):  # numbers that are free among those in use
            with contextlib.suppress(OSError):
                files.enter_context(socket.socket())
        with pytest.raises(OSError, match="open files") as caught:
            socket.socket()
        for step in Step:
            assert failure_of(caught.value, step).outcome is Outcome.NO_FILES
    row = TABLE[Outcome.NO_FILES]
    assert (row.signal, row.retry, row.sent, row.back) == (Signal.NONE, False, False, True)


async def test_a_log_that_needs_a_file_is_no_full_disk(tmp_path: Path) -> None:
    """Bringing pages to disk takes one more for a moment; without it the reason is not the disk."""
    rig = Rig(settings_in(tmp_path))
    rig.archive.append(a_page())
    rig.recorder._log.note("https://h.test/", "not_sent", 0)
    await rig.recorder.commit()
    rig.recorder._log.note("https://h.test/", "not_sent", 0)
    here = open_files()
    with contextlib.ExitStack() as files, files_allowed(here):
        for _ in range(here):
            with contextlib.suppress(OSError):
                files.enter_context(socket.socket())
        with pytest.raises(DiskError):
            await rig.recorder.commit()
        assert rig.why() is Reason.NO_FILES
    await rig.recorder.commit()
    rig.gauges.look(0)
    assert rig.why() is None
    await rig.archive.close()


def test_a_request_without_a_file_left_is_met_by_fewer(tmp_path: Path) -> None:
    """Nothing is begun until the next look, then a quarter less than was in hand, and slowly more."""
    rig = Rig(settings_in(tmp_path, fetcher={"in_flight": 500}))
    rig.recorder.out_of_files = True
    assert rig.why() is Reason.NO_FILES
    rig.gauges.look(400)
    assert rig.why() is None
    assert rig.gauges.limit == 315
    assert not rig.recorder.out_of_files


@pytest.mark.parametrize(("keep_alive", "visits"), [(False, 136), (True, 68)])
def test_a_low_limit_is_announced_and_bounds_the_visits(
    tmp_path: Path, keep_alive: bool, visits: int
) -> None:
    """In a process of its own, which may have 200 files open and no more; a kept connection is one, too."""
    program = (
        "import logging, resource; logging.basicConfig()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (150, 200))\n"
        "from pathlib import Path\n"
        "from tests.work.test_gauges import Rig, settings_in\n"
        f"fetcher = {{'in_flight': 1_000, 'lease_batch': 1_000, 'keep_alive': {keep_alive}}}\n"
        f"rig = Rig(settings_in(Path({str(tmp_path)!r}), fetcher=fetcher))\n"
        "print(*rig.ask(0), *rig.ask(500))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == [str(visits), "None", "0", "no_files"], done.stderr
    assert f"at most {visits} visits at once, not the 1000" in done.stderr


def test_the_soft_limit_is_raised_as_far_as_needed(tmp_path: Path) -> None:
    """A default of 1,024 need not be changed by hand where the system allows more."""
    with files_allowed(128):
        rig = Rig(settings_in(tmp_path, fetcher={"in_flight": 300, "lease_batch": 300}))
        assert rig.ask() == (300, None)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300 + FILES_RESERVE


def test_the_marks_are_apart() -> None:
    """Each of them ends well after it began."""
    for mark in (module.LAG_MS, module.QUEUE, module.FILES):
        assert mark.low < mark.high
