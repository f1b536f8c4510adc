"""What the roles write for a node is what a node takes, and what the crawl is to be."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]

from deploy.rented import FILE, Machine, Rented, text
from node import settings
from node.store import keys
from node.work.redis_server import config_text

REPO = Path(__file__).resolve().parents[2]
ANSIBLE = REPO / "ansible"


def _playbook(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [str(program), *map(str, words)],
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _rendered(into: Path, inventory: Path, *words: str) -> Path:
    playbook = into / "rendered.yml"
    shutil.copyfile(Path(__file__).with_name("rendered.yml"), playbook)
    # beside the playbook, as for those of ours
    (into / "group_vars").symlink_to(ANSIBLE / "group_vars")
    done = _playbook(playbook, "-i", inventory, "-e", f"rendered_into={into}", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return into


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of the twelve nodes of the example, as they would be."""
    folder = tmp_path_factory.mktemp("twelve")
    return _rendered(folder, ANSIBLE / "inventory" / "twelve.yml", "--limit", "node01,node12")


def _pilot(folder: Path) -> Path:
    """The pilot's inventory as it is once its machine was rented."""
    inventory = folder / "inventory"
    shutil.copytree(ANSIBLE / "inventory" / "pilot", inventory)
    machine = Machine(index=0, instance="i-0", since="2026-12-02T00:00:00+00:00")
    found = Rented(name="milliarde-pilot", region="us-east-1", machines=[machine])
    (inventory / FILE).write_text(text(found, {"i-0": "198.51.100.10"}))
    return inventory


pytestmark = pytest.mark.timeout(400)


def test_a_fleet_begins_with_the_defaults_of_the_crawl(twelve: Path) -> None:
    """A node's file is accepted by the node, and holds 70 s, a day, and the budget that follows from both."""
    node = settings.load(twelve / "node12-node.toml")
    assert node.crawl.delay_s == 70
    assert node.crawl.horizon_s == 86_400
    assert node.crawl.max_urls_per_domain == 2_000
    assert (node.crawl.scope, node.crawl.domain_list) == ("list", "/etc/milliarde/domains.txt")
    assert node.paths.data == "/srv/milliarde"
    assert node.paths.redis_socket == "/run/milliarde/redis.sock"
    assert node.dns.servers == ("127.0.0.1",)
    assert (node.watch.host, node.watch.port) == ("127.0.0.1", 9464)
    assert json.loads((twelve / "node12-processes.json").read_text()) == [9, 6]


def test_a_nodes_number_is_its_place_in_the_inventory(twelve: Path) -> None:
    """The first of twelve is node 0, the last node 11, in the settings and in the mark beside the data."""
    for name, number in (("node01", 0), ("node12", 11)):
        node = settings.load(twelve / f"{name}-node.toml")
        assert (node.crawl.nodes, node.crawl.me) == (12, number)
        assert json.loads((twelve / f"{name}-shard.json").read_text()) == {
            "crawl": "crawl",
            "nodes": 12,
            "me": number,
            "list": "0123456789abcdef",
        }


def test_an_inventory_goes_before_the_defaults(tmp_path: Path) -> None:
    """What an inventory says of its fleet holds, though group_vars say otherwise; any setting can be said."""
    pilot = _rendered(
        tmp_path,
        _pilot(tmp_path),
        "-e",
        json.dumps({"milliarde_settings": {"fetcher": {"in_flight": 77}, "crawl": {"hop_gap_s": 0.5}}}),
    )
    node = settings.load(pilot / "node01-node.toml")
    assert (node.crawl.name, node.crawl.horizon_s, node.crawl.delay_s) == ("pilot", 7_200, 70)
    assert (node.fetcher.in_flight, node.crawl.hop_gap_s) == (77, 0.5)
    assert json.loads((pilot / "node01-processes.json").read_text()) == [5, 3]


def _directives(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: " ".join(rest) for name, *rest in map(shlex.split, lines)}


def test_a_fleets_redis_is_asked_what_a_laptops_is(twelve: Path) -> None:
    """Every directive that ``milliarde crawl`` gives its Redis a node's has too, and with the same value.

    Where they lie, who may connect and where the log goes differs on purpose; so what they may hold, which
    both take from the same setting.
    """
    node = settings.load(twelve / "node01-node.toml")
    fleet = _directives((twelve / "node01-redis.conf").read_text())
    laptop = _directives(config_text(node, Path("/srv/milliarde/redis")))
    assert fleet["unixsocketperm"] == "660"
    assert fleet["logfile"] == ""
    assert int(fleet["maxmemory"]) == int(laptop["maxmemory"]) > 0
    for name, value in laptop.items():
        if name not in ("unixsocketperm", "logfile"):
            assert fleet.get(name) == value, name


def test_what_roles_ask_of_redis_is_there_under_that_name() -> None:
    """The role reads the names excluded one by one by the key that the node keeps them under."""
    tasks = (ANSIBLE / "roles" / "node" / "tasks" / "domains.yml").read_text()
    assert f"SMEMBERS {keys.EXCLUDED}\n" in tasks


def test_any_setting_can_be_told_through_the_inventory(tmp_path: Path) -> None:
    """Every setting of the reference, tables in lists among them, comes to the node as it was told."""
    wanted = msgspec.convert(
        {
            "paths": {"data": "/srv/milliarde", "redis_socket": "/run/milliarde/redis.sock"},
            "identity": {"purpose": ["search", "archive"]},
            "web_bot_auth": {"agent": "https://bot.example.org"},
            "priority": {"rules": [{"pattern": '/"ä"/*', "level": 1}, {"pattern": "/b/", "shift": -2}]},
            "gateway": {"headers": ["A: b"]},
            "crawl": {"seen_error_rate": 1e-6, "sitemaps": True},
        },
        settings.Settings,
    )
    told = msgspec.to_builtins(wanted)
    fixed = yaml.safe_load((ANSIBLE / "roles" / "node" / "vars" / "main.yml").read_text())[
        "node_settings_fixed"
    ]
    told = {
        section: {name: each for name, each in values.items() if name not in fixed.get(section, ())}
        for section, values in told.items()
    }
    told["identity"].pop("contact")
    inventory = _pilot(tmp_path)
    found = settings.load(
        _rendered(tmp_path, inventory, "-e", json.dumps({"milliarde_settings": told})) / "node01-node.toml"
    )
    for section, values in told.items():
        for name, each in values.items():
            assert msgspec.to_builtins(getattr(getattr(found, section), name)) == each, f"{section}.{name}"


def test_a_run_has_one_release(tmp_path: Path) -> None:
    """What is built while a playbook runs does not change which release it brings, on any host."""
    (tmp_path / "VERSION").write_text("1.0\n")
    inventory = tmp_path / "fleet.yml"
    inventory.write_text(
        json.dumps({"nodes": {"hosts": {"a": {}, "b": {}}, "vars": {"ansible_connection": "local"}}})
    )
    overwrite = {
        "ansible.builtin.copy": {"content": "2.0", "dest": str(tmp_path / "VERSION"), "mode": "0644"}
    }
    tell = "{{ inventory_hostname }} brings {{ milliarde_version }}."
    plays = [
        {
            "hosts": "nodes",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.import_tasks": str(ANSIBLE / "tasks" / "release.yml")}, overwrite],
        },
        {"hosts": "nodes", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": tell}}]},
    ]
    playbook = tmp_path / "play.yml"
    playbook.write_text(json.dumps(plays))
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "group_vars")
    done = _playbook(playbook, "-i", inventory, "-e", json.dumps({"milliarde_wheelhouse": str(tmp_path)}))
    assert "a brings 1.0." in done.stdout, done.stdout + done.stderr
    assert "b brings 1.0." in done.stdout
    for name in ("site.yml", "deploy.yml"):
        first = yaml.safe_load((ANSIBLE / name).read_text())[0]["tasks"][0]
        assert first["ansible.builtin.import_tasks"] == "tasks/release.yml"
