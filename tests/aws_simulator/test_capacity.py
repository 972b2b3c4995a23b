"""Stock, quotas, addresses of a subnet and buckets, and launches that are refused."""

import pytest
from aws_simulator_process import code_of

from aws_simulator.buckets import Buckets


def test_a_zone_runs_out_for_launch_and_start(fake, ec2, launch):
    """Stock is per type and zone; a stopped instance's place may be gone (HTTP 500)."""
    fake.config(stock={"m5zn.metal/us-east-1a": 1})
    (first,) = launch()
    assert code_of(launch, ClientToken="b") == (500, "InsufficientInstanceCapacity")
    assert launch(ClientToken="b", SubnetId=fake.subnets[1])
    fake.advance(500)
    ec2.stop_instances(InstanceIds=[first])
    fake.advance(301)
    launch(ClientToken="c")
    refusal = code_of(ec2.start_instances, InstanceIds=[first])
    assert refusal == (500, "InsufficientInstanceCapacity")


def test_two_starts_need_two_places(fake, ec2, launch):
    """A start of two instances is refused whole when one place is left."""
    ids = [launch(ClientToken=token)[0] for token in "ab"]
    fake.advance(500)
    ec2.stop_instances(InstanceIds=ids)
    fake.advance(301)
    fake.config(stock={"m5zn.metal": 1})
    refusal = code_of(ec2.start_instances, InstanceIds=ids)
    assert refusal == (500, "InsufficientInstanceCapacity")
    ec2.start_instances(InstanceIds=ids[:1])


def test_the_vcpu_quota_counts_pending_and_running(fake, ec2, launch):
    """One metal fits 48 vCPU; launch and start beyond are refused, and the quota can be read."""
    fake.config(vcpu_limit=48)
    (first,) = launch()
    assert code_of(launch, ClientToken="b") == (400, "VcpuLimitExceeded")
    fake.advance(500)
    ec2.stop_instances(InstanceIds=[first])
    fake.advance(301)
    launch(ClientToken="b")
    assert code_of(ec2.start_instances, InstanceIds=[first]) == (400, "VcpuLimitExceeded")
    quotas = fake.client("service-quotas")
    quota = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-1216C47A")["Quota"]
    assert quota["Value"] == 48.0
    assert len(quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]) == 2
    refusal = code_of(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-0")
    assert refusal[1] == "NoSuchResourceException"


def test_spot_has_a_limit_of_its_own(fake, launch):
    """Spot instances count against their own number and not against the vCPU."""
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    fake.config(spot_limit=1, vcpu_limit=48)
    launch(**spot)
    assert code_of(launch, ClientToken="b", **spot)[1] == "MaxSpotInstanceCountExceeded"
    assert launch(ClientToken="c")


def test_a_subnet_runs_out_of_addresses(fake, launch):
    """A subnet with one free address takes one instance."""
    fake.config(free_addresses={fake.subnets[0]: 1})
    launch()
    assert code_of(launch, ClientToken="b") == (400, "InsufficientFreeAddressesInSubnet")


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("reservation", (400, "ReservationCapacityExceeded")),
        ("spot_quota", (400, "MaxSpotInstanceCountExceeded")),
        ("pending_verification", (400, "PendingVerification")),
        ("throttled", (503, "EC2ThrottledException")),
        ("service_unavailable", (503, "ServiceUnavailable")),
        ("opt_in", (401, "AuthFailure")),
        ("expired_token", (400, "ExpiredToken")),
    ],
)
def test_more_errors_answer_as_ec2_does(fake, launch, fault, answer):
    """Each preset is parsed by boto as the code and status that AWS sends."""
    fake.rule(fault, action="RunInstances", times=1)
    assert code_of(launch) == answer


def test_both_buckets_must_have_tokens():
    """1,000 instances of the resource bucket go at once; the next one waits for its refill."""
    buckets = Buckets()

    def take(now, instances):
        return buckets.take(
            "a", "r", "TerminateInstances", narrowed=False, now=now, instances=instances
        )

    assert take(0.0, 1000)
    assert not take(0.0, 1)
    assert not take(0.04, 1)
    assert take(0.05, 1)


def test_a_refused_request_takes_nothing():
    """A throttled caller that goes on asking is let in as soon as one token is there."""
    buckets = Buckets()

    def take(now):
        return buckets.take("a", "r", "RunInstances", narrowed=False, now=now, instances=1)

    assert [take(0.0) for _ in range(8)] == [True] * 5 + [False] * 3
    assert take(0.5)


def test_buckets_are_of_one_account_region_and_action(fake, ec2):
    """A limit set for one action throttles it in one region only, and I7 knows the budget."""
    fake.config(bucket_limits={"DescribeVolumes": [1, 0.1]})
    ec2.describe_volumes()
    assert code_of(ec2.describe_volumes) == (503, "RequestLimitExceeded")
    fake.client(region="us-west-2").describe_volumes()
    fake.advance(10)
    ec2.describe_volumes()
    assert fake.summary()["throttled"] == {"DescribeVolumes": 1}
    assert fake.invariants() == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "ami-nothing"}, "InvalidAMIID.Malformed"),
        ({"InstanceType": "m5zn.huge"}, "InvalidParameterValue"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"SecurityGroupIds": ["sg-x"]}, "InvalidGroupId.Malformed"),
        ({"UserData": "x" * 16385}, "InvalidParameterValue"),
        ({"KeyName": "nobody"}, "InvalidKeyPair.NotFound"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"CpuOptions": {"NestedVirtualization": "enabled"}}, "UnsupportedOperation"),
        ({"MinCount": 2}, "InvalidParameterValue"),
    ],
)
def test_bad_launches_are_refused_and_leave_nothing(fake, launch, changes, code):
    """What EC2 would not launch is refused with its code."""
    assert code_of(launch, **changes) == (400, code)
    assert fake.summary()["instances_total"] == 0


@pytest.mark.parametrize(
    ("ebs", "code"),
    [
        ({"VolumeType": "io2"}, "MissingParameter"),
        ({"VolumeType": "io1", "Iops": 50}, "InvalidParameterValue"),
        ({"VolumeType": "io1", "Iops": 5000}, "InvalidParameterValue"),
        ({"VolumeType": "gp3", "Iops": 90_000}, "InvalidParameterValue"),
        ({"VolumeType": "io1", "Iops": 100, "VolumeSize": 20_000}, "InvalidParameterValue"),
    ],
)
def test_bad_volumes_are_refused(launch, ebs, code):
    """Sizes, IOPS and their ratio keep to the volume type's bounds."""
    mapping = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50, **ebs}}]
    assert code_of(launch, BlockDeviceMappings=mapping) == (400, code)


def test_nesting_is_switched_on_a_stopped_instance_only(fake, ec2, launch, state_of):
    """ModifyInstanceCpuOptions needs a stop and a type with the feature."""
    (instance_id,) = launch(InstanceType="m8i.12xlarge")
    fake.advance(60)
    wanted = {"InstanceId": instance_id, "NestedVirtualization": "enabled"}
    assert code_of(ec2.modify_instance_cpu_options, **wanted)[1] == "IncorrectInstanceState"
    ec2.stop_instances(InstanceIds=[instance_id])
    fake.advance(61)
    ec2.modify_instance_cpu_options(**wanted)
    assert state_of(instance_id)["CpuOptions"]["NestedVirtualization"] == "enabled"


@pytest.mark.parametrize(
    "tags",
    [
        [{"Key": "aws:mine", "Value": "x"}],
        [{"Key": "k" * 129, "Value": "x"}],
        [{"Key": "k", "Value": "x" * 257}],
    ],
)
def test_bad_tags_are_refused(ec2, launch, tags):
    """The reserved prefix and over-long keys and values are refused at launch and later."""
    spec = [{"ResourceType": "instance", "Tags": tags}]
    assert code_of(launch, TagSpecifications=spec)[1] == "InvalidParameterValue"
    (instance_id,) = launch()
    assert code_of(ec2.create_tags, Resources=[instance_id], Tags=tags)[0] == 400


def test_tags_of_what_does_not_exist_are_refused(ec2, launch):
    """Unknown instances and volumes cannot be tagged; the fifty-first tag neither."""
    tags = [{"Key": "k", "Value": "v"}]
    for resource, code in (
        ("i-0123456789abcdef0", "InvalidInstanceID.NotFound"),
        ("vol-0123456789abcdef0", "InvalidVolume.NotFound"),
    ):
        assert code_of(ec2.create_tags, Resources=[resource], Tags=tags)[1] == code
    (instance_id,) = launch()
    many = [{"Key": f"k{index}", "Value": "v"} for index in range(50)]
    ec2.create_tags(Resources=[instance_id], Tags=many)
    refusal = code_of(ec2.create_tags, Resources=[instance_id], Tags=tags)
    assert refusal == (400, "TagLimitExceeded")
