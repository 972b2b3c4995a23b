"""The EC2 world keeps to the rules of facts/aws.md#client-token and #request-buckets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from labfleet.interfaces.compute import LaunchRequest
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds import cml, ec2, ec2_client
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.providers.aws import AwsSettings

REQUEST = LaunchRequest(
    region="us-east-1",
    token="t1",
    worker="w1",
    worker_uid="uid-1",
    attempt=1,
    choice={"image": "ami-1", "type": "m5zn.metal", "subnet": "subnet-a"},
    settings=AwsSettings(),
)


class Account:
    """A cloud, its wire, and one installation that talks to it."""

    def __init__(self, loop: loops.Loop, plan: FaultPlan | None = None, owner: str = "us") -> None:
        self.injector = FaultInjector(plan or FaultPlan(), SeededRng("luck"))
        self.cml_servers = cml.CmlServers(loop, SeededRng("racks"), self.injector)
        self.cloud = ec2.Cloud(loop, SeededRng("cloud"), self.injector, self.cml_servers)
        self.wire = Wire(loop, SeededRng("wire"), self.injector, ec2.CALL_PROFILE)
        self.ec2 = ec2_client.Ec2(self.cloud, self.wire, owner)


def play(
    story: Callable[[loops.Loop, Account], Awaitable[None]], plan: FaultPlan | None = None
) -> None:
    """Run a story in a world of its own."""

    async def main(loop: loops.Loop) -> None:
        await story(loop, Account(loop, plan))

    loops.run(1, main)


async def rest(loop: loops.Loop, seconds: float) -> None:
    """Let virtual time pass."""
    future = loop.create_future()
    loop.call_later(seconds, future.set_result, None)
    await future


def test_a_token_gives_one_instance() -> None:
    """The same request is the same instance; other parameters are a mismatch."""

    async def story(loop: loops.Loop, account: Account) -> None:
        first = await account.ec2.launch(REQUEST)
        assert (await account.ec2.launch(REQUEST)).id == first.id
        with pytest.raises(errors.Conflict):
            await account.ec2.launch(
                replace(REQUEST, choice={**REQUEST.choice, "type": "m5zn.6xlarge"})
            )

    play(story)


def test_tokens_are_zonal() -> None:
    """The same token in another zone is a second instance."""

    async def story(loop: loops.Loop, account: Account) -> None:
        first = await account.ec2.launch(REQUEST)
        second = await account.ec2.launch(
            replace(REQUEST, choice={**REQUEST.choice, "subnet": "subnet-b"})
        )
        assert first.id != second.id

    play(story)


def test_a_dead_machines_token_is_dead() -> None:
    """A token whose instance ended launches nothing more."""

    async def story(loop: loops.Loop, account: Account) -> None:
        made = await account.ec2.launch(REQUEST)
        await rest(loop, 300)
        await account.ec2.terminate("", made.id)
        with pytest.raises(errors.Gone) as caught:
            await account.ec2.launch(REQUEST)
        assert caught.value.reason == "IdempotentInstanceTerminated"

    play(story)


def test_an_instance_boots_and_gets_a_new_address_each_time() -> None:
    """Pending, running with an address, stopped without, running with another; disk stays."""

    async def story(loop: loops.Loop, account: Account) -> None:
        made = await account.ec2.launch(REQUEST)
        assert made.state == "booting"
        await rest(loop, 120)
        up = await account.ec2.describe("", made.id)
        assert up is not None
        assert (up.state, up.public_ip is None) == ("running", False)
        await account.ec2.stop("", made.id)
        await rest(loop, 300)
        off = await account.ec2.describe("", made.id)
        assert off is not None
        assert (off.state, off.public_ip) == ("stopped", None)
        await account.ec2.start("", made.id)
        await rest(loop, 300)
        again = await account.ec2.describe("", made.id)
        assert again is not None
        assert again.public_ip not in {None, up.public_ip}
        assert again.root_volume_id == up.root_volume_id

    play(story)


def test_a_new_instance_may_not_show_at_first() -> None:
    """By id NotFound and not in the list, later both; never longer than a minute."""

    async def story(loop: loops.Loop, account: Account) -> None:
        made = await account.ec2.launch(REQUEST)
        assert await account.ec2.describe("", made.id) is None
        assert await account.ec2.list_owned("") == ()
        await rest(loop, 60)
        assert await account.ec2.describe("", made.id) is not None
        assert [each.id for each in await account.ec2.find_launched(REQUEST)] == [made.id]

    play(story, FaultPlan(rates={"visible_late": 1.0}))


def test_terminated_ones_leave_the_list_at_once_and_the_world_in_an_hour() -> None:
    """Describe by id still knows a terminated instance for an hour, then no more."""

    async def story(loop: loops.Loop, account: Account) -> None:
        made = await account.ec2.launch(REQUEST)
        await rest(loop, 120)
        await account.ec2.terminate("", made.id)
        await rest(loop, 300)
        assert await account.ec2.list_owned("") == ()
        seen = await account.ec2.describe("", made.id)
        assert seen is not None
        assert seen.state == "gone"
        await rest(loop, 4000)
        assert await account.ec2.describe("", made.id) is None

    play(story)


def test_others_machines_are_not_touched() -> None:
    """An installation neither sees nor ends what carries another owner's tag."""

    async def story(loop: loops.Loop, account: Account) -> None:
        made = await account.ec2.launch(REQUEST)
        await rest(loop, 120)
        stranger = ec2_client.Ec2(account.cloud, account.wire, "them")
        assert await stranger.list_owned("") == ()
        with pytest.raises(errors.Denied):
            await stranger.terminate("", made.id)

    play(story)


def test_stock_and_quota_refuse() -> None:
    """No stock in a zone, and a full quota, are two different noes."""

    async def story(loop: loops.Loop, account: Account) -> None:
        close = account.injector.begin("no_stock", "subnet-a")
        with pytest.raises(errors.OutOfCapacity):
            await account.ec2.launch(REQUEST)
        close()
        account.cloud.quota = 48
        await account.ec2.launch(REQUEST)
        with pytest.raises(errors.QuotaExceeded):
            await account.ec2.launch(replace(REQUEST, token="t2"))

    play(story)


def test_a_refused_request_binds_its_token() -> None:
    """Same token, other type: a mismatch, also when nothing came (facts/aws-bugs.md#case-4)."""

    async def story(loop: loops.Loop, account: Account) -> None:
        close = account.injector.begin("no_stock", "subnet-a")
        with pytest.raises(errors.OutOfCapacity):
            await account.ec2.launch(REQUEST)
        close()
        with pytest.raises(errors.Conflict):
            await account.ec2.launch(
                replace(REQUEST, choice={**REQUEST.choice, "type": "m6i.metal"})
            )
        await account.ec2.launch(REQUEST)

    play(story)


def test_buckets_run_dry() -> None:
    """Six launches at one moment are one too many."""

    async def story(loop: loops.Loop, account: Account) -> None:
        for number in range(5):
            account.cloud.launch(replace(REQUEST, token=f"t{number}"), "us")
        with pytest.raises(errors.Throttled):
            account.cloud.launch(replace(REQUEST, token="t9"), "us")
        assert account.cloud.overdrawn == {"RunInstances": 1}

    play(story)


def test_a_lost_reply_leaves_the_effect() -> None:
    """A launch whose answer is lost is Ambiguous, and there."""

    async def story(loop: loops.Loop, account: Account) -> None:
        with pytest.raises(errors.Ambiguous):
            await account.ec2.launch(REQUEST)
        assert len(account.cloud.of_worker("uid-1")) == 1

    play(story, FaultPlan(rates={"call_lost_after": 1.0}))


def test_a_dead_callers_effect_arrives() -> None:
    """A process that is killed while its call is under way does not take it back."""

    async def story(loop: loops.Loop, account: Account) -> None:
        process = loops.Process("p")

        async def life() -> None:
            await account.ec2.launch(REQUEST)

        loop.spawn(process, life())
        await rest(loop, 0.001)
        loop.kill(process)
        await rest(loop, 60)
        assert len(account.cloud.of_worker("uid-1")) == 1

    play(story)
