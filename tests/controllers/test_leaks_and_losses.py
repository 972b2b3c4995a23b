"""Licence leaks outlive their workers; pools stop replacing what others keep ending.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from virtual_time import play
from world import ADMIN, World, world

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.leak import Leak
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import settings_verbs

OF_THE_RECORD = {
    "phase_since", "limit", "provisioning_started_at", "provisioning_ended_at", "conditions", "idle",
    "console", "attempt", "message", "errors", "observed_generation",
}  # fmt: skip
"""What a worker's status keeps when it begins anew with another machine: none of it is a size or
a reading of the lost one, but its console text, which tells why it was lost."""


def alive(w: World) -> list[str]:
    return [each.name for each in w.cache.all(Worker) if each.status.phase in {"READY", "ACTIVE"}]


def test_a_leak_outlives_its_worker() -> None:
    """The machine ended with its licence: the record goes, the leak stays with what is needed."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            worker = w.cache.get(Worker, "w1", "default")
            assert worker is not None
            w.compute.end(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            await w.delete("Worker", "w1")
            await w.until(lambda: w.phase("w1") is None)
            [leak] = w.cache.all(Leak)
            assert leak.spec.worker == "w1"
            assert leak.spec.worker_uid == worker.metadata.uid
            assert leak.spec.instance_id == worker.status.machine.id
            assert leak.spec.product_uuid == worker.status.cml.product_uuid
            assert leak.spec.certain
            assert "instance ended" in leak.spec.why

    play(story)


def test_a_server_that_is_not_ready_gives_its_licence_back_before_its_machine_ends() -> None:
    """Started again, its core does not come up: it fails, is let go, and no licence is leaked."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            await verbs.desire(w.services, ADMIN, "w1", "default", desired="Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            w.hosts.set(core_connected=False)
            await verbs.desire(w.services, ADMIN, "w1", "default", desired="Ready")
            await w.until(w.in_phase("w1", "FAILED"), hours=2)
            await w.delete("Worker", "w1")
            await w.until(lambda: w.phase("w1") is None)
            assert w.cache.all(Leak) == ()
            assert w.phases["w1"][-3:] == ["UNLICENSING", "STOPPING", "TERMINATING_EC2"]

    play(story)


def test_each_machine_that_a_worker_loses_is_a_leak_of_its_own() -> None:
    """A worker that is tried again with another machine and loses that too has leaked twice."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            lost = []
            for _ in range(2):
                await w.until(w.in_phase("w1", "READY"))
                assert not w.get_worker().status.licence.leak
                lost.append(w.get_worker().status.machine.id)
                w.compute.end(w.compute.alive("w1")[0])
                await w.until(w.in_phase("w1", "FAILED"))
                await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            assert sorted(each.spec.instance_id for each in w.cache.all(Leak)) == sorted(lost)
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert len(w.cache.all(Leak)) == 2

    play(story)


def test_nothing_that_was_true_of_a_lost_machine_is_said_of_the_next() -> None:
    """A worker that begins anew has left its failure and takes no labs: nothing else is known."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            assert conditions.is_true(w.get_worker().status.conditions, "Licensed")
            w.compute.end(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            said: list[WorkerStatus] = []

            def note(_: Worker | None, new: Worker | None) -> None:
                if new is not None and new.status.phase is WorkerPhase.PENDING:
                    said.append(new.status)

            w.cache.on_change(Worker, note)
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            facts = [(each.type, each.status) for each in said[0].conditions]
            assert facts == [("AcceptingLabs", "False"), ("Failed", "False")]
            differ = {
                name
                for name in WorkerStatus.__struct_fields__
                if getattr(said[0], name) != getattr(WorkerStatus(), name)
            }
            assert differ <= OF_THE_RECORD

    play(story)


def test_a_doubt_is_a_leak_until_it_is_cleared() -> None:
    """A crash in a deregistration leaves an uncertain leak; CML's later answer takes it back."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            seen: list[bool] = []
            w.cache.on_change(Leak, lambda _, new: seen.append(new is not None))
            struck: list[str] = []

            def once(name: str, _: int) -> str | None:
                if name == "deregister" and not struck:
                    struck.append(name)
                    return "crash-before"
                return None

            w.strike = once
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert struck
            assert not w.cache.all(Leak)
            assert seen in ([], [True, False])

    play(story)


def test_a_tool_that_keeps_ending_machines_pauses_the_pool() -> None:
    """Case 35: after the third end within half an hour nothing is replaced until resume."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 3, "maxWorkers": 6, "cooldownUpSeconds": 0})
            await w.until(lambda: len(alive(w)) == 3, hours=4)
            for machine in w.compute.alive():
                w.compute.end(machine, "Client.UserInitiatedShutdown")
            await w.let_pass(1200)
            pool = w.cache.get(Pool, "p1", "default")
            assert pool is not None
            assert pool.spec.paused
            fact = conditions.find(pool.status.conditions, "LosingMachines")
            assert fact is not None
            assert (fact.status, fact.reason) == ("True", "MassTermination")
            assert "labfleet resume" in fact.message
            launched = len(w.compute.machines)
            await w.let_pass(7200)
            assert len(w.compute.machines) == launched
            await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default", paused=False)
            await w.until(lambda: len(alive(w)) == 3, hours=4)
            pool = w.cache.get(Pool, "p1", "default")
            assert pool is not None
            assert not pool.spec.paused
            assert not conditions.is_true(pool.status.conditions, "LosingMachines")

    play(story)


def test_a_template_whose_workers_never_come_up_pauses_the_pool() -> None:
    """After the fifth refused licence in a row no more metal is bought, until somebody resumes."""

    async def story() -> None:
        async with world() as w:
            w.hosts.refusals["register"] = errors.Invalid("the token is invalid")
            await w.start()
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 2, "cooldownUpSeconds": 0})

            def broken() -> bool:
                pool = w.cache.get(Pool, "p1", "default")
                return pool is not None and pool.spec.paused

            await w.until(broken, hours=8)
            pool = w.cache.get(Pool, "p1", "default")
            assert pool is not None
            fact = conditions.find(pool.status.conditions, "LosingMachines")
            assert fact is not None
            assert (fact.status, fact.reason) == ("True", "NeverUp")
            assert "LicenceRefused" in fact.message
            launched = len(w.compute.machines)
            assert launched == 5
            await w.let_pass(7200)
            assert len(w.compute.machines) == launched
            w.hosts.refusals.clear()
            await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default", paused=False)
            await w.until(lambda: len(alive(w)) == 1, hours=4)

    play(story)


def test_one_ended_machine_is_just_replaced() -> None:
    """A single loss trips nothing."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 2, "cooldownUpSeconds": 0})
            await w.until(lambda: len(alive(w)) == 2, hours=4)
            w.compute.end(w.compute.alive()[0])
            await w.let_pass(300)
            await w.until(lambda: len(alive(w)) == 2, hours=4)
            pool = w.cache.get(Pool, "p1", "default")
            assert pool is not None
            assert not pool.spec.paused

    play(story)
