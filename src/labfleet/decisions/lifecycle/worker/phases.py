"""The worker's phase table and two summaries of it; diagram: docs/explanation/lifecycles.md."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from labfleet.resources import conditions, providers
from labfleet.resources.conditions import Condition, Status
from labfleet.resources.providers.words import Planned, Words
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.worker import Health, LicenceOrder, Worker, WorkerPhase, WorkerStatus
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
    P.UNLICENSING: frozenset({P.READY_UNLICENSED, P.READY, P.STOPPING, P.FAILED}),
    P.STOPPING: frozenset({P.STOPPED, P.TERMINATING_EC2, P.FAILED}),
    P.STOPPED: frozenset({P.STARTING, P.TERMINATING_EC2, P.FAILED}),
    P.TERMINATING_EC2: frozenset({P.TERMINATED, P.FAILED}),
    P.FAILED: frozenset({P.STOPPING, P.TERMINATING_EC2, P.PENDING, P.STARTING, P.UNLICENSING}),
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


LIMITS: dict[WorkerPhase, str] = {
    P.PENDING: "launch",
    P.PROVISIONING_EC2: "launch",
    P.EC2_READY: "boot",
    P.STARTING: "boot",
    P.LICENSING: "licence",
    P.DRAINING: "drain",
    P.UNLICENSING: "unlicense",
    P.STOPPING: "stop",
    P.TERMINATING_EC2: "terminate",
}
"""Which of the machine's time limits bounds which phase."""


def limit_of(status: WorkerStatus) -> str | None:
    """Return which time limit bounds what goes on now: a start has the machine's, then CML's."""
    if status.phase is P.STARTING and status.machine.state in {"booting", "stopping", "stopped"}:
        return "launch"
    return LIMITS.get(status.phase)


def awaits_provider(status: WorkerStatus) -> bool:
    """Tell whether the worker goes no further before its provider answers."""
    if status.phase is P.STARTING:
        return status.machine.state in {"booting", "stopping", "stopped"}
    return status.phase in {P.PROVISIONING_EC2, P.EC2_READY, P.STOPPING, P.TERMINATING_EC2}


HOSTING = frozenset({P.READY, P.ACTIVE, P.READY_UNLICENSED})
"""Phases in which new sessions may be placed."""

WATCHED = HOSTING | {P.DRAINING}
"""Phases in which CML is asked how it does; in every other one its health is unknown."""

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


def open_order(worker: Worker) -> LicenceOrder | None:
    """Return what was asked of its licence and is neither done nor refused yet."""
    order, known = worker.spec.licence, worker.status.licence.order
    if order is None:
        return None
    over = known is not None and known.id == order.id and known.state in {"done", "refused"}
    return None if over else order


def returning(worker: Worker) -> bool:
    """Tell whether its licence is to go back although the worker stays: CML does that empty only."""
    order, licence = open_order(worker), worker.status.licence
    if order is None or order.verb == "renew":
        return False
    held = licence.registered is True or licence.registration == "IN_PROGRESS"
    if order.verb == "deregister":
        return held
    wanted = worker.spec.licensing
    other = wanted is not None and licence.product not in {None, wanted.product}
    return other and licence.registered is True


def forced(worker: Worker, now: datetime) -> PhaseReason | None:
    """Return why the sessions there are to be ended now: a drain's deadline, an order; or None."""
    drain, order = worker.spec.drain, open_order(worker)
    if drain is not None and drain.force and now >= drain.deadline:
        return PhaseReason.DRAINED
    back = order is not None and order.force and returning(worker)
    return PhaseReason.LICENCE_RETURNED if back else None


def drain_wanted(worker: Worker) -> bool:
    """Tell whether to empty the worker: to leave, or for its licence to go back."""
    return leaving(worker) or returning(worker)


def leaving(worker: Worker) -> bool:
    """Tell whether the worker goes: a drain was requested, or it shall stop or end."""
    asked = worker.spec.drain is not None or desire(worker) != "Ready"
    serves = worker.status.phase in HOSTING | {P.DRAINING}
    return asked or (serves and interrupted(worker.status.conditions))


def interrupted(facts: tuple[Condition, ...]) -> bool:
    """Tell whether the provider is reclaiming the machine: two minutes remain."""
    fact = conditions.find(facts, WorkerCondition.SCHEDULED_EVENT)
    return (
        fact is not None and fact.status == "True" and fact.reason == WorkerReason.SPOT_INTERRUPTION
    )


CLOSING_EVENTS = frozenset({Planned.RETIRE, Planned.STOP, Planned.REBOOT, Planned.REBOOT_HOST})
"""Scheduled events that end or restart what runs on the machine."""


def words(worker: Worker) -> Words:
    """Return what the codes and reasons of the worker's provider mean."""
    machine = worker.spec.machine
    return providers.words_of(None if machine is None else machine.provider)


def closes_at(worker: Worker) -> datetime | None:
    """Return from when on the worker can host nothing; no placement may last beyond it.

    None when nothing is planned. An event without a date counts as the beginning of time, so
    that nothing is placed.
    """
    means, planned = words(worker), worker.status.machine.events
    events = [each for each in planned if means.planned(each.code) in CLOSING_EVENTS]
    if not events:
        return None
    return min(each.not_before or datetime.min.replace(tzinfo=UTC) for each in events)


QUARANTINE = frozenset(
    {
        WorkerReason.CONTROLLER_DOWN,
        WorkerReason.NOT_READY,
        WorkerReason.KVM_MISSING,
        WorkerReason.NO_COMPUTE_READY,
        WorkerReason.NO_COMPUTE,
        WorkerReason.OVERLOADED,
    }
)
"""Reasons of CmlHealthy False with which no node would start."""


CLOSING: dict[str, tuple[Status, str]] = {
    WorkerCondition.DUPLICATE_IDENTITY: ("True", "DuplicateIdentity"),
    WorkerCondition.MAINTENANCE_MODE: ("True", "MaintenanceMode"),
    WorkerCondition.DISK_ALMOST_FULL: ("True", "DiskAlmostFull"),
    WorkerCondition.ADOPTED: ("False", "NotAdopted"),
    WorkerCondition.CML_HEALTHY: ("False", ""),
    WorkerCondition.INSTANCE_CHECKS_PASSED: ("False", "Impaired"),
    WorkerCondition.OVER_COMMITTED: ("True", "OverCommitted"),
    WorkerCondition.CML_READY: ("False", "NotReady"),
}
"""Fact -> the status with which it keeps sessions away, and placement's word for it (empty: its
reason, of which only some close). The first of several is told."""


def closing(fact: Condition) -> bool:
    """Tell whether this fact keeps new sessions away."""
    told = CLOSING.get(fact.type)
    if told is None or fact.status != told[0]:
        return False
    return fact.type != WorkerCondition.CML_HEALTHY or fact.reason in QUARANTINE


def closed_by(facts: tuple[Condition, ...]) -> Condition | None:
    """Return the condition that closes a worker for new sessions; running ones continue."""
    found = _closed_by(facts)
    return found[0] if found else None


def _closed_by(facts: tuple[Condition, ...]) -> list[Condition]:
    """Return all conditions that close a worker, in the order of `CLOSING`."""
    # Most close nothing, and every look asks: one pass instead of one for each that might.
    found = [each for each in facts if each.type in CLOSING and closing(each)]
    if len(found) > 1:
        order = list(CLOSING)
        found.sort(key=lambda each: order.index(each.type))
    return found


class Closure(NamedTuple):
    """Why no new session may be placed on a worker: placement's word, and a sentence."""

    word: str
    text: str


def closure(worker: Worker, now: datetime | None = None) -> Closure | None:
    """Return what keeps new sessions away, None when nothing does: one rule for all who ask.

    Placement, pools, `AcceptingLabs` and what people are shown. A planned event closes from its date
    on; that a session may not last beyond the date is placement's business (`closes_at`).
    """
    status = worker.status
    if status.phase not in HOSTING:
        word = "Draining" if status.phase is P.DRAINING else "NotReady"
        return Closure(word, f"phase is {status.phase}")
    if worker.spec.cordoned:
        return Closure("Cordoned", "cordoned")
    if drain_wanted(worker):
        return Closure("Draining", "draining")
    found = sick(worker)
    if found is not None:
        return found
    # Before the first record that says so: nothing runs on what is not ours.
    if observed(worker):
        return Closure("NotAdopted", "only observed")
    limit = closes_at(worker)
    if limit is not None and limit <= (now or datetime.min.replace(tzinfo=UTC)):
        return Closure("ScheduledEvent", "the provider takes the machine away")
    return None


def sick(worker: Worker) -> Closure | None:
    """Return what the facts close, the cause before its symptom.

    That CML is not ready says nothing of a worker that boots or is stopped.
    """
    facts = worker.status.conditions
    if worker.status.phase not in HOSTING:
        facts = conditions.drop(facts, WorkerCondition.CML_READY)
    fact = closed_by(facts)
    silent = worker.status.health is Health.UNREACHABLE
    if silent and (fact is None or fact.type == WorkerCondition.CML_READY):
        return Closure("Unreachable", "CML does not answer")
    if fact is None:
        return None
    word = CLOSING[fact.type][1]
    return Closure(word or fact.reason, f"{fact.type}: {fact.message or fact.reason}")


_BROKEN: dict[str, str] = {
    WorkerCondition.CML_HEALTHY: "CML starts nothing",
    WorkerCondition.INSTANCE_CHECKS_PASSED: "its machine is ill",
    WorkerCondition.CML_READY: "CML does not answer",
}
"""What does not work when this fact closes a worker: the words for the sessions on it."""


def unfit(worker: Worker) -> str:
    """Return why no lab would start on a worker, for longer than the patience; "" when one would.

    One look without an answer is none of it: the server may only be out of our reach for a moment.
    `TOLERATED_CHECKS` of them are, or `thresholds.silentSeconds` without one.
    """
    if worker.status.phase not in HOSTING:
        return ""
    for fact in _closed_by(worker.status.conditions):
        if fact.type in _BROKEN:
            return f"{_BROKEN[fact.type]}: {fact.message or fact.reason}"
    return ""


def host_ill(worker: Worker) -> bool:
    """Tell whether the provider's own host under it is impaired, for longer than the patience."""
    fact = conditions.find(worker.status.conditions, WorkerCondition.INSTANCE_CHECKS_PASSED)
    impaired = worker.status.machine.host_check == "impaired"
    return impaired and fact is not None and fact.status == "False"


def retired(worker: Worker) -> bool:
    """Tell whether the provider said that it retires the machine."""
    means, planned = words(worker), worker.status.machine.events
    return any(means.planned(each.code) is Planned.RETIRE for each in planned)


def provider_trouble(worker: Worker) -> str:
    """Return what is the matter with its provider, once that lasts; "" when nothing is."""
    fact = conditions.find(worker.status.conditions, WorkerCondition.PROVIDER_ANSWERS)
    return fact.message if fact is not None and fact.status == "False" else ""


def unlaunched(worker: Worker) -> bool:
    """Tell whether the provider has had no room for its machine so far."""
    fact = conditions.find(worker.status.conditions, WorkerCondition.MACHINE_LAUNCHED)
    return worker.status.machine.id is None and fact is not None


def broken(worker: Worker) -> bool:
    """Tell whether its server or machine does not work: not only shut, or full, or kept free."""
    facts = worker.status.conditions
    return worker.status.health is Health.UNREACHABLE or any(
        fact.type in _BROKEN and closing(fact) for fact in facts
    )


def closed_word(worker: Worker, now: datetime | None = None) -> str | None:
    """Return the word for what closes a worker, as placement gives it."""
    found = closure(worker, now)
    return None if found is None else found.word


def accepting(worker: Worker, now: datetime | None = None) -> bool:
    """Tell whether new sessions may be placed here."""
    return closure(worker, now) is None
