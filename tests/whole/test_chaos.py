"""Everything that can happen to a crawl happens to one, from a seeded schedule, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chaos import place, proof, wall
from tests.chaos.plan import LEAST_FAULTS, TABLE, Kind, Plan, schedule, short
from tests.chaos.run import go, keep, prepared
from tests.conftest import missing
from tests.web.log import Entry

SEED_VARIABLE = "MILLIARDE_CHAOS_SEED"
SEED = 2026
"""Always the same schedule, so that a failure is the change's; the soak draws others."""


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_gives_its_schedule(seed: int) -> None:
    """The same each time, in order, within its time, with every kind of fault and as many as were wanted."""
    plan = Plan(seed, seconds=100, faults=70)
    faults = schedule(plan)
    assert faults == schedule(plan) != schedule(Plan(seed + 1, seconds=100, faults=70))
    assert len(faults) == 70
    assert {fault.kind for fault in faults} == set(Kind)
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    for fault in faults:
        first, last = TABLE[fault.kind].within
        assert 100 * first <= fault.at_s <= 100 * last
    quiet = [fault.at_s for fault in faults if TABLE[fault.kind].quiet]
    assert min(after - before for before, after in pairwise(quiet)) > 5


def _asked(t_ms: float, path: str, status: int = 200, host: str = "a.test") -> Entry:
    return Entry(t_ms, int(t_ms), "https", 443, host=host, method="GET", path=path, status=status)


@pytest.mark.parametrize(
    ("requests", "broken"),
    [
        # robots.txt and the page are one visit; the next comes a delay later
        ([_asked(0, "/robots.txt"), _asked(150, "/"), _asked(1_200, "/a")], 0),
        ([_asked(0, "/robots.txt"), _asked(50, "/")], 1),
        ([_asked(0, "/"), _asked(900, "/a")], 1),
        ([_asked(0, "/"), _asked(900, "/", host="b.test")], 0),
        # a hop belongs to its visit, and is paid for with another delay
        ([_asked(0, "/", 301), _asked(200, "/b"), _asked(2_300, "/c")], 0),
        ([_asked(0, "/", 301), _asked(200, "/b"), _asked(1_500, "/c")], 1),
        # what was to be a hop and came a delay later is a visit of its own
        ([_asked(0, "/", 301), _asked(1_100, "/b"), _asked(2_200, "/c")], 0),
    ],
)
def test_a_gap_that_is_broken_is_seen(requests: list[Entry], broken: int) -> None:
    """By the log of the web alone, with a delay of a second and a tenth within a visit."""
    assert len(list(proof.broken_gaps(requests, 1.0, 0.1))) == broken


_TELL = "import time; input(); print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)"


def test_a_wall_clock_is_set_under_a_running_process(tmp_path: Path) -> None:
    """It shows another time at once, the clocks that only run on do not, and what it showed can be told."""
    if wall.why_not():
        missing(f"a wall clock can't be set here: {wall.why_not()}")
    clock = wall.Wall(tmp_path)
    command = ["env", *clock.environment, sys.executable, "-c", _TELL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        clock.set(-7_200)
        said, _ = process.communicate(b"\n", timeout=30)
    shown_s, up_s = map(float, said.split())
    assert abs(shown_s + 7_200 - time.time()) < 30
    assert abs(up_s - time.clock_gettime(time.CLOCK_BOOTTIME)) < 30
    clock.set(0)
    assert clock.true_s(shown_s) == shown_s + 7_200
    assert clock.true_s(time.time()) == pytest.approx(time.time(), abs=30)
    with pytest.raises(ValueError, match="never"):
        clock.true_s(shown_s - 3_600)


@pytest.mark.whole
@pytest.mark.timeout(400)
def test_chaos(tls_dir: Path) -> None:
    """All processes may be killed or stopped at any moment, one by one or all at once, Redis may come back
    without its last second, disk, memory and names may be away for a while, and the machine may start anew:
    every URL is visited, no page is indexed twice, no gap is broken, and nobody has to help.
    """
    reason = place.why_not()
    if reason is not None:
        missing(f"chaos can't be had here: {reason}")
    seed = int(os.environ.get(SEED_VARIABLE) or SEED)
    folder = Path(tempfile.mkdtemp(prefix="milliarde-chaos-"))  # a socket's path is short
    with prepared(short(seed), folder, tls_dir) as run:
        print(f"{SEED_VARIABLE}={seed}")
        go(run, print)
        verdict = proof.judge(run, LEAST_FAULTS)
        kept = "" if verdict.holds else f"; what it left is in {keep(run, folder)}"
        assert verdict.holds, f"replay with {SEED_VARIABLE}={seed}{kept}\n{verdict.text()}"
    place.remove(folder)
