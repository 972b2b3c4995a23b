"""The rules for a worker on its way down, stopped, failed or ended."""

from __future__ import annotations

from labfleet.decisions.lifecycle.worker import licence_orders, limits, phases
from labfleet.decisions.lifecycle.worker import outside as worker_outside
from labfleet.decisions.lifecycle.worker.draft import (
    CHECK,
    Action,
    Draft,
    P,
    Step,
    gone,
    leak,
    note_server,
    surely_unregistered,
    takes_licence,
)
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    FINALIZER_MACHINE,
    CmlStatus,
    Health,
    LicenceStatus,
    StrayLabs,
)
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


def unlicensing(draft: Draft) -> Step:
    """Give the licence back before the machine ends, with a deadline."""
    note_server(draft)
    licence, seen = draft.status.licence, draft.seen
    if not draft.answer.cloud_told:
        # Store it now: the observation that shows the licence gone may fail and come later.
        leak(draft, "CML answered 202: the licence cloud was not told")
    if surely_unregistered(draft):
        draft.drop(FINALIZER_LICENCE)
        draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.RETURNED, "licence returned")
        licence_orders.returned(draft)
        if phases.desire(draft.worker) == "Ready":
            return draft.go(P.READY_UNLICENSED, "licence returned")
        return draft.go(P.STOPPING, "licence returned")
    staying = keep_licence(draft, stops=True)
    if staying is not None:
        return staying
    if limits.late(draft):
        leak(draft, f"licence not returned in time: {seen.trouble or licence.registration}")
        return draft.go(P.STOPPING, "licence leak recorded")
    if draft.answer.nodes_running:
        return draft.stay("nodes still run: stopping them first", again=5.0, do="stop_labs")
    call: Action | None = "deregister" if takes_licence(draft) else None
    return draft.stay("returning the licence", again=5.0, do=call)


def keep_licence(draft: Draft, *, stops: bool) -> Step | None:
    """Return to service with the licence: an order was taken back, or cannot be carried out.

    `stops`: what runs there and is no session's may be stopped, when the order says so. A worker
    that leaves is another matter: its licence goes back, or counts as leaked.
    """
    if licence_orders.kept(draft):
        return draft.go(P.READY, "the licence is kept")
    order, licence = licence_orders.stays(draft), draft.status.licence
    if order is None:
        return None
    if draft.answer.nodes_running and not (stops and order.force):
        told = "nodes run that are no session's"
        told += "; --force stops them" if stops else ": those of others are never stopped"
    elif limits.late(draft):
        told = f"not returned in time: {draft.seen.trouble or licence.registration}"
    else:
        return None
    licence_orders.refuse(draft, told)
    return draft.go(P.READY, f"the licence is kept: {told}")


def _held(draft: Draft, limit: int) -> bool:
    """Tell whether the machine must wait for its sessions to end.

    On an unreachable server they never end by themselves. So the wait is over at the phase's
    time limit; the end of the machine then releases them.
    """
    return draft.seen.sessions > 0 and not draft.late(limit)


def _accepted(draft: Draft) -> bool:
    """Tell whether the provider is about it: before that, the wait is not the machine's."""
    return draft.status.limit is not None and draft.status.limit.begun


def stopping(draft: Draft) -> Step:
    """Stop the machine and wait until it is; if it is to be terminated, go straight on."""
    machine = draft.status.machine
    if _held(draft, draft.limits.stop):
        return draft.stay(f"still being ended: {count(draft.seen.sessions, 'session')}", again=5.0)
    # A licensed worker is stopped first and later started again to return its licence.
    if phases.desire(draft.worker) == "Terminated" and not draft.licence_held:
        return draft.go(P.TERMINATING_EC2, "terminating")
    if draft.seen.machine is None:
        return draft.stay(f"instance state unknown: {draft.seen.trouble}", again=10.0)
    if machine.state == "stopped":
        draft.fact(WorkerCondition.CML_READY, "False", WorkerReason.STOPPED)
        draft.set(health=Health.UNKNOWN, empty_since=None, ready_since=None)
        return draft.go(P.STOPPED, "stopped", again=CHECK)
    if _accepted(draft) and limits.late(draft):
        draft.fact(
            WorkerCondition.LATE,
            "True",
            WorkerReason.STOP_LATE,
            f"instance is still {machine.state}",
        )
    return draft.stay("stopping", again=10.0, do="stop" if machine.state == "running" else None)


def stopped(draft: Draft) -> Step:
    """Stay stopped, start again, or go on to termination."""
    want = phases.desire(draft.worker)
    if want == "Ready" or (want == "Terminated" and draft.licence_held):
        message = "starting" if want == "Ready" else "starting to return the licence"
        return draft.go(P.STARTING, message, do="start")
    if want == "Terminated":
        return draft.go(P.TERMINATING_EC2, "terminating")
    if draft.seen.machine is not None and draft.status.machine.state == "running":
        worker_outside.started(draft)
        return draft.stay("started from outside: stopping again", again=10.0, do=_stop(draft))
    return draft.stay("stopped", again=CHECK * 2)


def _stop(draft: Draft) -> Action | None:
    return None if draft.seen.sessions else "stop"


def terminating(draft: Draft) -> Step:
    """Terminate the machine, and say so only when the provider does."""
    machine = draft.status.machine
    if machine.id is None or gone(draft):
        leak(draft, "the instance ended before the licence was returned")
        draft.drop(FINALIZER_MACHINE)
        draft.fact(WorkerCondition.MACHINE_PROVISIONED, "False", WorkerReason.TERMINATED)
        draft.set(empty_since=None)
        return draft.go(P.TERMINATED, "terminated", again=CHECK)
    if _held(draft, draft.limits.terminate):
        return draft.stay(f"still being ended: {count(draft.seen.sessions, 'session')}", again=5.0)
    if _accepted(draft) and limits.late(draft):
        draft.fact(
            WorkerCondition.LATE,
            "True",
            WorkerReason.TERMINATE_LATE,
            f"instance is still {machine.state}",
        )
    busy = machine.state == "ending" and draft.seen.machine is not None
    ask = draft.seen.machine is not None and not busy
    return draft.stay("terminating", again=10.0, do="terminate" if ask else None)


def failed(draft: Draft) -> Step:
    """Terminate if wanted, start again after a new spec or an outside stop, else wait."""
    want, machine = phases.desire(draft.worker), draft.status.machine
    if draft.seen.absent and machine.state != "gone" and gone(draft):
        worker_outside.terminated(draft)  # garbage collection reads it: only this process counted
    reason = conditions.find(draft.status.conditions, WorkerCondition.FAILED)
    ended = reason is not None and reason.reason == WorkerReason.INSTANCE_TERMINATED
    alive = machine.id is not None and not ended and not gone(draft)
    needed = draft.seen.sessions > 0 or (want == "Terminated" and draft.licence_held)
    if want != "Ready" and alive and needed and not _gave_up(draft):
        return draft.go(P.STARTING, "starting to end its sessions and return its licence")
    if want == "Terminated":
        if alive and draft.licence_held and not draft.seen.sessions and _answered(draft):
            return draft.go(P.UNLICENSING, "returning the licence of a failed worker")
        leak(draft, "the worker failed before its licence was returned")
        return draft.go(P.TERMINATING_EC2, "terminating a failed worker")
    if want == "Stopped":
        if alive:
            return draft.go(P.STOPPING, "stopping a failed worker")
        return draft.stay(again=CHECK * 2)
    if reason is not None and reason.reason == WorkerReason.STOPPED_OUTSIDE and alive:
        if draft.seen.machine is None or machine.state not in {"stopped", "running"}:
            return draft.stay(again=10.0)
        begin: Action | None = "start" if machine.state == "stopped" else None
        return draft.go(P.STARTING, "starting again after an outside stop", do=begin)
    if draft.worker.metadata.generation <= draft.worker.status.observed_generation:
        return draft.stay(again=CHECK * 2)
    if alive:
        return draft.go(P.STARTING, "trying again")
    if draft.worker.spec.origin is not None:
        return draft.stay("the instance that was adopted is gone", again=CHECK * 2)
    _forget_machine(draft)
    return draft.go(P.PENDING, "trying again")


def _answered(draft: Draft) -> bool:
    """Tell whether CML answered when the worker failed, though nothing could start there.

    Nobody asks the server of a failed worker; what its boot saw last is on record.
    """
    ready = conditions.find(draft.status.conditions, WorkerCondition.CML_READY)
    return ready is not None and ready.reason == WorkerReason.NOT_READY


def _forget_machine(draft: Draft) -> None:
    """Reset the machine's facts: after a new spec the next machine may have another size.

    A leak of the old machine has its own object, and its console text says why it is gone.
    """
    kept = LicenceStatus(order=draft.status.licence.order)
    draft.set(machine=MachineStatus(), cml=CmlStatus(), licence=kept, conditions=())
    draft.set(capacity=None, health=Health.UNKNOWN, failed_checks=0)
    draft.set(foreign_ports=(), held_ports=())
    draft.set(ready_since=None, empty_since=None, stray_labs=StrayLabs(), hosted_labs=None)


def _gave_up(draft: Draft) -> bool:
    """Tell whether CML already failed to come up once, so that waiting again is pointless."""
    reason = conditions.find(draft.status.conditions, WorkerCondition.FAILED)
    return reason is not None and reason.reason == WorkerReason.BOOT_TIMEOUT


def terminated(draft: Draft) -> Step:
    """Hold nothing any more."""
    draft.drop(FINALIZER_MACHINE)
    draft.drop(FINALIZER_LICENCE)
    return draft.stay(again=3600.0)
