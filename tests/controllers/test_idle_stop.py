"""The idle rule in a whole installation: who is stopped, who is not, and who comes back.

Names carry the case of facts/aws-bugs.md or facts/fleet-bugs.md that they hold to.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
from fake_lab_host import FakeLab, FakeNode
from virtual_time import play
from world import ADMIN, MACHINE, Process, World, later, world

from labfleet.controllers.worker import idle as rule
from labfleet.decisions import parking
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.idle import ActivityEvent
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import settings_verbs

SEEN: dict[str, Any] = {**MACHINE, "cml": {**MACHINE["cml"], "enableTelemetry": True}}
PERSON = "5c1f9d6a-3b52-4e0c-9a77-0d2f6be1c3a4"
OURS = "00000000-0000-4000-a000-000000000000"


async def rule_on(w: World, **over: Any) -> None:
    """Switch the rule on: 20 minutes without use, no snooze, 2 minutes of warning."""
    wanted = {
        "enabled": True, "timeoutMinutes": 20, "snoozeMinutes": 0, "warnMinutes": 2, **over,
    }  # fmt: skip
    values = {f"idle.{key}": value for key, value in wanted.items()}
    await settings_verbs.change(w.parts, ADMIN, values)


async def ready(w: World, **over: Any) -> Process:
    """One worker without a pool that is up, the rule on."""
    process = await w.start()
    await rule_on(w, **over)
    await w.worker(machine=SEEN)
    await w.definition()
    await w.until(w.in_phase("w1", "READY"))
    return process


def stops(w: World) -> int:
    return sum(call.startswith("stop ") for call in w.compute.calls)


def kept_by(w: World, name: str = "w1") -> tuple[str, ...]:
    return w.get_worker(name).status.idle.signals


def foreign_lab(w: World, worker: str = "w1", nodes: int = 1) -> FakeLab:
    """Start a lab that is not ours, as somebody does in CML's own pages."""
    up = [FakeNode(f"x{each}", f"x{each}", (), up_at=w.hosts.now) for each in range(nodes)]
    made = FakeLab("foreign", "theirs", "", up, wiped=False)
    w.hosts.of(worker).labs[made.id] = made
    return made


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
            w.hosts.of("w1").labs.pop(lab.id)
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
            w.hosts.cpu = 70.0
            await w.until(told(w, "cpu"))
            await w.let_pass(7200)
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


def test_case_24_the_clock_starts_when_the_worker_is_ready_not_at_its_launch() -> None:
    """Boot of 15 minutes, timeout of 5: it serves for the whole timeout first."""

    async def story() -> None:
        async with world() as w:
            w.hosts.boot = 900.0
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
            for failing in ({"activity"}, {"system_stats"}, {"activity", "system_stats"}):
                w.hosts.failing = failing
                await w.let_pass(7200)
                assert w.phase("w1") == "READY"
                word = "telemetry" if failing == {"activity"} else "nodes"
                assert word in kept_by(w)
            w.hosts.failing = set()
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
            w.hosts.declined = True
            await w.until(told(w, "telemetry"))
            await w.let_pass(3600)
            w.hosts.declined = False
            w.hosts.maintenance = True
            await w.until(told(w, "health"))
            await w.let_pass(3600)
            w.hosts.maintenance = False
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
            w.hosts.register_seconds = 550.0
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
                if parking.cordoned(w.get_worker()) and "foreign" not in w.hosts.of("w1").labs:
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
    if asked and "foreign" not in w.hosts.of("w1").labs:
        foreign_lab(w)


def test_case_27_a_session_placed_meanwhile_wins() -> None:
    """The stop's commit holds only if nobody reserved on the worker since the last look."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            await w.until(lambda: w.get_worker().status.idle.warned_at is not None)
            controller = rule.IdleController(process.contexts["worker-controller"])
            # private _guard, _ask: a pause that comes between these two steps, which run in one go
            guard = controller._guard(w.get_worker())
            await w.session()
            await w.until(w.told("s1", "worker='w1'"))
            worker = process.cache.get(Worker, "w1", "default")
            try:
                await controller._ask(worker, w.clock.now(), "idle_timeout", "late", guard)
            except errors.Conflict:
                await w.until(w.ended)
                assert w.phase("s1") == "COMPLETED"
                return
            raise AssertionError("the stop was taken though a session is placed")

    play(story)


def test_sessions_of_our_own_keep_the_worker_and_their_end_starts_the_clock() -> None:
    """A slot that is not over is never idle, whatever CPU and events say (T06)."""

    async def story() -> None:
        async with world() as w:
            await ready(w, timeoutMinutes=5, warnMinutes=0)
            await w.session(slot={"start": later(w, 1), "end": later(w, 90)})
            await w.until(w.ended)
            ended = w.get_session().status.ended_at
            assert w.phase("s1") == "COMPLETED"
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().status.idle.last_paused_at - ended >= timedelta(minutes=5)
            w.check()

    play(story)


def test_a_session_that_begins_soon_keeps_the_worker() -> None:
    """Somebody waits whose slot begins within the lead: no stop, no new boot for them."""

    async def story() -> None:
        async with world() as w:
            await ready(w, timeoutMinutes=30, soonMinutes=60)
            await w.session(slot={"start": later(w, 75), "end": later(w, 100)})
            await w.until(w.in_phase("s1", "RUNNING"))
            assert "STOPPED" not in w.phases["w1"]
            w.check()

    play(story)


def test_people_s_events_put_the_stop_off_and_our_own_do_not() -> None:
    """Events of others than CML's system users count, in the categories that are set."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            did = w.hosts.events.setdefault("w1", [])
            did.append(ActivityEvent(category="start_lab", at=w.clock.now(), user=OURS))
            did.append(ActivityEvent(category="weather", at=w.clock.now(), user=PERSON))
            await w.let_pass(15 * 60)
            last = w.clock.now()
            did.append(ActivityEvent(category="user_activity", at=last, user=PERSON))
            await w.until(w.in_phase("w1", "STOPPED"))
            idle = w.get_worker().status.idle
            assert idle.last_paused_at - last >= timedelta(minutes=20)
            assert idle.last_activity_at == last
            assert [each.category for each in idle.recent] == ["user_activity"]
            w.check()

    play(story)


def test_switches_and_pause_stop_the_rule() -> None:
    """Fleet, worker and pause: each alone keeps every worker, and is said."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await settings_verbs.pause(w.parts, ADMIN, reason="audit")
            await w.let_pass(7200)
            assert "paused" in kept_by(w)
            await settings_verbs.resume(w.parts, ADMIN)
            await respec(w, w.get_worker(), idle_detection=False)
            await w.let_pass(7200)
            assert "worker_switch" in kept_by(w)
            await respec(w, w.get_worker(), idle_detection=True)
            await rule_on(w, enabled=False)
            await w.let_pass(7200)
            assert w.phase("w1") == "READY"
            assert w.get_worker().status.idle.auto_pauses == 0
            w.check()

    play(story)


def test_a_pause_holds_a_parked_worker_too() -> None:
    """Nothing is started by itself while automatic actions are paused."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(w.in_phase("w1", "STOPPED"))
            await settings_verbs.pause(w.parts, ADMIN)
            await w.session()
            await w.let_pass(3600)
            assert w.phase("w1") == "STOPPED"
            await settings_verbs.resume(w.parts, ADMIN)
            await w.until(w.in_phase("s1", "RUNNING"))

    play(story)


def test_a_stop_by_people_outweighs_the_rule_s() -> None:
    """A worker that a person stopped, also after the rule did, starts for nobody."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(w.in_phase("w1", "STOPPED"))
            await verbs.desire(w.parts, ADMIN, "w1", "default", desired="Stopped")
            await w.until(lambda: w.get_worker().status.idle.manual_pauses == 1)
            await w.session()
            await w.let_pass(3600)
            assert (w.phase("w1"), w.phase("s1") == "RUNNING") == ("STOPPED", False)

    play(story)


def test_a_worker_that_is_too_old_is_drained_and_stopped_only_when_empty() -> None:
    """The maximum age throws nobody out: the session ends first, the lab of others too."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await rule_on(w, enabled=False, maxAgeHours=1)
            await w.worker(machine=SEEN)
            await w.definition()
            await w.until(w.in_phase("w1", "READY"))
            await w.session(slot={"start": later(w, 5), "end": later(w, 120)})
            lab = foreign_lab(w)
            await w.until(w.in_phase("w1", "DRAINING"))
            assert "max age" in w.get_worker().spec.drain.reason
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"
            await w.let_pass(1800)
            assert w.phase("w1") == "DRAINING"
            w.hosts.of("w1").labs.pop(lab.id)
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().spec.drain is None
            assert w.get_worker().status.idle.last_paused_reason == "max_age"
            w.check()

    play(story)


def test_a_worker_that_fails_while_the_rule_drains_it_is_let_go() -> None:
    """Nobody replaces what somebody drains: without a pool it waits for people, undrained."""

    async def story() -> None:
        async with world() as w:
            await ready(w, enabled=False, maxAgeHours=1)
            await w.session(slot={"start": later(w, 5), "end": later(w, 120)})
            await w.until(w.in_phase("w1", "DRAINING"))
            w.compute.end(w.compute.alive("w1")[0], "Server.InternalError")
            await w.until(w.in_phase("w1", "FAILED"))
            await w.until(lambda: w.get_worker().spec.drain is None)
            await w.let_pass(1800)
            assert w.phase("w1") == "FAILED"

    play(story)


def test_a_parked_worker_of_a_pool_whose_instance_ended_goes_for_good() -> None:
    """It is capacity no more, and does not take a place of the pool for ever."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await rule_on(w)
            await w.make("Template", "metal", {"machine": SEEN})
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 2, "policy": "NONE"})
            await w.until(lambda: any(e.status.phase == "READY" for e in all_(w)))
            pool = w.cache.get(Pool, "p1", "default")
            await respec(w, pool, scaling=msgspec.structs.replace(pool.spec.scaling, min_workers=0))
            await w.until(lambda: all(each.status.phase == "STOPPED" for each in all_(w)))
            w.compute.end(w.compute.alive()[0])
            await w.until(lambda: not all_(w), hours=6)
            assert len([each for each in w.compute.calls if each.startswith("launch")]) == 1

    play(story)


def test_a_process_that_dies_between_cordon_and_stop_leaves_no_cordon_behind() -> None:
    """The next life finds the mark, looks again, and stops or opens the worker."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            w.hosts.at_nodes = lambda _: (
                process.kill() if parking.cordoned(w.get_worker()) else None
            )
            await w.until(lambda: process.dead)
            assert parking.cordoned(w.get_worker())
            w.hosts.at_nodes = None
            foreign_lab(w)
            await w.start()
            await w.until(lambda: not w.get_worker().spec.cordoned)
            await w.let_pass(600)
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


def test_a_worker_that_people_cordoned_stays_cordoned() -> None:
    """The rule takes back its own cordon only."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await verbs.cordon(w.parts, ADMIN, "w1", "default")
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().spec.cordoned
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            assert w.get_worker().spec.cordoned

    play(story)


def all_(w: World) -> list[Worker]:
    return list(w.cache.all(Worker))


async def respec(w: World, obj: Any, **changes: Any) -> None:
    """Change what is wanted of an object, as a person's patch does."""
    from labfleet.interfaces import store as stores

    fresh = await w.parts.objects.get(type(obj), obj.name, "default")
    metadata = msgspec.structs.replace(fresh.metadata, generation=fresh.metadata.generation + 1)
    spec = msgspec.structs.replace(fresh.spec, **changes)
    new = msgspec.structs.replace(fresh, metadata=metadata, spec=spec)
    await w.parts.objects.save(new, cause=stores.Cause("tester", w.clock.now()))
    key = Key(obj.kind, "default", obj.name)
    await w.until(lambda: (found := w.cache.at(key)) is not None and found.spec == spec)
