"""Scheduler, pools, garbage and upkeep: who gets what, how many there are, what goes.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scripted_ec2 import orphan
from virtual_time import play
from world import ADMIN, MACHINE, Process, World, later, world

from labfleet.controllers import assembly, scheduler
from labfleet.kernel import errors
from labfleet.resources.cluster import Simulation
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.verbs import lifecycle as verbs

POOL = Key("Pool", "default", "p1")
TEMPLATE: dict[str, Any] = {
    "capacity": {"cpu": 8, "memory": "32Gi", "storage": "200Gi", "labs": 20, "ports": 500}
}


def big(cpu: int = 40) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": "1Gi", "storage": "1Gi", "nodes": 2, "labs": 1}}


async def ready(w: World, **how: Any) -> Process:
    process = await w.start(**how)
    await w.worker()
    await w.definition()
    await w.until(w.in_phase("w1", "READY"))
    return process


# --- scheduler ---------------------------------------------------------------------------


def test_a_binding_takes_session_ports_and_ledger_in_one_commit() -> None:
    """No revision shows the session placed without its ports, and the ledger row has moved."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            await w.session()
            await w.until(w.told("s1", "worker='w1'"))
            rows = await w.store.ports("default/w1")
            assert {row.owner for row in rows} == {w.get_session().metadata.uid}
            assert [row.number for row in rows] == [2000, 2001]
            [bound] = [
                event
                for event in await w.store.events_of(w.get_session().key)
                if b'"SCHEDULED"' in event.doc and event.actor == "scheduler"
            ]
            from labfleet.service.core import ledger_rows

            row = ledger_rows.of(w.get_worker().key)
            with pytest.raises(errors.Conflict):
                await process.parts.objects.save(
                    w.get_worker(),
                    cause=process.parts.cause(ADMIN, "x"),
                    preconditions=(ledger_rows.untouched(row, bound.revision - 1),),
                )

    play(story)


def test_urgent_sessions_go_first_then_the_older_ones() -> None:
    """With room for one, priority decides, and age among equals."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await verbs.cordon(w.parts, ADMIN, "w1", "default")
            await w.definition("big", **big())
            for name, priority in (("old", 0), ("new", 0), ("urgent", 5)):
                await w.session(name, definition="big", priority=priority)
                await w.let_pass(2)
            await verbs.cordon(w.parts, ADMIN, "w1", "default", closed=False)
            await w.until(w.ended, hours=4)
            begun = {
                name: w.get_session(name).status.started_at for name in ("old", "new", "urgent")
            }
            assert sorted(begun, key=lambda name: begun[name]) == ["urgent", "old", "new"]
            w.check()

    play(story)


def test_a_large_request_does_not_hold_up_small_ones() -> None:
    """One that waits for a whole worker lets small ones by; one too large is refused (T20)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("half", **big(30))
            await w.definition("never", **big(64))
            await w.session("first", definition="half")
            await w.session("waits", definition="half")
            await w.session("never", definition="never")
            for number in range(9):
                await w.session(f"s{number}")
            await w.until(lambda: all(w.phase(f"s{n}") == "RUNNING" for n in range(9)))
            assert w.phase("never") == "FAILED"
            assert w.get_session("never").status.decision.reason == "NeverFits"
            assert w.phase("waits") == "PENDING"
            assert "short" in w.get_session("waits").status.message
            await w.until(w.ended)
            assert w.phase("waits") == "COMPLETED"
            w.check()

    play(story)


def test_a_later_slot_that_can_never_fit_is_refused_today() -> None:
    """Tomorrow's session is judged once at once: refused, or told when a worker is looked for."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("never", **big(64))
            slot = {"start": later(w, 600), "end": later(w, 660)}
            await w.session("never", definition="never", slot=slot)
            await w.session("fits", slot=slot)
            await w.until(lambda: w.phase("never") == "FAILED", hours=1)
            await w.until(lambda: w.get_session("fits").status.decision is not None, hours=1)
            assert w.get_session("never").status.decision.reason == "NeverFits"
            assert w.phase("fits") == "PENDING"
            assert w.get_session("fits").status.decision.reason == "SlotAhead"
            revision = w.get_session("fits").revision
            await w.let_pass(60)
            assert w.get_session("fits").revision == revision
            await w.until(lambda: w.phase("fits") == "RUNNING", hours=12)
            await w.until(w.ended, hours=14)
            w.check()

    play(story)


def test_a_head_of_hundreds_that_waits_does_not_hide_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cycle is bounded, and yet everybody is looked at in turn."""
    monkeypatch.setattr(scheduler, "CYCLE_LIMIT", 5)
    monkeypatch.setattr(scheduler, "HEAD", 3)

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.definition("half", **big(40), defaultDurationMinutes=120)
            for number in range(12):
                await w.session(f"a{number}", definition="half", priority=1)
            await w.session("last")
            await w.until(w.in_phase("last", "RUNNING"), hours=0.5)
            w.check()

    play(story)


def test_a_decision_is_recorded_only_when_it_changes() -> None:
    """An hour of waiting for the same reason is one event."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.definition()
            await w.session()
            await w.until(lambda: w.get_session().status.decision is not None)
            before = await w.events("Session", "s1")
            await w.let_pass(3600)
            assert await w.events("Session", "s1") == before

    play(story)


def test_ports_seen_on_a_server_are_not_given_out() -> None:
    """A port that somebody edited into a lab is avoided, and free again when it is gone (T41)."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            theirs = w.hosts.edit("w1", "serial:2000", "vnc:2002")
            await w.until(lambda: w.get_worker().status.foreign_ports == ("tcp/2000", "tcp/2002"))
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert [port.number for port in w.get_session().status.ports] == [2001, 2003]
            del w.hosts.of("w1").labs[theirs.id]
            await w.until(lambda: w.get_worker().status.foreign_ports == ())
            await w.session("s2")
            await w.until(w.in_phase("s2", "RUNNING"))
            assert [port.number for port in w.get_session("s2").status.ports] == [2000, 2002]
            w.check()

    play(story)


def test_a_lost_race_for_a_worker_waits_for_the_next_cycle() -> None:
    """A ledger that moved after the snapshot makes the binding fail, and then succeed."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w, run=("worker", "session"))
            await w.session()
            await w.until(lambda: process.cache.get(Session, "s1", "default") is not None)
            done = []

            def race(name: str, _: int) -> str | None:
                if name == "commit" and not done:
                    done.append(name)
                    w.store_now(touch(w.get_worker()))
                return None

            w.strike = race
            await process.reconcile("scheduler", assembly.SCHEDULER)
            assert w.phase("s1") == "PENDING"
            await w.let_pass(2)
            await process.reconcile("scheduler", assembly.SCHEDULER)
            await w.until(lambda: w.get_session().status.worker == "w1")
            w.check()

    play(story)


def touch(worker: Worker) -> Any:
    """Return the commit of somebody who reserves on a worker."""
    from labfleet.interfaces import store as stores
    from labfleet.resources import kinds
    from labfleet.service.core import ledger_rows

    put = stores.Put(worker.key, worker.metadata.uid, kinds.encode(worker), {})
    row = ledger_rows.touch(ledger_rows.of(worker.key))
    at = worker.status.phase_since
    assert at is not None
    return stores.Commit(stores.Cause("other", at), (put, row))


# --- pools -------------------------------------------------------------------------------


def test_a_pool_keeps_its_minimum_and_replaces_what_failed() -> None:
    """The minimum is made at once; a lost machine is replaced under a new name."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 2, "maxWorkers": 3})
            first, second = "lab-worker-default-001", "lab-worker-default-002"
            await w.until(lambda: w.phase(first) == w.phase(second) == "READY")
            w.compute.end(w.compute.alive(first)[0])
            await w.until(w.in_phase("lab-worker-default-003", "READY"))
            await w.until(lambda: w.phase(first) is None)
            assert len(w.compute.alive()) == 2
            w.check()

    play(story)


def test_a_pool_grows_for_waiting_sessions_to_its_maximum_and_shrinks_when_empty() -> None:
    """Need makes workers one by one, never past the maximum; empty ones go after their time."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.make("Template", "small", {"machine": {**MACHINE, **TEMPLATE}})
            await w.pool(template="small", scaling={"maxWorkers": 2, "emptySeconds": 600})
            await w.definition("big", **big(40))
            for number in range(4):
                await w.session(f"s{number}", definition="big")
            await w.until(w.ended, hours=6)
            assert {w.phase(f"s{n}") for n in range(4)} == {"FAILED"}  # 8 CPUs: never fits
            await w.definition("fits", **big(8))
            peak = []
            for number in range(4):
                await w.session(f"t{number}", definition="fits")
            while not w.ended():
                peak.append(len(w.compute.alive()))
                await w.let_pass(30)
            assert {w.phase(f"t{n}") for n in range(4)} == {"COMPLETED"}
            assert max(peak) == 2
            await w.until(lambda: w.cache.all(Worker) == ())
            await w.check_empty()
            [pool] = w.cache.all(Pool)
            assert [each.kind for each in pool.status.events].count("scale_down") == 2

    play(story)


def test_a_draining_worker_is_neither_capacity_nor_a_gap() -> None:
    """Draining one above the minimum makes no new one (T17)."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 5})
            await w.definition(defaultDurationMinutes=120)
            await w.until(w.in_phase("lab-worker-default-001", "READY"))
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            await w.pool("p2", scaling={"minWorkers": 0, "maxWorkers": 5}, track="other")
            await w.desire("lab-worker-default-001", "Terminated")
            await w.until(w.in_phase("lab-worker-default-002", "READY"))
            await w.let_pass(1200)
            assert w.phase("lab-worker-default-001") == "DRAINING"
            assert len(w.cache.all(Worker)) == 2

    play(story)


def test_a_pool_that_is_deleted_makes_no_more_workers() -> None:
    """A session that waits for a terminating pool brings nothing up, and nothing stays (T10)."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1})
            await w.until(lambda: len(w.cache.all(Worker)) == 1)
            await w.definition()
            await asyncio.gather(
                w.delete("Pool", "p1"), *[w.session(f"s{number}") for number in range(20)]
            )
            await w.until(lambda: w.cache.all(Pool) == ())
            assert w.cache.all(Worker) == ()
            await w.let_pass(600)
            await w.check_empty()
            assert w.phases.keys() - {f"s{n}" for n in range(20)} == {"lab-worker-default-001"}

    play(story)


def test_two_pools_of_one_prefix_do_not_fight_over_names() -> None:
    """A name that another pool's worker has is skipped."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1})
            await w.pool("p2", scaling={"minWorkers": 1})
            await w.until(lambda: len(w.cache.all(Worker)) == 2, hours=0.2)
            assert {each.spec.pool for each in w.cache.all(Worker)} == {"p1", "p2"}
            w.check()

    play(story)


def test_a_ready_pool_leaves_the_cordons_of_another_alone() -> None:
    """Only the pool that closed its workers while draining opens them again."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1})
            await w.pool("p2", scaling={"minWorkers": 1}, namePrefix="other")
            name = "other-default-001"
            await w.until(w.in_phase(name, "READY"))
            await desired(w, "p2", "Draining")
            await w.until(lambda: w.get_worker(name).spec.cordoned)
            before = w.get_worker(name).metadata.generation
            await w.let_pass(600)
            assert w.get_worker(name).spec.cordoned
            assert w.get_worker(name).metadata.generation == before
            await desired(w, "p2", "Ready")
            await w.until(lambda: not w.get_worker(name).spec.cordoned)

    play(story)


async def desired(w: World, pool: str, word: str) -> None:
    old = await w.parts.objects.get(Pool, pool, "default")
    assert old is not None
    spec = msgspec.structs.replace(old.spec, desired=word)
    metadata = msgspec.structs.replace(old.metadata, generation=old.metadata.generation + 1)
    new = msgspec.structs.replace(old, spec=spec, metadata=metadata)
    await w.parts.objects.save(new, cause=w.parts.cause(ADMIN, "Desired"))


def test_a_session_of_any_track_makes_the_pool_grow_that_can_carry_it() -> None:
    """The first pool by name is too small, so the second grows, and only it."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.make("Template", "small", {"machine": {**MACHINE, **TEMPLATE}})
            await w.pool("a", template="small", track="x")
            await w.pool("b", track="y")
            await w.definition("big", **big(40))
            await w.session("s1", definition="big")
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"
            assert {each.spec.pool for each in w.cache.all(Worker)} == {"b"}

    play(story)


def test_a_worker_licensing_for_long_is_not_idle() -> None:
    """Forty minutes of LICENSING do not count as empty time (T05)."""

    async def story() -> None:
        async with world() as w:
            w.hosts.register_seconds = 2400.0
            await w.start()
            limits = {**MACHINE, "limits": {"licence": 3600}}
            await w.make("Template", "slow", {"machine": limits})
            await w.pool(template="slow", scaling={"maxWorkers": 1, "emptySeconds": 600})
            await w.definition()
            await w.session()
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"
            assert "lab-worker-default-001" in w.phases

    play(story)


def test_a_session_placed_between_look_and_retirement_wins() -> None:
    """A thousand times a binding slips in before the commit, and no worker is retired (T16)."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=("session",))
            await w.pool(scaling={"minWorkers": 0, "emptySeconds": 0, "cooldownDownSeconds": 0})
            await w.definition()
            await w.worker("w1", pool="p1")
            worker = await w.parts.objects.get(Worker, "w1", "default")
            await w.status(
                worker,
                phase=WorkerPhase.READY,
                phase_since=w.clock.now(),
                empty_since=w.clock.now() - timedelta(hours=1),
                capacity=msgspec.structs.replace(
                    worker.spec.machine.capacity, nodes=200, labs=5000
                ),
            )
            won = 0
            for number in range(1000):
                # For later than anybody looks ahead, so that the view shows an idle worker.
                await w.session(f"s{number}", slot={"start": later(w, 600)})
                await w.until(lambda number=number: w.phase(f"s{number}") is not None)
                slipped = []

                def race(name: str, _: int, slipped: list[str] = slipped) -> str | None:
                    if name == "commit" and not slipped:
                        slipped.append(name)
                        w.store_now(binding(w, f"s{number}"))
                    return None

                w.strike = race
                before = process.cache.revision
                with contextlib.suppress(errors.Conflict):
                    await process.reconcile("pool", POOL)
                w.strike = None
                assert process.cache.revision >= before
                found = await w.parts.objects.get(Worker, "w1", "default")
                assert found is not None
                won += found.spec.desired == "Ready"
                if not slipped:
                    break
                gone = await w.parts.objects.get(Session, f"s{number}", "default")
                await w.status(gone, reservation=None)
                await w.let_pass(2)
            assert (won, number) == (1000, 999)
            await process.reconcile("pool", POOL)
            found = await w.parts.objects.get(Worker, "w1", "default")
            assert found is not None
            assert found.spec.desired == "Terminated", "undisturbed it is retired"

    play(story)


def binding(w: World, name: str) -> Any:
    """Return the commit with which a scheduler binds a session to w1."""
    from labfleet.interfaces import store as stores
    from labfleet.resources import kinds
    from labfleet.resources.amounts import Amounts, Reservation
    from labfleet.service.core import ledger_rows

    session = w.get_session(name)
    now = w.clock.now()
    held = Reservation(holder="w1", amounts=Amounts(labs=1), start=now)
    status = msgspec.structs.replace(session.status, worker="w1", reservation=held)
    new = msgspec.structs.replace(session, status=status)
    put = stores.Put(session.key, session.metadata.uid, kinds.encode(new), {})
    row = ledger_rows.touch(ledger_rows.row("Worker", "w1", "default"))
    return stores.Commit(stores.Cause("scheduler", now), (put, row))


# --- garbage and upkeep ------------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
def test_an_orphan_is_ended_only_at_the_second_look(keep: bool) -> None:
    """A machine of ours without a worker goes after its grace; one tagged keep never does."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            made = orphan(w, **({"keep": ""} if keep else {}))
            await w.let_pass(240)
            assert made.state == "running"
            await w.let_pass(600)
            assert made.state == ("running" if keep else "terminated")
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


def test_an_orphan_that_cannot_be_ended_does_not_save_the_next() -> None:
    """One machine that EC2 refuses to end leaves the others to be judged."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            second = orphan(w, "i-second")
            stuck = orphan(w)
            real = w.compute.terminate

            async def terminate(region: str, instance_id: str) -> None:
                if instance_id == stuck.id:
                    raise errors.Denied("not yours")
                await real(region, instance_id)

            w.compute.terminate = terminate  # type: ignore[method-assign]
            await w.let_pass(900)
            assert second.state == "terminated"
            assert stuck.state == "running"

    play(story)


def test_a_machine_of_an_open_launch_is_no_orphan() -> None:
    """Garbage leaves alone what a worker may still adopt."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            w.strike = lambda name, _: "lost-after" if name == "launch" else None
            w.compute.show_after(0.0)
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            assert [call for call in w.compute.calls if call.startswith("terminate")] == []

    play(story)


def test_old_records_go_after_their_retention() -> None:
    """Finished sessions, simulations and ended workers leave after thirty days, not before."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            await w.session()
            await w.until(w.ended)
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            for task in process.tasks[1:]:
                task.cancel()
            await w.clock.sleep(29 * 86400)
            await process.reconcile("upkeep", assembly.UPKEEP)
            await w.let_pass(4)
            assert w.phase("s1") == "COMPLETED"
            await w.clock.sleep(2 * 86400)
            await process.reconcile("upkeep", assembly.UPKEEP)
            await w.let_pass(4)
            assert w.phase("s1") is None
            assert w.phase("w1") is None
            assert w.cache.all(Simulation) == ()

    play(story)


# --- losing every event ------------------------------------------------------------------


def test_everything_converges_when_no_event_ever_arrives() -> None:
    """A feed that only lists again costs time and nothing else."""

    async def story() -> None:
        async with world() as w:
            await w.start(deaf=True, relist=300.0)
            await w.pool(scaling={"minWorkers": 0, "maxWorkers": 2, "emptySeconds": 60})
            await w.definition()
            await w.session()
            await w.session("s2", slot={"start": later(w, 60), "end": later(w, 90)})
            await w.until(w.ended, hours=12)
            assert (w.phase("s1"), w.phase("s2")) == ("COMPLETED", "COMPLETED")
            await w.until(lambda: w.cache.all(Worker) == (), hours=12)
            await w.check_empty()

    play(story)
