"""Slow machines, no room, and drains that never end: facts/aws-bugs.md#case-37 and more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bug_world import BugWorld, bugs
from virtual_time import play
from world import ADMIN

from labfleet.resources import conditions
from labfleet.service.kinds import drain_blockers
from labfleet.service.verbs import lifecycle as verbs

MINUTE = 60.0


def limited(w: BugWorld, **limits: int) -> dict[str, Any]:
    """Return a machine with time limits of its own."""
    return {**w.machine(), "limits": limits}


def minutes(w: BugWorld, since: Any) -> float:
    """Return the minutes since an instant."""
    return float((w.clock.now() - since) / timedelta(minutes=1))


async def up(w: BugWorld, **spec: Any) -> str:
    """Bring a worker up and return its instance's id."""
    await w.start()
    await w.worker(**spec)
    await w.until(w.in_phase("w1", "READY"))
    return str(w.get_worker().status.machine.id)


def test_37_metal_takes_its_time_to_stop_and_to_start_again() -> None:
    """Number 37: up to twenty-five minutes for each way are no failure of any kind."""

    async def story() -> None:
        async with bugs() as w:
            slow = {"pending": 25 * MINUTE, "stopping": 25 * MINUTE}
            w.cloud.config(times={"metal": slow})
            await up(w)
            await w.desire("w1", "Stopped")
            begun = w.clock.now()
            await w.until(w.in_phase("w1", "STOPPED"))
            assert minutes(w, begun) >= 25
            await w.desire("w1", "Ready")
            begun = w.clock.now()
            await w.until(w.in_phase("w1", "READY"))
            assert minutes(w, begun) >= 25
            assert "FAILED" not in w.phases["w1"]
            assert w.cloud.calls("StopInstances") == w.cloud.calls("StartInstances") == 1
            assert w.cloud.calls("RunInstances") == 1
            w.check()

    play(story)


@pytest.mark.parametrize("what", ["stop", "terminate"])
def test_37_a_deadline_is_told_and_the_machine_watched_until_it_is_down(what: str) -> None:
    """Number 37: over its limit by an hour it is late, not failed, and nobody forces it."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(times={"metal": {"stopping": 5400.0, "terminating": 5400.0}})
            await up(w)
            end = {"stop": "STOPPED", "terminate": "TERMINATED"}[what]
            await w.desire("w1", end.title())
            await w.until(w.told("w1", f"{what.title()}Late"))
            late = conditions.find(w.get_worker().status.conditions, "Late")
            assert late is not None
            assert "instance is still" in late.message
            assert conditions.is_true(w.get_worker().status.conditions, "PhaseStuck")
            assert w.phase("w1") not in {end, "FAILED"}
            await w.until(w.in_phase("w1", end))
            assert "FAILED" not in w.phases["w1"]
            asked = [each for each in w.cloud.sky.journal.entries if each.source == "api"]
            done = [
                each for each in asked if each.action in {"StopInstances", "TerminateInstances"}
            ]
            assert len(done) == 1
            w.check()

    play(story)


def test_37_a_machine_that_is_stuck_in_stopping_is_watched_for_hours() -> None:
    """Number 37: it is told with what to do, and the worker goes on when a person forced it."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            w.cloud.config(stuck_stopping=True)
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPING"))
            await w.let_pass(2 * 3600)
            assert w.phase("w1") == "STOPPING"
            assert conditions.is_true(w.get_worker().status.conditions, "Late")
            assert w.cloud.calls("StopInstances") == 1
            w.cloud.hand("unstick", kept)
            await w.until(w.in_phase("w1", "STOPPED"), hours=0.1)
            assert not conditions.is_true(w.get_worker().status.conditions, "Late")
            w.check()

    play(story)


def test_38_an_image_that_boots_for_25_minutes_comes_up_in_its_own_limit() -> None:
    """Number 38: the limit is the template's, so a slow image is not ended for ever and ever."""

    async def story() -> None:
        async with bugs() as w:
            w.hosts.boot(25 * MINUTE)
            await w.start()
            await w.worker(machine=limited(w, boot=1800))
            await w.until(w.in_phase("w1", "READY", "FAILED"))
            assert w.phase("w1") == "READY"
            assert w.cloud.calls("RunInstances") == 1
            w.check()

    play(story)


def test_38_a_boot_over_its_limit_is_told_and_its_machine_kept_for_another_try() -> None:
    """Number 38: nobody launches it anew; with a longer limit the same machine serves."""

    async def story() -> None:
        async with bugs() as w:
            w.hosts.boot(25 * MINUTE)
            await w.start()
            await w.worker(machine=limited(w, boot=900))
            await w.until(w.in_phase("w1", "FAILED"))
            assert "not ready in time" in w.get_worker().status.message
            await w.let_pass(1800)
            assert len(w.cloud.instances("w1")) == 1
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            assert w.cloud.calls("RunInstances") == 1
            assert w.cloud.calls("TerminateInstances") == 0
            w.check()

    play(story)


async def draining(w: BugWorld, *, runs: int = 10, **drain: Any) -> None:
    """Run a session whose lab cannot be taken down, and ask for its worker to be emptied."""
    await up(w)
    await w.definition(defaultDurationMinutes=runs)
    await w.session()
    await w.until(w.in_phase("s1", "RUNNING"))
    w.hosts.set(stop_seconds=1e9)
    await verbs.drain(w.services, ADMIN, "w1", "default", reason="maintenance", **drain)
    await w.until(w.in_phase("w1", "DRAINING"))


def blockers(w: BugWorld) -> list[str]:
    """Return why the worker is not empty, one line each, with what helps."""
    sessions = [w.get_session()]
    return [
        f"{each.name}: {each.why}: {each.help}"
        for each in drain_blockers.of(w.get_worker(), sessions)
    ]


def test_41_a_drain_says_what_it_waits_for_and_when_it_is_late() -> None:
    """Number 41: each blocker has a reason and a way out; the deadline stops nobody by itself."""

    async def story() -> None:
        async with bugs() as w:
            await draining(w, deadline=w.clock.now() + timedelta(minutes=25))
            [line] = blockers(w)
            assert "runs until its time is over" in line
            assert "labfleet cancel session/s1" in line
            await w.let_pass(40 * MINUTE)
            [line] = blockers(w)
            assert "labfleet explain session/s1" in line
            drained = conditions.find(w.get_worker().status.conditions, "Drained")
            assert drained is not None
            assert (drained.status, drained.reason) == ("False", "Late")
            assert conditions.is_true(w.get_worker().status.conditions, "PhaseStuck")
            assert w.phase("w1") == "DRAINING"
            w.check()

    play(story)


@pytest.mark.parametrize("choice", ["extend", "cancel", "force"])
def test_41_a_person_extends_cancels_or_forces_a_drain(choice: str) -> None:
    """Number 41: whoever asked for it decides how it ends."""

    async def story() -> None:
        async with bugs() as w:
            runs = 120 if choice == "force" else 10
            await draining(w, runs=runs, deadline=w.clock.now() + timedelta(minutes=15))
            if choice == "extend":
                later = w.clock.now() + timedelta(hours=2)
                await verbs.change_drain(w.services, ADMIN, "w1", "default", deadline=later)
                await w.let_pass(30 * MINUTE)
                drained = conditions.find(w.get_worker().status.conditions, "Drained")
                assert drained is not None
                assert drained.reason == "SessionsRunning"
                assert not conditions.is_true(w.get_worker().status.conditions, "PhaseStuck")
            elif choice == "cancel":
                await verbs.cancel_drain(w.services, ADMIN, "w1", "default")
                await w.until(w.in_phase("w1", "ACTIVE"))
                assert blockers(w) == []
                assert w.phase("s1") == "RUNNING"
            else:
                w.hosts.set(stop_seconds=15.0)
                await verbs.change_drain(w.services, ADMIN, "w1", "default", force=True)
                await w.until(w.ended, hours=0.5)
                await w.until(
                    lambda: conditions.is_true(w.get_worker().status.conditions, "Drained")
                )
            w.check()

    play(story)


def test_41_a_worker_that_is_to_end_ends_though_its_lab_cannot_be_stopped() -> None:
    """Number 41: its licence waits for its limit, is told as leaked, and the machine goes."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            w.hosts.set(stop_seconds=1e9)
            w.hosts.run("w1")
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert conditions.is_true(w.get_worker().status.conditions, "LicenceLeaked")
            w.check(forced=[kept])  # a person asked for its end, whatever runs there

    play(story)


@pytest.mark.parametrize("zones", [1, 3])
def test_44_no_capacity_is_asked_for_a_few_times_in_an_hour(zones: int) -> None:
    """Number 44: HTTP 500 or not, one request for one question; then it backs off, and is told."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(stock={"m5zn.metal": 0})
            subnets = [each["id"] for each in w.cloud.ready["subnets"]][:zones]
            machine = w.machine(subnetIds=subnets)
            await w.start()
            await w.worker(machine={**machine, "limits": {"launch": 7200}})
            await w.let_pass(50 * MINUTE)
            entries = [
                each for each in w.cloud.sky.journal.entries if each.action == "RunInstances"
            ]
            assert len(entries) <= 10 * zones
            tokens = [each.token for each in entries]
            assert len(tokens) == len(set(tokens))
            assert "no capacity" in str(w.get_worker().status.conditions)
            w.cloud.config(stock={"m5zn.metal": 5})
            await w.until(w.in_phase("w1", "READY"), hours=1.5)
            w.check()

    play(story)


def test_44_a_start_without_capacity_is_asked_for_a_few_times_in_an_hour() -> None:
    """Number 44: StartInstances too; the worker waits with the reason and then starts."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            w.cloud.config(stock={"m5zn.metal": 0})
            await w.desire("w1", "Ready")
            await w.let_pass(50 * MINUTE)
            assert 2 <= w.cloud.calls("StartInstances") <= 15
            assert w.phase("w1") == "STARTING"
            held = conditions.find(w.get_worker().status.conditions, "MachineStarted")
            assert held is not None
            assert (held.status, held.reason) == ("False", "OutOfCapacity")
            w.cloud.config(stock={"m5zn.metal": 5})
            await w.until(w.in_phase("w1", "READY"), hours=1.5)
            assert w.cloud.calls("RunInstances") == 1
            w.check()

    play(story)
