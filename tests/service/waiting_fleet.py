"""A fleet on which sessions wait: workers up and booting, what runs, and what past runs took."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from fleet_world import ADMIN, MACHINE, World

from labfleet.decisions import placement
from labfleet.decisions.claims.asked import TEARDOWN
from labfleet.interfaces import store as stores
from labfleet.interfaces.store.history import Teach
from labfleet.resources.amounts import Reservation
from labfleet.resources.decision import Decision, Verdict
from labfleet.resources.history import Run, RunKind
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.worker import LicenceStatus, Worker, WorkerPhase
from labfleet.service.kinds import session_outlook
from labfleet.service.verbs import objects


async def fleet(world: World, labs: int = 1, workers: int = 2) -> Any:
    """Make a pool of at most so many workers, each of which holds so many labs of `two`."""
    made = await world.definition()
    need = made.status.demand
    capacity = {"memoryMib": need.memory_mib * labs, "cpuMilli": need.cpu_milli * labs + 500,
                "storageMib": 10**7, "labs": 50, "ports": 6000, "nodes": 900}  # fmt: skip
    machine = {**MACHINE, "capacity": capacity, "licence": {"token": {"env": "CML_TOKEN"}}}
    machine["cml"] = {**machine["cml"], "maxNodesLicensed": 900}
    await world.make("Template", "metal", {"machine": machine})
    scaling = {"maxWorkers": workers, "minWorkers": 0}
    pool = await world.make("Pool", "exam-eu", {"template": "metal", "scaling": scaling})
    await world.services.fresh()
    return pool


async def worker(world: World, name: str, phase: str = "READY", minutes: float = 30) -> Worker:
    """Make a worker of the pool whose launch began so many minutes ago."""
    row = KINDS["Worker"]
    body = {"metadata": {"name": name}, "spec": {"template": "metal", "pool": "exam-eu"}}
    made = await objects.create(world.services, ADMIN, row, body)
    assert isinstance(made, Worker)
    assert made.spec.machine is not None
    shape = placement.shape(name, "default", made.spec.machine)
    since = world.clock.now() - timedelta(minutes=minutes)
    up = phase in {"READY", "ACTIVE"}
    return await world.status(
        made,
        phase=WorkerPhase(phase),
        phase_since=since,
        provisioning_started_at=since,
        capacity=shape.capacity if up else None,
        licence=LicenceStatus(licensed=up, product=shape.product),
    )


async def past(world: World, kind: RunKind, family: str, minutes: list[float]) -> None:
    """Have the history know runs of a family that took so many minutes each."""
    for number, each in enumerate(minutes):
        run = Run(
            kind=kind,
            uid=f"{family}-{kind}-{number}",
            family=family,
            duration_seconds=60 * each,
            ended_at=world.clock.now(),
        )
        cause = stores.Cause("past", world.clock.now())
        await world.store.commit(stores.Commit(cause=cause, writes=(Teach(run),)))


async def runs(world: World, name: str, on: str, *, begun: float, **status: Any) -> Session:
    """Have a session run on a worker since so many minutes."""
    made = await world.session(name)
    now = world.clock.now()
    since = now - timedelta(minutes=begun)
    end = since + timedelta(minutes=240)
    definition = await world.services.objects.get(KINDS["Definition"].type, "two", "default")
    held = Reservation(holder=on, amounts=definition.status.demand, start=since, end=end + TEARDOWN)
    given = {
        "phase": SessionPhase.RUNNING, "phase_since": since, "start": since, "end": end, "worker": on,
        "reservation": held, "scheduled_at": since - timedelta(minutes=4), "started_at": since,
        "reason": str(PhaseReason.RUNNING), "message": "",
    }  # fmt: skip
    return await world.status(made, **{**given, **status})


async def labs(world: World, on: str, minutes: list[float]) -> None:
    """Have labs of `two` come up on a worker, one after the other, in so many minutes each."""
    session_outlook.kept(world.services)
    made = await runs(world, "lab-after-lab", on, begun=1)
    for each in minutes:
        since = world.clock.now() - timedelta(minutes=each)
        made = await world.status(
            made, phase=SessionPhase.INSTANTIATING, phase_since=since, ready_at=None
        )
        made = await world.status(made, phase=SessionPhase.READY, ready_at=world.clock.now())
        made = await world.status(made, phase=SessionPhase.RUNNING)
        ended = world.clock.now() + timedelta(minutes=1)
        made = await world.status(made, phase=SessionPhase.STOPPING, phase_since=world.clock.now())
        made = await world.status(made, phase=SessionPhase.COMPLETED, ended_at=ended)
    await world.status(made, phase=SessionPhase.RUNNING, ended_at=None)
    await world.services.fresh()


async def waits(world: World, name: str, on: str = "w-eu-3", **spec: Any) -> Session:
    """Have a session wait that the scheduler found no room for."""
    made = await world.session(name, **spec)
    definition = await world.services.objects.get(KINDS["Definition"].type, "two", "default")
    need = definition.status.demand
    short = placement.ledger.shortages(need, need, need, dimensions=("cpu_milli",))
    short = tuple(msgspec.structs.replace(each, free=500) for each in short)
    message = (
        f"{placement.needs_words(_request(need, world.clock.now()))}; best worker {on} is short"
    )
    decision = Decision(
        outcome="waiting",
        reason="NoCapacityAvailable",
        message=f"{message} {placement.wording.short(short)}",
        at=world.clock.now(),
        requested=need,
        candidates=(Verdict(name=on, fits=False, reasons=("InsufficientCpu",), shortages=short),),
        evaluated=1,
    )
    return await world.status(
        made, decision=decision, reason=str(PhaseReason.WAITING), message=decision.message
    )


def _request(need: Any, now: datetime) -> placement.PlacementRequest:
    return placement.PlacementRequest(amounts=need, start=now)


async def looked(world: World) -> None:
    """Have the outlooks worked out of what is stored now."""
    await world.services.fresh()
    await session_outlook.kept(world.services).look("default")
