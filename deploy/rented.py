"""What a fleet has rented: which machine has which place, since when, at what price.

``rented.yml`` in the inventory's folder says it, for Ansible (a host for each place, in the order of the
shards), for the operator, and for the bill. A machine that is gone keeps its place, so that no other node's
number changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from deploy.errors import InventoryError

FILE = "rented.yml"
LEAST_S = 60
"""A machine is paid for by the second, and for a minute at least."""
_HEAD = "# Written by `milliarde-fleet provision`, from what is there at EC2. Don't edit it.\n---\n"
# Ansible starts ssh with it. A machine's key goes by its name at EC2, since addresses go from hand to hand.
_SSH = (
    "-o 'UserKnownHostsFile=\"{{ inventory_dir }}/.known_hosts\"' -o GlobalKnownHostsFile=/dev/null "
    "-o StrictHostKeyChecking=yes -o HostKeyAlias={{ milliarde_rented.instance }}"
)


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, at its place. ``until`` none: it is there. Times are ISO 8601 in UTC."""

    index: int
    instance: str = ""
    type: str = ""
    market: str = ""
    since: str = ""
    until: str | None = None
    usd_per_hour: float = 0.0
    missing: bool = msgspec.field(default=False)
    """Nothing is there, or no longer; the place is kept."""

    @property
    def node(self) -> str:
        return node_name(self.index)

    def usd(self, now_s: float) -> float:
        """What it has cost by then, by the second."""
        if self.missing:
            return 0.0
        end = _seconds(self.until) if self.until else now_s
        return max(LEAST_S, end - _seconds(self.since)) / 3600 * self.usd_per_hour


class Rented(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet's machines in their order, and ``before``: those that were lost and cost money, too."""

    name: str
    region: str
    machines: list[Machine]
    before: list[Machine] = []

    @property
    def living(self) -> list[Machine]:
        return [each for each in self.machines if not each.missing]

    def usd(self, now_s: float) -> float:
        return sum(each.usd(now_s) for each in [*self.machines, *self.before])

    @property
    def usd_per_hour(self) -> float:
        return sum(each.usd_per_hour for each in self.living)

    def hours(self, now_s: float) -> float:
        """Since the first machine was there."""
        began = [_seconds(each.since) for each in [*self.living, *self.before]]
        return (now_s - min(began)) / 3600 if began else 0.0

    def cost(self, now_s: float) -> dict[str, float]:
        """For programs: US dollars so far and an hour, hours since the first machine, machines."""
        return {
            "usd": round(self.usd(now_s), 2),
            "usd_per_hour": round(self.usd_per_hour, 4),
            "hours": round(self.hours(now_s), 2),
            "machines": len(self.living),
        }

    def cost_words(self, now_s: float) -> str:
        """The same for the operator."""
        lost = f", {len(self.before)} lost before" if self.before else ""
        return (
            f"cost: ${self.usd(now_s):,.2f} so far, ${self.usd_per_hour:,.3f} an hour "
            f"({len(self.living)} machines{lost}; {self.hours(now_s):,.1f} h)"
        )


def node_name(index: int) -> str:
    """0 -> ``node01``."""
    return f"node{index + 1:02}"


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


# -- the file


def read(folder: Path) -> Rented | None:
    """What the folder's ``rented.yml`` says; None where there is none. Raises ``InventoryError``."""
    import yaml  # type: ignore[import-untyped]

    path = folder / FILE
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
        fleet = told["rent"]["vars"]["milliarde_rented_fleet"]
        hosts = told["nodes"]["hosts"].values()
        machines = [host["milliarde_rented"] for host in hosts]
        return msgspec.convert({**fleet, "machines": machines}, Rented)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InventoryError(f"{path} can't be read: {error.strerror}") from None
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise InventoryError(
            f"{path} is not as it was written ({' '.join(str(error).split())}): remove it, and "
            "'milliarde-fleet provision' writes it again"
        ) from None


def text(rented: Rented, addresses: Mapping[str, str]) -> str:
    """The file, for these machines. ``addresses``: instance -> how it is reached."""
    import yaml

    hosts = {
        each.node: {
            # A name that leads nowhere, by RFC 6761, where nobody is.
            "ansible_host": addresses.get(each.instance) or f"{each.node}.missing.invalid",
            "milliarde_rented": {**msgspec.to_builtins(each), "missing": each.missing},
        }
        for each in rented.machines
    }
    fleet = {"name": rented.name, "region": rented.region, "before": msgspec.to_builtins(rented.before)}
    told = {
        "rent": {"vars": {"milliarde_rented_fleet": fleet}},
        "nodes": {"vars": {"ansible_ssh_common_args": _SSH}, "hosts": hosts},
    }
    body: str = yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=200)
    return _HEAD + body
