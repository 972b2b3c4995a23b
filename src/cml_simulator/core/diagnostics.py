"""GET diagnostics/{category}: what a person reads when a lab does not come up."""

from collections.abc import Callable
from typing import Any

from cml_simulator.core import host_views, views
from cml_simulator.core.definitions import DEFINITIONS
from cml_simulator.core.errors import not_found
from cml_simulator.core.inputs import iso
from cml_simulator.core.model import Node
from cml_simulator.core.world import BootStage, Server, boot_stage, in_use


def _computes(server: Server, now: float) -> Any:
    host = host_views.stats(server, now)["computes"].get(server.compute_id, {})
    ready = boot_stage(server, now) is BootStage.READY
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
            "admission_state": "READY",
            "is_controller": True,
            "hostname": server.config.identity.hostname,
            "lld_consistency": {"missing_nodes": {}, "orphaned_nodes": {}},
            "statistics": host.get("stats", {}),
        }
    }


def _times(node: Node, now: float) -> dict[str, str | None]:
    if node.state(now) not in {"QUEUED", "STARTED", "BOOTED"}:
        return {"QUEUED": None, "STARTED": None, "BOOTED": None}
    booted = node.admitted and now >= node.booted_at
    return {
        "QUEUED": iso(node.queued_at),
        "STARTED": iso(node.started_at) if node.admitted else None,
        "BOOTED": iso(node.booted_at) if booted else None,
    }


def _labs(server: Server, now: float) -> Any:
    return {
        lab.id: {
            "created": iso(lab.created),
            "nodes": {
                node.id: {
                    "label": node.label,
                    "state": str(node.state(now)),
                    "state_times": _times(node, now),
                }
                for node in lab.nodes.values()
            },
        }
        for lab in server.labs.values()
    }


def _queue(server: Server, now: float) -> Any:
    _ = now
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
    ready = boot_stage(server, now) is BootStage.READY
    return {
        "licensing_loaded": True,
        "core_driver_connected": True,
        "node_definitions_loaded": True,
        "lld_connected": ready,
        "lld_synced": ready,
        "system_ready": ready,
    }


CATEGORIES: dict[str, Callable[[Server, float], Any]] = {
    "computes": _computes,
    "labs": _labs,
    "lab_events": lambda server, now: {
        lab.id: views.events_view(lab, now) for lab in server.labs.values()
    },
    "node_launch_queue": _queue,
    "services": lambda _server, _now: {"dispatcher": True, "termws": True},
    "node_definitions": lambda _server, _now: [
        {"id": kind.id, "images": [kind.image] if kind.image else []}
        for kind in DEFINITIONS.values()
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
        for event in views.events_view(lab, now)
        if event["data"].get("state") == "BOOTED"
    ]
