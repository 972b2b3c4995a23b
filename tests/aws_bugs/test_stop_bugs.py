"""Stopping, as it went wrong elsewhere: facts/aws-bugs.md#case-7, #case-15, #case-23, #case-24."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bug_world import BugWorld, bugs
from virtual_time import play
from world import ADMIN

from labfleet.resources.kinds import KINDS
from labfleet.resources.worker import Worker
from labfleet.service.verbs import objects, settings_verbs


async def rule_on(w: BugWorld, **over: Any) -> None:
    """Switch the idle rule on: 20 minutes without use, no snooze, 2 minutes of warning."""
    wanted = {
        "enabled": True, "timeoutMinutes": 20, "snoozeMinutes": 0, "warnMinutes": 2, **over,
    }  # fmt: skip
    await settings_verbs.change(w.services, ADMIN, {f"idle.{key}": wanted[key] for key in wanted})


def watched(w: BugWorld) -> dict[str, Any]:
    """Return a machine whose telemetry tells of use, without which nothing is ever idle."""
    made = w.machine()
    return {**made, "cml": {**made["cml"], "enableTelemetry": True}}


def phases(w: BugWorld) -> list[str]:
    """Return the phases of all workers."""
    return sorted(str(each.status.phase) for each in w.cache.all(Worker))


def test_7_a_pool_launches_nothing_for_the_worker_that_it_stopped() -> None:
    """Number 7: stopped is not missing; the minimum stays up and nobody is made for the rest."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await rule_on(w)
            await w.make("Template", "metal", {"machine": watched(w)})
            await w.services.fresh()
            scaling = {"minWorkers": 2, "maxWorkers": 2, "emptySeconds": 86_400}
            await w.pool(scaling=scaling)
            await w.until(lambda: phases(w) == ["READY", "READY"])
            less = {"spec": {"scaling": {**scaling, "minWorkers": 1}}}
            await objects.patch(w.services, ADMIN, KINDS["Pool"], "p1", less, namespace="default")
            await w.until(lambda: phases(w) == ["READY", "STOPPED"])
            await w.let_pass(2 * 3600)
            assert phases(w) == ["READY", "STOPPED"]
            assert w.cloud.calls("RunInstances") == 2
            assert w.cloud.calls("StopInstances") == 1
            assert w.cloud.calls("StartInstances") == w.cloud.calls("TerminateInstances") == 0
            w.check()

    play(story)


@pytest.mark.parametrize("lag", [0.0, 45.0])
def test_15_a_worker_that_takes_twenty_minutes_to_stop_is_asked_once(lag: float) -> None:
    """Number 15: one stop for one intent, also while EC2 still shows the machine running."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(times={"metal": {"stopping": 1200.0}}, lags={"state": lag})
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPING"))
            begun = w.clock.now()
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.clock.now() - begun >= timedelta(minutes=19)
            assert w.cloud.calls("StopInstances") == 1
            await w.let_pass(1800)
            assert w.cloud.calls("StopInstances") == 1
            w.check()

    play(story)


def test_15_an_idle_worker_that_stops_slowly_is_asked_once() -> None:
    """Number 15: the idle rule looks every minute and says nothing again."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(times={"metal": {"stopping": 1200.0}})
            await w.start()
            await rule_on(w)
            await w.worker(machine=watched(w))
            await w.until(w.in_phase("w1", "STOPPED"))
            await w.let_pass(1800)
            assert w.cloud.calls("StopInstances") == 1
            assert w.get_worker().status.idle.auto_pauses == 1
            w.check()

    play(story)


def test_15_an_idle_stop_that_ec2_takes_late_is_checked_again() -> None:
    """Numbers 15 and 23: a lab begun while EC2 refuses the stop is left alone (I3, I9)."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await rule_on(w)
            await w.worker(machine=watched(w))
            await w.until(w.in_phase("w1", "READY"))
            now = w.witness.now
            w.cloud.rule("throttle", action="StopInstances", since=now, until=now + 3600)
            await w.until(w.in_phase("w1", "STOPPING"))
            await w.let_pass(60)
            w.hosts.run("w1")
            await w.let_pass(7200)
            assert w.cloud.instances("w1")[0]["state"] == "running"
            assert "1 node runs again" in w.get_worker().status.message
            w.hosts.remove("w1")
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)


def test_23_a_running_lab_keeps_its_worker_though_nobody_is_there() -> None:
    """Number 23: CPU at 1 %, no user, one node that is up: never idle."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await rule_on(w)
            await w.worker(machine=watched(w))
            await w.until(w.in_phase("w1", "READY"))
            w.hosts.run("w1")
            w.hosts.set(cpu_percent=1.0)
            await w.let_pass(2 * 3600)
            assert w.phase("w1") == "READY"
            assert "nodes" in w.get_worker().status.idle.signals
            assert w.cloud.calls("StopInstances") == 0
            w.hosts.remove("w1")
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)


def test_24_a_worker_that_boots_longer_than_the_idle_time_is_not_stopped_for_it() -> None:
    """Number 24: five minutes of idleness begin when the worker is ready, not at its launch."""

    async def story() -> None:
        async with bugs() as w:
            w.hosts.boot(900.0)
            await w.start()
            await rule_on(w, timeoutMinutes=5, warnMinutes=0)
            await w.worker(machine=watched(w))
            await w.until(w.in_phase("w1", "READY"))
            assert w.cloud.calls("StopInstances") == 0
            ready = w.get_worker().status.ready_since
            assert ready is not None
            await w.until(lambda: w.cloud.calls("StopInstances") == 1)
            assert w.clock.now() - ready >= timedelta(minutes=5)
            w.check()

    play(story)
