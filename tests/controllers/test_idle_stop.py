"""The idle rule in a whole installation: who is stopped, who is not, and who comes back.

Names carry the case of facts/aws-bugs.md or facts/fleet-bugs.md that they hold to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from idle_cases import SEEN, all_, foreign_lab, has_labs, kept_by, ready, respec, rule_on
from scripted_servers import EVENTS
from virtual_time import play
from world import ADMIN, World, later, world

from labfleet.controllers.worker.idle_findings import IdleFindings, Look
from labfleet.controllers.worker.idle_observer import IdleObserver
from labfleet.controllers.worker.inventory import Inventory
from labfleet.controllers.worker.reconcile import WorkerController
from labfleet.decisions import parking
from labfleet.decisions.lifecycle.worker.draft import Guard, Step
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker
from labfleet.service.reads.idle_facts import Reading
from labfleet.service.verbs import lifecycle as verbs


def stops(w: World) -> int:
    return sum(call.startswith("stop ") for call in w.compute.calls)


def told(w: World, word: str) -> Callable[[], bool]:
    return lambda: word in kept_by(w)


def test_an_unused_worker_is_warned_of_and_stopped_once() -> None:
    """Warning first, then one stop for one intent (case 15), with the reason on record."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            since = w.get_worker().status.ready_since
            await w.until(lambda: w.get_worker().status.idle.warned_at is not None)
            assert conditions.is_true(w.get_worker().status.conditions, "IdleWarning")
            warned = w.get_worker().status.idle.warned_at
            w.cloud.stop_range = (1200.0, 1200.0)
            await w.until(w.in_phase("w1", "STOPPED"))
            idle = w.get_worker().status.idle
            assert idle.last_paused_at - warned >= timedelta(minutes=2)
            assert idle.last_paused_at - since >= timedelta(minutes=20)
            assert (idle.auto_pauses, idle.last_paused_reason) == (1, "idle_timeout")
            assert parking.auto_stopped(w.get_worker())
            assert not w.get_worker().spec.cordoned
            assert stops(w) == 1
            reasons = [each.reason for each in await w.store.events_of(w.get_worker().key)]
            assert any(each.startswith("IdleWarning: ") for each in reasons)
            await w.let_pass(7200)
            assert (stops(w), w.phase("w1")) == (1, "STOPPED")
            w.check()

    play(story)


def test_case_7_a_pool_keeps_its_minimum_and_launches_nothing_for_what_was_stopped() -> None:
    """Two spare of three stop, one stays; nobody is made for them (also T08)."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await rule_on(w)
            await w.make("Template", "metal", {"machine": SEEN})
            await w.pool(scaling={"minWorkers": 3, "maxWorkers": 3, "policy": "NONE"})
            await w.until(lambda: sum(e.status.phase == "READY" for e in all_(w)) == 3)
            pool = w.cache.get(Pool, "p1", "default")
            body = msgspec.structs.replace(pool.spec.scaling, min_workers=1)
            await respec(w, pool, scaling=body)
            await w.until(lambda: sum(e.status.phase == "STOPPED" for e in all_(w)) == 2)
            await w.let_pass(7200)
            phases = sorted(str(each.status.phase) for each in all_(w))
            assert phases == ["READY", "STOPPED", "STOPPED"]
            assert sum(call.startswith("launch") for call in w.compute.calls) == 3
            assert stops(w) == 2
            [up] = [each for each in all_(w) if each.status.phase == "READY"]
            assert "pool_minimum" in up.status.idle.signals
            w.check()

    play(story)


def test_case_48_a_stopped_worker_is_started_before_a_new_one_is_launched() -> None:
    """A session that waits brings the stopped one back, one of two, and the resume is counted."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await rule_on(w)
            await w.make("Template", "metal", {"machine": SEEN})
            scaling = {"minWorkers": 2, "maxWorkers": 3, "emptySeconds": 86_400}
            await w.pool(scaling=scaling)
            await w.definition()
            await w.until(lambda: sum(e.status.phase == "READY" for e in all_(w)) == 2)
            pool = w.cache.get(Pool, "p1", "default")
            body = msgspec.structs.replace(pool.spec.scaling, min_workers=0)
            await respec(w, pool, scaling=body)
            await w.until(lambda: all(each.status.phase == "STOPPED" for each in all_(w)))
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert len(all_(w)) == 2
            assert sum(call.startswith("launch") for call in w.compute.calls) == 2
            assert sum(call.startswith("start ") for call in w.compute.calls) == 1
            back = w.get_worker(w.get_session().status.worker)
            assert back.status.idle.auto_resumes == 1
            assert not parking.auto_stopped(back)
            w.check()

    play(story)


def test_a_worker_without_a_pool_is_started_for_a_session_that_waits() -> None:
    """Nobody else would; and the session is not refused as one that never fits."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(w.in_phase("w1", "STOPPED"))
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert w.get_worker().status.idle.auto_resumes == 1
            w.check()

    play(story)


def test_case_23_a_lab_that_is_not_ours_keeps_its_worker_though_cpu_is_low() -> None:
    """CPU at 1 % and no user in sight prove nothing while a node runs."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            lab = foreign_lab(w)
            await w.let_pass(3 * 3600)
            assert w.phase("w1") == "READY"
            assert {"nodes", "console"} <= set(kept_by(w))
            w.hosts.remove("w1", lab.id)
            gone = w.clock.now()
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().status.idle.last_paused_at - gone >= timedelta(minutes=19)
            w.check()

    play(story)


def test_case_23_high_cpu_keeps_a_worker_and_low_cpu_alone_never_stops_it() -> None:
    """CPU only forbids."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.set(cpu_percent=70.0)
            await w.until(told(w, "cpu"))
            await w.let_pass(7200)
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


def test_case_24_the_clock_starts_when_the_worker_is_ready_not_at_its_launch() -> None:
    """Boot of 15 minutes, timeout of 5: it serves for the whole timeout first."""

    async def story() -> None:
        async with world() as w:
            w.hosts.boot(900.0)
            await ready(w, timeoutMinutes=5)
            up = w.get_worker().status.ready_since
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().status.idle.last_paused_at - up >= timedelta(minutes=5)
            assert w.phases["w1"].count("READY") == 1
            w.check()

    play(story)


def test_case_25_a_worker_started_again_has_a_new_clock_and_is_left_alone() -> None:
    """Stopped for two hours, started by hand: snooze, then the whole timeout anew."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(w.in_phase("w1", "STOPPED"))
            await rule_on(w, snoozeMinutes=45)
            await w.let_pass(7200)
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            up = w.get_worker().status.ready_since
            await w.until(w.in_phase("w1", "STOPPED"))
            idle = w.get_worker().status.idle
            assert idle.last_paused_at - up >= timedelta(minutes=45)
            assert (idle.manual_resumes, idle.auto_pauses) == (1, 2)
            assert idle.last_resumed_at is not None
            w.check()

    play(story)


def test_case_26_what_cannot_be_read_keeps_the_worker() -> None:
    """Telemetry, sizes or both fail for hours: unknown is never idle."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            for failing in (EVENTS,), ("system_stats",), (EVENTS, "system_stats"):
                w.hosts.fail(*failing)
                await w.let_pass(7200)
                assert w.phase("w1") == "READY"
                word = "telemetry" if failing == (EVENTS,) else "nodes"
                assert word in kept_by(w)
            w.hosts.fail()
            await w.until(lambda: w.get_worker().status.idle.warned_at is not None)
            told_at = w.get_worker().status.idle.warned_at + timedelta(minutes=2)
            warning = conditions.find(w.get_worker().status.conditions, "IdleWarning")
            assert f"stopped at {told_at:%Y-%m-%d %H:%M}Z" in warning.message  # never in the past
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)


def test_case_26_an_unreachable_server_a_maintenance_and_declined_telemetry_keep_it() -> None:
    """Each of the three says nothing about people."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            server = w.hosts.of("w1")
            await w.until(lambda: server.opt_in is True)  # asked for at each boot
            server.opt_in = False
            await w.until(told(w, "telemetry"))
            await w.let_pass(3600)
            server.opt_in = True
            server.maintenance = True
            await w.until(told(w, "health"))
            await w.let_pass(3600)
            server.maintenance = False
            w.hosts.cut.add("w1")
            await w.let_pass(3600)
            assert w.phase("w1") == "READY"
            assert w.get_worker().status.idle.auto_pauses == 0
            w.check()

    play(story)


def test_case_26_licensing_is_no_idleness() -> None:
    """A worker that has been LICENSING for longer than the timeout is left alone (T05)."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(registration_seconds=550.0)
            await w.start()
            await rule_on(w, timeoutMinutes=5)
            await w.worker(machine=SEEN)
            await w.until(w.in_phase("w1", "READY"))
            assert "DRAINING" not in w.phases["w1"]

    play(story)


def test_case_27_a_lab_started_between_check_and_stop_takes_the_stop_back() -> None:
    """Cordoned, looked at again, opened again: nothing is stopped under the lab."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(lambda: w.get_worker().status.idle.warned_at is not None)
            cordons: list[bool] = []

            def between(_: str) -> None:
                cordons.append(parking.cordoned(w.get_worker()))
                if cordons[-1]:
                    foreign_lab(w)

            def before_the_second_look(call: str) -> None:
                if parking.cordoned(w.get_worker()) and not has_labs(w):
                    foreign_lab(w)

            w.hosts.at_nodes = before_the_second_look
            w.hosts.at_activity = between
            await w.until(told(w, "nodes"))
            await w.let_pass(3600)
            assert any(cordons)
            assert w.phase("w1") == "READY"
            assert not w.get_worker().spec.cordoned
            assert not parking.cordoned(w.get_worker())
            assert stops(w) == 0
            assert w.get_worker().status.idle.warned_at is None
            w.check()

    play(story)


def test_case_27_a_lab_started_after_the_last_look_is_seen_before_the_machine_stops() -> None:
    """The stop was asked for, the lab came, and the worker goes back to serving."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.cache.on_change(Worker, lambda old, new: strike(w, new))
            await w.until(lambda: "DRAINING" in w.phases["w1"])
            await w.until(w.in_phase("w1", "READY"))
            await w.let_pass(3600)
            assert stops(w) == 0
            assert w.get_worker().status.idle.auto_resumes == 1
            w.check()

    play(story)


def strike(w: World, new: Any) -> None:
    """Start a foreign lab at the moment in which the stop is asked for."""
    asked = new is not None and new.spec.desired == "Stopped"
    if asked and not has_labs(w):
        foreign_lab(w)


def test_case_27_a_session_placed_meanwhile_wins() -> None:
    """The stop's commit holds only if nobody reserved on the worker since its look began."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            await w.until(lambda: w.get_worker().status.idle.warned_at is not None)
            context = process.contexts["worker-controller"]
            findings = IdleFindings(context)
            inventory = Inventory(context.compute, w.clock)
            controller = WorkerController(context, inventory, w.store, findings)
            look = Look(reading=Reading(), at=w.clock.now(), revision=process.cache.revision)
            await w.session()
            await w.until(w.told("s1", "worker='w1'"))
            worker = process.cache.get(Worker, "w1", "default")
            findings.put(worker.key, look)
            finding = findings.take(worker.key)
            stopped = parking.paused(worker, w.clock.now(), by="r", reason="late", auto=True)
            step = Step(
                stopped.status,
                worker.metadata.finalizers,
                changed=stopped,
                guard=Guard(unreserved_since=look.revision),
            )
            with pytest.raises(errors.Conflict, match="reservations of worker/default/w1"):
                # private _judged: records a step that was decided before the session came
                await controller._judged(worker, step, finding)
            assert findings.take(worker.key) is None  # a new look follows
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"

    play(story)


@pytest.mark.parametrize("kind", ["cheap", "whole"])
def test_a_look_that_hangs_for_minutes_does_not_delay_the_worker(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is polled and hosts a session while each idle look hangs until it is cut off."""

    async def story() -> None:
        async with world() as w:
            hung = asyncio.Event()

            async def never(*_: Any) -> None:
                hung.set()
                await asyncio.Event().wait()

            await ready(w)
            monkeypatch.setattr(IdleObserver, kind, never)
            await w.until(hung.is_set)
            if kind == "whole":
                assert parking.cordoned(w.get_worker())
                await verbs.cordon(w.services, ADMIN, "w1", "default", closed=False)
            process, begun = w.process, w.clock.now()
            assert process is not None
            looks = len([each for each in process.outcomes if each[0] == "worker"])
            await w.session(slot={"start": later(w, 1), "end": later(w, 11)})
            await w.until(w.in_phase("w1", "ACTIVE"))
            assert w.clock.now() - begun <= timedelta(minutes=2)
            await w.until(w.in_phase("s1", "COMPLETED"))
            await w.until(w.in_phase("w1", "READY"))
            assert w.clock.now() - begun <= timedelta(minutes=15)
            assert len([each for each in process.outcomes if each[0] == "worker"]) - looks >= 20
            assert ("idle", "deadline") in [(name, how) for name, _, how, _ in process.outcomes]
            w.check()

    play(story)


def test_the_idle_look_writes_nothing() -> None:
    """With no step of workers running, a due look changes no worker, and hands on what it found."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(lambda: w.get_worker().status.idle.warned_at is not None)
            process = await w.start(run=["idle", "session", "scheduler"])
            before = w.get_worker()
            await w.let_pass(3600)
            assert w.get_worker() == before
            assert any(name == "idle" for name, *_ in process.outcomes)

    play(story)
