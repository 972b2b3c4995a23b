"""How a worker is emptied, stopped and ended, and what others do to its machine.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from virtual_time import play
from worker_cases import ended, up
from world import ADMIN, MACHINE, World, world

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.meta import Key
from labfleet.service.verbs import lifecycle as verbs


def machine(**services: Any) -> dict[str, Any]:
    """Return the machine block with parts changed, one level deep."""
    return {
        **MACHINE,
        **{name: {**MACHINE.get(name, {}), **given} for name, given in services.items()},
    }


@pytest.mark.parametrize("desired", ["Stopped", "Terminated"])
@pytest.mark.parametrize(
    "phase",
    ["PROVISIONING_EC2", "EC2_READY", "STARTING", "LICENSING", "READY", "ACTIVE", "DRAINING",
     "UNLICENSING", "STOPPING", "STOPPED", "FAILED", "READY_UNLICENSED"],
)  # fmt: skip
def test_each_desire_is_reached_from_each_live_phase(phase: str, desired: str) -> None:
    """Whatever a worker is doing, asking for its stop or end leads there and leaves nothing."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            if phase == "READY_UNLICENSED":
                await w.worker(machine={**MACHINE, "autoLicense": False})
            elif phase in {"UNLICENSING", "STOPPING"}:
                await w.worker(machine=machine(licence={"onStop": "return"}))
            else:
                await w.worker()
            await reach(w, phase)
            await w.desire("w1", desired)
            await w.until(w.in_phase("w1", desired.upper()))
            if desired == "Stopped":
                assert [each.state for each in w.compute.alive()] == ["stopped"]
                await ended(w)
            await w.check_empty()

    play(story)


async def reach(w: World, phase: str) -> None:
    """Bring w1 into a phase."""
    if phase == "FAILED":
        w.secrets.values["TOKEN"] = "bad"
    elif phase in {"ACTIVE", "DRAINING"}:
        await w.definition()
        await w.session()
        await w.until(w.in_phase("w1", "ACTIVE"))
        if phase == "DRAINING":
            await verbs.drain(w.services, ADMIN, "w1", "default")
    elif phase in {"UNLICENSING", "STOPPING", "STOPPED"}:
        await w.until(w.in_phase("w1", "READY"))
        await w.desire("w1", "Stopped")
    await w.until(w.in_phase("w1", phase))
    w.secrets.values["TOKEN"] = "good"


def test_a_drain_waits_for_the_session_and_is_then_done() -> None:
    """Drained is False while a session runs and True after its end, never before (T18)."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "DRAINING"))
            await w.until(
                lambda: not conditions.is_true(w.get_worker().status.conditions, "Drained")
            )
            await w.until(w.in_phase("w1", "UNLICENSING", "STOPPING", "TERMINATING_EC2"))
            assert w.phase("s1") == "COMPLETED"
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.check_empty()

    play(story)


def test_a_drain_that_is_taken_back_opens_the_worker_again() -> None:
    """After a cancelled drain new sessions are placed here."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await verbs.drain(w.services, ADMIN, "w1", "default")
            await w.until(w.in_phase("w1", "DRAINING"))
            await verbs.cancel_drain(w.services, ADMIN, "w1", "default")
            await w.until(w.in_phase("w1", "READY"))
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            w.check()

    play(story)


@pytest.mark.parametrize("force", [True, False])
def test_only_a_forced_drain_ends_sessions_at_its_deadline(force: bool) -> None:
    """At the deadline a forced drain ends what runs; another one only says that it is late."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition(defaultDurationMinutes=120)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            deadline = w.clock.now() + timedelta(minutes=5)
            await verbs.drain(w.services, ADMIN, "w1", "default", deadline=deadline, force=force)
            await w.let_pass(240)
            assert w.phase("s1") == "RUNNING"
            await w.let_pass(300)
            if force:
                assert w.phase("s1") == "FAILED"
                assert w.get_session().status.reason == "Drained"
                assert w.hosts.labs_left() == []
            else:
                assert w.phase("s1") == "RUNNING"
                found = conditions.find(w.get_worker().status.conditions, "Drained")
                assert found is not None
                assert found.reason == "Late"
            w.check()

    play(story)


def test_a_machine_stopped_from_outside_is_started_again() -> None:
    """An outside stop fails the worker, which then starts its machine and is READY again."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.compute.stop_outside(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            await w.until(w.in_phase("w1", "READY"))
            assert len(w.compute.machines) == 1
            await ended(w)
            await w.check_empty()

    play(story)


def test_a_machine_ended_from_outside_is_recorded_with_its_licence_leak() -> None:
    """An outside end fails the worker with EC2's reason; its end needs no machine."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.compute.end(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            assert "SpotInstanceTermination" in w.get_worker().status.message
            assert w.get_worker().status.licence.leak
            await ended(w)
            w.check()

    play(story)


def test_an_unreachable_region_ends_nothing() -> None:
    """An hour without EC2's answer changes no phase: an error is not an absence (T37)."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.cloud.refusals["any"] = errors.Temporary("503")
            await w.let_pass(3600)
            assert w.phase("w1") == "READY"
            w.cloud.refusals.clear()
            await w.let_pass(120)
            assert w.phases["w1"][-1] == "READY"

    play(story)


def test_a_gone_machine_in_an_action_is_looked_into_at_once() -> None:
    """NotFound for a stop is not a reason to wait for the next resync."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPING"))
            w.compute.machines.clear()
            begun = w.clock.now()
            await w.until(w.in_phase("w1", "FAILED"))
            assert w.clock.now() - begun < timedelta(seconds=120)
            assert msgspec.to_builtins(w.get_worker().status)["effect"] is None

    play(story)


def test_a_stop_that_people_asked_for_is_looked_at_once_more() -> None:
    """What runs there is no session's: the stop is made, and its event says so (I9)."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            w.hosts.run("w1")
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            told = await w.store.events_of(Key("Worker", "default", "w1"))
            assert any("1 node ran that is no session's" in each.reason for each in told)

    play(story)


def test_a_silent_server_does_not_hold_up_a_stop_that_people_asked_for() -> None:
    """The last look has a deadline of its own within that of the call."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            w.hosts.cut.add("w1")
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))

    play(story)
