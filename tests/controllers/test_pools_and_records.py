"""Pools that grow, shrink and end; garbage, retention, and a fleet that hears of no event.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_cases import big, ready
from scripted_ec2 import orphan
from virtual_time import play
from world import ADMIN, MACHINE, World, later, world

from labfleet.controllers import assembly
from labfleet.kernel import errors
from labfleet.resources import conditions, fleet_alerts
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core.explanation import plain

POOL = Key("Pool", "default", "p1")


TEMPLATE: dict[str, Any] = {
    "capacity": {"cpu": 8, "memory": "32Gi", "storage": "200Gi", "labs": 20, "ports": 500}
}


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
            raised = set()
            while not w.ended():
                peak.append(len(w.compute.alive()))
                [pool] = w.cache.all(Pool)
                for each in fleet_alerts.raised(pool):
                    ready = conditions.find(pool.status.conditions, PoolCondition.READY)
                    raised.add((each.condition, each.reason, ready.status if ready else ""))
                    assert each.message == pool.status.message
                await w.let_pass(30)
            assert raised == {("DemandMet", "AtMaximum", "False")}
            assert {w.phase(f"t{n}") for n in range(4)} == {"COMPLETED"}
            assert max(peak) == 2
            await w.until(lambda: w.cache.all(Worker) == ())
            await w.check_empty()
            [pool] = w.cache.all(Pool)
            assert [each.kind for each in pool.status.events].count("scale_down") == 2
            assert fleet_alerts.raised(pool) == ()
            told = plain(pool)
            assert told.since == pool.status.phase_since != pool.metadata.creation_timestamp

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
    old = await w.services.objects.get(Pool, pool, "default")
    assert old is not None
    spec = msgspec.structs.replace(old.spec, desired=word)
    metadata = msgspec.structs.replace(old.metadata, generation=old.metadata.generation + 1)
    new = msgspec.structs.replace(old, spec=spec, metadata=metadata)
    await w.services.objects.save(new, cause=w.services.cause(ADMIN, "Desired"))


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
            w.hosts.set(registration_seconds=2400.0)
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
            worker = await w.services.objects.get(Worker, "w1", "default")
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
                await w.session(f"s{number}", slot={"start": later(w, 600)}, whenFull="wait")
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
                found = await w.services.objects.get(Worker, "w1", "default")
                assert found is not None
                won += found.spec.desired == "Ready"
                if not slipped:
                    break
                gone = await w.services.objects.get(Session, f"s{number}", "default")
                await w.status(gone, reservation=None)
                await w.let_pass(2)
            assert (won, number) == (1000, 999)
            await process.reconcile("pool", POOL)
            found = await w.services.objects.get(Worker, "w1", "default")
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
            assert made.state == ("running" if keep else "gone")
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
            assert second.state == "gone"
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
