"""Liveness: once the faults have stopped, everything converges within a stated time.

`unsettled` lists in sentences what has not converged yet, from the state of the worlds and the
stored objects. It is called every virtual minute; the run ends when the list is empty.
"""

from __future__ import annotations

from datetime import timedelta

from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.rehearsal.rules.invariants import Invariants
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources import conditions, topology
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition
from labfleet.resources.worker import Worker, WorkerPhase

SETTLE_HOURS = 8.0
"""Virtual hours after the last fault and the last wish: the longest drain (4 h), a boot, and
the clean-up of what was left over fit into it."""

_AT_REST = {
    "Ready": frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.DRAINING}),
    "Stopped": frozenset({WorkerPhase.STOPPED, WorkerPhase.FAILED}),
    "Terminated": frozenset({WorkerPhase.TERMINATED}),
}

_OBSERVED = frozenset(
    {
        WorkerPhase.STARTING, WorkerPhase.READY, WorkerPhase.READY_UNLICENSED,
        WorkerPhase.STOPPED, WorkerPhase.TERMINATED,
    }
)  # fmt: skip
_UNLICENSED = frozenset({WorkerPhase.READY_UNLICENSED, WorkerPhase.ACTIVE, WorkerPhase.DRAINING})


def unsettled(seen: Invariants, *, least: int, most: int) -> list[str]:
    """Return what is still moving or left over; an empty list means that all has converged."""
    now = seen.cloud.loop.time()
    return [
        *_sessions(seen, now),
        *_workers(seen, least, most),
        *_machines(seen),
        *_impaired(seen),
        *(
            f"{each.kind} {each.id} is attached to nothing and still there"
            for each in seen.cloud.waste
            if each.id not in seen.spared
        ),
        *_labs(seen),
        *_ports(seen),
        *_licences(seen),
    ]


def _sessions(seen: Invariants, now: float) -> list[str]:
    instant = EPOCH + timedelta(seconds=now)
    return [
        f"{key} is {session.status.phase}: {session.status.message}"
        for key, session in sorted(seen.sessions.items())
        if not _resting(session, instant >= (session.status.end or instant))
    ]


def _resting(session: Session, over: bool) -> bool:  # noqa: FBT001
    if session.status.phase in TERMINAL:
        kept = conditions.find(session.status.conditions, SessionCondition.WORK_KEPT)
        return session.status.reservation is None and (kept is None or kept.status != "Unknown")
    return session.status.phase is SessionPhase.RUNNING and not over


def _workers(seen: Invariants, least: int, most: int) -> list[str]:
    found = [
        f"{worker.key} is {worker.status.phase}, wanted {worker.spec.desired}: "
        f"{worker.status.message}"
        for _, worker in sorted(seen.workers.items())
        if worker.status.phase not in _at_rest(worker)
    ]
    ready = sum(
        each.status.phase is not WorkerPhase.TERMINATED and each.spec.pool is not None
        for each in seen.workers.values()
    )
    if not least <= ready <= most:
        found.append(f"the pool has {ready} workers, wanted {least} to {most}")
    return found


def _at_rest(worker: Worker) -> frozenset[WorkerPhase]:
    machine, wanted = worker.spec.machine, _desired(worker)
    if worker_phases.observed(worker):
        return _OBSERVED  # it is where its owner left it
    if worker.spec.origin is not None and wanted == "Ready":
        # It stood for one instance, which somebody else may have ended.
        return _AT_REST[wanted] | _UNLICENSED | {WorkerPhase.FAILED}
    if wanted == "Ready" and machine is not None and machine.licence.token is None:
        return _UNLICENSED
    if wanted == "Ready" and worker.spec.licence is not None:
        return _AT_REST[wanted] | _UNLICENSED  # somebody gave its licence back, or tried in vain
    return _AT_REST[wanted]


def _desired(worker: Worker) -> str:
    return "Terminated" if worker.deleting else worker.spec.desired


def _machines(seen: Invariants) -> list[str]:
    found = []
    for vm in seen.cloud.vms.values():
        if not vm.live:
            if vm.state != "gone":
                found.append(f"{vm.id} is {vm.state}")
            continue
        if vm.id in seen.strangers:
            continue
        worker = seen.workers.get(vm.request.worker)
        if worker is None or worker.status.machine.id != vm.id:
            found.append(f"{vm.id} of {vm.request.worker} belongs to nobody")
        elif vm.state not in {"running", "stopped"}:
            found.append(f"{vm.id} of {vm.request.worker} is {vm.state}")
    return found


def _impaired(seen: Invariants) -> list[str]:
    """Find empty workers of pools on a host that nobody mends: their pool replaces them."""
    found = []
    for name, worker in sorted(seen.workers.items()):
        vm = seen.cloud.vms.get(worker.status.machine.id or "")
        pooled = worker.spec.pool is not None and worker.spec.origin is None
        if vm is None or vm.state != "running" or not pooled or seen.held.get(name):
            continue
        if vm.system_check == "impaired":
            found.append(f"{worker.key} is empty, on {vm.id} whose host is impaired")
    return found


def _labs(seen: Invariants) -> list[str]:
    live = {
        each.metadata.uid for each in seen.sessions.values() if each.status.phase not in TERMINAL
    }
    return [
        f"lab {lab.title} on {server.id} belongs to no live session"
        for server in seen.cml_servers.fleet.servers.values()
        for lab in server.labs.values()
        if topology.marker_of(lab.notes) not in live
    ]


def _ports(seen: Invariants) -> list[str]:
    live = {
        each.metadata.uid for each in seen.sessions.values() if each.status.reservation is not None
    }
    database = seen.shared.inner
    owners = sorted({row[3] for row in database.rows(database.sql["ports"])})
    return [f"ports are held by {owner}, who holds nothing else" for owner in owners
            if owner not in live]  # fmt: skip


def _licences(seen: Invariants) -> list[str]:
    """Find licences that no living server holds and that no leak record names."""
    fleet = seen.cml_servers.fleet
    living = {
        server.config.identity.product_uuid
        for server in fleet.servers.values()
        if not server.power.destroyed
    }
    lost = sorted(uuid for uuid in fleet.cloud.held if uuid not in living)
    return [f"licence of {uuid} is lost and nobody says so" for uuid in lost
            if uuid not in seen.leaks]  # fmt: skip
