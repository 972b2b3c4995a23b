"""GET diagnostics/{category}: the data that a person reads when a lab does not start."""

from collections.abc import Callable
from typing import Any

from cml_simulator.core import host_views, views
from cml_simulator.core.errors import not_found
from cml_simulator.core.model import Node
from cml_simulator.core.server import BootStage, Server, boot_stage, compute_up
from cml_simulator.core.world import in_use, why_waiting


def _computes(server: Server, now: float) -> Any:
    host = host_views.stats(server, now)["computes"].get(server.compute_id, {})
    ready = boot_stage(server, now) is BootStage.READY and compute_up(server)
    server_conditions = server.server_conditions
    orphaned: dict[str, Any] = {f"orphan-{n}": {} for n in range(server_conditions.orphans)}
    missing = {n.id: n.label for n in server.active.values() if n.lost}
    return {
        server.compute_id: {
            "identifier": server.config.identity.hostname,
            "host_address": "fe80::1%cluster",
            "link_local": True,
            "kvm_vmx_enabled": server.config.machine.kvm,
            "enough_cpus": server.config.machine.cpus >= 4,
            "refplat_images_available": True,
            "lld_connected": ready,
            "valid": ready and server.config.machine.kvm,
            "admission_state": str(server.admission),
            "is_controller": True,
            "hostname": server.config.identity.hostname,
            "lld_consistency": {"missing_nodes": missing, "orphaned_nodes": orphaned},
            "statistics": host.get("stats", {}),
        }
    }


def _times(server: Server, node: Node, now: float) -> dict[str, str | None]:
    if node.state(now) not in {"QUEUED", "STARTING", "STARTED", "BOOTED"}:
        return {"QUEUED": None, "STARTED": None, "BOOTED": None}
    booted = node.admitted and now >= node.booted_at
    return {
        "QUEUED": server.stamp(node.queued_at),
        "STARTED": server.stamp(node.started_at) if node.admitted else None,
        "BOOTED": server.stamp(node.booted_at) if booted else None,
    }


def _labs(server: Server, now: float) -> Any:
    return {
        lab.id: {
            "created": server.stamp(lab.created),
            "nodes": {
                node.id: {
                    "label": node.label,
                    "state": str(node.state(now)),
                    "state_times": _times(server, node, now),
                }
                for node in lab.nodes.values()
            },
        }
        for lab in server.labs.values()
    }


def _new_queue(server: Server) -> Any:
    """Return the queue in the form of 2.10."""
    return [
        {
            "node_id": node.id,
            "lab_id": node.lab_id,
            "user_id": server.labs[node.lab_id].owner,
            "queued_time": server.stamp(node.queued_at),
            "priority": node.priority or 0,
            "dependencies": list(node.after),
            "resource_requirements": {
                "cpus": node.want_cpus,
                "cpu_limit": node.want_limit,
                "cpu_points": node.points,
                "ram": node.want_ram,
                "disk": node.kind.disk,
            },
        }
        for node in server.queue
    ]


def queue_reasons(server: Server) -> list[dict[str, str]]:
    """Return why each queued node waits; a real CML server does not tell this."""
    use = in_use(server)
    return [
        {
            "node_id": node.id,
            "lab_id": node.lab_id,
            "label": node.label,
            "reason": why_waiting(server, node, use) or "the server has not finished its boot",
        }
        for node in server.queue
    ]


def _queue(server: Server, now: float) -> Any:
    _ = now
    if server.config.profile.lab_extras:
        return _new_queue(server)
    return [
        {
            "id": node.id,
            "lab_id": node.lab_id,
            "label": node.label,
            "node_definition": node.definition,
            "cpus": node.want_cpus,
            "ram": node.want_ram,
            "cpu_limit": node.want_limit,
            "tags": node.tags,
        }
        for node in server.queue
    ]


def _licensing(server: Server, now: float) -> Any:
    _ = now
    started = in_use(server).licensed
    quota = server.licence.quota
    return {"quota": quota, "started": started, "user_quota": None, "user_started": started}


def _scheduler(server: Server, now: float) -> Any:
    ready = boot_stage(server, now) is BootStage.READY and compute_up(server)
    return {
        "licensing_loaded": True,
        "core_driver_connected": server.server_conditions.core_connected,
        "node_definitions_loaded": True,
        "lld_connected": ready,
        "lld_synced": ready,
        "system_ready": ready,
    }


CATEGORIES: dict[str, Callable[[Server, float], Any]] = {
    "computes": _computes,
    "labs": _labs,
    "lab_events": lambda server, now: {
        lab.id: views.events_view(server, lab, now) for lab in server.labs.values()
    },
    "node_launch_queue": _queue,
    "services": lambda server, _now: {
        "dispatcher": server.server_conditions.core_connected,
        "termws": True,
    },
    "node_definitions": lambda server, _now: [
        {"id": name, "images": [body["id"] for body in server.definition_store.images_of(name)]}
        for name in server.definition_store.names()
    ],
    "user_list": lambda server, now: [
        {
            "user_id": user.id,
            "username": user.username,
            "labs": [lab.id for lab in server.labs.values() if lab.owner == user.id],
        }
        for user in server.users.values()
        if now >= 0
    ],
    "licensing": _licensing,
    "startup_scheduler": _scheduler,
}


def diagnose(server: Server, category: str, now: float) -> Any:
    """Return one category's body, or 404."""
    if category not in CATEGORIES:
        raise not_found("Diagnostics category", category)
    return CATEGORIES[category](server, now)


def everything(server: Server, now: float) -> dict[str, Any]:
    """Return all categories at once, as 2.7 and 2.8 do."""
    return {category: make(server, now) for category, make in CATEGORIES.items()}


def events(server: Server, now: float) -> list[dict[str, Any]]:
    """Return diagnostic_event_data: when nodes booted."""
    return [
        {
            "lab_id": lab.id,
            "node_id": event["element_id"],
            "event": "BOOTED",
            "timestamp": event["timestamp"],
        }
        for lab in server.labs.values()
        for event in views.events_view(server, lab, now)
        if event["data"].get("state") == "BOOTED"
    ]
