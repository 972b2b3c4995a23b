"""The slow life of an instance as boto3 sees it."""

import pytest
from botocore.exceptions import ClientError


def code_of(call, **fields):
    """Return the error code that a call is refused with."""
    with pytest.raises(ClientError) as caught:
        call(**fields)
    return caught.value.response["Error"]["Code"]


def test_states_take_their_time(fake, ec2, launch, state_of):
    """A metal instance goes through all six states on the preset's timers."""
    (instance_id,) = launch()
    assert state_of(instance_id)["State"]["Name"] == "pending"
    fake.advance(481)
    assert state_of(instance_id)["State"]["Name"] == "running"
    ec2.stop_instances(InstanceIds=[instance_id])
    assert state_of(instance_id)["State"]["Name"] == "stopping"
    fake.advance(301)
    assert state_of(instance_id)["State"]["Name"] == "stopped"
    ec2.terminate_instances(InstanceIds=[instance_id])
    assert state_of(instance_id)["State"]["Name"] == "shutting-down"
    fake.advance(301)
    assert state_of(instance_id)["State"]["Name"] == "terminated"


def test_illegal_verbs_are_refused(fake, ec2, launch):
    """Stop while pending, start while stopping, start and stop of a dead one are refused."""
    (instance_id,) = launch()
    ids = {"InstanceIds": [instance_id]}
    assert code_of(ec2.stop_instances, **ids) == "IncorrectInstanceState"
    fake.advance(500)
    ec2.stop_instances(**ids)
    assert code_of(ec2.start_instances, **ids) == "IncorrectInstanceState"
    ec2.terminate_instances(**ids)
    fake.advance(500)
    assert code_of(ec2.start_instances, **ids) == "IncorrectInstanceState"
    assert code_of(ec2.stop_instances, **ids) == "IncorrectInstanceState"
    assert code_of(ec2.reboot_instances, **ids) == "IncorrectInstanceState"


def test_a_start_renews_launch_time_and_public_address(fake, ec2, launch, state_of):
    """After stop and start the public address and the launch time are new ones."""
    (instance_id,) = launch()
    fake.advance(500)
    before = state_of(instance_id)
    ec2.stop_instances(InstanceIds=[instance_id])
    fake.advance(301)
    assert "PublicIpAddress" not in state_of(instance_id)
    ec2.start_instances(InstanceIds=[instance_id])
    fake.advance(500)
    after = state_of(instance_id)
    assert after["PublicIpAddress"] != before["PublicIpAddress"]
    assert after["PrivateIpAddress"] == before["PrivateIpAddress"]
    assert after["LaunchTime"] > before["LaunchTime"]


def test_status_checks_begin_as_initializing(fake, ec2, launch):
    """A running instance is initializing first, then ok; an impaired one says so."""
    (instance_id,) = launch()

    def status():
        reply = ec2.describe_instance_status(InstanceIds=[instance_id])["InstanceStatuses"]
        return reply[0]["InstanceStatus"]["Status"] if reply else None

    assert status() is None
    fake.advance(481)
    assert status() == "initializing"
    fake.advance(241)
    assert status() == "ok"
    fake.ask("POST", "hand", {"verb": "impair", "ids": [instance_id]})
    assert status() == "impaired"


def test_terminated_instances_vanish_after_an_hour(fake, ec2, launch):
    """A terminated instance is shown for an hour and is NotFound afterwards."""
    (instance_id,) = launch()
    ec2.terminate_instances(InstanceIds=[instance_id])
    fake.advance(301)
    ec2.describe_instances(InstanceIds=[instance_id])
    fake.advance(3601)
    code = code_of(ec2.describe_instances, InstanceIds=[instance_id])
    assert code == "InvalidInstanceID.NotFound"


def test_one_bad_id_fails_the_whole_call(ec2, launch, state_of):
    """Terminate with one unknown id terminates nothing."""
    (instance_id,) = launch()
    ids = [instance_id, "i-0123456789abcdef0"]
    assert code_of(ec2.terminate_instances, InstanceIds=ids) == "InvalidInstanceID.NotFound"
    assert state_of(instance_id)["State"]["Name"] == "pending"


def test_the_type_changes_only_when_stopped(fake, ec2, launch):
    """A running instance refuses another type."""
    (instance_id,) = launch()
    fake.advance(500)
    change = {"InstanceId": instance_id, "InstanceType": {"Value": "m5.metal"}}
    assert code_of(ec2.modify_instance_attribute, **change) == "IncorrectInstanceState"


def test_a_new_instance_is_invisible_for_the_lag(fake, ec2, launch):
    """Within the lag an instance is NotFound by id, absent from lists, and fine afterwards."""
    fake.ask("POST", "config", {"lags": {"instance": 5}})
    (instance_id,) = launch()
    assert code_of(ec2.describe_instances, InstanceIds=[instance_id]).endswith("NotFound")
    assert code_of(ec2.terminate_instances, InstanceIds=[instance_id]).endswith("NotFound")
    assert ec2.describe_instances()["Reservations"] == []
    fake.advance(6)
    assert len(ec2.describe_instances()["Reservations"]) == 1


def test_lags_by_kind(fake, ec2, launch, state_of):
    """Tags, addresses and states lag each on their own."""
    fake.ask("POST", "config", {"lags": {"tags": 5, "addresses": 10, "state": 20}})
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "k", "Value": "v"}]}]
    (instance_id,) = launch(TagSpecifications=tags)
    seen = state_of(instance_id)
    assert "Tags" not in seen
    assert "PublicIpAddress" not in seen
    fake.advance(11)
    seen = state_of(instance_id)
    assert seen["Tags"]
    assert seen["PublicIpAddress"]
    fake.advance(500)
    ec2.stop_instances(InstanceIds=[instance_id])
    assert state_of(instance_id)["State"]["Name"] == "running"
    fake.advance(21)
    assert state_of(instance_id)["State"]["Name"] == "stopping"
