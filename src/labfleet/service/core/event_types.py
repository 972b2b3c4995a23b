"""Names the events of an object's change, for webhooks and the compatible stream.

Pure: compares the object before with the object after. The names are upstream 002's
(facts/upstream.md#stream-and-roles) with the product's words; the compatible stream puts
`lablet.` before sessions and definitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from labfleet.resources import alerts
from labfleet.resources.conditions import Condition
from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.worker import Worker, WorkerPhase

TYPES: dict[str, str] = {
    "worker.created": "a worker's record was made",
    "worker.imported": "discovery or a person made a record for a machine that was there",
    "worker.status.updated": "its phase changed (old_status, new_status; coarse words too)",
    "worker.desired_status.changed": "somebody wants it Ready, Stopped or Terminated",
    "worker.health.changed": "Healthy, Degraded, Unreachable or Unknown",
    "worker.terminated": "the provider said that its machine is gone",
    "worker.deleted": "its record is gone",
    "worker.endpoint.updated": "its CML is reached at another URL",
    "worker.ec2_details.updated": "address, type, image or checks of its instance changed",
    "worker.labs.updated": "how many labs or running nodes its CML has",
    "worker.metrics.updated": "a measurement moved by more than the set share; no webhook hears it",
    "worker.activity.updated": "somebody used its CML",
    "worker.idle_detection.toggled": "its idle detection was switched",
    "worker.idle.warning": "it is idle and will be stopped",
    "worker.paused": "it was stopped (by the idle rule or a person)",
    "worker.resumed": "it was started again",
    "worker.draining": "it is being emptied",
    "worker.cordoned": "nothing more is placed on it",
    "worker.uncordoned": "sessions are placed on it again",
    "worker.license.registration.started": "its licence is being registered",
    "worker.license.registration.completed": "CML says that it is registered",
    "worker.license.registration.failed": "its licence was refused",
    "worker.license.deregistered": "its licence was given back",
    "worker.license.leaked": "its licence could not be given back",
    "session.created": "somebody asked for a session",
    "session.status.changed": "its phase changed (old_status, new_status)",
    "session.timeslot.extended": "it ends later (new_timeslot_end)",
    "session.resources_observed": "an observation of it was recorded",
    "session.port_drift_detected": "its ports differ from what it was given",
    "session.ports.released": "its ports are free again",
    "session.terminated": "it reached one of its ends",
    "session.deleted": "its record is gone",
    "pool.status.updated": "a pool's phase changed",
    "pool.scaled": "a pool added, replaced or removed a worker",
    "definition.created": "a version of a lab was made",
    "definition.updated": "its text was changed",
    "definition.deprecated": "no new sessions are to use it",
    "definition.deleted": "it is gone",
    "template.created": "a template was made",
    "template.updated": "a template was changed",
    "template.deleted": "a template is gone",
    "settings.updated": "the fleet's settings were changed",
    "simulation.status.changed": "a simulation was approved, denied, completed or expired",
    "condition.raised": "a condition began to ask for somebody: an alert of a worker, a pool that paused",
    "condition.cleared": "it asks for nobody any more",
    "object.created": "any other object was made",
    "object.updated": "what people want of any other object changed",
    "object.deleted": "any other object is gone",
}
"""Every event type with its meaning; the reference page is generated from it."""

UNLOGGED = frozenset({"worker.metrics.updated"})
"""Types of the compatible stream only: measurements are not changes of objects."""

NEWS = {
    ("Pool", "LosingMachines"): "True",
    ("Pool", "Paused"): "True",
    ("Region", "Scanned"): "False",
    ("Session", "HostReachable"): "False",
    ("Definition", "NodesKnown"): "False",
}
"""Conditions of kinds other than Worker that need a person, and the status that does.

For workers the alerts' table lists them. Normal progress, such as a lab that boots, is in
`session.status.changed` and raises no condition.
"""


class Change(NamedTuple):
    """One named event about one object, with its specific data."""

    type: str
    data: dict[str, Any]


def changes(old: Resource | None, new: Resource | None) -> tuple[Change, ...]:
    """Return the events of one change; none when nothing that has a name changed."""
    if new is None:
        return () if old is None else (Change(_named(old, "deleted"), {}),)
    if old is None:
        return tuple(_created(new))
    found = list(_conditions(old, new))
    if isinstance(new, Worker) and isinstance(old, Worker):
        found += _worker(old, new)
    elif isinstance(new, Session) and isinstance(old, Session):
        found += _session(old, new)
    else:
        found += _other(old, new)
    return tuple(found)


def _created(new: Resource) -> Iterator[Change]:
    yield Change(_named(new, "created"), {})
    if isinstance(new, Worker) and new.spec.origin is not None:
        yield Change("worker.imported", {"source": new.spec.origin.source})


def _named(obj: Resource, verb: str) -> str:
    name = f"{obj.kind.lower()}.{verb}"
    return name if name in TYPES else f"object.{verb}"


def _worker(old: Worker, new: Worker) -> Iterator[Change]:
    was, now = old.status, new.status
    if was.phase != now.phase:
        yield Change(
            "worker.status.updated",
            {
                "old_status": was.summary, "new_status": now.summary,
                "old_phase": was.phase, "new_phase": now.phase,
            },
        )  # fmt: skip
        if now.phase is WorkerPhase.TERMINATED:
            yield Change("worker.terminated", {"reason": now.message})
        if now.phase is WorkerPhase.DRAINING:
            yield Change("worker.draining", {"reason": _drain_reason(new)})
    if old.spec.desired != new.spec.desired:
        pair = {"old_desired": old.spec.desired, "new_desired": new.spec.desired}
        yield Change("worker.desired_status.changed", pair)
    if was.health != now.health:
        yield Change("worker.health.changed", {"old": was.health, "new": now.health})
    if old.spec.cordoned != new.spec.cordoned:
        yield Change("worker.cordoned" if new.spec.cordoned else "worker.uncordoned", {})
    if old.spec.idle_detection != new.spec.idle_detection:
        yield Change("worker.idle_detection.toggled", {"enabled": new.spec.idle_detection})
    if was.cml.url != now.cml.url:
        yield Change("worker.endpoint.updated", {"https_endpoint": now.cml.url})
    if _machine(old) != _machine(new):
        yield Change("worker.ec2_details.updated", _machine(new))
    labs = {"labs_count": now.cml.labs, "running_nodes": now.cml.running_nodes}
    if labs != {"labs_count": was.cml.labs, "running_nodes": was.cml.running_nodes}:
        yield Change("worker.labs.updated", labs)
    yield from _idle(old, new)
    yield from _licence(old, new)


def _drain_reason(worker: Worker) -> str:
    drain = worker.spec.drain
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
        yield Change("worker.activity.updated", {"last_activity_at": now.last_activity_at})
    if now.warned_at is not None and was.warned_at != now.warned_at:
        yield Change("worker.idle.warning", {"idle_since": now.since, "warned_at": now.warned_at})
    if (was.auto_pauses, was.manual_pauses) != (now.auto_pauses, now.manual_pauses):
        by = {"reason": now.last_paused_reason, "by": now.last_paused_by}
        yield Change("worker.paused", {**by, "auto": now.auto_pauses > was.auto_pauses})
    if (was.auto_resumes, was.manual_resumes) != (now.auto_resumes, now.manual_resumes):
        yield Change("worker.resumed", {"auto": now.auto_resumes > was.auto_resumes})


def _licence(old: Worker, new: Worker) -> Iterator[Change]:
    was, now = old.status.licence, new.status.licence
    if new.status.phase is WorkerPhase.LICENSING is not old.status.phase:
        yield Change("worker.license.registration.started", {})
    if now.registered and not was.registered:
        yield Change(
            "worker.license.registration.completed",
            {"registration_status": now.registration, "product": now.product},
        )
    if was.registered and now.registered is False:
        yield Change("worker.license.deregistered", {})
    if now.leak and not was.leak:
        yield Change("worker.license.leaked", {"reason": now.leak})
    failed = _find(new, "Failed")
    told = failed is not None and failed.status == "True" and failed.reason.startswith("Licence")
    if told and failed != _find(old, "Failed"):
        message = "" if failed is None else failed.message
        yield Change("worker.license.registration.failed", {"error_message": message})


def _session(old: Session, new: Session) -> Iterator[Change]:
    was, now = old.status, new.status
    if was.phase != now.phase:
        yield Change(
            "session.status.changed",
            {"old_status": was.phase, "new_status": now.phase, "reason": now.reason},
        )
        if now.phase in TERMINAL:
            yield Change("session.terminated", {"reason": now.reason, "message": now.message})
    before, after = old.spec.slot.end or was.end, new.spec.slot.end or now.end
    if before is not None and after is not None and after > before:
        yield Change("session.timeslot.extended", {"new_timeslot_end": after})
    if now.observation_count > was.observation_count:
        yield Change("session.resources_observed", {"observed_at": now.observed_at})
    if now.port_drift_detected and not was.port_drift_detected:
        details = msgspec.to_builtins(now.port_changes)
        yield Change("session.port_drift_detected", {"changes": details})
    if was.reservation is not None and now.reservation is None and was.ports:
        yield Change("session.ports.released", {"ports": [each.number for each in was.ports]})


def _other(old: Resource, new: Resource) -> Iterator[Change]:
    asked = old.metadata.generation != new.metadata.generation
    if new.kind == "Pool":
        if old.status.phase != new.status.phase:
            pair = {"old_status": old.status.phase, "new_status": new.status.phase}
            yield Change("pool.status.updated", pair)
        known = set(old.status.events)
        for event in new.status.events:
            if event not in known:
                yield Change("pool.scaled", msgspec.to_builtins(event))
    elif new.kind == "Simulation":
        if old.status.phase != new.status.phase:
            pair = {"old_status": old.status.phase, "new_status": new.status.phase}
            yield Change("simulation.status.changed", pair)
    elif new.kind == "Definition" and new.spec.deprecated and not old.spec.deprecated:
        yield Change("definition.deprecated", {"replacement": new.spec.replacement})
    elif asked:
        yield Change(_named(new, "updated"), {})


def _conditions(old: Resource, new: Resource) -> Iterator[Change]:
    """Yield conditions raised and cleared; one that is removed or Unknown yields nothing."""
    kind = new.kind
    known = getattr(old.status, "conditions", ())
    before = {each.type: each for each in known if _bad(kind, each)}
    after = {each.type: each for each in getattr(new.status, "conditions", ())}
    for name, each in after.items():
        if _bad(kind, each) and name not in before:
            yield _condition("condition.raised", each)
    for name, was in before.items():
        each = after.get(name, was)
        if name not in after or not _bad(kind, each):
            yield _condition("condition.cleared", each)


def _bad(kind: str, fact: Condition) -> bool:
    if kind == "Worker":
        return alerts.is_raised(fact)
    return NEWS.get((kind, fact.type)) == fact.status


def _condition(name: str, fact: Condition) -> Change:
    data = {"condition": fact.type, "reason": fact.reason, "message": fact.message}
    return Change(name, data)


def _find(worker: Worker, name: str) -> Condition | None:
    return next((each for each in worker.status.conditions if each.type == name), None)
