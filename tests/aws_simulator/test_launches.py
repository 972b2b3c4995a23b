"""RunInstances: tokens, volumes, roll-back, quota, stock, profiles."""

from concurrent.futures import ThreadPoolExecutor

from aws_simulator_process import code_of

OTHER_TOKEN = {"ClientToken": "token-2"}


def volume(kind="io1", size=250, **fields):
    """Return one EBS mapping."""
    ebs = {"VolumeType": kind, "VolumeSize": size, "DeleteOnTermination": True, **fields}
    return [{"DeviceName": "/dev/sda1", "Ebs": ebs}]


def test_the_same_token_is_the_same_instance(fake, launch):
    """Fifty concurrent launches with one token make one instance."""
    with ThreadPoolExecutor(16) as pool:
        ids = {found for (found,) in pool.map(lambda _: launch(), range(50))}
    assert len(ids) == 1
    assert fake.ask("GET", "summary")["instances_total"] == 1


def test_a_token_with_other_parameters_is_a_mismatch(launch):
    """A token may not be reused for another request."""
    launch()
    assert code_of(launch, InstanceType="m5.metal") == (400, "IdempotentParameterMismatch")


def test_the_token_of_a_dead_instance_is_used_up(fake, ec2, launch):
    """A terminated instance's token never launches again."""
    ec2.terminate_instances(InstanceIds=launch())
    assert code_of(launch) == (400, "IdempotentInstanceTerminated")


def test_tokens_are_zonal(fake, launch):
    """The same token in another zone launches another instance, as on EC2."""
    first = launch()
    second = launch(SubnetId=fake.ready["subnets"][1]["id"])
    assert first != second


def test_io1_and_gp3_keep_their_iops(ec2, launch):
    """The volumes have the IOPS that were asked for."""
    launch(BlockDeviceMappings=volume(Iops=10000))
    launch(BlockDeviceMappings=volume("gp3", Iops=9000), **OTHER_TOKEN)
    volumes = ec2.describe_volumes()["Volumes"]
    assert sorted(item["Iops"] for item in volumes) == [9000, 10000]


def test_a_failed_launch_leaves_nothing_behind(fake, launch):
    """io1 without IOPS and 51 tags are refused, and no instance or volume stays."""
    assert code_of(launch, BlockDeviceMappings=volume())[1] == "MissingParameter"
    tags = [{"Key": f"k{number}", "Value": "v"} for number in range(51)]
    specs = [{"ResourceType": "instance", "Tags": tags}]
    assert code_of(launch, TagSpecifications=specs)[1] == "TagLimitExceeded"
    summary = fake.ask("GET", "summary")
    assert (summary["instances_total"], summary["volumes_left"]) == (0, 0)


def test_volumes_and_interfaces_go_with_the_instance(fake, ec2, launch):
    """After a termination no volume and no network interface is left."""
    ids = launch(BlockDeviceMappings=volume(Iops=1000))
    ec2.terminate_instances(InstanceIds=ids)
    fake.advance(301)
    assert ec2.describe_volumes()["Volumes"] == []
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    assert fake.ask("GET", "invariants") == []


def test_tags_reach_instance_volume_and_interface(ec2, launch):
    """Tags given at launch are on all three kinds."""
    kinds = ("instance", "volume", "network-interface")
    tags = [{"Key": "labfleet:owner", "Value": "me"}]
    launch(TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in kinds])
    filters = [{"Name": "tag:labfleet:owner", "Values": ["me"]}]
    assert len(ec2.describe_instances(Filters=filters)["Reservations"]) == 1
    assert len(ec2.describe_volumes(Filters=filters)["Volumes"]) == 1
    found = ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
    assert len(found) == 1


def test_filters_by_token_work_and_unknown_ones_are_refused_in_xml(ec2, launch):
    """The client-token filter finds the launch; an unknown filter is InvalidParameterValue."""
    launch()
    by_token = [{"Name": "client-token", "Values": ["token-1"]}]
    assert len(ec2.describe_instances(Filters=by_token)["Reservations"]) == 1
    unknown = [{"Name": "no-such-thing", "Values": ["x"]}]
    assert code_of(ec2.describe_instances, Filters=unknown) == (400, "InvalidParameterValue")


def test_bad_pages_and_tags_are_refused(ec2, launch):
    """Page sizes, page tokens and tag keys are checked as on EC2."""
    launch()
    assert code_of(ec2.describe_instances, MaxResults=2)[1] == "InvalidParameterValue"
    assert code_of(ec2.describe_instances, NextToken="x")[1] == "InvalidNextToken"
    spec = [{"ResourceType": "instance", "Tags": [{"Key": "a/b", "Value": "v"}]}]
    options = {"InstanceMetadataTags": "enabled"}
    bad = code_of(launch, TagSpecifications=spec, MetadataOptions=options, **OTHER_TOKEN)
    assert bad[1] == "InvalidParameterValue"


def test_quota_counts_live_vcpu_for_run_and_start(fake, ec2, launch):
    """A second metal instance passes the quota, also when it is only started."""
    fake.ask("POST", "config", {"vcpu_limit": 48})
    first = launch()
    assert code_of(launch, **OTHER_TOKEN) == (400, "VcpuLimitExceeded")
    fake.advance(500)
    ec2.stop_instances(InstanceIds=first)
    fake.advance(301)
    launch(**OTHER_TOKEN)
    assert code_of(ec2.start_instances, InstanceIds=first) == (400, "VcpuLimitExceeded")


def test_stock_is_counted_per_zone_and_answers_500(fake, launch):
    """An exhausted zone answers InsufficientInstanceCapacity with status 500."""
    fake.ask("POST", "config", {"stock": {"m5zn.metal/us-east-1a": 0}})
    assert code_of(launch) == (500, "InsufficientInstanceCapacity")
    assert launch(SubnetId=fake.ready["subnets"][1]["id"])


def test_max_count_launches_as_many_as_fit(fake, launch):
    """Between MinCount and MaxCount the stock decides."""
    assert len(launch(MaxCount=3)) == 3
    fake.ask("POST", "config", {"stock": {"m5zn.metal/us-east-1a": 4}})
    assert len(launch(MaxCount=3, **OTHER_TOKEN)) == 1


def test_profiles_reach_every_instance_and_unknown_ones_are_refused(fake, ec2, launch):
    """An instance profile is on all instances of a launch; replays do not trip over it."""
    assert code_of(launch, IamInstanceProfile={"Name": "nobody"})[1] == "InvalidParameterValue"
    fake.client("iam").create_instance_profile(InstanceProfileName="cml")
    ids = launch(MaxCount=2, IamInstanceProfile={"Name": "cml"})
    assert launch(MaxCount=2, IamInstanceProfile={"Name": "cml"}) == ids
    found = ec2.describe_iam_instance_profile_associations()["IamInstanceProfileAssociations"]
    assert sorted(item["InstanceId"] for item in found) == sorted(ids)


def test_unknown_images_and_types_are_refused(fake, launch):
    """An unknown image, a misspelt type and a type its zone lacks do not launch."""
    assert code_of(launch, ImageId="ami-0123456789abcdef0")[1].startswith("InvalidAMIID")
    assert code_of(launch, InstanceType="m5zn.metall")[1] == "InvalidParameterValue"
    zone_e = next(item["id"] for item in fake.ready["subnets"] if item["zone"][-1] == "e")
    assert code_of(launch, SubnetId=zone_e)[1] == "Unsupported"
