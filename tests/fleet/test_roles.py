"""The roles on one machine: what they refuse, what they say beforehand, and that doing it again does nothing.

The tests are the steps of one story, in this order; where one fails, the rest is skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from node.work.signing import make_key
from tests.fleet.box import DISK, Box
from tests.fleet.boxes import Fleet
from tests.fleet.network import inside
from tests.fleet.operator import REPO, Wheelhouse, workers
from tests.fleet.ready import need_boxes
from tests.fleet.steps import Steps, in_order

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]

_COUNT = re.compile(r"\b(ok|changed|failed|unreachable)=(\d+)")


class Story(Steps):
    """One box, its inventory, and what was found so far."""

    def __init__(self, fleet: Fleet, folder: Path, wheels: Wheelhouse) -> None:
        self.fleet = fleet
        self.box: Box = fleet.boxes[0]
        self.inventory = folder / "fleet.yml"
        (folder / "domains.txt").write_text("one.test\ntwo.test\nthree.test\n")
        (folder / "excluded.txt").write_text("# complaints\ntwo.test # asked us\n")
        told: dict[str, Any] = {
            **fleet.variables(),
            "milliarde_operator_addresses": [fleet.network.address],
            "milliarde_contact": "https://crawler.test/about",
            "milliarde_data_disk": DISK,
            "milliarde_wheelhouse": str(wheels.folder),
            "milliarde_fetchers": 1,
            "milliarde_parsers": 1,
            "milliarde_settings": {"archive": {"disk_reserve_bytes": 50_000_000}},
        }
        hosts = {box.name: {"ansible_host": box.address} for box in fleet}
        self.inventory.write_text(json.dumps({"nodes": {"vars": told, "hosts": hosts}}))

    def play(self, *words: str, playbook: str = "site.yml", **variables: Any) -> tuple[dict[str, int], str]:
        """Run a playbook; Ansible's count of what was done, and all it said."""
        program = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            inside(
                self.fleet.control,
                program,
                REPO / "ansible" / playbook,
                "--inventory",
                self.inventory,
                "--extra-vars",
                json.dumps(variables),
                *words,
            ),
            env={**os.environ, "ANSIBLE_CONFIG": str(REPO / "ansible" / "ansible.cfg"), "COLUMNS": "1000"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        said = done.stdout + done.stderr
        counts = {name: int(count) for name, count in _COUNT.findall(said.rpartition("PLAY RECAP")[2])}
        assert (done.returncode == 0) == (counts.get("failed") == 0), said
        return counts, said

    def does_nothing(self, *words: str, **variables: Any) -> None:
        """Run it, and find that there was nothing to do."""
        counts, said = self.play(*words, **variables)
        assert (counts["failed"], counts["changed"]) == (0, 0), said

    def refuses(self, *why: str, **variables: Any) -> None:
        """Run it, and be refused with all these words before anything was changed."""
        counts, said = self.play(**variables)
        assert (counts["failed"], counts["changed"]) == (1, 0), said
        for words in why:
            assert words in " ".join(said.split()), said

    def on_disk(self) -> str:
        """What kind of file system is on the data's disk."""
        return self.box.ssh(f"blkid -p -s TYPE -o value {DISK} || true").stdout.strip()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A bare box, and the wheels of this checkout."""
    need_boxes()
    folder = tmp_path_factory.mktemp("roles")
    with ExitStack() as stack:
        wheels = Wheelhouse(folder / "wheelhouse")
        stack.callback(wheels.end)
        wheels.begin("0.1.0+roles")
        fleet = stack.enter_context(Fleet(folder / "boxes", 1))
        wheels.wait()
        yield Story(fleet, folder, wheels)


@pytest.fixture(autouse=True)
def _in_order(story: Story, request: pytest.FixtureRequest) -> Iterator[None]:
    yield from in_order(story, request)


def test_a_disk_with_somebodys_data_is_left_alone(story: Story) -> None:
    """A file system that isn't ours stays as it is, and the words say what is on the disk."""
    story.box.ssh(f"mkfs.ext4 -q -L theirs {DISK}")
    story.refuses("is not empty, and not ours: LABEL=theirs")
    assert story.on_disk() == "ext4"


def test_what_is_wrong_is_said_before_anything_changes(story: Story) -> None:
    """Each of these would end badly half-way, or lock the operator out."""
    story.refuses("you would be locked out", milliarde_operator_addresses=["192.0.2.1"])
    story.refuses("There is no disk of the model", milliarde_data_disk="Amazon EC2 NVMe Instance Storage")
    wipe = {"milliarde_data_wipe": True}
    story.refuses("the firewall lets nobody read there", milliarde_metrics_host="0.0.0.0", **wipe)
    story.refuses(
        "There are no wheels of 9.9",
        "There is no list of domains at /nowhere",
        "milliarde_contact must be the URL of a page that says who you are",
        "milliarde_settings may not say what the inventory says elsewhere: crawl.me.",
        "/nowhere.key is not there",
        milliarde_version="9.9",
        milliarde_domain_list="/nowhere",
        milliarde_contact="us@crawler.test",
        milliarde_nodes=2,
        milliarde_settings={"crawl": {"me": 1}},
        milliarde_signing_key="/nowhere.key",
        **wipe,
    )
    story.refuses("identity.token", milliarde_settings={"identity": {"token": "no token"}}, **wipe)
    assert story.on_disk() == "ext4"


def test_looking_changes_nothing(story: Story) -> None:
    """--check goes through on a bare machine, says what it would do, and does none of it."""
    counts, said = story.play("--check", milliarde_data_wipe=True)
    assert counts["failed"] == 0, said
    assert counts["changed"] > 10
    assert story.on_disk() == "ext4"
    assert story.box.ssh("ls -d /opt/milliarde /etc/milliarde /srv/milliarde", check=False).stdout == ""


def test_a_bare_machine_becomes_a_node_once(story: Story) -> None:
    """From bare to running; after that a look finds nothing to do, nor a wipe to make. (That doing it again
    does nothing either shows in the fleet's test.)"""
    counts, said = story.play(milliarde_data_wipe=True)
    assert counts["failed"] == 0, said
    assert story.on_disk() == "xfs"
    assert set(workers(story.box)) == {"fetcher@1", "parser@1"}
    story.does_nothing("--check", milliarde_data_wipe=True)


def test_the_machine_is_as_it_should_be(story: Story) -> None:
    """What roles promise is so, by the word of the kernel, of systemd and of Redis."""
    box = story.box
    assert "noatime" in box.ssh("findmnt -no OPTIONS /srv/milliarde").stdout
    assert box.ssh("sysctl -n net.ipv4.ip_local_port_range").stdout.split() == ["10240", "65535"]
    assert box.ssh("systemctl show -P MemoryMax milliarde-fetcher@1").stdout.strip() == str(2 << 30)
    assert box.ssh("systemctl is-enabled milliarde.target").stdout.strip() == "enabled"
    assert box.ssh("systemctl is-enabled redis-server", check=False).stdout.strip() == "masked"
    assert box.ssh("ss -Hltn sport = :6379").stdout == ""
    assert box.ssh("stat -c '%U %a' /run/milliarde/redis.sock").stdout.strip() == "milliarde 660"
    listed = box.ssh("milliarde exclude --list /etc/milliarde/excluded.txt").stdout
    assert "the list names 1 hosts and domains (the same as before)" in listed
    assert box.ssh("milliarde status --json >/dev/null && echo fine").stdout == "fine\n"
    assert "sudo milliarde status" in box.ssh("su admin -c 'milliarde status' 2>&1", check=False).stdout


def test_the_operator_gets_in_and_nobody_else(story: Story) -> None:
    """The firewall admits ssh from the operator's address, and nothing to any other port."""
    box = story.box
    box.ssh("systemd-run --quiet --unit=listener python3 -m http.server --bind 0.0.0.0 8080")
    box.ssh("for i in $(seq 50); do ss -Hltn sport = :8080 | grep -q . && exit; sleep 0.1; done; exit 1")
    connect = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()"

    def admitted(port: int) -> bool:
        words = inside(story.fleet.control, sys.executable, "-c", connect, box.address, str(port))
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    assert admitted(22)
    assert not admitted(8080)
    box.ssh("nft delete table inet milliarde")
    assert admitted(8080), "it was not the firewall that kept us out"
    box.ssh("systemctl stop listener; nft -f /etc/nftables.conf")


def test_the_number_of_processes_follows_the_inventory(story: Story) -> None:
    """Up and down, and those that stay are not touched."""
    before = workers(story.box)
    for fetchers, parsers in ((3, 2), (1, 1)):
        counts, said = story.play("--tags", "node", milliarde_fetchers=fetchers, milliarde_parsers=parsers)
        assert counts["failed"] == 0, said
        wanted = {f"fetcher@{n}" for n in range(1, fetchers + 1)}
        wanted |= {f"parser@{n}" for n in range(1, parsers + 1)}
        found = workers(story.box)
        assert set(found) == wanted
        assert before.items() <= found.items()


def test_a_setting_that_changed_is_what_processes_run_with(story: Story) -> None:
    """Another setting, and a key, start every worker anew, once; a run that finds them in force starts none.

    The key is the node's processes' alone, and in nothing that is said.
    """
    before = workers(story.box)
    key = story.inventory.with_name("signing.key")
    make_key(key)
    told: dict[str, Any] = {
        "milliarde_signing_key": str(key),
        "milliarde_settings": {
            "archive": {"disk_reserve_bytes": 60_000_000},
            "web_bot_auth": {"agent": "https://bot.crawler.test"},
        },
    }
    counts, said = story.play("--tags", "node", "-vv", "--diff", **told)
    assert counts["failed"] == 0, said
    assert not any(line in said for line in key.read_text().splitlines()), said
    there = "/etc/milliarde/signing.key"
    assert (
        story.box.ssh(f"stat -c '%U %a' {there}; cat {there}").stdout == f"milliarde 600\n{key.read_text()}"
    )
    after = workers(story.box)
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    story.does_nothing("--tags", "node", **told)
    assert workers(story.box) == after


def test_a_node_is_restarted_by_its_script(story: Story) -> None:
    """``restart-node`` comes with the release: every process is another one then, and all are back."""
    before = workers(story.box)
    story.box.ssh("restart-node --yes", deadline_s=300)
    story.box.until("systemctl is-active milliarde-fetcher@1 milliarde-parser@1", within_s=120)
    after = workers(story.box)
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())


def test_what_systemd_knows_of_deaths_is_told(story: Story) -> None:
    """A process that was killed is started again and counted by status; one that ends for good is named."""
    box = story.box
    box.ssh("systemctl kill --signal=KILL milliarde-parser@1")
    box.until("systemctl is-active milliarde-parser@1")
    told = json.loads(
        box.until("milliarde status --json | tee /tmp/told | grep -q parser.1 && cat /tmp/told")
    )
    assert told["deaths"]["parser.1"]["count"] == 1
    assert not told["deaths"]["parser.1"]["crash_loop"]
    box.ssh("cp /etc/milliarde/node.toml /tmp")
    box.ssh("sed -i '/^host = /s/=.*/= \"192.0.2.9\"/' /etc/milliarde/node.toml")
    box.ssh("systemctl restart milliarde-watch || true")
    words = "watch dies as soon as it has started"
    box.until(f"milliarde status | grep '{words}'", within_s=120)
    box.ssh("cp /tmp/node.toml /etc/milliarde && systemctl restart milliarde-watch")
    box.until("milliarde status --json | grep -q '\"watch\": {' && ! milliarde status | grep -q 'watch dies'")


def test_a_node_is_copied_and_put_back(story: Story) -> None:
    """A snapshot of a node at work, as docs/operate.md has it; restored, it goes on as what it was."""
    box = story.box
    box.ssh("install -d -o milliarde -g milliarde /backup")
    said = box.ssh("milliarde snapshot /backup/node --archive").stdout
    assert "/backup/node: crawl" in said
    refused = box.ssh("milliarde restore /backup/node", check=False)
    assert (refused.returncode, "a Redis answers" in refused.stderr) == (8, True)
    box.ssh("systemctl stop milliarde.target milliarde-redis.service")
    box.ssh("cd /srv/milliarde && mkdir -p first-start taken warc log")
    box.ssh("cd /srv/milliarde && mv redis/appendonlydir taken warc log first-start/")
    box.ssh("milliarde restore /backup/node", deadline_s=300)
    box.ssh("systemctl start milliarde-redis.service milliarde.target", deadline_s=300)
    box.until("milliarde status --json >/dev/null")
    assert set(workers(box)) == {"fetcher@1", "parser@1"}
    assert "sound" in box.until("milliarde check")
    box.ssh("rm -r /srv/milliarde/first-start /backup")


def test_a_shard_stays_what_it_is(story: Story) -> None:
    """Another list, or another number of nodes, is refused in words; so is a node whose data are gone."""
    other = story.inventory.with_name("other.txt")
    other.write_text("four.test\n")
    story.refuses('Here lives node 0 of 1 of the crawl "crawl"', milliarde_domain_list=str(other))
    story.refuses("the inventory would make it node 0 of 2", milliarde_nodes=2)
    story.box.ssh("systemctl stop srv-milliarde.mount")  # and all that wants it
    assert workers(story.box) == {}
    story.refuses("lived here, and its data are gone")
    story.box.ssh("systemctl start srv-milliarde.mount")
    counts, said = story.play()
    assert counts["failed"] == 0, said
    assert set(workers(story.box)) == {"fetcher@1", "parser@1"}


def test_a_node_that_is_taken_down_is_down(story: Story) -> None:
    """Refused while files are there that nobody collected; then all has ended, also for the next start."""
    story.box.ssh("install -D /dev/null /srv/milliarde/warc/left.warc.gz")
    counts, said = story.play(playbook="down.yml")
    assert counts["failed"] == 1
    assert "were not collected" in said
    assert set(workers(story.box)) == {"fetcher@1", "parser@1"}
    counts, said = story.play(playbook="down.yml", milliarde_down_uncollected=True)
    assert counts["failed"] == 0, said
    assert story.box.ssh("pgrep -u milliarde", check=False).stdout == ""
    assert story.box.ssh("systemctl is-enabled milliarde.target", check=False).stdout.strip() == "disabled"
