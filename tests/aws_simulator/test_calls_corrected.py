"""Calls that moto answers otherwise than EC2: detaching, listed metrics, spot requests, pages."""

import datetime as dt

import pytest
from aws_simulator_process import code_of

ZONE = "us-east-1a"
SPOT = {"MarketType": "spot"}


@pytest.fixture
def attached(fake, ec2, launch):
    """A running instance with a second volume at /dev/sdf: (instance, volume)."""
    (instance_id,) = launch(InstanceType="m5.large")
    fake.advance(60)
    volume_id = ec2.create_volume(AvailabilityZone=ZONE, Size=10)["VolumeId"]
    ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/sdf")
    return instance_id, volume_id


def test_a_volume_is_detached_by_its_id_alone(ec2, attached):
    """EC2 knows where a volume is; what it is detached from is told."""
    instance_id, volume_id = attached
    reply = ec2.detach_volume(VolumeId=volume_id)
    assert (reply["InstanceId"], reply["Device"], reply["State"]) == (
        instance_id,
        "/dev/sdf",
        "detaching",
    )
    (volume,) = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert volume["State"] == "available"
    assert code_of(ec2.detach_volume, VolumeId=volume_id) == (400, "IncorrectState")


def test_detaching_from_the_wrong_place_changes_nothing(fake, ec2, launch, attached):
    """Another instance's device of the same name is left alone, and so is a running one's root."""
    instance_id, volume_id = attached
    (other,) = launch(InstanceType="m5.large", ClientToken="token-2")
    fake.advance(60)
    wrong = {"VolumeId": volume_id, "InstanceId": other}
    assert code_of(ec2.detach_volume, **wrong) == (400, "InvalidAttachment.NotFound")
    wrong = {"VolumeId": volume_id, "InstanceId": instance_id, "Device": "/dev/sdz"}
    assert code_of(ec2.detach_volume, **wrong) == (400, "InvalidAttachment.NotFound")
    (mine,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"]
    root = mine["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    assert len(mine["BlockDeviceMappings"]) == 2
    assert code_of(ec2.detach_volume, VolumeId=root) == (400, "OperationNotPermitted")
    gone = "vol-0123456789abcdef0"
    assert code_of(ec2.detach_volume, VolumeId=gone) == (400, "InvalidVolume.NotFound")


def names_of(reply):
    """Return (metric, instance) of each listed series."""
    return {(each["MetricName"], each["Dimensions"][0]["Value"]) for each in reply["Metrics"]}


def test_metrics_are_listed_as_soon_as_there_are_data(fake, launch, ec2):
    """What GetMetricData answers is listed, by name and dimension too, and no other instance's."""
    watch = fake.client("cloudwatch")
    instance_id, other = launch(InstanceType="m5.large", MinCount=2, MaxCount=2)
    assert watch.list_metrics()["Metrics"] == []
    fake.advance(3600)
    listed = names_of(watch.list_metrics(Namespace="AWS/EC2"))
    assert {name for name, _ in listed} >= {"CPUUtilization", "NetworkIn", "NetworkOut"}
    one = {"Dimensions": [{"Name": "InstanceId", "Value": instance_id}]}
    listed = names_of(watch.list_metrics(MetricName="CPUUtilization", **one))
    assert listed == {("CPUUtilization", instance_id)}
    assert watch.list_metrics(Namespace="AWS/EBS")["Metrics"] == []
    west = fake.client("cloudwatch", region="us-west-2")
    assert west.list_metrics()["Metrics"] == []
    ec2.stop_instances(InstanceIds=[other])
    fake.advance(5 * 3600)
    recent = names_of(watch.list_metrics(MetricName="CPUUtilization", RecentlyActive="PT3H"))
    assert recent == {("CPUUtilization", instance_id)}
    assert len(names_of(watch.list_metrics(MetricName="CPUUtilization"))) == 2


def test_put_metrics_are_listed_once_beside_the_model(fake, launch):
    """Somebody's own series stands in the list, and a series that is put and modelled once."""
    watch = fake.client("cloudwatch")
    (instance_id,) = launch(InstanceType="m5.large")
    fake.advance(3600)
    at = dt.datetime.fromtimestamp(fake.now() - 600, tz=dt.UTC)
    dimensions = [{"Name": "InstanceId", "Value": instance_id}]
    for name in ("CPUUtilization", "Own"):
        datum = {"MetricName": name, "Dimensions": dimensions, "Timestamp": at, "Value": 1}
        watch.put_metric_data(Namespace="AWS/EC2", MetricData=[datum])
    names = [each["MetricName"] for each in watch.list_metrics()["Metrics"]]
    assert names.count("CPUUtilization") == names.count("Own") == 1


def test_listed_metrics_come_in_pages(fake, launch):
    """A hundred instances have more series than a page; the pages together are all, each once."""
    launch(InstanceType="m5.large", MinCount=100, MaxCount=100)
    fake.advance(3600)
    pages = list(fake.client("cloudwatch").get_paginator("list_metrics").paginate())
    assert [len(page["Metrics"]) for page in pages] == [500, 100]
    assert len(set().union(*map(names_of, pages))) == 600


def test_a_spot_instance_names_its_request(ec2, launch):
    """RunInstances, DescribeInstances, its filter and the request itself tell one id."""
    plain = launch(InstanceType="m5.large")
    spot = launch(InstanceType="m5.large", InstanceMarketOptions=SPOT, ClientToken="token-2")
    reply = ec2.describe_instances(InstanceIds=spot)
    found = reply["Reservations"][0]["Instances"][0]["SpotInstanceRequestId"]
    wanted = [{"Name": "spot-instance-request-id", "Values": [found]}]
    reply = ec2.describe_instances(Filters=wanted)
    assert [item["InstanceId"] for each in reply["Reservations"] for item in each["Instances"]] == (
        spot
    )
    (request,) = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[found])[
        "SpotInstanceRequests"
    ]
    assert (request["InstanceId"], request["State"]) == (spot[0], "active")
    assert request["Status"]["Code"] == "fulfilled"
    ec2.terminate_instances(InstanceIds=spot)
    (request,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (request["State"], request["Status"]["Code"]) == (
        "closed",
        "instance-terminated-by-user",
    )
    reply = ec2.describe_instances(InstanceIds=plain)
    assert "SpotInstanceRequestId" not in reply["Reservations"][0]["Instances"][0]


def test_what_request_spot_instances_launches_names_its_request(fake, ec2):
    """The older call gives the same two ends of one id."""
    specification = {"ImageId": fake.image, "InstanceType": "m5.large"}
    (request,) = ec2.request_spot_instances(LaunchSpecification=specification)[
        "SpotInstanceRequests"
    ]
    reply = ec2.describe_instances(InstanceIds=[request["InstanceId"]])
    item = reply["Reservations"][0]["Instances"][0]
    assert item["SpotInstanceRequestId"] == request["SpotInstanceRequestId"]


@pytest.mark.parametrize(
    ("action", "key", "name", "size"),
    [
        ("describe_instance_types", "InstanceTypes", "InstanceType", 100),
        ("describe_instance_type_offerings", "InstanceTypeOfferings", "InstanceType", 600),
        ("describe_volumes", "Volumes", "VolumeId", 5),
        ("describe_subnets", "Subnets", "SubnetId", 5),
        ("describe_images", "Images", "ImageId", 2),
        ("describe_tags", "Tags", "ResourceId", 5),
        ("describe_spot_instance_requests", "SpotInstanceRequests", "SpotInstanceRequestId", 5),
    ],
)
def test_lists_that_moto_answers_whole_come_in_pages(fake, ec2, launch, action, key, name, size):
    """MaxResults holds for each of them; the pages together are the whole, in its order."""
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}]
    for number in range(6):
        more = {"InstanceMarketOptions": SPOT, "InstanceType": "m5.large"}
        launch(ClientToken=f"token-{number}", TagSpecifications=tags, **more)
    for number in range(3):
        fake.ask("POST", "images", {"name": f"image-{number}"})
    whole = [row[name] for page in ec2.get_paginator(action).paginate() for row in page[key]]
    sized = ec2.get_paginator(action).paginate(PaginationConfig={"PageSize": size})
    pages = [[row[name] for row in page[key]] for page in sized]
    assert [found for page in pages for found in page] == whole
    assert len(whole) > size
    assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)


def test_instance_types_have_pages_unasked_and_bounds(fake, ec2):
    """A hundred a page when nobody says; a size out of bounds or a made-up token is refused."""
    reply = ec2.describe_instance_types()
    assert len(reply["InstanceTypes"]) == 100
    assert reply["NextToken"]
    refused = (400, "InvalidParameterValue")
    careless = fake.client(parameter_validation=False)
    for size in (4, 101, "many"):
        assert code_of(careless.describe_instance_types, MaxResults=size) == refused
    refused = (400, "InvalidNextToken")
    assert code_of(ec2.describe_instance_types, MaxResults=5, NextToken="a") == refused
