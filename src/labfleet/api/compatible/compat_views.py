"""Objects as compatible clients show them: flat, snake_case, under upstream 002's and 003's names.

Only renders: every value is one of ours under another name, null when it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from labfleet.api.compatible.cml_data import payload
from labfleet.resources import providers, spellings
from labfleet.resources.definition import Definition
from labfleet.resources.machine import Machine
from labfleet.resources.session import ResourceObservation, Session
from labfleet.resources.telemetry import Room, Sample
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import telemetry

_SERVICE = {
    WorkerPhase.STARTING: "starting",
    WorkerPhase.READY_UNLICENSED: "available",
    WorkerPhase.LICENSING: "available",
    WorkerPhase.READY: "available",
    WorkerPhase.ACTIVE: "available",
    WorkerPhase.DRAINING: "available",
    WorkerPhase.UNLICENSING: "available",
    WorkerPhase.FAILED: "error",
}
STATES: dict[str | None, str] = {ours: word for word, ours in spellings.STATES.items()}
"""Our words for a machine's state -> upstream's, which are EC2's, where they differ."""
_DESIRED = {"Ready": "running", "Stopped": "stopped", "Terminated": "terminated"}


def flat_worker(services: ServiceContext, obj: Worker) -> dict[str, Any]:
    """Return upstream 002's flat worker, as its internal routes answer it."""
    here = services.cache.by(indices.SESSIONS_HERE, obj.key.path)
    return worker(services, obj, [each.metadata.uid for each in here])


def worker(services: ServiceContext, obj: Worker, sessions: Iterable[str]) -> dict[str, Any]:
    """Return upstream's worker with upstream 003's dictionaries (facts/upstream.md#worker-status).

    `sessions` are the ids of those that hold something on it. Each field, and where it stands in
    ours: docs/reference/upstream-002.md#the-flat-worker.
    """
    told = telemetry.of(services, obj)
    data = payload(told)
    return {
        **_identity(obj),
        **_machine(obj),
        **_use(services, obj),
        **_allocation(told),
        "cpu_utilization": told.numbers["cpu"].value,
        "memory_utilization": told.numbers["memory"].value,
        "session_ids": sorted(sessions),
        "cml_version": obj.status.cml.version or data.cml_version,
        "cml_ready": obj.status.cml.ready,
        "cml_labs_count": obj.status.cml.labs,
        "active_labs_count": obj.status.cml.labs,
        "cml_system_info": data.system_info,
        "cml_system_health": data.system_health,
        "cml_license_info": data.license_info,
        "cml_uptime_seconds": data.uptime_seconds,
        "cml_last_synced_at": data.collected_at,
        "cml_data_fresh": data.fresh,
    }


def _identity(obj: Worker) -> dict[str, Any]:
    status = obj.status
    return {
        "worker_id": obj.metadata.uid,
        "id": obj.metadata.uid,
        "name": obj.name,
        "status": status.summary,
        "phase": status.phase,
        "desired_status": _DESIRED[obj.spec.desired],
        "service_status": _SERVICE.get(status.phase, "unavailable"),
        "health": status.health,
        "https_endpoint": status.cml.url,
        "template_name": obj.spec.template,
        "pool": obj.spec.pool,
        "created_at": obj.metadata.creation_timestamp,
        "message": status.message,
    }


def _machine(obj: Worker) -> dict[str, Any]:
    shown, machine = obj.status.machine, obj.spec.machine
    return {
        "aws_region": _region(machine),
        "aws_instance_id": shown.id,
        "ec2_instance_id": shown.id,
        "aws_tags": shown.tags_seen,
        "ip_address": shown.public_address or shown.private_address,
        "instance_type": shown.type,
        "ami_id": shown.image,
        "public_ip": shown.public_address,
        "private_ip": shown.private_address,
        "ec2_instance_state": STATES.get(shown.state) or shown.state,
        "ec2_system_status_check": shown.host_check,
        "ec2_instance_status_check": shown.machine_check,
    }


def _region(machine: Machine | None) -> str | None:
    """Return a region of AWS; None for a machine of another provider."""
    if machine is None or providers.kind_of(machine.provider) != "aws":
        return None
    return machine.provider.region


def _allocation(told: telemetry.Reading) -> dict[str, Any]:
    """Return what of it is promised, and what is left; see `worker_allocation`."""
    found = told.allocation
    return {
        "allocated_capacity": msgspec.to_builtins(found.reserved),
        "available_capacity": msgspec.to_builtins(found.available),
    }


def _use(services: ServiceContext, obj: Worker) -> dict[str, Any]:
    idle, settings = obj.status.idle, services.settings.now().monitoring
    return {
        "declared_capacity": msgspec.to_builtins(obj.status.capacity),
        "poll_interval": settings.poll_interval_seconds,
        "last_activity_at": idle.last_activity_at,
        "is_idle_detection_enabled": obj.spec.idle_detection,
        "auto_pause_count": idle.auto_pauses,
        "manual_pause_count": idle.manual_pauses,
        "auto_resume_count": idle.auto_resumes,
        "manual_resume_count": idle.manual_resumes,
        "last_paused_at": idle.last_paused_at,
        "last_paused_by": idle.last_paused_by,
        "pause_reason": idle.last_paused_reason,
        "last_resumed_at": idle.last_resumed_at,
    }


def metrics(obj: Worker, sample: Sample) -> dict[str, Any]:
    """Return what `worker.metrics.updated` carries: percent 0-100 and bytes, null when unknown."""
    stats = sample.stats
    memory = None if stats is None else _percent(stats.memory)
    disk = None if stats is None else _percent(stats.disk)
    return {
        "worker_id": obj.metadata.uid,
        "worker_name": obj.name,
        "collected_at": sample.at,
        "cpu_utilization": None if stats is None else stats.cpu_percent,
        "memory_utilization": memory,
        "disk_utilization": disk,
        "labs_count": sample.labs_count,
        "running_nodes": None if stats is None else stats.running_nodes,
    }


def _percent(room: Room) -> float | None:
    if not room.total or room.used is None:
        return None
    return round(100.0 * room.used / room.total, 1)


OBSERVER = "lablet-controller"
"""What upstream 000 calls the controller that observes labs."""


def observation(obj: Session) -> ResourceObservation | None:
    """Return a session's newest observation, with upstream's word for who observes by itself."""
    seen = obj.status.observed_resources
    if seen is None or seen.observer != "session-controller":
        return seen
    return msgspec.structs.replace(seen, observer=OBSERVER)


def session(obj: Session) -> dict[str, Any]:
    """Return upstream's session as its stream shows it (facts/upstream.md#stream-and-roles)."""
    status = obj.status
    pin = status.definition
    return {
        "session_id": obj.metadata.uid,
        "name": obj.name,
        "status": status.phase.lower(),
        "definition_name": obj.spec.definition,
        "definition_version": None if pin is None else pin.version,
        "owner_id": obj.spec.owner,
        "timeslot_start": status.start or obj.spec.slot.start,
        "timeslot_end": status.end or obj.spec.slot.end,
        "reservation_id": obj.spec.reservation_id,
        "worker_name": status.worker,
        "cml_lab_id": None if status.lab is None else status.lab.id,
        "allocated_ports": {each.name: each.number for each in status.ports},
        "observed_ports": status.observed_ports,
        "port_drift_detected": status.port_drift_detected,
        "reason": status.reason,
        "message": status.message,
    }


def definition(obj: Definition) -> dict[str, Any]:
    """Return upstream's definition as its stream shows it."""
    return {
        "definition_id": obj.metadata.uid,
        "name": obj.name,
        "version": obj.spec.version,
        "status": obj.status.phase.lower(),
        "title": obj.spec.title,
        "node_count": obj.status.node_count,
        "port_count": len(obj.status.ports),
    }
