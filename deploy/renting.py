"""What ``provision.yml`` asks: what a machine costs, what is missing, and what it has to write down.

``python -m deploy.renting VERB``: ``judge FOLDER`` or ``write FOLDER``, with ``Told`` as JSON on
stdin. It answers on stdout; where it can't or may not be, with a sentence on stderr and an exit code of
``milliarde-fleet``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from deploy import prices
from deploy.errors import DiskError, FleetError, InputError, RefusedError
from deploy.rented import FILE, Machine, Rented, node_name, read, text

INDEX = "milliarde-node"
"""Tag of a machine: its place among the nodes, from 0."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the playbook tells: the wish, and what EC2 says is there (``ec2_instance_info``)."""

    name: str
    region: str
    nodes: int
    instance: str
    market: str
    address: str
    prices: str
    price_usd: float
    machines: list[dict[str, Any]]


def write(folder: Path, told: Told, now_s: float) -> bool:
    """Write what is there into ``rented.yml``; whether that changed it. Raises ``DiskError``."""
    path = folder / FILE
    known = read(folder)
    if known is None and not told.machines:
        return False
    rented = renewed(known, told, now_s)
    address = f"{told.address}_ip_address"
    addresses = {each["instance_id"]: str(each.get(address) or "") for each in told.machines}
    fresh = text(rented, addresses)
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == fresh:
            return False
        beside = path.with_name(f".{FILE}.new")
        beside.write_text(fresh, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}") from None
    return True


def price(told: Told, *, type_: str, spot: bool) -> float:
    """US dollars for an hour of a machine. Raises ``InputError`` in words where nobody says."""
    if told.price_usd:
        return told.price_usd
    listed = prices.read(Path(told.prices)) if told.prices else prices.read()
    try:
        return listed.hourly(type_, spot=spot)
    except prices.PriceError as error:
        lacks = f"spot price of {type_}" if type_ in listed.instances else type_
        raise InputError(
            f"the price list has no {lacks}, so nobody could say what it costs: add it to a list for "
            "milliarde_rent_prices, or say milliarde_rent_price_usd"
        ) from error


def renewed(known: Rented | None, told: Told, now_s: float) -> Rented:
    """The machines that are there, each at its place. What is gone keeps the place, and what it has cost."""
    recorded = {each.instance: each for each in known.living} if known else {}
    there = {each.index: each for each in _machines(told, recorded)}
    count = max([told.nodes, *(index + 1 for index in there)])
    machines = [there.get(index) or Machine(index=index, missing=True) for index in range(count)]
    instances = {each.instance for each in machines}
    now = datetime.fromtimestamp(int(now_s), UTC).isoformat()
    gone = [
        msgspec.structs.replace(each, until=now)
        for each in recorded.values()
        if each.instance not in instances
    ]
    return Rented(
        name=told.name,
        region=told.region,
        machines=machines,
        before=[*(known.before if known else ()), *gone],
    )


def _machines(told: Told, recorded: dict[str, Machine]) -> Iterator[Machine]:
    for each in told.machines:
        instance = str(each["instance_id"])
        known = recorded.get(instance)
        if known is not None:  # what was agreed when it was rented
            yield known
            continue
        spot = each.get("instance_lifecycle") == "spot"
        yield Machine(
            index=_index(each),
            instance=instance,
            type=str(each["instance_type"]),
            market="spot" if spot else "on-demand",
            since=str(each["launch_time"]),
            usd_per_hour=price(told, type_=str(each["instance_type"]), spot=spot),
        )


def _index(machine: dict[str, Any]) -> int:
    try:
        return int(machine["tags"][INDEX])
    except (KeyError, ValueError):
        raise RefusedError(
            f"{machine['instance_id']} carries the fleet's tag, and none that says its place ({INDEX}): "
            "give it one, or take the other away"
        ) from None


def judge(known: Rented | None, told: Told) -> dict[str, Any]:
    """What is ``missing`` ({index, name}), and which machines are ``stopped``.

    Raises ``RefusedError`` where a living fleet would have to become another one.
    """
    if known and known.living and (known.name, known.region) != (told.name, told.region):
        raise RefusedError(
            f"the machines of {known.name} in {known.region} are rented, and the inventory now says "
            f"{told.name} in {told.region}: destroy those first, while the inventory says so"
        )
    places: dict[int, str] = {}
    for each in told.machines:
        index, instance = _index(each), str(each["instance_id"])
        if index in places:
            raise RefusedError(
                f"{places[index]} and {instance} are both {node_name(index)}: terminate one of them"
            )
        places[index] = instance
        if each["instance_type"] != told.instance:
            raise RefusedError(
                f"{node_name(index)} is an {each['instance_type']}, and the inventory now says "
                f"{told.instance}: the type of a living fleet can't be changed (its disks would be lost); "
                "destroy it first"
            )
    kept = len(known.machines) if known and known.living else 0
    most = max([kept, *(index + 1 for index in places)])
    if told.nodes < most:
        raise RefusedError(
            f"there are {most} nodes, and the inventory now says {told.nodes}: a living fleet does not "
            "shrink, since every domain would move; collect, and destroy it first"
        )
    return {
        "missing": [
            {"index": index, "name": node_name(index)} for index in range(told.nodes) if index not in places
        ],
        "stopped": [
            str(each["instance_id"])
            for each in told.machines
            if each["state"]["name"] in ("stopping", "stopped")
        ],
    }


def main(argv: Sequence[str]) -> int:
    """``judge FOLDER`` or ``write FOLDER``, with ``Told`` as JSON on stdin; answers on stdout."""
    try:
        told = msgspec.json.decode(sys.stdin.buffer.read(), type=Told)
        verb, folder = argv[0], Path(argv[1])
        if verb == "judge":
            price(told, type_=told.instance, spot=told.market == "spot")
            answer: object = judge(read(folder), told)
        else:
            answer = "written" if write(folder, told, time.time()) else None
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    if answer is not None:
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
