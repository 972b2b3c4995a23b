"""Bad days of EC2 as the adapter reports them (the cases of facts/aws-bugs.md)."""

import asyncio

import pytest

from labfleet.kernel import errors

REGION = "us-east-1"


@pytest.mark.asyncio
async def test_a_lost_reply_is_not_retried_by_the_sdk(cloud, ec2):
    """One lost reply is Ambiguous at once: what to do is the controllers' to find out (case 2)."""
    cloud.rule(fault="drop_after", action="RunInstances", times=1)
    with pytest.raises(errors.Ambiguous):
        await ec2.launch(cloud.request())
    summary = cloud.summary()
    assert (summary["instances_total"], summary["run_instances_calls"]) == (1, 1)


@pytest.mark.asyncio
async def test_a_launch_whose_replies_are_lost_is_ambiguous_and_found_again(cloud, ec2):
    """The reply is lost: Ambiguous; the look-up finds it and a repeat returns the same (case 1)."""
    cloud.rule(fault="drop_after", action="RunInstances", times=1)
    request = cloud.request()
    with pytest.raises(errors.Ambiguous):
        await ec2.launch(request)
    (found,) = await ec2.find_launched(request)
    assert (await ec2.launch(request)).id == found.id
    assert cloud.summary()["instances_total"] == 1


@pytest.mark.asyncio
async def test_concurrent_repeats_make_one_machine(cloud, ec2):
    """Ten concurrent sends of one request make one instance."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ec2.launch(cloud.request())) for _ in range(10)]
    assert len({task.result().id for task in tasks}) == 1


@pytest.mark.parametrize("lag", ["instance", "tags"])
@pytest.mark.asyncio
async def test_inside_the_visibility_lag_nothing_is_final(cloud, ec2, lag):
    """A fresh machine may be unseen by id or by tag, and appears later (cases 5 and 9)."""
    cloud.ask("POST", "config", {"lags": {lag: 30}})
    request = cloud.request()
    started = await ec2.launch(request)
    assert await ec2.list_owned(REGION) == ()
    if lag == "instance":
        assert await ec2.describe(REGION, started.id) is None
        assert await ec2.find_launched(request) == ()
    else:
        assert [item.id for item in await ec2.find_launched(request)] == [started.id]
        with pytest.raises(errors.Temporary):
            await ec2.terminate(REGION, started.id)
    cloud.advance(31)
    assert [item.id for item in await ec2.find_launched(request)] == [started.id]
    assert [item.id for item in await ec2.list_owned(REGION)] == [started.id]


@pytest.mark.asyncio
async def test_missing_addresses_are_none_and_the_machine_is_there(cloud, ec2):
    """A description without addresses is a machine without known addresses (case 10)."""
    cloud.ask("POST", "config", {"lags": {"addresses": 60}})
    started = await ec2.launch(cloud.request())
    seen = await ec2.describe(REGION, started.id)
    assert (seen.public_ip, seen.private_ip, seen.state) == (None, None, "booting")


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("throttle", errors.Throttled, "Throttled"),
        ("capacity", errors.OutOfCapacity, "InsufficientInstanceCapacity"),
        ("addresses", errors.OutOfCapacity, "InsufficientFreeAddressesInSubnet"),
        ("quota", errors.QuotaExceeded, "VcpuLimitExceeded"),
        ("unauthorized", errors.Denied, "UnauthorizedOperation"),
        ("auth", errors.Denied, "AuthFailure"),
        ("expired", errors.Denied, "RequestExpired"),
        ("internal", errors.Ambiguous, "ServerTrouble"),
    ],
)
@pytest.mark.asyncio
async def test_refused_launches_have_their_class(cloud, ec2, fault, kind, reason):
    """Each class of refusal is told apart, and the SDK tries at most twice (case 44)."""
    cloud.rule(fault=fault, action="RunInstances")
    with pytest.raises(kind) as caught:
        await ec2.launch(cloud.request())
    assert type(caught.value) is kind
    assert caught.value.reason == reason
    assert cloud.calls("RunInstances") <= 2
    assert cloud.summary()["instances_total"] == 0


@pytest.mark.asyncio
async def test_quota_and_stock_hold_for_starts_too(cloud, ec2):
    """A start may lack capacity or quota like a launch (case 19)."""
    instance_id = (await ec2.launch(cloud.request())).id
    cloud.advance(481)
    await ec2.stop(REGION, instance_id)
    cloud.advance(301)
    cloud.ask("POST", "config", {"stock": {"m5zn.metal": 0}})
    with pytest.raises(errors.OutOfCapacity):
        await ec2.start(REGION, instance_id)
    cloud.ask("POST", "config", {"stock": {}, "vcpu_limit": 47})
    with pytest.raises(errors.QuotaExceeded):
        await ec2.start(REGION, instance_id)
    assert (await ec2.describe(REGION, instance_id)).state == "stopped"


@pytest.mark.asyncio
async def test_a_zone_without_the_type_is_out_of_capacity(cloud, ec2):
    """A zone that does not offer the type means: try elsewhere."""
    zone_e = next(net["id"] for net in cloud.ready["subnets"] if net["zone"].endswith("e"))
    with pytest.raises(errors.OutOfCapacity) as caught:
        await ec2.launch(cloud.request(subnet=zone_e))
    assert caught.value.reason == "Unsupported"


@pytest.mark.parametrize("fault", ["empty", "truncated"])
@pytest.mark.asyncio
async def test_a_broken_list_is_an_error_and_never_empty(cloud, ec2, fault):
    """An empty or cut reply is a protocol error, while no machines is an empty list (case 11)."""
    assert await ec2.list_owned(REGION) == ()
    await ec2.launch(cloud.request())
    cloud.rule(fault=fault, action="DescribeInstances")
    with pytest.raises(errors.Protocol):
        await ec2.list_owned(REGION)


@pytest.mark.asyncio
async def test_a_list_that_does_not_go_on_ends_at_once(cloud, ec2):
    """The same page again and again is a protocol error after two calls, not after a hundred."""
    await ec2.launch(cloud.request())
    cloud.rule(fault="empty_page", action="DescribeInstances")
    before = sum(ec2.sent().values())
    with pytest.raises(errors.Protocol):
        await ec2.list_owned(REGION)
    assert sum(ec2.sent().values()) - before == 2


@pytest.mark.parametrize("fault", ["empty", "truncated", "html"])
@pytest.mark.asyncio
async def test_a_launch_with_a_broken_reply_is_ambiguous(cloud, ec2, fault):
    """A launch answered with rubbish may have happened."""
    cloud.rule(fault=fault, action="RunInstances")
    with pytest.raises(errors.Ambiguous):
        await ec2.launch(cloud.request())


@pytest.mark.asyncio
async def test_denied_ends_leave_the_machine_and_say_so(cloud, ec2):
    """A termination that IAM refuses is Denied and nothing ends."""
    instance_id = (await ec2.launch(cloud.request())).id
    cloud.rule(fault="unauthorized", action="TerminateInstances")
    with pytest.raises(errors.Denied):
        await ec2.terminate(REGION, instance_id)
    assert (await ec2.describe(REGION, instance_id)).state == "booting"


@pytest.mark.asyncio
async def test_a_used_token_is_gone_or_a_conflict(cloud, ec2):
    """The token of a dead machine is Gone, one with other parameters a conflict (cases 3, 4)."""
    request = cloud.request()
    started = await ec2.launch(request)
    with pytest.raises(errors.Conflict):
        await ec2.launch(cloud.request(kind="m5.metal"))
    await ec2.terminate(REGION, started.id)
    with pytest.raises(errors.Gone) as caught:
        await ec2.launch(request)
    assert caught.value.reason == "IdempotentInstanceTerminated"


@pytest.mark.asyncio
async def test_reads_live_through_a_throttled_minute(cloud, ec2):
    """A throttled list is repeated by the SDK until the rate allows it (case 14)."""
    cloud.rule(fault="throttle", action="DescribeInstances", times=1)
    assert await ec2.list_owned(REGION) == ()
    assert cloud.calls("DescribeInstances") == 2
