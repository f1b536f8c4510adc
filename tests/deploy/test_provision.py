"""A fleet is rented and given back at a stand-in of EC2, with one real sshd that answers for its machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.errors import ExitCode
from tests.deploy.ec2 import IMAGE, OPERATOR, Cloud, need_cloud
from tests.fleet.ready import need_boxes

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1_200)]

TAG = "milliarde-fleet"
QUOTA = "You have requested more vCPU capacity than your current vCPU limit of 16 allows."


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    need_cloud()
    with Cloud(tmp_path) as cloud:
        yield cloud


def untagged(cloud: Cloud) -> list[str]:
    """Requests that made something without saying whose it is, in that same request."""
    making = ("RunInstances", "CreateSecurityGroup", "CreateLaunchTemplate", "ImportKeyPair")
    asked: list[dict[str, str]] = [each for action in making for each in cloud.requests(action)]
    assert {each["Action"] for each in asked} == set(making)
    return [each["Action"] for each in asked if "test" not in each.values() or TAG not in each.values()]


def test_a_fleet_is_rented_and_given_back(cloud: Cloud) -> None:
    """From nothing through a quota, silence, a loss and growth to nothing; each machine keeps its place."""
    need_boxes()
    # a quota for one: what is there is tagged, noted, and has its place
    cloud.wish(milliarde_rent_market="spot", milliarde_rent_price_usd=0.6)
    cloud.refuse("RunInstances", "VcpuLimitExceeded", QUOTA, after=1)
    done = cloud.fleet("provision", code=ExitCode.CLOUD_REFUSED)
    (last,) = done.stderr.splitlines()[-1:]
    assert last.startswith("milliarde-fleet provision: EC2 refuses RunInstances: VcpuLimitExceeded: You have")
    assert last.endswith(
        "1 of 2 machines are there and tagged: the same command goes on, 'destroy' gives them back"
    )
    first = cloud.machines()
    assert list(first) == ["0"]
    assert untagged(cloud) == []
    assert cloud.rented()["node02"]["ansible_host"] == "node02.missing.invalid"
    check_access(cloud)

    # the rest, and nobody answers there
    cloud.relent()
    done = cloud.fleet("provision", code=ExitCode.HOST_UNREACHABLE)
    assert "has not answered ssh for 5 s. If you don't come from 203.0.113.7" in done.stdout
    both = cloud.machines()
    assert both["0"]["InstanceId"] == first["0"]["InstanceId"]
    assert list(both) == ["0", "1"]
    assert not (cloud.inventory / ".known_hosts").exists()

    # they answer; the first is lost, and one more is wanted
    cloud.answer()
    cloud.ask("terminate_instances", InstanceIds=[both["0"]["InstanceId"]])
    cloud.wish(milliarde_rent_nodes=3, milliarde_rent_price_usd=0.6)
    done = cloud.fleet("provision")
    assert "$1.800 an hour (3 machines, 1 lost before" in done.stdout
    three = cloud.machines()
    assert sorted(three) == ["0", "1", "2"]
    assert three["0"]["InstanceId"] != both["0"]["InstanceId"]
    assert three["1"]["InstanceId"] == both["1"]["InstanceId"]
    hosts = cloud.rented()
    assert list(hosts) == ["node01", "node02", "node03"], "the order of the shards"
    for index, host in enumerate(hosts.values()):
        assert host["ansible_host"] == three[str(index)]["PublicIpAddress"]
        assert host["milliarde_rented"]["instance"] == three[str(index)]["InstanceId"]
    pinned = (cloud.inventory / ".known_hosts").read_text().splitlines()
    assert {line.split()[0] for line in pinned} == {each["InstanceId"] for each in three.values()}

    # again: nothing to do
    cloud.fleet("provision")
    assert cloud.changes() == 0

    # what was not collected, and who is not who he was, keep a fleet from being destroyed
    cloud.answer(files=True)
    done = cloud.fleet("destroy", code=ExitCode.REFUSED)
    assert "--yes" in done.stderr
    done = cloud.fleet("destroy", "--yes", code=ExitCode.REFUSED)
    assert "node01 failed: 1 files were not collected (warc/crawl-f01-000001.warc.gz, ...)" in done.stderr
    cloud.answer(new_host_key=True)
    done = cloud.fleet("destroy", "--yes", code=ExitCode.REFUSED)
    assert "node02 unreachable: it has another host key than the one that is pinned (line" in done.stderr
    assert sorted(cloud.machines()) == ["0", "1", "2"]

    done = cloud.fleet("destroy", "--yes", "--without-collect")
    assert "nothing that carries the fleet's tag is left\ncost: $" in done.stdout
    assert left(cloud) == []
    assert not (cloud.inventory / "rented.yml").exists()


def check_access(cloud: Cloud) -> None:
    """The operator's ssh comes in and nothing else; the template tags what the request does not."""
    (group,) = (
        each
        for each in cloud.ask("describe_security_groups")["SecurityGroups"]
        if each["GroupName"] != "default"
    )
    (rule,) = group["IpPermissions"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 22, 22)
    assert [each["CidrIp"] for each in rule["IpRanges"]] == [f"{OPERATOR}/32"]
    assert [each["CidrIpv6"] for each in rule["Ipv6Ranges"]] == ["2001:db8::/48"]
    assert rule["UserIdGroupPairs"] == []
    (template,) = cloud.requests("CreateLaunchTemplate")
    assert template["LaunchTemplateData.InstanceMarketOptions.MarketType"] == "spot"
    assert template["LaunchTemplateData.MetadataOptions.HttpTokens"] == "required"
    kinds = {value for name, value in template.items() if name.endswith("ResourceType") and "Data." in name}
    assert kinds == {"instance", "volume", "network-interface", "spot-instances-request"}
    launch = cloud.requests("RunInstances")[0]
    assert launch["LaunchTemplate.LaunchTemplateName"] == "milliarde-test"
    assert (launch["InstanceType"], launch["ImageId"]) == ("i7i.4xlarge", IMAGE)
    assert launch["NetworkInterface.1.SecurityGroupId.1"] == group["GroupId"]


def left(cloud: Cloud) -> list[Any]:
    """What is still there. (The stand-in remembers tags of what is gone, so they say nothing.)"""
    groups = cloud.ask("describe_security_groups")["SecurityGroups"]
    return [
        *cloud.machines(),
        *(each for each in groups if each["GroupName"] != "default"),
        *cloud.ask("describe_key_pairs")["KeyPairs"],
        *cloud.ask("describe_launch_templates")["LaunchTemplates"],
        *cloud.ask("describe_volumes")["Volumes"],
        *cloud.ask("describe_network_interfaces")["NetworkInterfaces"],
    ]


def test_what_can_not_be_rented_is_one_sentence(cloud: Cloud) -> None:
    """No credentials, no price, no folder: told with its own exit code, and nothing was made."""
    done = cloud.fleet(
        "provision", code=ExitCode.CLOUD_REFUSED, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""
    )
    assert done.stderr.splitlines()[-1].startswith(
        "milliarde-fleet provision: there are no credentials for EC2: 'aws configure' writes them"
    )
    cloud.wish(milliarde_rent_instance="m5.large")
    done = cloud.fleet("provision", code=ExitCode.BAD_INPUT)
    assert "the price list has no m5.large, so nobody could say what it costs" in done.stderr.splitlines()[-1]
    done = cloud.fleet("status", code=ExitCode.BAD_SETTINGS)
    assert "'milliarde-fleet provision' rents them" in done.stderr
    done = cloud.fleet("provision", "--limit", "node01", code=ExitCode.BAD_INPUT)
    assert "as one fleet" in done.stderr
    assert left(cloud) == []
