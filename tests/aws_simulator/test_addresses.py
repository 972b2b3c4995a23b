"""Elastic addresses and volumes: what stays over a stop, what a termination leaves behind."""

import pytest
from aws_simulator_process import code_of

from aws_simulator.addresses import unused

OWNER = {"Key": "labfleet:owner", "Value": "me"}


def with_volume(delete):
    """Return a mapping of one root volume."""
    return [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50, "DeleteOnTermination": delete}}]


@pytest.fixture
def elastic(fake, ec2, launch):
    """A running instance with an elastic address, and the address."""
    (instance_id,) = launch(TagSpecifications=[{"ResourceType": "instance", "Tags": [OWNER]}])
    fake.advance(500)
    tags = [{"ResourceType": "elastic-ip", "Tags": [OWNER]}]
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tags)
    ec2.associate_address(AllocationId=address["AllocationId"], InstanceId=instance_id)
    return instance_id, address


def test_an_elastic_address_stays_over_stop_and_start(fake, ec2, elastic, state_of):
    """Running, stopped and running again, the instance has the same public address."""
    instance_id, address = elastic
    for verb in (None, ec2.stop_instances, ec2.start_instances):
        if verb is not None:
            verb(InstanceIds=[instance_id])
            fake.advance(500)
        assert state_of(instance_id)["PublicIpAddress"] == address["PublicIp"]


def test_an_address_in_use_is_not_released(ec2, elastic):
    """Releasing an associated address is refused, as on EC2."""
    _, address = elastic
    refusal = code_of(ec2.release_address, AllocationId=address["AllocationId"])
    assert refusal == (400, "InvalidIPAddress.InUse")


def test_an_address_outlives_its_instance_until_it_is_swept(fake, ec2, elastic):
    """After a termination the address is found by owner tag, breaks I6, and can be released."""
    instance_id, address = elastic
    ec2.terminate_instances(InstanceIds=[instance_id])
    fake.advance(500)
    broken = fake.invariants(owner="me")
    assert [each["invariant"] for each in broken] == ["I6"]
    wanted = [{"Name": f"tag:{OWNER['Key']}", "Values": ["me"]}]
    (found,) = ec2.describe_addresses(Filters=wanted)["Addresses"]
    assert found["AllocationId"] == address["AllocationId"]
    assert "AssociationId" not in found
    ec2.release_address(AllocationId=found["AllocationId"])
    assert fake.invariants(owner="me") == []


def test_a_volume_without_delete_on_termination_stays(fake, ec2, launch):
    """It is left available, found by owner tag, breaks I6, and can be deleted."""
    spec = [{"ResourceType": kind, "Tags": [OWNER]} for kind in ("instance", "volume")]
    launch(BlockDeviceMappings=with_volume(delete=False), TagSpecifications=spec)
    launch(BlockDeviceMappings=with_volume(delete=True), ClientToken="b", TagSpecifications=spec)
    fake.advance(500)
    wanted = [{"Name": "tag:labfleet:owner", "Values": ["me"]}]
    volumes = ec2.describe_volumes(Filters=wanted)["Volumes"]
    assert len(volumes) == 2
    assert code_of(ec2.delete_volume, VolumeId=volumes[0]["VolumeId"])[1] == "VolumeInUse"
    for item in fake.state()["instances"]:
        ec2.terminate_instances(InstanceIds=[item["id"]])
    fake.advance(500)
    (left,) = ec2.describe_volumes(Filters=wanted)["Volumes"]
    assert (left["State"], left["Attachments"]) == ("available", [])
    assert fake.invariants(owner="me")[0]["invariant"] == "I6"
    assert fake.invariants(owner="me", kept=[left["VolumeId"]]) == []
    ec2.delete_volume(VolumeId=left["VolumeId"])
    assert fake.invariants(owner="me") == []


def test_private_addresses_come_back_in_order(fake, launch, state_of):
    """A terminated instance's private address is given to a later one."""
    (first,) = launch()
    address = state_of(first)["PrivateIpAddress"]
    fake.hand("fail", first)
    (second,) = launch(ClientToken="b")
    assert state_of(second)["PrivateIpAddress"] == address


def test_no_two_machines_have_one_public_address():
    """Addresses that are taken are not drawn again; with none left it says so."""
    drawn = iter(["54.214.0.1", "54.214.0.1", "54.214.0.2"])
    assert unused(lambda: next(drawn), {"54.214.0.1"}) == "54.214.0.2"
    with pytest.raises(RuntimeError, match="no public address"):
        unused(lambda: "54.214.0.1", {"54.214.0.1"})
