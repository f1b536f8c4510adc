"""``Cloud``: a stand-in of EC2 in a network namespace of its own, which has a loopback and nothing else.

The stand-in gives its machines public addresses, which belong to others. In the namespace all of them lead
to loopback, where at will one real sshd answers for all, with the files of a fleet's box.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.conftest import REPO, missing
from tests.fleet import base
from tests.fleet.network import inside, remove_namespace
from tests.fleet.ready import need_root_and
from tests.fleet.shell import run
from tests.whole.crawl import until

PORT = 5000
NETWORK = "54.214.0.0/16"
"""Where the stand-in's public addresses are from."""
IMAGE = "ami-0123456789abcdef0"
OPERATOR = "203.0.113.7"
_SSHD = """
set -e
mount --make-rprivate /
for each in run srv tmp root; do mount -t tmpfs -o mode=755 none "$1/$each"; done
mount -t proc none "$1/proc"
mount --rbind /dev "$1/dev"
mkdir -p "$1/run/sshd" "$1/run/milliarde"
cp "$2/host" "$1/run/host"; cp "$2/key.pub" "$1/run/authorized"; chmod 600 "$1/run/host" "$1/run/authorized"
if [ -e "$2/files" ]; then cp -r "$2/files" "$1/srv/milliarde"; fi
exec chroot "$1" /usr/sbin/sshd -D -e -f /dev/null -h /run/host -o AuthorizedKeysFile=/run/authorized \\
  -o UsePAM=no -o PermitRootLogin=prohibit-password -o PidFile=none -o StrictModes=no
"""


def need_cloud() -> None:
    """Skip where there is no such thing as a namespace or a stand-in; in CI the latter must be there."""
    need_root_and("ip", "unshare", "ssh", "ssh-keygen", "ssh-keyscan")
    for module in ("boto3", "moto", "flask_cors", "ansible_collections.amazon.aws"):
        if not _importable(module):
            missing(f"there is no {module} (scripts/setup --fleet brings it)")


def _importable(module: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class Cloud:
    """A context. ``folder`` gets the inventory (``fleet/``), keys, and what the server notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "fleet"
        self._namespace = f"milliarde-ec2-{os.getpid()}"
        self._stack = ExitStack()
        self._sshd: subprocess.Popen[bytes] | None = None

    # -- its life

    def __enter__(self) -> Cloud:
        self.inventory.mkdir()
        self._key("key")
        self._key("host")
        self.wish()
        remove_namespace(self._namespace)
        run("ip", "netns", "add", self._namespace)
        self._stack.callback(remove_namespace, self._namespace)
        run("ip", "-netns", self._namespace, "link", "set", "lo", "up")
        run("ip", "-netns", self._namespace, "route", "add", "local", NETWORK, "dev", "lo")
        images = self.folder / "images.json"
        images.write_text(json.dumps([_image(IMAGE, "debian-13-amd64-20261101-1")]))
        settings = {
            "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "1",
            "MOTO_ENABLE_AMI_VALIDATION": "1",
            "MOTO_ENABLE_KEYPAIR_VALIDATION": "1",
            "MOTO_AMIS_PATH": str(images),
        }
        program = (sys.executable, "-m", "tests.deploy.ec2_server", str(PORT), self.folder)
        with (self.folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                inside(self._namespace, *program),
                cwd=REPO,
                env=os.environ | settings,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self._stack.callback(_end, server)
        until(lambda: "Running on" in (self.folder / "server.log").read_text(), "the stand-in answers")
        return self

    def __exit__(self, *_: object) -> None:
        self.silence()
        self._stack.close()

    def _key(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self.folder / name))

    # -- what an operator has and does

    def wish(self, **variables: object) -> None:
        """Write the inventory; ``variables`` begin with ``milliarde_``."""
        rent = {
            "milliarde_rent_name": "test",
            "milliarde_rent_nodes": 2,
            "milliarde_rent_public_key": str(self.folder / "key.pub"),
            "milliarde_rent_image_owner": "136693071363",
            "milliarde_rent_ssh_wait_s": 5,
            **variables,
        }
        told = {
            "all": {"vars": {"milliarde_operator_addresses": [OPERATOR, "2001:db8::/48"]}},
            "rent": {"hosts": {"cloud": {}}, "vars": rent},
            "nodes": {
                "vars": {
                    "ansible_user": "root",
                    "ansible_ssh_private_key_file": str(self.folder / "key"),
                    "ansible_control_path_dir": str(self.folder / "cp"),
                }
            },
        }
        (self.inventory / "fleet.yml").write_text(json.dumps(told))

    def fleet(
        self, *words: str | Path, code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """``milliarde-fleet WORDS``, which must end with ``code``."""
        program = "import sys; from deploy.fleet import main; sys.exit(main())"
        done = subprocess.run(
            inside(self._namespace, sys.executable, "-c", program, *words, "-i", self.inventory),
            cwd=REPO,
            env={**os.environ, **self._environment(), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        said = f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == code, said
        assert "Traceback" not in done.stderr, said
        return done

    def _environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{PORT}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            "MILLIARDE_RUNS": str(self.folder / "runs"),
            "COLUMNS": "200",
        }

    def changes(self) -> int:
        """By Ansible's own count, how much the last of the recorded runs changed."""
        record = max((self.folder / "runs" / "runs").iterdir())
        recap = (record / "stdout").read_text().rpartition("PLAY RECAP")[2]
        return sum(int(each.partition("=")[2]) for each in recap.split() if each.startswith("changed="))

    def rented(self) -> dict[str, Any]:
        """The hosts of ``rented.yml``."""
        told = yaml.safe_load((self.inventory / "rented.yml").read_text())
        hosts: dict[str, Any] = told["nodes"]["hosts"]
        return hosts

    # -- what is at EC2

    def ask(self, call: str, **words: object) -> Any:
        """One call of the API, from within the namespace."""
        program = (
            "import json, sys, boto3; call, words = json.loads(sys.argv[1]); "
            "client = boto3.client('ec2', region_name='us-east-1'); "
            "print(json.dumps(getattr(client, call)(**words), default=str))"
        )
        done = subprocess.run(
            inside(self._namespace, sys.executable, "-c", program, json.dumps([call, words])),
            env=os.environ | self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def machines(self) -> dict[str, dict[str, Any]]:
        """Place -> machine, of those that live."""
        told = self.ask("describe_instances")
        found = {}
        for each in (each for some in told["Reservations"] for each in some["Instances"]):
            if each["State"]["Name"] not in ("terminated", "shutting-down"):
                found[_tags(each)["milliarde-node"]] = each
        return found

    def requests(self, action: str) -> list[dict[str, str]]:
        """What was asked of the server so far."""
        lines = (self.folder / "requests").read_text().splitlines()
        return [told for told in map(json.loads, lines) if told.get("Action") == action]

    def refuse(self, action: str, code: str, message: str, *, after: int = 0) -> None:
        """From now on, after so many more of that kind."""
        rule = {"action": action, "after": after, "code": code, "message": message}
        (self.folder / "refuse").write_text(json.dumps(rule))

    def relent(self) -> None:
        """Refuse nothing any more."""
        (self.folder / "refuse").unlink()

    # -- the machines' ssh

    def answer(self, *, new_host_key: bool = False, files: bool = False) -> None:
        """Have all machines answer ssh; ``files``: there is one that was not collected."""
        self.silence()
        if new_host_key:
            self._key("host")
        if files:
            (self.folder / "files" / "warc").mkdir(parents=True)
            (self.folder / "files" / "warc" / "crawl-f01-000001.warc.gz").write_bytes(b"x")
        # in a namespace of processes, so that sessions end with it: Ansible keeps them warm
        alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        script = (*alone, "sh", "-c", _SSHD, "sshd", str(base.base()), str(self.folder))
        log = self.folder / "sshd.log"
        with log.open("wb") as file:
            self._sshd = subprocess.Popen(
                inside(self._namespace, *script), stderr=file, stdin=subprocess.DEVNULL
            )
        until(lambda: "Server listening on 0.0.0.0" in log.read_text(), "sshd listens")

    def silence(self) -> None:
        """Nobody answers any more."""
        if self._sshd is not None:
            self._sshd.kill()
            self._sshd.wait(timeout=30)
            self._sshd = None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)


def _tags(thing: dict[str, Any]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in thing.get("Tags", ())}


def _image(image: str, name: str) -> dict[str, Any]:
    return {
        "ami_id": image,
        "name": name,
        "description": name,
        "owner_id": "136693071363",
        "public": True,
        "virtualization_type": "hvm",
        "architecture": "x86_64",
        "state": "available",
        "platform": None,
        "image_type": "machine",
        "hypervisor": "xen",
        "root_device_name": "/dev/xvda",
        "root_device_type": "ebs",
        "sriov": "simple",
        "creation_date": "2026-11-01T00:00:00.000Z",
    }
