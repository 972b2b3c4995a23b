"""Compute means the same in the rehearsal's world, over its XML, against moto's EC2, and on metal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from compute_places import (
    OWNER,
    REGION,
    SETTLED,
    Place,
    Simulator,
    Story,
    clients_of,
    in_a_site,
    in_the_world,
    request,
    start_simulator,
)

from labfleet.kernel import errors

Play = Callable[[Story], None]


@pytest.fixture(scope="module")
def simulator_process() -> Iterator[dict[str, Any]]:
    """One simulator for this file."""
    process, ready = start_simulator()
    yield ready
    clients_of(ready["url"]).close()
    process.terminate()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture(params=["world", "wire", "simulator"])
def play(request: pytest.FixtureRequest) -> Play:
    """Each cloud in turn, empty: what EC2 holds to."""
    return play_in(request)


def play_in(request: pytest.FixtureRequest) -> Play:
    """Return how a story is played in the cloud that a fixture names."""
    if request.param != "simulator":
        return lambda story: in_the_world(story, wired=request.param == "wire")
    ready = request.getfixturevalue("simulator_process")

    def run(story: Story) -> None:
        fresh = Simulator(ready).ask("reset", {})
        place = Simulator({**ready, **fresh})
        place.ask("config", {"stock": {}, "vcpu_limit": None, "lags": {"instance": 0}})
        asyncio.run(place.play(story))

    return run


@pytest.fixture(params=["world", "wire", "simulator", "static"])
def any_provider(request: pytest.FixtureRequest) -> Play:
    """Each cloud in turn, and servers that are there already: what every provider holds to."""
    if request.param == "static":
        return in_a_site
    return play_in(request)


async def launched(place: Place, **changes: Any) -> str:
    """Launch one machine and wait until it runs."""
    started = await place.compute.launch(request(place, **changes))
    await place.pass_by(SETTLED)
    return started.id


def region_of(place: Place) -> str:
    """Return where a place's machines are."""
    return getattr(place, "region", REGION)


async def state(place: Place, instance_id: str) -> str | None:
    """Return the state as EC2 tells it."""
    seen = await place.compute.describe(region_of(place), instance_id)
    return None if seen is None else seen.state


def test_a_token_gives_one_machine(any_provider: Play) -> None:
    """The same request again is the same machine, also when it runs."""

    async def story(place: Place) -> None:
        wanted = request(place)
        first = await place.compute.launch(wanted)
        assert (first.state, first.client_token) == ("booting", wanted.token)
        assert (await place.compute.launch(wanted)).id == first.id
        await place.pass_by(SETTLED)
        assert (await place.compute.launch(wanted)).id == first.id
        assert [each.id for each in await place.compute.list_owned(region_of(place))] == [first.id]

    any_provider(story)


def test_a_token_with_other_parameters_is_refused(play: Play) -> None:
    """EC2 says IdempotentParameterMismatch and launches nothing."""

    async def story(place: Place) -> None:
        await place.compute.launch(request(place))
        with pytest.raises(errors.Conflict) as caught:
            await place.compute.launch(request(place, kind="m5zn.12xlarge"))
        assert caught.value.reason == "IdempotentParameterMismatch"
        assert len(await place.compute.list_owned(REGION)) == 1

    play(story)


def test_a_token_is_zonal(play: Play) -> None:
    """The same token in another zone makes another machine: why each zone has its own."""

    async def story(place: Place) -> None:
        one = await place.compute.launch(request(place))
        other = await place.compute.launch(request(place, subnet=place.subnets[1]))
        assert one.id != other.id

    play(story)


def test_a_token_of_the_dead_gives_nothing(any_provider: Play) -> None:
    """A machine that has ended does not come back by its token."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        await place.compute.terminate(region_of(place), instance_id)
        await place.pass_by(SETTLED)
        with pytest.raises(errors.Gone) as caught:
            await place.compute.launch(request(place))
        assert caught.value.reason == "IdempotentInstanceTerminated"

    any_provider(story)


def test_states_come_in_their_order(any_provider: Play) -> None:
    """Pending, running, stopping, stopped, pending, running, shutting-down, terminated."""

    async def story(place: Place) -> None:
        compute, seen = place.compute, []
        instance_id = (await compute.launch(request(place))).id
        seen.append(await state(place, instance_id))
        for verb in (None, compute.stop, compute.start, compute.terminate):
            if verb is not None:
                await verb(region_of(place), instance_id)
                seen.append(await state(place, instance_id))
            await place.pass_by(SETTLED)
            seen.append(await state(place, instance_id))
        assert seen == [
            "booting", "running", "stopping", "stopped", "booting", "running",
            "ending", "gone",
        ]  # fmt: skip

    any_provider(story)


def test_a_start_gives_a_new_address_and_keeps_the_disk(play: Play) -> None:
    """The public address goes with the stop; launch time moves with the start."""

    async def story(place: Place) -> None:
        compute = place.compute
        instance_id = await launched(place)
        before = await compute.describe(REGION, instance_id)
        assert before is not None
        assert before.public_ip is not None
        await compute.stop(REGION, instance_id)
        await place.pass_by(SETTLED)
        stopped = await compute.describe(REGION, instance_id)
        assert stopped is not None
        assert stopped.public_ip is None
        await compute.start(REGION, instance_id)
        await place.pass_by(SETTLED)
        after = await compute.describe(REGION, instance_id)
        assert after is not None
        assert after.public_ip not in {None, before.public_ip}
        assert after.root_volume_id == before.root_volume_id
        assert after.launch_time is not None
        assert before.launch_time is not None
        assert after.launch_time > before.launch_time

    play(story)


def test_verbs_in_the_wrong_state_say_so(any_provider: Play) -> None:
    """A stop while pending and a start while stopping are IncorrectInstanceState: later."""

    async def story(place: Place) -> None:
        compute = place.compute
        instance_id = (await compute.launch(request(place))).id
        with pytest.raises(errors.Temporary) as caught:
            await compute.stop(region_of(place), instance_id)
        assert caught.value.reason == "IncorrectInstanceState"
        await place.pass_by(SETTLED)
        await compute.stop(region_of(place), instance_id)
        with pytest.raises(errors.Temporary) as caught:
            await compute.start(region_of(place), instance_id)
        assert caught.value.reason == "IncorrectInstanceState"

    any_provider(story)


def test_repeated_verbs_are_fine(any_provider: Play) -> None:
    """Stop of the stopped, start of the running, terminate of the terminated: no error."""

    async def story(place: Place) -> None:
        compute = place.compute
        instance_id = await launched(place)
        await compute.start(region_of(place), instance_id)
        for verb in (compute.stop, compute.terminate):
            await verb(region_of(place), instance_id)
            await verb(region_of(place), instance_id)
            await place.pass_by(SETTLED)
            await verb(region_of(place), instance_id)
        assert await state(place, instance_id) == "gone"

    any_provider(story)


def test_the_ended_are_gone_to_start_and_stop(any_provider: Play) -> None:
    """A dead machine is Gone, never a reason to wait."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        await place.compute.terminate(region_of(place), instance_id)
        for verb in (place.compute.start, place.compute.stop):
            with pytest.raises(errors.Gone):
                await verb(region_of(place), instance_id)

    any_provider(story)


def test_not_found_and_empty_are_two_things(any_provider: Play) -> None:
    """An unknown id is None or Gone; an account without machines is an empty list."""

    async def story(place: Place) -> None:
        compute, nobody = place.compute, "i-0123456789abcdef0"
        assert await compute.list_owned(region_of(place)) == ()
        assert await compute.describe(region_of(place), nobody) is None
        for verb in (compute.start, compute.stop):
            with pytest.raises(errors.Gone):
                await verb(region_of(place), nobody)
        await compute.terminate(region_of(place), nobody)
        assert await compute.find_launched(request(place)) == ()

    any_provider(story)


def test_the_terminated_leave_the_list_before_they_leave_sight(play: Play) -> None:
    """The list has what lives; by its id a dead machine shows for about an hour."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        await place.compute.terminate(REGION, instance_id)
        await place.pass_by(SETTLED)
        assert await place.compute.list_owned(REGION) == ()
        assert await place.compute.find_launched(request(place)) == ()
        assert await state(place, instance_id) == "gone"
        await place.pass_by(3600)
        assert await state(place, instance_id) is None

    play(story)


def test_a_fresh_machine_may_not_show_yet(play: Play) -> None:
    """Inside the lag it is in no list and under no id; the token still finds it."""

    async def story(place: Place) -> None:
        place.hide_new(30)
        wanted = request(place)
        started = await place.compute.launch(wanted)
        assert await place.compute.list_owned(REGION) == ()
        assert await place.compute.find_launched(wanted) == ()
        assert await state(place, started.id) is None
        assert (await place.compute.launch(wanted)).id == started.id
        await place.pass_by(31)
        assert [each.id for each in await place.compute.find_launched(wanted)] == [started.id]
        assert [each.id for each in await place.compute.list_owned(REGION)] == [started.id]

    play(story)


def test_no_stock_is_of_one_zone(play: Play) -> None:
    """Out of capacity, in EC2's word, and the next zone has some."""

    async def story(place: Place) -> None:
        place.no_stock(place.subnets[0])
        with pytest.raises(errors.OutOfCapacity) as caught:
            await place.compute.launch(request(place))
        assert caught.value.reason == "InsufficientInstanceCapacity"
        assert await place.compute.list_owned(REGION) == ()
        await place.compute.launch(request(place, token="next", subnet=place.subnets[1]))

    play(story)


def test_a_quota_is_no_lack_of_stock(play: Play) -> None:
    """At the account's limit another zone would not help, and the class says so."""

    async def story(place: Place) -> None:
        place.no_quota()
        with pytest.raises(errors.QuotaExceeded) as caught:
            await place.compute.launch(request(place))
        assert caught.value.reason == "VcpuLimitExceeded"
        assert await place.compute.list_owned(REGION) == ()

    play(story)


def test_machines_carry_who_they_belong_to(any_provider: Play) -> None:
    """Owner, worker, attempt and pool are tags from the launch on."""

    async def story(place: Place) -> None:
        started = await place.compute.launch(request(place))
        seen = await place.compute.describe(region_of(place), started.id)
        assert seen is not None
        assert seen.tags["labfleet:owner"] == OWNER
        assert seen.tags["labfleet:worker-uid"] == "uid-w-1"
        assert seen.tags["labfleet:attempt"] == "1"
        assert seen.tags["labfleet:pool"] == "pool-a"
        assert seen.instance_type in {"m5zn.metal", "static"}

    any_provider(story)


def test_attempts_are_told_apart(any_provider: Play) -> None:
    """The look-up of one attempt does not find another's machine."""

    async def story(place: Place) -> None:
        await place.compute.launch(request(place))
        second = request(place, token="second", attempt=2, subnet=place.subnets[1])
        assert await place.compute.find_launched(second) == ()
        started = await place.compute.launch(second)
        assert [each.id for each in await place.compute.find_launched(second)] == [started.id]

    any_provider(story)


def test_strangers_machines_are_left_alone(play: Play) -> None:
    """Another installation sees none of ours and may touch none."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        assert await place.stranger.list_owned(REGION) == ()
        for verb in (place.stranger.stop, place.stranger.start, place.stranger.terminate):
            with pytest.raises(errors.Denied) as caught:
                await verb(REGION, instance_id)
            assert caught.value.reason == "NotOurs"
        with pytest.raises(errors.Denied):
            await place.stranger.set_tags(REGION, instance_id, {"team": "theirs"})
        assert await state(place, instance_id) == "running"

    play(story)


def test_console_output_is_text(any_provider: Play) -> None:
    """Evidence for a failure message: some text or none, never an error for a fresh machine."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        assert isinstance(await place.compute.console_output(region_of(place), instance_id), str)

    any_provider(story)


def test_checks_tell_what_is_not_ok(play: Play) -> None:
    """A fresh machine is initializing, a settled one is not told, an impaired one is."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        assert instance_id not in await place.compute.checks(REGION)
        place.impair(instance_id)
        place.retire(instance_id)
        told = (await place.compute.checks(REGION))[instance_id]
        assert told.instance == "impaired"
        assert [event.code for event in told.events] == ["instance-retirement"]

    play(story)


def test_images_are_found_by_name_and_owner(play: Play) -> None:
    """A pattern finds the image, another one nothing, and no owners are refused."""

    async def story(place: Place) -> None:
        found = await place.compute.images(REGION, "cisco-cml2*", ("self",))
        assert [each.id for each in found] == [place.image]
        assert await place.compute.images(REGION, "nothing-like-it*", ("self",)) == ()
        with pytest.raises(errors.Invalid):
            await place.compute.images(REGION, "cisco-cml2*", ())

    play(story)


def test_candidates_are_everybodys_machines_of_an_image(play: Play) -> None:
    """Ours and theirs until they are terminated; no images, no candidates, no call."""

    async def story(place: Place) -> None:
        ours = await launched(place)
        theirs = await place.by_hand()
        found = await place.compute.candidates(REGION, [place.image])
        assert sorted(each.id for each in found) == sorted([ours, theirs])
        assert await place.compute.candidates(REGION, []) == ()
        many = [f"ami-{number:017x}" for number in range(450)]
        found = await place.compute.candidates(REGION, [*many, place.image])
        assert len(found) == 2
        assert [each.id for each in await place.compute.list_owned(REGION)] == [ours]

    play(story)


def test_a_claim_makes_a_machine_ours(play: Play) -> None:
    """Untouchable before, ours after, and no longer to be had by another installation."""

    async def story(place: Place) -> None:
        theirs = await place.by_hand()
        await place.pass_by(SETTLED)
        with pytest.raises(errors.Temporary):
            await place.compute.stop(REGION, theirs)
        await place.compute.claim(REGION, theirs, "w-9", "uid-w-9")
        await place.compute.claim(REGION, theirs, "w-9", "uid-w-9")
        (owned,) = await place.compute.list_owned(REGION)
        assert owned.tags["labfleet:worker-uid"] == "uid-w-9"
        with pytest.raises(errors.Denied) as caught:
            await place.stranger.claim(REGION, theirs, "x", "uid-x")
        assert caught.value.reason == "NotOurs"
        with pytest.raises(errors.Gone):
            await place.compute.claim(REGION, "i-0123456789abcdef0", "x", "uid-x")
        await place.compute.stop(REGION, theirs)

    play(story)


def test_tags_change_on_live_machines(any_provider: Play) -> None:
    """Set, changed, removed; removing what is not there is fine."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        await place.compute.set_tags(region_of(place), instance_id, {"team": "a", "cost": "1"})
        await place.compute.set_tags(region_of(place), instance_id, {"team": "b"})
        await place.compute.remove_tags(region_of(place), instance_id, ["cost", "never-there"])
        seen = await place.compute.describe(region_of(place), instance_id)
        assert seen is not None
        assert seen.tags["team"] == "b"
        assert "cost" not in seen.tags
        assert seen.tags["labfleet:owner"] == OWNER

    any_provider(story)


def test_owner_tags_are_protected(any_provider: Play) -> None:
    """Nobody changes whose a machine is by the tag verbs."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        with pytest.raises(errors.Denied) as caught:
            await place.compute.set_tags(region_of(place), instance_id, {"labfleet:owner": "me"})
        assert caught.value.reason == "TagProtected"
        with pytest.raises(errors.Denied):
            await place.compute.remove_tags(region_of(place), instance_id, ["labfleet:worker-uid"])

    any_provider(story)


def test_leftovers_are_found_and_removed_once(play: Play) -> None:
    """A volume of ours that is attached to nothing; another owner's is not ours to see."""

    async def story(place: Place) -> None:
        await launched(place)
        volume = await place.spare(OWNER)
        await place.spare("another")
        (found,) = await place.compute.leftovers(REGION)
        assert (found.kind, found.id, found.region) == ("volume", volume, REGION)
        assert found.created is not None
        with pytest.raises(errors.Denied):
            await place.stranger.remove(found)
        await place.compute.remove(found)
        await place.compute.remove(found)
        assert await place.compute.leftovers(REGION) == ()

    play(story)


def test_metrics_are_points_oldest_first(play: Play) -> None:
    """CPU in percent, network in bytes; a machine without points is absent, not zero."""

    async def story(place: Place) -> None:
        instance_id = await launched(place)
        point = place.measured(instance_id)
        names = [instance_id, "i-0123456789abcdef0", *(f"i-{n:017x}" for n in range(200))]
        start, end = point.at - timedelta(minutes=5), point.at + timedelta(minutes=5)
        found = await place.compute.metrics(REGION, names, start, end, 300)
        assert found == {instance_id: (point,)}

    play(story)
