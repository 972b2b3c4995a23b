"""What is seen late, by kind, and views of a part only.

The numbered cases are rows of facts/aws-bugs.md.
"""

import pytest
from aws_simulator_process import code_of

TAG = [{"Key": "a", "Value": "1"}]


def ids_of(reply):
    """Return the instance ids of a reply."""
    return [item["InstanceId"] for each in reply["Reservations"] for item in each["Instances"]]


def test_a_new_instance_is_not_visible_yet(fake, ec2, launch):
    """By id NotFound, by filter empty, terminate NotFound; later all is well."""
    fake.config(lags={"instance": 10})
    (instance_id,) = launch()
    ids = {"InstanceIds": [instance_id]}
    token = [{"Name": "client-token", "Values": ["token-1"]}]
    assert code_of(ec2.describe_instances, **ids)[1] == "InvalidInstanceID.NotFound"
    assert code_of(ec2.terminate_instances, **ids)[1] == "InvalidInstanceID.NotFound"
    assert ids_of(ec2.describe_instances(Filters=token)) == []
    fake.advance(10)
    assert ids_of(ec2.describe_instances(Filters=token)) == [instance_id]
    ec2.terminate_instances(**ids)


def test_an_instance_may_end_before_it_is_visible(fake, ec2, launch):
    """Time goes on for what nobody sees yet, whoever asks meanwhile."""
    fake.config(lags={"instance": 6000})
    (instance_id,) = launch()
    fake.hand("terminate", instance_id)
    fake.advance(5000)
    assert ids_of(ec2.describe_instances()) == []
    fake.advance(1001)
    assert ec2.describe_volumes()["Volumes"] == []


def test_one_action_may_lag_longer_than_another(fake, ec2, launch, state_of):
    """CreateTags still says NotFound when Describe already finds the instance (case 9)."""
    fake.config(lags={"actions": {"CreateTags": 60}})
    (instance_id,) = launch()
    assert state_of(instance_id)["InstanceId"] == instance_id
    tag = {"Resources": [instance_id], "Tags": TAG}
    assert code_of(ec2.create_tags, **tag)[1] == "InvalidInstanceID.NotFound"
    fake.advance(60)
    ec2.create_tags(**tag)


def test_new_tags_show_late(fake, ec2, launch, state_of):
    """Tags of a launch and of CreateTags are seen, by field and filter, only after the lag."""
    fake.config(lags={"tags": 5})
    spec = [{"ResourceType": "instance", "Tags": TAG}]
    (instance_id,) = launch(TagSpecifications=spec)
    by_tag = [{"Name": "tag:a", "Values": ["1"]}]
    assert ids_of(ec2.describe_instances(Filters=by_tag)) == []
    fake.advance(5)
    assert ids_of(ec2.describe_instances(Filters=by_tag)) == [instance_id]
    ec2.create_tags(Resources=[instance_id], Tags=[{"Key": "a", "Value": "2"}])
    assert state_of(instance_id)["Tags"] == TAG
    of_it = [{"Name": "resource-id", "Values": [instance_id]}]
    assert ec2.describe_tags(Filters=of_it)["Tags"] == []
    fake.advance(5)
    assert ec2.describe_tags(Filters=of_it)["Tags"][0]["Value"] == "2"
    assert state_of(instance_id)["Tags"] == [{"Key": "a", "Value": "2"}]


def test_addresses_and_fields_come_late(fake, launch, state_of):
    """Addresses are missing for one lag, and any other field for its own (case 10)."""
    fake.config(lags={"addresses": 60, "fields": {"LaunchTime": 30, "SecurityGroups": 30}})
    (instance_id,) = launch()
    item = state_of(instance_id)
    gone = {"PrivateIpAddress", "PublicIpAddress", "LaunchTime"}
    assert not gone & set(item)
    fake.advance(30)
    assert "LaunchTime" in state_of(instance_id)
    fake.advance(30)
    assert gone <= set(state_of(instance_id))


def test_a_describe_shows_the_old_state(fake, ec2, launch, state_of):
    """After a stop the old state is shown for a while (case 13)."""
    (instance_id,) = launch()
    fake.advance(500)
    fake.config(lags={"state": 20})
    ec2.stop_instances(InstanceIds=[instance_id])
    assert state_of(instance_id)["State"]["Name"] == "running"
    fake.advance(21)
    assert state_of(instance_id)["State"]["Name"] == "stopping"


def test_pages_may_miss_instances_and_mix_their_order(fake, ec2, launch):
    """A share of instances is left out of a page, other ones each time; the order may change."""
    ids = launch(MinCount=40, MaxCount=40, InstanceType="m5.large")
    fake.config(lags={"flap": 0.5})
    first, second = (set(ids_of(ec2.describe_instances())) for _ in range(2))
    assert first < set(ids)
    assert first != second
    fake.config(lags={"flap": 0.0}, shuffled=True)
    mixed = ids_of(ec2.describe_instances())
    assert sorted(mixed) == sorted(ids)
    assert mixed != ids


def test_an_empty_page_may_have_a_successor(fake, ec2, launch):
    """A page without instances carries a token that leads on to them."""
    ids = launch()
    fake.rule("empty_page", action="DescribeInstances", times=1)
    first = ec2.describe_instances(MaxResults=5)
    assert first["Reservations"] == []
    assert ids_of(ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])) == ids


def test_one_region_fails_and_the_others_go_on(fake, ec2):
    """A rule on a region leaves the other regions alone; a disabled region refuses everything."""
    west = fake.client(region="us-west-2")
    fake.rule("unavailable", region="us-west-2")
    assert code_of(west.describe_instances) == (503, "Unavailable")
    assert ids_of(ec2.describe_instances()) == []
    fake.ask("DELETE", "rules")
    assert ids_of(west.describe_instances()) == []
    fake.config(regions_disabled=["us-west-2"])
    assert code_of(west.describe_instances) == (401, "AuthFailure")


def test_a_zone_that_is_down_fails_what_names_it(fake, ec2, launch):
    """A call that names an id of the zone fails as a whole; an unnamed list goes on."""
    (there,) = launch(SubnetId=fake.subnets[1])
    (here,) = launch(ClientToken="here")
    fake.config(zones_down=["us-east-1b"])
    both = {"InstanceIds": [here, there]}
    assert code_of(ec2.describe_instances, **both) == (503, "Unavailable")
    assert code_of(ec2.terminate_instances, **both) == (503, "Unavailable")
    assert ids_of(ec2.describe_instances(InstanceIds=[here])) == [here]
    assert len(ids_of(ec2.describe_instances())) == 2
    refusal = code_of(launch, SubnetId=fake.subnets[1], ClientToken="new")
    assert refusal == (503, "Unavailable")


@pytest.mark.parametrize("field", ["flaps", "anything"])
def test_unknown_lags_are_refused(fake, field):
    """A misspelt lag is an error."""
    assert fake.refusal("POST", "config", {"lags": {field: 1}})[0] == 400
