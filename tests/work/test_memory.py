"""What a process keeps of its memory: freed buffers, and garbage in cycles."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref

import pytest

from node.work.memory import EVERY_S, GROWTH, LEAST_BLOCKS, SHARE, Garbage

_TOUCH_AND_FREE = """
import ctypes
from pathlib import Path

from node.work import memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
buffers = []
for _ in range(200):
    buffers.append(libc.malloc(ctypes.c_size_t(100_000)))
    libc.malloc(ctypes.c_size_t(20_000))  # stays, so that the heap can't shrink
    ctypes.memset(ctypes.c_void_p(buffers[-1]), 1, 100_000)
for buffer in buffers:
    libc.free(ctypes.c_void_p(buffer))
freed = resident()
memory.give_back()
print(freed - resident())
"""


def test_what_the_c_library_keeps_is_given_back() -> None:
    """20 MB of buffers between others that stay: freed, they are resident until this is said."""
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    done = subprocess.run(
        [sys.executable, "-c", _TOUCH_AND_FREE], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) > 15_000_000


_BUFFERS = """
import ctypes
from node.work.memory import map_large_buffers
if {ours}:
    map_large_buffers()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
libc.free(libc.malloc(ctypes.c_size_t(1 << 20)))  # from which glibc learns that large buffers come and go
def written():
    found = [libc.malloc(ctypes.c_size_t(1 << 18)) for _ in range(200)]
    for at in found:
        ctypes.memset(at, 1, 1 << 18)
    libc.malloc(ctypes.c_size_t(100_000))  # so that the heap can't shrink
    for at in found:
        libc.free(at)
before = resident()
written()
print(resident() - before)
"""


@pytest.mark.parametrize(("ours", "kept"), [(True, False), (False, True)])
def test_large_buffers_are_given_back_when_they_are_freed(ours: bool, kept: bool) -> None:
    """50 MB were written to and freed: the C library by itself keeps them."""
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library has no mallopt")
    done = subprocess.run(
        [sys.executable, "-c", _BUFFERS.format(ours=ours)], capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) > 10_000_000) is kept, done.stdout


class _Heap:
    """Driven: so much lives, and a look takes ``look_s``; what it finds is ``garbage`` blocks."""

    def __init__(self, blocks: int, look_s: float) -> None:
        self.now_s, self.blocks, self.look_s, self.garbage = 1000.0, blocks, look_s, 0
        self.looks: list[float] = []
        self.tended = Garbage(lambda: self.now_s, self._collect, lambda: self.blocks)

    def _collect(self) -> None:
        self.looks.append(self.now_s)
        self.now_s += self.look_s
        self.blocks, self.garbage = self.blocks - self.garbage, 0

    def pass_s(self, seconds: int, more: int = 0) -> None:
        """Each second ``more`` garbage comes into being."""
        for _ in range(seconds):
            self.now_s += 1
            self.blocks, self.garbage = self.blocks + more, self.garbage + more
            self.tended.tend()


def test_what_does_not_grow_is_looked_through_each_ten_minutes() -> None:
    heap = _Heap(1_200_000, 0.5)
    heap.pass_s(3_600)
    gaps = [after - before for before, after in zip(heap.looks, heap.looks[1:], strict=False)]
    assert len(gaps) >= 4
    assert all(EVERY_S <= gap < EVERY_S + 2 for gap in gaps)


def test_cycles_that_pile_up_are_bounded() -> None:
    """I4: never half as much again as what lives, where the time a look takes allows one."""
    heap, worst = _Heap(1_000_000, 0.1), 0
    for _ in range(2_000):
        heap.pass_s(1, more=5_000)
        worst = max(worst, heap.garbage)
    assert worst <= (GROWTH - 1) * 1_000_000 + 5_000
    assert heap.blocks < GROWTH * 1_000_000 + 5_000


def test_looking_takes_a_small_part_of_the_time() -> None:
    """Were there ever so much garbage; where a look takes long, they are further apart than ten minutes."""
    heap = _Heap(1_000_000, 0.5)
    heap.pass_s(1_000, more=400_000)
    assert len(heap.looks) * 0.5 <= 1_000 / SHARE + 0.5
    slow = _Heap(50_000_000, 6.0)
    slow.pass_s(12_000)
    assert len(slow.looks) >= 3
    assert all(after - before >= 6 * SHARE for before, after in zip(slow.looks, slow.looks[1:], strict=False))


def test_a_small_process_is_not_looked_through_for_growing() -> None:
    heap = _Heap(10_000, 0.001)
    heap.pass_s(500, more=(LEAST_BLOCKS - 10_000) // 500)
    assert heap.looks == []


_CYCLES = """
import gc
from node.work.memory import Garbage
Garbage.take_over()
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
kept = [[] for _ in range(400_000)]  # Python by itself looks through all of them several times
print(len(full), gc.isenabled())
"""


def test_python_does_not_look_through_all_by_itself_any_more() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CYCLES], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["0", "True"]


def test_a_look_finds_a_cycle_that_has_come_of_age() -> None:
    class Node:
        me: Node

    node = Node()
    node.me = node
    gone = weakref.ref(node)
    gc.collect()
    del node
    now_s = 0.0
    garbage = Garbage(lambda: now_s)
    garbage.tend()
    assert gone() is not None
    now_s = EVERY_S
    garbage.tend()
    assert gone() is None
