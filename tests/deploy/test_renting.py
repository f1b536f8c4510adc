"""Which machine has which place, what may become of a fleet, what it costs: without EC2."""

from __future__ import annotations

import io
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from deploy import cloud, rented, renting
from deploy.errors import ExitCode, InputError, InventoryError, RefusedError
from deploy.rented import Machine, Rented
from deploy.renting import Told, judge, price, renewed, write
from deploy.runner import Host, State, _unreachable_words

HOUR_S = 3_600.0
SINCE = "2026-12-02T01:46:40+00:00"
BEGAN_S = datetime.fromisoformat(SINCE).timestamp()


def at_ec2(index: int, **changes: Any) -> dict[str, Any]:
    """A machine as ``ec2_instance_info`` tells of it."""
    return {
        "instance_id": f"i-{index}",
        "instance_type": "i7i.4xlarge",
        "launch_time": SINCE,
        "public_ip_address": f"192.0.2.{index}",
        "private_ip_address": f"10.0.0.{index}",
        "state": {"name": "running"},
        "tags": {renting.INDEX: str(index)},
        **changes,
    }


def told(*machines: dict[str, Any], **changes: Any) -> Told:
    wish: dict[str, Any] = {
        "name": "test",
        "region": "us-east-1",
        "nodes": 3,
        "instance": "i7i.4xlarge",
        "market": "on-demand",
        "address": "public",
        "prices": "",
        "price_usd": 0.0,
        "machines": list(machines),
    }
    return Told(**{**wish, **changes})


def test_a_machine_that_is_lost_keeps_its_place(tmp_path: Path) -> None:
    """Others keep their numbers, the place leads nowhere, what was paid stays in the bill."""
    assert write(tmp_path, told(at_ec2(0), at_ec2(1), at_ec2(2)), BEGAN_S)
    assert not write(tmp_path, told(at_ec2(2), at_ec2(0), at_ec2(1)), BEGAN_S + 9), (
        "the same, in another order"
    )
    left = told(at_ec2(0), at_ec2(2))
    assert judge(rented.read(tmp_path), left)["missing"] == [{"index": 1, "name": "node02"}]
    assert write(tmp_path, left, BEGAN_S + HOUR_S)
    text = (tmp_path / rented.FILE).read_text()
    assert text.index("node01:") < text.index("node02:") < text.index("node03:")
    assert "ansible_host: node02.missing.invalid" in text
    found = rented.read(tmp_path)
    assert found is not None
    assert [each.instance for each in found.machines] == ["i-0", "", "i-2"]
    assert [(each.node, each.instance) for each in found.before] == [("node02", "i-1")]
    # two for two hours, one for one
    assert found.usd(BEGAN_S + 2 * HOUR_S) == pytest.approx(5 * 1.5151)
    assert found.usd_per_hour == pytest.approx(2 * 1.5151)
    again = told(at_ec2(0), at_ec2(1, instance_id="i-9"), at_ec2(2))
    found = renewed(found, again, BEGAN_S + HOUR_S)
    assert [each.instance for each in found.machines] == ["i-0", "i-9", "i-2"]
    assert len(found.before) == 1


def test_the_bill_is_by_the_second_and_a_minute_at_least() -> None:
    """What was agreed when a machine was rented holds, whatever a later list says."""
    machine = Machine(index=0, instance="i-0", since=SINCE, usd_per_hour=3.6)
    assert machine.usd(BEGAN_S + 1) == pytest.approx(0.06)
    assert machine.usd(BEGAN_S + 100) == pytest.approx(0.1)
    known = Rented(name="test", region="us-east-1", machines=[machine])
    assert renewed(known, told(at_ec2(0), price_usd=9.0), BEGAN_S).machines[0].usd_per_hour == 3.6
    assert known.hours(BEGAN_S + HOUR_S) == 1.0


def test_spot_has_its_own_price() -> None:
    """A list without one is refused before anything is rented; a given price needs no list."""
    with pytest.raises(InputError, match=r"no spot price of i7i\.4xlarge.*milliarde_rent_price_usd"):
        price(told(), type_="i7i.4xlarge", spot=True)
    with pytest.raises(InputError, match=r"the price list has no m9\.huge, "):
        price(told(), type_="m9.huge", spot=False)
    cheap = told(at_ec2(0, instance_lifecycle="spot"), price_usd=0.6)
    (machine, *_) = renewed(None, cheap, BEGAN_S).machines
    assert (machine.market, machine.usd_per_hour) == ("spot", 0.6)


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (
            told(at_ec2(0), instance="i7i.8xlarge"),
            "node01 is an i7i.4xlarge, and the inventory now says i7i.8xl",
        ),
        (told(at_ec2(0), at_ec2(2), nodes=2), "there are 3 nodes, and the inventory now says 2"),
        (told(at_ec2(0), nodes=1), "there are 2 nodes, and the inventory now says 1"),
        (told(at_ec2(0), at_ec2(0, instance_id="i-7")), "i-0 and i-7 are both node01"),
        (told(at_ec2(0, tags={})), "i-0 carries the fleet's tag, and none that says its place"),
        (
            told(name="other"),
            "the machines of test in us-east-1 are rented, and the inventory now says other",
        ),
        (told(region="eu-west-1"), "now says test in eu-west-1"),
    ],
    ids=("type", "shrink", "shrink to a lost one", "two at one place", "no place", "name", "region"),
)
def test_a_living_fleet_becomes_no_other(wish: Told, says: str) -> None:
    """What would lose data, rent a second fleet or move domains is refused in words."""
    known = renewed(None, told(at_ec2(0), at_ec2(1), nodes=2), BEGAN_S)
    with pytest.raises(RefusedError, match=says.replace("(", r"\(")):
        judge(known, wish)


def test_stopped_machines_are_started_and_new_ones_wanted(tmp_path: Path) -> None:
    """What a rerun has to do follows from what is there, not from what was done before."""
    stopped = told(at_ec2(1, state={"name": "stopped"}))
    assert judge(None, stopped) == {
        "missing": [{"index": 0, "name": "node01"}, {"index": 2, "name": "node03"}],
        "stopped": ["i-1"],
    }
    assert not write(tmp_path, told(), BEGAN_S), "nothing rented, nothing written"
    (tmp_path / rented.FILE).write_text("nodes: [")
    with pytest.raises(InventoryError, match="is not as it was written"):
        rented.read(tmp_path)


def test_the_playbooks_program_ends_with_the_fleets_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal is a sentence on stderr and its code, which milliarde-fleet then ends with."""

    def run(verb: str, wish: dict[str, Any]) -> int:
        whole = {**json.loads(json.dumps({f: getattr(told(), f) for f in Told.__struct_fields__})), **wish}
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(whole).encode())))
        return renting.main([verb, str(tmp_path)])

    assert run("judge", {}) == 0
    assert len(json.loads(capsys.readouterr().out)["missing"]) == 3
    assert run("judge", {"instance": "m5.large"}) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
    assert run("write", {"machines": [at_ec2(0)]}) == 0
    assert run("judge", {"machines": [at_ec2(0, instance_type="m5.large")]}) == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("result", "why", "code", "says"),
    [
        (
            {},
            "Failed to describe: Unable to locate credentials",
            ExitCode.CLOUD_REFUSED,
            "there are no credentials",
        ),
        (
            {},
            "Failed: An error occurred (InsufficientInstanceCapacity) when calling the RunInstances "
            "operation (reached max retries: 4): We currently do not have sufficient capacity.",
            ExitCode.CLOUD_REFUSED,
            "EC2 refuses RunInstances: InsufficientInstanceCapacity: We currently do not have sufficient "
            "capacity (try another milliarde_rent_zone, or later); go on",
        ),
        (
            {},
            "Failed to import the required Python library (botocore and boto3)",
            ExitCode.NOT_INSTALLED,
            "scripts/setup --fleet installs it",
        ),
        ({"rc": 22}, "it would lose something", ExitCode.REFUSED, "it would lose something"),
        ({"assertion": "x"}, "name the addresses", ExitCode.BAD_SETTINGS, "name the addresses"),
        ({"argument_errors": ["value of m must be"]}, "", ExitCode.BAD_SETTINGS, "value of m must be"),
    ],
    ids=("credentials", "capacity", "library", "ours", "assert", "argument"),
)
def test_what_ec2_says_comes_as_a_sentence(
    result: dict[str, Any], why: str, code: ExitCode, says: str
) -> None:
    """Each kind of refusal has its exit code, and words about what to do."""
    error = cloud._error(Host("cloud", State.FAILED, why, step="x", results={"x": result}), "go on")
    assert error.exit_code is code
    assert says in str(error)


def test_a_host_key_that_changed_is_told_in_words() -> None:
    """Of ssh's twelve lines an operator reads that it may be another machine, and where the key stands."""
    said = (
        "Failed to connect to the host via ssh: @@@@@@@\r\n"
        "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\r\n"
        "Offending ED25519 key in /a b/.known_hosts:3\r\n  remove with:\r\nHost key verification failed."
    )
    assert _unreachable_words({"msg": said}) == (
        "it has another host key than the one that is pinned (line 3 of /a b/.known_hosts): it may be "
        "another machine, and nothing was sent there"
    )
