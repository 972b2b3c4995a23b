"""The worker's phase table and two summaries of it; diagram: docs/explanation/lifecycles.md."""

from __future__ import annotations

from datetime import UTC, datetime

from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

P = WorkerPhase

EDGES: dict[WorkerPhase, frozenset[WorkerPhase]] = {
    P.PENDING: frozenset({P.PROVISIONING_EC2, P.FAILED, P.TERMINATED}),
    P.PROVISIONING_EC2: frozenset(
        {P.EC2_READY, P.FAILED, P.STOPPING, P.TERMINATING_EC2},
    ),
    P.EC2_READY: frozenset({P.STARTING, P.FAILED, P.STOPPING, P.TERMINATING_EC2}),
    P.STARTING: frozenset(
        {
            P.READY_UNLICENSED, P.LICENSING, P.READY, P.UNLICENSING, P.FAILED, P.STOPPING,
            P.TERMINATING_EC2,
        },
    ),
    P.READY_UNLICENSED: frozenset({P.LICENSING, P.ACTIVE, P.DRAINING, P.FAILED}),
    P.LICENSING: frozenset({P.READY, P.FAILED, P.UNLICENSING}),
    P.READY: frozenset({P.ACTIVE, P.DRAINING, P.UNLICENSING, P.FAILED}),
    P.ACTIVE: frozenset({P.READY, P.READY_UNLICENSED, P.DRAINING, P.FAILED}),
    P.DRAINING: frozenset(
        {P.READY, P.ACTIVE, P.READY_UNLICENSED, P.UNLICENSING, P.STOPPING, P.FAILED},
    ),
    P.UNLICENSING: frozenset({P.READY_UNLICENSED, P.STOPPING, P.FAILED}),
    P.STOPPING: frozenset({P.STOPPED, P.TERMINATING_EC2, P.FAILED}),
    P.STOPPED: frozenset({P.STARTING, P.TERMINATING_EC2, P.FAILED}),
    P.TERMINATING_EC2: frozenset({P.TERMINATED, P.FAILED}),
    P.FAILED: frozenset({P.STOPPING, P.TERMINATING_EC2, P.PENDING, P.STARTING}),
    P.TERMINATED: frozenset(),
}  # fmt: skip

FOLLOWING = frozenset(
    {
        P.PROVISIONING_EC2, P.STARTING, P.READY, P.READY_UNLICENSED, P.STOPPING, P.STOPPED,
        P.TERMINATING_EC2, P.TERMINATED,
    },
)  # fmt: skip
"""Phases that a worker we did not launch may enter from any live one: it follows what is seen."""


def edges(worker: Worker, phase: WorkerPhase) -> frozenset[WorkerPhase]:
    """Return which phases may follow: the table's, and more for a worker we did not launch."""
    if worker.spec.origin is None or phase is P.TERMINATED:
        return EDGES[phase]
    return EDGES[phase] | FOLLOWING


def observed(worker: Worker) -> bool:
    """Tell whether the worker is only observed: not adopted, or not claimed yet."""
    origin = worker.spec.origin
    if origin is None:
        return False
    claimed = origin.kind == "external" or conditions.is_true(
        worker.status.conditions, WorkerCondition.ADOPTED
    )
    return not (origin.managed and claimed)


HOSTING = frozenset({P.READY, P.ACTIVE, P.READY_UNLICENSED})
"""Phases in which new sessions may be placed."""

BOOTING = frozenset({P.PENDING, P.PROVISIONING_EC2, P.EC2_READY, P.STARTING, P.LICENSING})
"""Phases that become hosting capacity by themselves; scaling counts them in full."""

ENDING = frozenset(
    {P.DRAINING, P.UNLICENSING, P.STOPPING, P.STOPPED, P.TERMINATING_EC2, P.TERMINATED}
)

_COARSE = {
    P.PENDING: "pending",
    P.PROVISIONING_EC2: "provisioning",
    P.EC2_READY: "starting",
    P.STARTING: "starting",
    P.READY_UNLICENSED: "running",
    P.LICENSING: "running",
    P.READY: "running",
    P.ACTIVE: "running",
    P.DRAINING: "draining",
    P.UNLICENSING: "stopping",
    P.STOPPING: "stopping",
    P.STOPPED: "stopped",
    P.TERMINATING_EC2: "terminating",
    P.TERMINATED: "terminated",
    P.FAILED: "failed",
}


def coarse(phase: WorkerPhase) -> str:
    """Return upstream 002's coarse status word of a phase (facts/upstream.md#worker-status)."""
    return _COARSE[phase]


def desire(worker: Worker) -> str:
    """Return what is wanted in the end: Ready, Stopped or Terminated; deletion wins."""
    return "Terminated" if worker.deleting else worker.spec.desired


def drain_wanted(worker: Worker) -> bool:
    """Tell whether to drain the worker: a drain was requested, or it shall stop or end."""
    asked = worker.spec.drain is not None or desire(worker) != "Ready"
    serves = worker.status.phase in HOSTING | {P.DRAINING}
    return asked or (serves and interrupted(worker.status.conditions))


def interrupted(facts: tuple[Condition, ...]) -> bool:
    """Tell whether the provider is reclaiming the machine: two minutes remain."""
    fact = conditions.find(facts, WorkerCondition.SCHEDULED_EVENT)
    return (
        fact is not None and fact.status == "True" and fact.reason == WorkerReason.SPOT_INTERRUPTION
    )


CLOSING_EVENTS = frozenset(
    {"instance-retirement", "instance-stop", "instance-reboot", "system-reboot"}
)
"""Codes of scheduled events that end or restart what runs on the machine."""


def closes_at(worker: Worker) -> datetime | None:
    """Return from when on the worker can host nothing; no placement may last beyond it.

    None when nothing is planned. An event without a date counts as the beginning of time, so
    that nothing is placed.
    """
    events = [each for each in worker.status.machine.events if each.code in CLOSING_EVENTS]
    if not events:
        return None
    return min(each.not_before or datetime.min.replace(tzinfo=UTC) for each in events)


QUARANTINE = frozenset(
    {
        WorkerReason.CONTROLLER_DOWN,
        WorkerReason.KVM_MISSING,
        WorkerReason.NO_COMPUTE_READY,
        WorkerReason.NO_COMPUTE,
        WorkerReason.OVERLOADED,
    }
)
"""Reasons of CmlHealthy False with which no node would start."""


def closed_by(facts: tuple[Condition, ...]) -> Condition | None:
    """Return the condition that closes a worker for new sessions; running ones continue."""
    for name in (
        WorkerCondition.DUPLICATE_IDENTITY,
        WorkerCondition.MAINTENANCE_MODE,
        WorkerCondition.DISK_ALMOST_FULL,
    ):
        fact = conditions.find(facts, name)
        if fact is not None and fact.status == "True":
            return fact
    fact = conditions.find(facts, WorkerCondition.ADOPTED)
    if fact is not None and fact.status == "False":
        return fact
    fact = conditions.find(facts, WorkerCondition.CML_HEALTHY)
    sick = fact is not None and fact.status == "False" and fact.reason in QUARANTINE
    return fact if sick else None


def closed_word(facts: tuple[Condition, ...]) -> str | None:
    """Return the word for what closes a worker, as placement gives it."""
    fact = closed_by(facts)
    if fact is None:
        return None
    if fact.type == WorkerCondition.ADOPTED:
        return "NotAdopted"
    return fact.reason if fact.type == WorkerCondition.CML_HEALTHY else fact.type


def accepting(worker: Worker) -> bool:
    """Tell whether new sessions may be placed here, by intent, phase and CML's own health."""
    open_ = worker.status.phase in HOSTING and not worker.spec.cordoned
    return open_ and not drain_wanted(worker) and closed_by(worker.status.conditions) is None
