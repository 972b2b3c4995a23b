"""Garbage rounds: what is ended, what never, and what a leader has to see before it begins.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from scripted_ec2 import FakeInstance, orphan
from virtual_time import play
from world import ADMIN, Process, World, world

from labfleet.interfaces.compute import Leftover
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.region import Region
from labfleet.resources.worker import Worker
from labfleet.service.reads import regions
from labfleet.service.verbs import objects

REGION = "us-east-1"


async def ready(w: World) -> Process:
    process = await w.start()
    await w.worker()
    await w.until(w.in_phase("w1", "READY"))
    return process


async def settings(w: World, **sections: Any) -> None:
    known = await w.services.objects.get(KINDS["Settings"].type, "fleet", "default")
    if known is None:
        await w.make("Settings", "fleet", sections)
    else:
        await objects.patch(
            w.services, ADMIN, KINDS["Settings"], "fleet", {"spec": sections}, namespace="default"
        )


def alive(w: World, machine: FakeInstance) -> bool:
    return machine.state in {"booting", "running"}


def seen(w: World) -> Region | None:
    return w.cache.get(Region, REGION, "default")


def test_an_end_is_in_the_log_with_who_and_why() -> None:
    """The deed is written before the call, by garbage, with the reason; suspects come first."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            made = orphan(w)
            await w.let_pass(200)
            told = seen(w)
            assert told is not None
            assert [each.id for each in told.status.suspects] == ["i-orphan"]
            shown = regions.garbage(w.services, ADMIN).suspects
            assert shown[0].suspect.next == "ended after its grace and a last look"
            await w.let_pass(600)
            assert not alive(w, made)
            events = await objects.events(w.services, ADMIN, KINDS["Region"], REGION, "default")
            deeds = [each for each in events if "terminates i-orphan" in each.reason]
            assert [each.actor for each in deeds] == ["garbage"]
            told = seen(w)
            assert told is not None
            assert (told.status.ended, told.status.suspects) == (1, ())
            assert w.phase("w1") == "READY"

    play(story)


@pytest.mark.parametrize(
    "sections",
    [
        {"garbage": {"dryRun": True}},
        {"garbage": {"enabled": False}},
        {"automation": {"paused": True, "reason": "migration"}},
        {"garbage": {"keepTag": "hands-off"}},
    ],
)
def test_what_the_settings_forbid_is_not_done(sections: dict[str, Any]) -> None:
    """Dry run, switched off, paused, and a keep tag of one's own: nothing ends."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await settings(w, **sections)
            made = orphan(w, **{"hands-off": "please"})
            await w.let_pass(1800)
            assert alive(w, made)
            if "enabled" not in sections.get("garbage", {}):
                [shown] = regions.garbage(w.services, ADMIN).suspects
                assert shown.suspect.next.startswith("nothing")
                assert shown.suspect.due is None

    play(story)


@pytest.mark.parametrize(
    "sections",
    [{"garbage": {"dryRun": True}}, {"garbage": {"enabled": False}}, {"garbage": {"keepTag": "x"}},
     {"automation": {"paused": True}}],
)  # fmt: skip
def test_who_says_stop_during_the_last_look_is_heard(sections: dict[str, Any]) -> None:
    """A pause stops at once what is half done, too: nothing of that round is ended any more."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            made = [orphan(w, f"i-orphan{number}", x="kept") for number in range(3)]
            looked = w.compute.describe
            said: list[str] = []

            async def describe(region: str, instance_id: str) -> Any:
                found = await looked(region, instance_id)
                if instance_id.startswith("i-orphan") and not said:
                    said.append(instance_id)
                    await settings(w, **sections)
                return found

            w.compute.describe = describe  # type: ignore[method-assign]
            await w.let_pass(1800)
            assert said
            assert all(alive(w, each) for each in made)

    play(story)


def test_nothing_ends_before_every_region_was_listed() -> None:
    """Case 12: one region that cannot be listed holds all of them back, and says so."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            made = orphan(w)
            real = w.compute.leftovers
            down = True

            async def leftovers(region: str) -> tuple[Leftover, ...]:
                if region == "eu-west-1" and down:
                    raise errors.Throttled("slow down")
                return await real(region)

            w.compute.leftovers = leftovers  # type: ignore[method-assign]
            await settings(w, discovery={"enabled": True, "regions": [REGION, "eu-west-1"]})
            await w.start()
            await w.let_pass(3000)
            assert alive(w, made)
            shown = regions.garbage(w.services, ADMIN)
            assert "eu-west-1" in shown.suspects[0].suspect.next
            assert "slow down" in shown.waits["eu-west-1"]
            down = False
            await w.let_pass(900)
            assert not alive(w, made)

    play(story)


def test_a_failed_list_judges_nothing_and_is_no_empty_list() -> None:
    """Case 11: while a region's list fails nothing ends there; what was suspected stays so."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            made = orphan(w)
            await w.let_pass(200)

            async def leftovers(region: str) -> tuple[Leftover, ...]:
                raise errors.Temporary("internal error")

            real, w.compute.leftovers = w.compute.leftovers, leftovers  # type: ignore[method-assign]
            await w.let_pass(1800)
            assert alive(w, made)
            told = seen(w)
            assert told is not None
            assert "internal error" in told.status.waits
            assert [each.id for each in told.status.suspects] == ["i-orphan"]
            w.compute.leftovers = real  # type: ignore[method-assign]
            await w.let_pass(400)
            assert not alive(w, made)

    play(story)


def test_the_last_look_saves_what_was_adopted_meanwhile() -> None:
    """Case 28: a record that appears between suspicion and end keeps the machine."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            made = orphan(w)
            real = w.compute.describe

            async def describe(region: str, instance_id: str) -> Any:
                if instance_id == "i-orphan":
                    made.tags["keep"] = ""
                return await real(region, instance_id)

            w.compute.describe = describe  # type: ignore[method-assign]
            await w.let_pass(900)
            assert alive(w, made)
            assert "keep" in made.tags

    play(story)


def test_many_orphans_end_a_few_a_round_and_others_never() -> None:
    """Cases 12 and 46: caps hold, and another installation's machines are not even listed."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            many = [orphan(w, f"i-orphan{n}") for n in range(12)]
            theirs = w.cloud.foreign(tags={"labfleet:owner": "them"})
            stranger = w.cloud.foreign()
            ended = 0
            for _ in range(12):
                await w.let_pass(120)
                now = sum(not alive(w, each) for each in many)
                assert now - ended <= 5
                ended = now
            await w.let_pass(1200)
            assert not any(alive(w, each) for each in many)
            assert alive(w, theirs)
            assert alive(w, stranger)
            assert w.phase("w1") == "READY"

    play(story)


def test_volumes_and_addresses_are_swept_when_wanted() -> None:
    """Case 45: what is attached to nothing goes after its grace, unless kept or not wanted."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await settings(w, garbage={"sweepAddresses": False})
            w.cloud.waste = [
                Leftover("volume", REGION, "vol-1", None, {"labfleet:owner": "inst"}),
                Leftover("volume", REGION, "vol-2", None, {"labfleet:owner": "inst", "keep": ""}),
                Leftover("address", REGION, "eipalloc-1", None, {"labfleet:owner": "inst"}),
            ]
            await w.let_pass(900)
            assert [each.id for each in w.cloud.waste] == ["vol-2", "eipalloc-1"]
            told = seen(w)
            assert told is not None
            assert [(each.kind, each.id) for each in told.status.deeds] == [("volume", "vol-1")]

    play(story)


def test_an_absent_instance_is_not_believed_while_its_cml_answers() -> None:
    """Rule 4: EC2 shows nothing of a machine whose CML answers; the worker stays and tells."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            [hidden] = w.compute.alive("w1")
            hidden.visible = math.inf
            await w.let_pass(900)
            assert w.phase("w1") == "READY"
            worker = w.cache.get(Worker, "w1", "default")
            assert worker is not None
            assert worker.status.machine.absent_since is not None
            [shown] = regions.garbage(w.services, ADMIN).suspects
            assert shown.suspect.kind == "worker"
            assert "CML answers" in shown.suspect.next
            hidden.visible = 0.0
            await w.let_pass(120)
            worker = w.cache.get(Worker, "w1", "default")
            assert worker is not None
            assert worker.status.machine.absent_since is None
            assert regions.garbage(w.services, ADMIN).suspects == ()

    play(story)


def test_a_record_whose_machine_others_ended_is_no_suspect_and_counts_once() -> None:
    """It stayed a suspect for ever, and total_orphans_terminated stayed 0; also after a new leader."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            [machine] = w.compute.alive("w1")
            machine.visible = math.inf
            w.compute.end(machine)
            await w.until(lambda: bool(regions.garbage(w.services, ADMIN).suspects))
            await w.until(w.in_phase("w1", "FAILED"))
            assert regions.garbage(w.services, ADMIN).suspects == ()
            await w.let_pass(900)
            await w.start()
            await w.let_pass(900)
            shown = regions.garbage(w.services, ADMIN)
            assert (shown.suspects, shown.ended, shown.ended_outside) == ((), 0, 1)
            assert regions.discovery(w.services, ADMIN).total_orphans_terminated == 1

    play(story)
