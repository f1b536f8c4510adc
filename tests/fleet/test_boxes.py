"""The boxes themselves: what a test does to them really happens, and nothing of them stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.base import cache
from tests.fleet.box import DISK
from tests.fleet.boxes import Fleet
from tests.fleet.ready import need_boxes
from tests.fleet.shell import run
from tests.fleet.slots import Slot

# The first of them may have to make what boxes are made from.
pytestmark = [pytest.mark.whole, pytest.mark.timeout(400)]

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two boxes."""
    need_boxes()
    with Fleet(tmp_path_factory.mktemp("boxes"), 2) as fleet:
        yield fleet


def test_a_power_cut_is_one(fleet: Fleet) -> None:
    """A box whose power is cut tells nobody, and boots as another start of the same machine."""
    box = fleet.boxes[0]
    before = box.ssh("cat /proc/sys/kernel/random/boot_id; touch /root/kept /run/lost").stdout
    box.kill_leader()
    assert box.ssh("true", check=False).returncode == 255
    box.boot()
    assert box.ssh("cat /proc/sys/kernel/random/boot_id").stdout not in before
    assert box.ssh("ls /root/kept /run/lost", check=False).stdout == "/root/kept\n"


def test_a_power_cut_takes_what_was_not_synced(fleet: Fleet) -> None:
    """What was synced to the box's disk is there after the cut, and what was only written is not."""
    box = fleet.boxes[0]
    box.ssh("apt-get -q update && apt-get -q -y install xfsprogs", deadline_s=200)
    box.ssh(f"mkfs.xfs -q {DISK} && mount {DISK} /mnt && echo 1 >/mnt/synced && sync && echo 2 >/mnt/written")
    assert box.ssh("cat /mnt/synced /mnt/written").stdout == "1\n2\n"
    box.kill_leader()
    box.boot()
    box.ssh(f"mount {DISK} /mnt")
    assert box.ssh("cat /mnt/synced").stdout == "1\n"
    assert box.ssh("cat /mnt/written", check=False).stdout == ""


def test_a_box_can_restart_itself(fleet: Fleet) -> None:
    """A reboot from inside comes back without help, as the roles' own would."""
    box = fleet.boxes[0]
    before = box.ssh("cat /proc/sys/kernel/random/boot_id; systemctl reboot").stdout
    box.until(f"! grep -q {before.strip()} /proc/sys/kernel/random/boot_id")
    box.wait()


def test_an_unplugged_box_can_not_be_reached(fleet: Fleet) -> None:
    """A cable that is out is out in both ways, and back when it is plugged in again."""
    box, other = fleet.boxes
    box.link(up=False)
    assert box.ssh("true", check=False).returncode == 255
    assert other.ssh("true").returncode == 0
    box.link(up=True)
    box.until("true")


def test_a_full_disk_is_full(fleet: Fleet) -> None:
    """The box's own disk takes a file system; once filled it takes no more, and the system's disk does."""
    box = fleet.boxes[1]
    box.ssh("apt-get -q update && apt-get -q -y install xfsprogs", deadline_s=200)
    box.ssh(f"mkfs.xfs -q {DISK} && mount {DISK} /mnt")
    box.fill("/mnt")
    said = box.ssh("head -c 100000 /dev/zero >/mnt/more && sync /mnt/more", check=False).stderr
    assert "No space left" in said
    box.ssh("head -c 100000 /dev/zero >/root/more")
    box.free("/mnt")
    box.ssh("head -c 100000 /dev/zero >/mnt/more && sync /mnt/more")


def test_the_bridge_counts_only_what_boxes_say_to_each_other(fleet: Fleet) -> None:
    """Ssh from the control namespace is not counted; a connect from box to box is."""
    first, second = fleet.boxes
    before = fleet.network.passed()
    fleet.ssh("head -c 100000 /dev/zero")
    assert fleet.network.passed() == before
    first.ssh(f"python3 -c 'import socket; socket.create_connection((\"{second.address}\", 22), 10)'")
    after = fleet.network.passed()
    assert after["ip"] > before["ip"]
    assert after["ip6"] == 0


def test_nothing_of_a_killed_fleet_stays(tmp_path: Path) -> None:
    """Boxes whose owner was killed are removed by whoever starts next, with all they held."""
    need_boxes()
    words = (sys.executable, "-m", "tests.fleet", "up", "--boxes", "1", "--dir", str(tmp_path))
    with subprocess.Popen(words, cwd=REPO, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert "is up" in owner.stdout.readline()
        way_in = owner.stdout.readline().split()
        os.kill(owner.pid, signal.SIGKILL)
    control = way_in[way_in.index("exec") + 1]
    assert control in run("ip", "netns").stdout
    folder = cache() / "fleets" / control.split("-")[1]
    assert str(folder) in Path("/proc/mounts").read_text()
    slot = Slot()
    slot.take()
    slot.give_back()
    assert not folder.exists()
    assert control not in run("ip", "netns").stdout
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert str(folder) not in run("losetup", "--list").stdout
    assert str(folder) not in run("ps", "-e", "-o", "args").stdout
