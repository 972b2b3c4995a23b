"""The life of a machine through the adapter, against the simulator."""

import pytest

from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings

REGION = "us-east-1"


@pytest.mark.asyncio
async def test_a_launch_is_tagged_and_found_in_every_way(cloud, ec2):
    """A launched machine is the same one by id, by tags and token, and in the owned list."""
    request = cloud.request(aws={"tags": {"team": "a/b"}})
    started = await ec2.launch(request)
    seen = await ec2.describe(REGION, started.id)
    assert (seen.state, seen.instance_type, seen.zone) == ("booting", "m5zn.metal", "us-east-1a")
    assert seen.tags["labfleet:worker-uid"] == "uid-w-1"
    assert seen.tags["team"] == "a/b"
    assert seen.client_token == request.token
    assert seen.root_volume_id.startswith("vol-")
    assert [item.id for item in await ec2.find_launched(request)] == [started.id]
    assert [item.id for item in await ec2.list_owned(REGION)] == [started.id]


@pytest.mark.asyncio
async def test_the_volume_has_its_iops_and_ends_with_the_machine(cloud, ec2):
    """The io1 root volume carries owner and IOPS, and is gone after the termination."""
    started = await ec2.launch(cloud.request())
    (volume,) = cloud.ask("GET", "state")["volumes"]
    assert (volume["type"], volume["iops"], volume["size"]) == ("io1", 10000, 500)
    assert volume["tags"]["labfleet:worker"] == "w-1"
    await ec2.terminate(REGION, started.id)
    cloud.advance(301)
    assert cloud.summary()["volumes_left"] == 0
    assert (await ec2.describe(REGION, started.id)).state == "gone"
    assert cloud.ask("GET", "invariants") == []


@pytest.mark.asyncio
async def test_stop_and_start_give_a_new_public_address(cloud, ec2):
    """The public address goes with the stop and comes back as another one; the disk stays."""
    instance_id = (await ec2.launch(cloud.request())).id
    cloud.advance(481)
    before = await ec2.describe(REGION, instance_id)
    await ec2.stop(REGION, instance_id)
    cloud.advance(301)
    stopped = await ec2.describe(REGION, instance_id)
    assert (stopped.state, stopped.public_ip) == ("stopped", None)
    await ec2.start(REGION, instance_id)
    cloud.advance(481)
    after = await ec2.describe(REGION, instance_id)
    assert after.public_ip not in (None, before.public_ip)
    assert after.root_volume_id == before.root_volume_id
    assert after.launch_time > before.launch_time


@pytest.mark.asyncio
async def test_repeated_verbs_send_nothing(cloud, ec2):
    """Stop, start and terminate of a machine that is already there send no second call."""
    instance_id = (await ec2.launch(cloud.request())).id
    await ec2.start(REGION, instance_id)
    cloud.advance(481)
    for _ in range(2):
        await ec2.stop(REGION, instance_id)
    for _ in range(2):
        await ec2.terminate(REGION, instance_id)
    assert cloud.calls("StartInstances") == 0
    assert cloud.calls("StopInstances") == 1
    assert cloud.calls("TerminateInstances") == 1


@pytest.mark.asyncio
async def test_verbs_in_the_wrong_state_say_what_to_do(cloud, ec2):
    """A stop while pending is temporary; a start of a dead machine is Gone."""
    instance_id = (await ec2.launch(cloud.request())).id
    with pytest.raises(errors.Temporary) as caught:
        await ec2.stop(REGION, instance_id)
    assert caught.value.reason == "IncorrectInstanceState"
    await ec2.terminate(REGION, instance_id)
    with pytest.raises(errors.Gone):
        await ec2.start(REGION, instance_id)


@pytest.mark.asyncio
async def test_what_is_not_there_is_none_or_gone(ec2):
    """An unknown id is None to describe, Gone to start and stop, and fine to terminate."""
    nobody = "i-0123456789abcdef0"
    assert await ec2.describe(REGION, nobody) is None
    for verb in (ec2.start, ec2.stop):
        with pytest.raises(errors.Gone):
            await verb(REGION, nobody)
    await ec2.terminate(REGION, nobody)


@pytest.mark.asyncio
async def test_only_our_own_machines_are_touched(cloud, ec2, stranger):
    """Another installation sees none of ours and may not stop or end one."""
    instance_id = (await ec2.launch(cloud.request())).id
    assert await stranger.list_owned(REGION) == ()
    for verb in (stranger.stop, stranger.start, stranger.terminate):
        with pytest.raises(errors.Denied) as caught:
            await verb(REGION, instance_id)
        assert caught.value.reason == "NotOurs"
    cloud.hand("untag", instance_id, keys=["labfleet:owner"])
    with pytest.raises(errors.Temporary) as hidden:
        await ec2.terminate(REGION, instance_id)
    assert hidden.value.reason == "OwnerUnknown"
    assert cloud.summary()["instances_left"] == 1


@pytest.mark.asyncio
async def test_the_owned_list_takes_all_pages(cloud, ec2, monkeypatch):
    """A list over several pages is whole and leaves terminated machines out."""
    monkeypatch.setattr("labfleet.adapters.aws.compute.PAGE", 5)
    started = [await ec2.launch(cloud.request(f"w-{number}")) for number in range(12)]
    await ec2.terminate(REGION, started[0].id)
    cloud.advance(301)
    owned = {item.id for item in await ec2.list_owned(REGION)}
    assert owned == {item.id for item in started[1:]}


@pytest.mark.asyncio
async def test_the_newest_matching_image_of_the_owner_wins(cloud, ec2):
    """Names match by pattern within the owners; the latest creation date wins."""
    name = {"name": "cisco-cml2.9.2-lab", "created": "2040-01-01T00:00:00"}
    newest = cloud.ask("POST", "images", name)["ami_id"]
    foreign = {**name, "owner": "999999999999", "created": "2041-01-01T00:00:00"}
    cloud.ask("POST", "images", foreign)
    settings = cloud.request(aws={"ami_name_pattern": "cisco-cml2*"}).settings
    found = await ec2.find_image(REGION, settings)
    assert (found.id, found.name) == (newest, "cisco-cml2.9.2-lab")
    by_id = cloud.request(aws={"ami_id": cloud.ready["ami_id"]}).settings
    assert (await ec2.find_image(REGION, by_id)).id == cloud.ready["ami_id"]


@pytest.mark.parametrize(
    "aws",
    [{"ami_name_pattern": "cisco-asa*"}, {"ami_id": "ami-0123456789abcdef0"}, {}],
)
@pytest.mark.asyncio
async def test_no_image_is_invalid(cloud, ec2, aws):
    """A pattern or id that matches nothing, or neither of them, is a fault of the template."""
    with pytest.raises(errors.Invalid):
        await ec2.find_image(REGION, cloud.request(aws=aws).settings)


@pytest.mark.asyncio
async def test_console_text_is_evidence(cloud, ec2):
    """The console's text is returned, bounded."""
    instance_id = (await ec2.launch(cloud.request())).id
    text = await ec2.console_output(REGION, instance_id)
    assert "Linux" in text
    assert len(text) <= 16384


@pytest.mark.asyncio
async def test_profile_network_and_key_reach_ec2(cloud, ec2):
    """A launch without a subnet or with unknown groups behaves as EC2 says."""
    await ec2.launch(cloud.request(subnet=None))
    with pytest.raises(errors.Invalid):
        await ec2.launch(cloud.request("w-2", aws={"iam_instance_profile": "nobody"}))
    with pytest.raises(errors.Invalid):
        await ec2.launch(cloud.request("w-3", subnet="subnet-0123456789abcdef0"))
    assert cloud.summary()["instances_total"] == 1


@pytest.mark.asyncio
async def test_nested_virtualisation_is_checked_with_ec2_before_the_launch(cloud, ec2):
    """A type that EC2 says cannot nest is refused by name; one that can is launched with it."""
    flat = cloud.request(
        kind="m6a.large",
        aws={"instance_types": ("x99.large",), "nested_virtualization": True},
    )
    with pytest.raises(errors.Invalid) as caught:
        await ec2.launch(flat)
    assert caught.value.reason == "NestedUnsupported"
    nested = cloud.request(
        kind="m8i.12xlarge",
        aws={"instance_types": ("m8i.12xlarge",), "nested_virtualization": True},
    )
    await ec2.launch(nested)
    assert cloud.calls("DescribeInstanceTypes") == 2


@pytest.mark.asyncio
async def test_a_network_is_checked_once_and_an_unknown_part_is_named(cloud, ec2):
    """What was sound is not asked again; a subnet that does not exist is told as such."""
    subnet = cloud.ready["subnets"][0]["id"]
    right = AwsSettings(vpc_id=cloud.ready["vpc_id"], subnet_ids=(subnet,))
    for _ in range(3):
        await ec2.check_network(REGION, right)
    assert cloud.calls("DescribeSubnets") == 1
    nobody = AwsSettings(vpc_id=cloud.ready["vpc_id"], subnet_ids=("subnet-0123456789abcdef0",))
    for _ in range(2):
        with pytest.raises(errors.Invalid, match="there is no subnet subnet-0123456789abcdef0"):
            await ec2.check_network(REGION, nobody)
    assert cloud.calls("DescribeSubnets") == 3


@pytest.mark.asyncio
async def test_a_network_that_may_not_be_looked_at_is_not_taken_for_sound(cloud, ec2):
    """Without the permission nothing is launched past the check; EC2's no is told as it is."""
    cloud.rule(fault="unauthorized", action="DescribeSubnets")
    subnet = cloud.ready["subnets"][0]["id"]
    with pytest.raises(errors.Denied):
        await ec2.check_network(REGION, AwsSettings(vpc_id="vpc-1", subnet_ids=(subnet,)))
