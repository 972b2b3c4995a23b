"""DescribeInstances and DescribeInstanceStatus by our own writer: filters, pages, shapes."""

import pytest
from aws_simulator_process import code_of

WORKER = {"Key": "labfleet:worker-uid", "Value": "w-1"}


def tagged(*tags):
    """Return TagSpecifications of an instance."""
    return [{"ResourceType": "instance", "Tags": list(tags)}]


def found(ec2, *filters, **fields):
    """Return the ids that filters find."""
    wanted = [{"Name": name, "Values": list(values)} for name, *values in filters]
    reply = ec2.describe_instances(Filters=wanted, **fields)
    return [item["InstanceId"] for each in reply["Reservations"] for item in each["Instances"]]


def launched(launch, number):
    """Launch a number of instances, each with its own token."""
    return [launch(ClientToken=f"token-{index}")[0] for index in range(number)]


@pytest.fixture
def rich(fake, launch):
    """An instance with something in every field that can be filtered."""
    (instance_id,) = launch(
        InstanceType="m8i.12xlarge",
        TagSpecifications=tagged(WORKER, {"Key": "Name", "Value": "a<b>&c"}),
        CpuOptions={"NestedVirtualization": "enabled"},
        MetadataOptions={"HttpTokens": "required", "InstanceMetadataTags": "disabled"},
        BlockDeviceMappings=[
            {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50, "DeleteOnTermination": True}}
        ],
    )
    fake.advance(60)
    return instance_id


def test_our_writer_says_what_motos_says(fake, ec2, rich):
    """Every field that both writers have is equal, but for groups, which moto leaves empty."""
    ours = ec2.describe_instances()["Reservations"][0]
    fake.config(own_writer=False)
    theirs = ec2.describe_instances()["Reservations"][0]
    assert ours["ReservationId"] == theirs["ReservationId"]
    mine, other = ours["Instances"][0], theirs["Instances"][0]
    assert not set(other) - set(mine) - {"StateReason"}
    both = set(mine) & set(other) - {"SecurityGroups", "HibernationOptions"}
    assert len(both) > 25
    assert {key: mine[key] for key in both} == {key: other[key] for key in both}
    assert mine["SecurityGroups"] == mine["NetworkInterfaces"][0]["Groups"]


def test_our_status_says_what_motos_says(fake, ec2, rich):
    """The status of a running instance is the same from both writers, initialising and ok."""
    for _ in range(2):
        fake.config(own_writer=True)
        (ours,) = ec2.describe_instance_status()["InstanceStatuses"]
        fake.config(own_writer=False)
        (theirs,) = ec2.describe_instance_status()["InstanceStatuses"]
        ours.pop("AttachedEbsStatus")
        assert ours == theirs
        fake.advance(300)


def test_nested_virtualisation_is_stored_and_shown(ec2, state_of, rich):
    """CpuOptions holds cores, threads and the nesting that was asked for."""
    options = state_of(rich)["CpuOptions"]
    assert options == {"CoreCount": 24, "ThreadsPerCore": 2, "NestedVirtualization": "enabled"}


@pytest.mark.parametrize(
    "wanted",
    [
        ("client-token", "token-1"),
        ("client-token", "token-?"),
        ("instance-state-name", "running", "pending"),
        ("instance-state-code", "16"),
        ("instance-type", "m8i.*"),
        ("tag:labfleet:worker-uid", "w-*"),
        ("tag-key", "labfleet:worker-uid"),
        ("launch-time", "20*"),
        ("metadata-options.http-tokens", "required"),
        ("network-interface.addresses.private-ip-address", "172.31.*"),
        ("network-interface.subnet-id", "subnet-*"),
        ("availability-zone", "us-east-1a"),
        ("block-device-mapping.volume-id", "vol-*"),
        ("root-device-type", "ebs"),
        ("reservation-id", "r-*"),
        ("owner-id", "123456789012"),
        ("private-ip-address", "172.*"),
        ("ip-address", "*"),
        ("vpc-id", "vpc-*"),
        ("architecture", "x86_64"),
        ("monitoring-state", "disabled"),
        ("instance.group-name", "default"),
    ],
)
def test_filters_find(ec2, rich, wanted):
    """Each filter finds the instance by its value and nothing by another."""
    assert found(ec2, wanted) == [rich]
    assert found(ec2, (wanted[0], "another")) == []


@pytest.mark.parametrize("name", ["instance-lifecycle", "iam-instance-profile.arn", "platform"])
def test_filters_on_what_is_absent_find_nothing(ec2, rich, name):
    """A filter on something that an on-demand instance lacks finds nothing, without an error."""
    assert found(ec2, (name, "*")) == []


def test_filters_add_up(ec2, rich):
    """Filters are joined by and, values by or."""
    assert found(ec2, ("instance-type", "x", "m8i.12xlarge"), ("tag-key", "Name")) == [rich]
    assert found(ec2, ("instance-type", "m8i.12xlarge"), ("tag-key", "nothing")) == []


def test_a_backslash_takes_a_wildcard_away(ec2, launch):
    """An escaped star matches a star only."""
    (one,) = launch(TagSpecifications=tagged({"Key": "a", "Value": "x*"}))
    launch(TagSpecifications=tagged({"Key": "a", "Value": "xy"}), ClientToken="other")
    assert found(ec2, ("tag:a", "x\\*")) == [one]
    assert len(found(ec2, ("tag:a", "x*"))) == 2


def test_bad_filters_are_refused(ec2):
    """An unknown name, too many values and too long a value are each an error with a code."""
    assert code_of(ec2.describe_instances, Filters=[{"Name": "colour", "Values": ["x"]}]) == (
        400,
        "InvalidParameterValue",
    )
    many = [{"Name": "image-id", "Values": [f"ami-{index:08x}" for index in range(201)]}]
    assert code_of(ec2.describe_instances, Filters=many)[1] == "FilterLimitExceeded"
    long = [{"Name": "image-id", "Values": ["x" * 256]}]
    assert code_of(ec2.describe_instances, Filters=long)[1] == "InvalidParameterValue"


def test_pages_count_instances(ec2, launch):
    """Seven instances of two reservations come in pages of five and two, each once."""
    ids = launch(MinCount=4, MaxCount=4) + launch(MinCount=3, MaxCount=3, ClientToken="b")
    first = ec2.describe_instances(MaxResults=5)
    second = ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])
    sizes = [[len(each["Instances"]) for each in page["Reservations"]] for page in (first, second)]
    assert sizes == [[4, 1], [2]]
    assert "NextToken" not in second
    pages = ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5})
    assert list(pages.search("Reservations[].Instances[].InstanceId")) == ids


def test_a_page_after_a_change_is_neither_doubled_nor_torn(fake, ec2, launch):
    """What ends between two pages moves no other instance into another page."""
    ids = launched(launch, 7)
    first = ec2.describe_instances(MaxResults=5)
    fake.config(terminated_visible=0)
    fake.hand("fail", *ids[:2])
    second = ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])
    assert [each["Instances"][0]["InstanceId"] for each in second["Reservations"]] == ids[5:]


@pytest.mark.parametrize("size", [1, 4, 1001])
def test_page_sizes_are_bounded(ec2, size):
    """MaxResults is 5 to 1,000."""
    assert code_of(ec2.describe_instances, MaxResults=size)[1] == "InvalidParameterValue"


def test_a_page_size_and_ids_exclude_each_other(ec2, launch):
    """MaxResults together with InstanceIds is refused by both lists."""
    ids = launch()
    for call in (ec2.describe_instances, ec2.describe_instance_status):
        assert code_of(call, InstanceIds=ids, MaxResults=5)[1] == "InvalidParameterCombination"


def test_a_bad_page_token_is_refused(ec2):
    """A token that was never given is InvalidNextToken, not an HTML page."""
    assert code_of(ec2.describe_instances, NextToken="nonsense")[1] == "InvalidNextToken"


def test_ids_are_malformed_or_not_found(ec2, launch):
    """A malformed id and an unknown one have their own codes; one bad id fails the whole call."""
    (good,) = launch()
    assert (
        code_of(ec2.describe_instances, InstanceIds=["i-xyz"])[1] == "InvalidInstanceID.Malformed"
    )
    unknown = ["i-0123456789abcdef0", good]
    assert code_of(ec2.describe_instances, InstanceIds=unknown)[1] == "InvalidInstanceID.NotFound"
    assert code_of(ec2.stop_instances, InstanceIds=["nope"])[1] == "InvalidInstanceID.Malformed"
    assert code_of(ec2.delete_volume, VolumeId="vol-x")[1] == "InvalidParameterValue"


def test_status_takes_a_hundred_ids(ec2):
    """101 explicit ids are refused by DescribeInstanceStatus."""
    ids = [f"i-{index:017x}" for index in range(101)]
    assert code_of(ec2.describe_instance_status, InstanceIds=ids)[1] == "InvalidParameterValue"


def test_status_lists_running_ones_unless_asked(fake, ec2, launch):
    """A pending instance is listed only with IncludeAllInstances, as not-applicable."""
    (instance_id,) = launch()
    assert ec2.describe_instance_status()["InstanceStatuses"] == []
    (status,) = ec2.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"]
    assert (status["InstanceId"], status["SystemStatus"]["Status"]) == (
        instance_id,
        "not-applicable",
    )


def test_a_terminated_instance_has_no_network_and_no_volumes(fake, launch, state_of):
    """What EC2 takes away at termination is not described any more."""
    (instance_id,) = launch()
    fake.hand("fail", instance_id)
    item = state_of(instance_id)
    assert {"PrivateIpAddress", "PublicIpAddress", "VpcId", "SubnetId"} & set(item) == set()
    assert item["NetworkInterfaces"] == item["BlockDeviceMappings"] == []


def test_a_dry_run_changes_nothing(fake, ec2, launch):
    """DryRun answers DryRunOperation for lists and launches, and launches nothing."""
    assert code_of(ec2.describe_instances, DryRun=True) == (412, "DryRunOperation")
    assert code_of(launch, DryRun=True)[1] == "DryRunOperation"
    assert fake.summary()["instances_total"] == 0
