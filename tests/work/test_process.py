"""What all processes of a node share."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from node.work import process


async def test_a_cancellation_that_gets_lost_is_said_again() -> None:
    """``end`` ends a task that swallows its first cancellation, as ``asyncio.wait_for`` may do."""
    heard = 0

    async def hard_of_hearing() -> None:
        nonlocal heard
        while heard < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard += 1

    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("on the way out")

    tasks = [asyncio.create_task(each) for each in (hard_of_hearing(), fails())]
    await asyncio.sleep(0)
    await asyncio.wait_for(process.end(tasks), 10)
    assert heard == 2
    assert all(task.done() for task in tasks)


async def test_nothing_to_end() -> None:
    """A fetcher without visits ends as well."""
    await process.end([])


def test_signs_of_life_are_given_but_not_with_every_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """systemd hears of a parser that is busy with one page after another, without being flooded."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        rare, ever = process.SignsOfLife(3_600.0), process.SignsOfLife(0.0)
        for _ in range(100):
            rare.give()
        assert systemd.recv(64) == b"WATCHDOG=1"
        with pytest.raises(BlockingIOError):
            systemd.recv(64)
        ever.give()
        ever.give()
        assert [systemd.recv(64) for _ in range(2)] == [b"WATCHDOG=1"] * 2
