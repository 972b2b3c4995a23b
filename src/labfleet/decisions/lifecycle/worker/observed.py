"""The rules for a worker that is only observed: found or named, and not adopted.

Its phase follows the machine and CML. It is never started, stopped, terminated, licensed or configured,
and hosts no session; the only action is the claim that adopting it requests
(facts/aws.md#ownership).
"""

from __future__ import annotations

from labfleet.decisions.lifecycle.worker import health as worker_health
from labfleet.decisions.lifecycle.worker import outside as worker_outside
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.draft import (
    CHECK,
    SOON,
    Draft,
    P,
    Step,
    gone,
    leak,
    note_server,
)
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.worker import FINALIZER_LICENCE, FINALIZER_MACHINE, Health, Origin
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

_AS_SEEN = {
    "booting": P.PROVISIONING_EC2,
    "stopping": P.STOPPING,
    "stopped": P.STOPPED,
    "ending": P.TERMINATING_EC2,
    "gone": P.TERMINATED,
}


def decide(draft: Draft, origin: Origin) -> Step:
    """Follow the observed state; claim the machine when it was adopted."""
    phase, machine = draft.status.phase, draft.status.machine
    if phase is P.TERMINATED:
        draft.drop(FINALIZER_MACHINE)
        return draft.stay(again=3600.0)
    if origin.kind == "imported" and (machine.id is None or phase is P.PENDING):
        draft.set(machine=MachineStatus(id=origin.instance_id))
        _closed(draft, "NotAdopted")
        return draft.go(P.PROVISIONING_EC2, "looking at the instance")
    if gone(draft) and machine.type is None and draft.seen.machine is None:
        told = f"the provider knows no instance {machine.id}: look at the id and at the region"
        draft.fact(WorkerCondition.ADOPTED, "False", WorkerReason.NO_SUCH_INSTANCE, told)
        draft.drop(FINALIZER_MACHINE)
        return draft.go(P.TERMINATED, told, again=CHECK)
    if gone(draft):
        worker_outside.terminated(draft)
        draft.drop(FINALIZER_MACHINE)
        return draft.go(P.TERMINATED, "the instance ended; it was only observed", again=CHECK)
    if draft.answer.claimed:
        return _adopted(draft)
    if origin.managed and origin.kind == "imported":
        return _claim(draft)
    _closed(draft, "NotAdopted")
    return _follow(draft, origin)


def _closed(draft: Draft, reason: str) -> None:
    if reason == "NotAdopted":
        told = f"only observed: labfleet adopt worker/{draft.worker.name}"
        draft.fact(WorkerCondition.ADOPTED, "False", WorkerReason.NOT_ADOPTED, told)
    else:
        draft.fact(
            WorkerCondition.ADOPTED,
            "False",
            WorkerReason.CLAIMING,
            "putting our owner tag on the instance",
        )


def _claim(draft: Draft) -> Step:
    """Request our owner tag; a refusal is final until somebody adopts the worker again."""
    before = conditions.find(draft.status.conditions, WorkerCondition.ADOPTED)
    if draft.answer.refused:
        draft.fact(
            WorkerCondition.ADOPTED, "False", WorkerReason.OWNED_BY_ANOTHER, draft.answer.refused
        )
        draft.drop(FINALIZER_MACHINE)
        return draft.stay("not adopted: it belongs to somebody else", again=CHECK)
    refused = before is not None and before.reason == WorkerReason.OWNED_BY_ANOTHER
    asked_anew = draft.worker.metadata.generation > draft.worker.status.observed_generation
    if (refused and not asked_anew) or phases.desire(draft.worker) == "Terminated":
        draft.drop(FINALIZER_MACHINE)
        return _follow(draft, draft.worker.spec.origin)
    alive = draft.seen.machine is not None and draft.status.machine.state != "ending"
    _closed(draft, "Claiming")
    if not alive:
        return draft.stay(f"cannot claim it yet: {draft.seen.trouble or 'not seen'}", again=CHECK)
    draft.hold(FINALIZER_MACHINE)
    return draft.stay("claiming the instance", again=SOON, do="claim")


def _adopted(draft: Draft) -> Step:
    """Continue as with our own machine: a running one is taken over as after a boot."""
    draft.hold(FINALIZER_MACHINE)
    draft.fact(WorkerCondition.ADOPTED, "True", WorkerReason.CLAIMED, "it carries our owner tag")
    if draft.status.licence.registered:
        draft.hold(FINALIZER_LICENCE)
    if draft.status.machine.state == "running":
        return draft.go(P.STARTING, "adopted: taking the server over")
    if draft.status.machine.state == "ending" and phases.desire(draft.worker) != "Terminated":
        # Somebody ended it while our tag was on its way. TERMINATED would say that we wanted that.
        worker_outside.terminated(draft)
        leak(draft, "the instance ended before the licence was returned")
        told = f"instance {draft.status.machine.id} ended while it was adopted"
        return draft.fail(WorkerReason.INSTANCE_TERMINATED, told)
    phase = _AS_SEEN.get(draft.status.machine.state or "", draft.status.phase)
    return draft.go(phase, "adopted")


def _follow(draft: Draft, origin: Origin | None) -> Step:
    """Enter the phase that matches the machine's and CML's state."""
    machine, seen = draft.status.machine, draft.seen
    external = origin is not None and origin.kind == "external"
    if not external:
        if seen.machine is None:
            return draft.stay(f"instance state unknown: {seen.trouble}", again=CHECK)
        if machine.state != "running":
            draft.set(health=Health.UNKNOWN, ready_since=None)
            draft.fact(
                WorkerCondition.CML_READY,
                "False",
                WorkerReason.STOPPED,
                f"instance is {machine.state}",
            )
            phase = _AS_SEEN.get(machine.state or "", draft.status.phase)
            return draft.go(phase, f"observed: instance is {machine.state}", again=CHECK)
    if draft.status.phase not in phases.HOSTING | {P.STARTING}:
        return draft.go(P.STARTING, "observed: the machine runs")
    return _server(draft)


def _server(draft: Draft) -> Step:
    """Record what CML says; an unreachable server changes health, not the phase."""
    seen = draft.seen
    hosting = draft.status.phase in phases.HOSTING
    note_server(draft)
    worker_health.note(draft)
    if seen.stage != "ready":
        told = seen.trouble or seen.stage or "not looked at yet"
        draft.fact(WorkerCondition.CML_READY, "False", WorkerReason.NOT_READY, told)
        answers = Health.DEGRADED if seen.stage == "not_ready" else Health.UNREACHABLE
        draft.set(health=answers if hosting else Health.UNKNOWN)
        draft.failed_check()
        worker_health.let_lapse(draft)
        return draft.stay(f"observed: waiting for CML: {told}", again=CHECK if hosting else 5.0)
    draft.fact(
        WorkerCondition.CML_READY, "True", WorkerReason.READY, f"CML {draft.status.cml.version}"
    )
    draft.set(health=Health.DEGRADED if seen.trouble else Health.HEALTHY, failed_checks=0)
    licence = draft.status.licence
    if seen.licence is not None:
        reason = WorkerReason.IN_COMPLIANCE if licence.licensed else WorkerReason.NOT_IN_COMPLIANCE
        draft.fact(WorkerCondition.LICENSED, "True" if licence.licensed else "False", reason)
    if not hosting:
        draft.set(ready_since=draft.now, empty_since=draft.now)
    phase = P.READY if licence.licensed else P.READY_UNLICENSED
    return draft.go(phase, f"observed{': ' if seen.trouble else ''}{seen.trouble}", again=CHECK)
