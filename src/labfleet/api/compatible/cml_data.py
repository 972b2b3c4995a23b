"""A worker's newest numbers under upstream 003's names.

`docs/reference/upstream-003.md` shows both side by side.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar.params import PathParameter

from labfleet.api.core.route import Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.telemetry import ComputeStats, Licensing, Room, Sample
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import telemetry

Id = Annotated[str, PathParameter(description="Name or uid.")]
KIB_PER_MIB = 1024


class CmlData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upstream 003's dictionaries. Bytes, percent 0-100; `allocated_memory` in KiB as CML sends it.

    worker_id: Name of the worker.
    collected_at: When it was measured.
    fresh: Whether it was measured lately.
    cml_version: CML's version.
    ready: Whether CML says that it is ready.
    uptime_seconds: Seconds since the machine's launch.
    labs_count: Labs that have a node.
    system_info: CPU, memory, disk and nodes under upstream 003's keys.
    system_health: CML's flags under upstream 003's keys.
    license_info: The licence under upstream 003's keys.
    unknown: Path of each null to why it is null.
    reason: Why nothing is known; empty when something is.
    """

    worker_id: str
    collected_at: datetime | None = None
    fresh: bool = False
    cml_version: str | None = None
    ready: bool | None = None
    uptime_seconds: int | None = None
    labs_count: int | None = None
    system_info: dict[str, Any] | None = None
    system_health: dict[str, Any] | None = None
    license_info: dict[str, Any] | None = None
    unknown: dict[str, str] = {}
    reason: str = ""


def routes(services: ServiceContext) -> Routes:
    """Return the route."""
    made = Routes("seeds")

    @made.get(
        "/api/internal/workers/{id_:str}/cml-data", "The same under upstream 003's names",
        needs=("read", "Worker"),
    )  # fmt: skip
    async def internal_cml_data(who: Caller, id_: Id, namespace: Namespace = "default") -> CmlData:
        """Return what was last measured of a worker's CML; null is not known."""
        return payload(await telemetry.newest(services, who, id_, namespace))

    return made


def payload(reading: telemetry.Reading) -> CmlData:
    """Return upstream 003's payload of a reading; a part that failed is null."""
    sample = reading.sample
    if sample is None:
        return CmlData(worker_id=reading.worker, collected_at=reading.at, reason=reading.reason)
    return CmlData(
        worker_id=reading.worker,
        collected_at=reading.at,
        fresh=reading.fresh,
        cml_version=sample.version,
        ready=sample.ready,
        uptime_seconds=sample.uptime_seconds,
        labs_count=sample.labs_count,
        system_info=_system_info(sample),
        system_health=_system_health(sample),
        license_info=None if sample.licence is None else _license_info(sample, sample.licence),
        unknown=reading.unknown,
        reason=reading.reason,
    )


def _system_info(sample: Sample) -> dict[str, Any] | None:
    stats = sample.stats
    if stats is None:
        return None
    made: dict[str, Any] = {
        "all_cpu_count": stats.cpu_count,
        "all_cpu_percent": stats.cpu_percent,
    }
    rooms = (
        ("all_memory", stats.memory),
        ("all_disk", stats.disk),
        ("controller_disk", stats.controller_disk),
    )
    for prefix, room in rooms:
        made |= {f"{prefix}_{name}": value for name, value in _room(room).items()}
    return {
        **made,
        "allocated_cpus": stats.allocated_cpus,
        "allocated_memory": _kib(stats.allocated_memory_mib),
        "total_nodes": stats.total_nodes,
        "running_nodes": stats.running_nodes,
        "computes": {key: _compute(each) for key, each in stats.computes.items()},
    }


def _room(room: Room) -> dict[str, int | None]:
    return {"total": room.total, "free": room.free, "used": room.used}


def _kib(mib: int | None) -> int | None:
    return None if mib is None else mib * KIB_PER_MIB


def _compute(each: ComputeStats) -> dict[str, Any]:
    return {
        "hostname": each.hostname,
        "is_controller": each.is_controller,
        "stats": {
            "cpu": {
                "count": each.cpu_count,
                "percent": each.cpu_percent,
                "model": each.cpu_model,
                "predicted": each.cpu_predicted,
                "load": each.load,
            },
            "memory": _room(each.memory),
            "disk": _room(each.disk),
            "dominfo": {
                "allocated_cpus": each.allocated_cpus,
                "allocated_memory": _kib(each.allocated_memory_mib),
                "total_nodes": each.total_nodes,
                "total_orphans": each.total_orphans,
                "running_nodes": each.running_nodes,
                "running_orphans": each.running_orphans,
            },
        },
    }


def _system_health(sample: Sample) -> dict[str, Any] | None:
    health = sample.health
    if health is None:
        return None
    return {
        "valid": health.valid,
        "is_licensed": health.is_licensed,
        "is_enterprise": health.is_enterprise,
        "computes": {key: _plain(each) for key, each in health.computes.items()},
        "controller": _plain(health.controller),
    }


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    """Return a record under its snake_case names, which are CML's own."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _license_info(sample: Sample, licence: Licensing) -> dict[str, Any]:
    """Return the licence by facts/cml.md#licensing: `max` and `in_use` are no count of nodes."""
    running = None if sample.stats is None else sample.stats.running_nodes
    return {
        "is_valid": licence.licensed,
        "registration_status": licence.registration,
        "authorization_status": licence.authorization,
        "node_limit": licence.node_capacity,
        "nodes_in_use": licence.started if running is None else running,
        "expires": licence.expires,
        "product": licence.product,
        "is_enterprise": licence.is_enterprise,
        "smart_account": licence.smart_account,
        "virtual_account": licence.virtual_account,
        "registration": {
            "status": licence.registration,
            "expires": licence.registration_expires,
        },
        "authorization": {
            "status": licence.authorization,
            "expires": licence.authorization_expires,
        },
        "features": [_plain(each) for each in licence.features.values()],
        "transport": licence.transport,
        "udi": {"hostname": licence.hostname, "product_uuid": licence.product_uuid},
        "product_license": {"active": licence.product, "is_enterprise": licence.is_enterprise},
        "reservation_mode": licence.reservation_mode,
    }
