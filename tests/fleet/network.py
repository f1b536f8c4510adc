"""The wires: a control namespace with a bridge, and a namespace per node that hangs on it.

Nobody has a default route, and there is no IPv6. Each end knows the other's hardware address from the
start, so that a node never has to ask aloud for the control namespace: whatever the bridge passes on from
one node to another, be it only a question, was meant for that other.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.shell import run

BRIDGE = "wires"
KINDS = ("ip", "arp", "ip6")
_TABLE = f"""
table bridge wires {{
  {"; ".join(f"counter passed_{kind} {{ }}" for kind in KINDS)}
  chain passed {{
    type filter hook forward priority 0; policy accept;
    {"; ".join(f"ether type {kind} counter name passed_{kind}" for kind in KINDS)}
  }}
}}
"""


def inside(namespace: str, *words: str | Path) -> list[str]:
    """The command that runs ``words`` in a namespace."""
    return ["ip", "netns", "exec", namespace, *map(str, words)]


@dataclass(frozen=True, slots=True)
class Node:
    """One end of a wire."""

    namespace: str
    address: str
    mac: str


class Network:
    """``nodes`` namespaces on one bridge; ``prefix`` names them, ``number`` (1 to 254) their addresses."""

    def __init__(self, prefix: str, number: int, nodes: int) -> None:
        self.control = f"{prefix}-control"
        self.address = f"10.77.{number}.1"
        """Of the control namespace, where the only servers are."""
        self.nodes = [
            Node(f"{prefix}-{n}", f"10.77.{number}.{10 + n}", f"02:77:00:00:{number:02x}:{10 + n:02x}")
            for n in range(1, nodes + 1)
        ]
        self._mac = f"02:77:00:00:{number:02x}:01"

    def up(self) -> None:
        """Make all namespaces and wires."""
        self._namespace(self.control)
        ip = ("ip", "-netns", self.control)
        run(*ip, "link", "add", BRIDGE, "address", self._mac, "type", "bridge")
        run(*ip, "address", "add", f"{self.address}/24", "dev", BRIDGE)
        run(*ip, "link", "set", BRIDGE, "up")
        run(*inside(self.control, "nft", "-f", "-"), stdin=_TABLE)
        for number in range(1, len(self.nodes) + 1):
            self.wire(number)

    def wire(self, number: int) -> None:
        """Give node ``number`` (from 1) a namespace fresh from the factory, and join it to the bridge."""
        node = self.nodes[number - 1]
        # The kernel takes its time with a namespace whose processes were just killed, and with its wire.
        run("ip", "-netns", self.control, "link", "delete", f"wire{number}", check=False)
        remove_namespace(node.namespace)
        self._namespace(node.namespace)
        ip = ("ip", "-netns", self.control)
        end = ("peer", "name", "eth0", "address", node.mac, "netns", node.namespace)
        run(*ip, "link", "add", f"wire{number}", "type", "veth", *end)
        run(*ip, "link", "set", f"wire{number}", "master", BRIDGE, "up")
        known = ("nud", "permanent", "dev")
        run(*ip, "neighbour", "replace", node.address, "lladdr", node.mac, *known, BRIDGE)
        ip = ("ip", "-netns", node.namespace)
        run(*ip, "address", "add", f"{node.address}/24", "dev", "eth0")
        run(*ip, "link", "set", "eth0", "up")
        run(*ip, "neighbour", "replace", self.address, "lladdr", self._mac, *known, "eth0")

    @staticmethod
    def _namespace(name: str) -> None:
        run("ip", "netns", "add", name)
        if Path("/proc/sys/net/ipv6").is_dir():
            for which in ("all", "default"):
                run(*inside(name, "sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{which}/disable_ipv6"))
        run("ip", "-netns", name, "link", "set", "lo", "up")

    def down(self) -> None:
        """Remove what is there of it; wires go with their namespaces."""
        for name in [self.control, *(node.namespace for node in self.nodes)]:
            remove_namespace(name)

    def link(self, number: int, *, up: bool) -> None:
        """Plug or unplug the wire of node ``number`` (from 1), at the bridge's side."""
        run("ip", "-netns", self.control, "link", "set", f"wire{number}", "up" if up else "down")

    def passed(self) -> dict[str, int]:
        """Packets that went from one node to another so far, by kind. What goes to or from control is not."""
        told = json.loads(run(*inside(self.control, "nft", "-j", "list", "counters")).stdout)
        counters = [each["counter"] for each in told["nftables"] if "counter" in each]
        return {each["name"].removeprefix("passed_"): int(each["packets"]) for each in counters}

    def popen(self, namespace: str, *words: str | Path, **how: object) -> subprocess.Popen[bytes]:
        """Start a program in a namespace."""
        return subprocess.Popen(inside(namespace, *words), **how)  # type: ignore[call-overload,no-any-return]


def remove_namespace(name: str) -> None:
    """Remove a namespace, if it is there."""
    if Path("/run/netns", name).exists():
        run("ip", "netns", "delete", name)
