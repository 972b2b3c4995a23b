"""The events of workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.conditions import Condition
from labfleet.resources.held_ports import HeldPorts
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.core.kind_table import Change, EventType


class WorkerEvent(EventType):
    """What can happen to a worker."""

    CREATED = "worker.created", "a worker's record was made"
    IMPORTED = "worker.imported", "discovery or a person made a record for a machine that was there"
    STATUS_UPDATED = (
        "worker.status.updated",
        "its phase changed (old_status, new_status; coarse words too)",
    )
    DESIRED_STATUS_CHANGED = (
        "worker.desired_status.changed",
        "somebody wants it Ready, Stopped or Terminated",
    )
    HEALTH_CHANGED = "worker.health.changed", "Healthy, Degraded, Unreachable or Unknown"
    TERMINATED = "worker.terminated", "the provider said that its machine is gone"
    DELETED = "worker.deleted", "its record is gone"
    ENDPOINT_UPDATED = "worker.endpoint.updated", "its CML is reached at another URL"
    EC2_DETAILS_UPDATED = (
        "worker.ec2_details.updated",
        "address, type, image or checks of its instance changed",
    )
    LABS_UPDATED = "worker.labs.updated", "how many labs or running nodes its CML has"
    METRICS_UPDATED = (
        "worker.metrics.updated",
        "a measurement moved by more than the set share; no webhook hears it",
    )
    ACTIVITY_UPDATED = "worker.activity.updated", "somebody used its CML"
    IDLE_DETECTION_TOGGLED = "worker.idle_detection.toggled", "its idle detection was switched"
    IDLE_WARNING = "worker.idle.warning", "it is idle and will be stopped"
    PAUSED = "worker.paused", "it was stopped (by the idle rule or a person)"
    RESUMED = "worker.resumed", "it was started again"
    DRAINING = "worker.draining", "it is being emptied"
    CORDONED = "worker.cordoned", "nothing more is placed on it"
    UNCORDONED = "worker.uncordoned", "sessions are placed on it again"
    LICENSE_REGISTRATION_STARTED = (
        "worker.license.registration.started",
        "its licence is being registered",
    )
    LICENSE_REGISTRATION_COMPLETED = (
        "worker.license.registration.completed",
        "CML says that it is registered",
    )
    LICENSE_REGISTRATION_FAILED = "worker.license.registration.failed", "its licence was refused"
    LICENSE_DEREGISTERED = "worker.license.deregistered", "its licence was given back"
    LICENSE_RENEWED = "worker.license.renewed", "a renewal was asked for, as somebody ordered"
    LICENSE_ORDER_REFUSED = (
        "worker.license.order.refused",
        "what was asked of its licence cannot be (verb, reason)",
    )
    PORTS_HELD = (
        "worker.ports.held",
        "labs name ports that they were not given, which nobody gets from now on (ports)",
    )
    PORTS_RELEASED = (
        "worker.ports.released",
        "somebody said that such ports may be given out (ports, by, reason)",
    )
    LAB_IGNORED = (
        "worker.lab.ignored",
        "somebody said that a lab of no session is left alone (lab, by, reason)",
    )
    LAB_HEEDED = "worker.lab.heeded", "somebody took that back (lab)"
    LAB_ORDERED = (
        "worker.lab.ordered",
        "somebody ordered something of a lab of no session (lab, order, node, by)",
    )
    LAB_ORDER_DONE = "worker.lab.order.done", "what was ordered of it is done (lab, order, node)"
    LAB_ORDER_REFUSED = (
        "worker.lab.order.refused",
        "what was ordered of it cannot be, or was not done in time (lab, order, node, reason)",
    )
    LICENSE_LEAKED = "worker.license.leaked", "its licence could not be given back"


def changed(old: Worker, new: Worker) -> Iterator[Change]:
    """Yield the events of a change of a worker."""
    was, now = old.status, new.status
    if was.phase != now.phase:
        yield Change(
            WorkerEvent.STATUS_UPDATED,
            {
                "old_status": was.summary, "new_status": now.summary,
                "old_phase": was.phase, "new_phase": now.phase,
            },
        )  # fmt: skip
        if now.phase is WorkerPhase.TERMINATED:
            yield Change(WorkerEvent.TERMINATED, {"reason": now.message})
        if now.phase is WorkerPhase.DRAINING:
            yield Change(WorkerEvent.DRAINING, {"reason": _drain_reason(new)})
    if old.spec.desired != new.spec.desired:
        pair = {"old_desired": old.spec.desired, "new_desired": new.spec.desired}
        yield Change(WorkerEvent.DESIRED_STATUS_CHANGED, pair)
    if was.health != now.health:
        yield Change(WorkerEvent.HEALTH_CHANGED, {"old": was.health, "new": now.health})
    if old.spec.cordoned != new.spec.cordoned:
        yield Change(WorkerEvent.CORDONED if new.spec.cordoned else WorkerEvent.UNCORDONED, {})
    if old.spec.idle_detection != new.spec.idle_detection:
        yield Change(WorkerEvent.IDLE_DETECTION_TOGGLED, {"enabled": new.spec.idle_detection})
    if was.cml.url != now.cml.url:
        yield Change(WorkerEvent.ENDPOINT_UPDATED, {"https_endpoint": now.cml.url})
    if _machine(old) != _machine(new):
        yield Change(WorkerEvent.EC2_DETAILS_UPDATED, _machine(new))
    labs = {"labs_count": now.cml.labs, "running_nodes": now.cml.running_nodes}
    if labs != {"labs_count": was.cml.labs, "running_nodes": was.cml.running_nodes}:
        yield Change(WorkerEvent.LABS_UPDATED, labs)
    yield from _idle(old, new)
    yield from _licence(old, new)
    yield from _ports(old, new)
    yield from _ignored(old, new)
    yield from _lab_order(old, new)


def _lab_order(old: Worker, new: Worker) -> Iterator[Change]:
    """Yield what was ordered of a lab of no session, and how that went."""
    order, was, now = new.spec.lab_order, old.status.lab_order, new.status.lab_order
    if order is None:
        return
    about = {"operation_id": order.id, "lab": order.lab, "order": order.verb, "node": order.node}
    if order != old.spec.lab_order:
        yield Change(WorkerEvent.LAB_ORDERED, {**about, "by": order.by})
    if now is not None and now.id == order.id and now != was:
        if now.state == "done":
            yield Change(WorkerEvent.LAB_ORDER_DONE, about)
        elif now.state == "refused":
            yield Change(WorkerEvent.LAB_ORDER_REFUSED, {**about, "reason": now.message})


def _ignored(old: Worker, new: Worker) -> Iterator[Change]:
    """Yield which labs a person said are left alone, or no longer."""
    was, now = old.spec.ignored_labs, new.spec.ignored_labs
    if was == now:
        return
    before, after = {each.id for each in was}, {each.id for each in now}
    for each in now:
        if each.id not in before:
            told = {"lab": each.id, "by": each.by, "reason": each.reason}
            yield Change(WorkerEvent.LAB_IGNORED, told)
    for each in was:
        if each.id not in after:
            yield Change(WorkerEvent.LAB_HEEDED, {"lab": each.id})


def _ports(old: Worker, new: Worker) -> Iterator[Change]:
    """Yield what labs hold anew, and what a person released."""
    if old.status.held_ports == new.status.held_ports:
        return
    was = {_port(each) for each in old.status.held_ports}
    now = [each for each in new.status.held_ports if _port(each) not in was]
    fresh = [each for each in now if each.released is None and not _covered(each, old)]
    if fresh:
        yield Change(WorkerEvent.PORTS_HELD, {"ports": [_shown(each) for each in fresh]})
    let = [each for each in now if each.released is not None and _covered(each, old)]
    if let and let[0].released is not None:
        word = let[0].released
        told = {"ports": [_shown(each) for each in let], "by": word.by, "reason": word.reason}
        yield Change(WorkerEvent.PORTS_RELEASED, told)


def _port(held: HeldPorts) -> tuple[object, ...]:
    return held.transport, held.first, held.last, held.lab, held.released


def _covered(part: HeldPorts, old: Worker) -> bool:
    """Tell whether all these numbers were held in that lab before, in whatever stretches."""
    return any(
        (each.transport, each.lab) == (part.transport, part.lab)
        and each.first <= part.first
        and part.last <= each.last
        for each in old.status.held_ports
        if each.released is None
    )


def _shown(held: HeldPorts) -> dict[str, Any]:
    return {
        "transport": held.transport, "first": held.first, "last": held.last, "lab": held.lab,
        "owner": held.owner,
    }  # fmt: skip


def _drain_reason(worker: Worker) -> str:
    drain = worker.spec.drain
    if drain is None and phases.returning(worker):
        return "its licence goes back"
    return drain.reason if drain is not None else f"to be {worker.spec.desired}"


def _machine(worker: Worker) -> dict[str, Any]:
    shown = worker.status.machine
    return {
        "instance_id": shown.id,
        "instance_type": shown.type,
        "ami_id": shown.image,
        "public_ip": shown.public_address,
        "private_ip": shown.private_address,
        "system_check": shown.host_check,
        "instance_check": shown.machine_check,
    }


def _idle(old: Worker, new: Worker) -> Iterator[Change]:
    was, now = old.status.idle, new.status.idle
    if now.last_activity_at is not None and was.last_activity_at != now.last_activity_at:
        yield Change(WorkerEvent.ACTIVITY_UPDATED, {"last_activity_at": now.last_activity_at})
    if now.warned_at is not None and was.warned_at != now.warned_at:
        yield Change(
            WorkerEvent.IDLE_WARNING, {"idle_since": now.since, "warned_at": now.warned_at}
        )
    if (was.auto_pauses, was.manual_pauses) != (now.auto_pauses, now.manual_pauses):
        by = {"reason": now.last_paused_reason, "by": now.last_paused_by}
        yield Change(WorkerEvent.PAUSED, {**by, "auto": now.auto_pauses > was.auto_pauses})
    if (was.auto_resumes, was.manual_resumes) != (now.auto_resumes, now.manual_resumes):
        yield Change(WorkerEvent.RESUMED, {"auto": now.auto_resumes > was.auto_resumes})


def _licence(old: Worker, new: Worker) -> Iterator[Change]:
    was, now = old.status.licence, new.status.licence
    if new.status.phase is WorkerPhase.LICENSING is not old.status.phase:
        yield Change(WorkerEvent.LICENSE_REGISTRATION_STARTED, {})
    if now.registered and not was.registered:
        yield Change(
            WorkerEvent.LICENSE_REGISTRATION_COMPLETED,
            {"registration_status": now.registration, "product": now.product},
        )
    if was.registered and now.registered is False:
        yield Change(WorkerEvent.LICENSE_DEREGISTERED, {})
    if now.leak and not was.leak:
        yield Change(WorkerEvent.LICENSE_LEAKED, {"reason": now.leak})
    yield from _ordered(old, new)
    failed = _find(new, WorkerCondition.FAILED)
    told = failed is not None and failed.status == "True" and failed.reason.startswith("Licence")
    if told and failed != _find(old, WorkerCondition.FAILED):
        message = "" if failed is None else failed.message
        yield Change(WorkerEvent.LICENSE_REGISTRATION_FAILED, {"error_message": message})


def _ordered(old: Worker, new: Worker) -> Iterator[Change]:
    """Yield how far it is what somebody asked of the licence."""
    was, now, order = old.status.licence.order, new.status.licence.order, new.spec.licence
    if now is None or now == was or order is None or now.id != order.id:
        return
    if now.state == "calling" and order.verb == "register":
        yield Change(WorkerEvent.LICENSE_REGISTRATION_STARTED, {"operation_id": order.id})
    if now.state == "done" and order.verb == "renew":
        yield Change(WorkerEvent.LICENSE_RENEWED, {"operation_id": order.id})
    if now.state == "refused":
        told = {"operation_id": order.id, "verb": order.verb, "reason": now.message}
        yield Change(WorkerEvent.LICENSE_ORDER_REFUSED, told)
        if order.verb == "register":
            failed = {"error_message": now.message}
            yield Change(WorkerEvent.LICENSE_REGISTRATION_FAILED, failed)


def _find(worker: Worker, name: WorkerCondition) -> Condition | None:
    return next((each for each in worker.status.conditions if each.type == name), None)


def born(new: Worker) -> Iterator[Change]:
    """Yield that the machine was there already."""
    if new.spec.origin is not None:
        yield Change(WorkerEvent.IMPORTED, {"source": new.spec.origin.source})
