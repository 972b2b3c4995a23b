"""Bodies about the server itself: system_stats, health, compute hosts, system_information.

In 2.9 the bodies have exactly these keys (facts/cml.md#system-bodies).
"""

from typing import Any

from cml_simulator.core.server import BootStage, Server, boot_stage, can_start, compute_up
from cml_simulator.core.usage import HostUse, disk_overload, host_use

CALL_TIMEOUT = 60
"""What 2.10 shows as its timeout (seconds; cml-mcp takes no more)."""


def information(server: Server, now: float) -> dict[str, Any]:
    """Return system_information; ready means that a compute host can start nodes."""
    body = {
        "version": server.config.profile.version,
        "ready": can_start(server, now),
        "allow_ssh_pubkey_auth": False,
        "oui": "52:54:00:00:00:00",
    }
    if server.config.profile.long_information:
        body |= {"timeout": CALL_TIMEOUT, "features": []}
    return body


def _dominfo(server: Server, use: HostUse) -> dict[str, Any]:
    orphans, null = server.server_conditions.orphans, server.server_conditions.null_health
    return {
        "total_nodes": None if null else use.total_nodes,
        "total_orphans": None if null else orphans,
        "running_nodes": None if null else use.running_nodes,
        "running_orphans": None if null else orphans,
        "allocated_cpus": use.allocated_cpus,
        "allocated_memory": use.allocated_kib,
    }


def stats(server: Server, now: float) -> dict[str, Any]:
    """Return system_stats: bytes, percent, dominfo memory in KiB; no computes early in a boot."""
    machine, use = server.config.machine, host_use(server, now)
    memory = {
        "used": use.memory_used,
        "free": use.memory_free,
        "total": machine.memory_bytes,
    }
    disk = {"used": use.disk_used, "free": use.disk_free, "total": machine.disk_bytes}
    load = round(use.percent * machine.cpus / 100, 2)
    compute: dict[str, Any] = {
        "hostname": server.config.identity.hostname,
        "is_controller": True,
        "stats": {
            "cpu": {
                "count": machine.cpus,
                "percent": use.percent,
                "model": machine.model,
                "predicted": min(100, round(100 * use.allocated_cpus / machine.cpus)),
                "load": [load, round(load * 0.9, 2), round(load * 0.8, 2)],
            },
            "memory": memory,
            "disk": disk,
            "dominfo": _dominfo(server, use),
        },
    }
    if server.config.profile.hyperthreading:
        compute["stats"]["cpu"]["hyperthreading"] = True
    ready = boot_stage(server, now) is BootStage.READY
    ready = ready and compute_up(server) and not server.server_conditions.compute_missing
    return {
        "computes": {server.compute_id: compute} if ready else {},
        "all": {
            "cpu": {"count": machine.cpus, "percent": use.percent},
            "memory": memory,
            "disk": disk,
        },
        "controller": {"disk": disk},
    }


def health(server: Server, now: float, *, admin: bool) -> dict[str, Any]:
    """Return system_health; people without admin rights see no compute details."""
    server_conditions, core = server.server_conditions, server.server_conditions.core_connected
    ready = boot_stage(server, now) is BootStage.READY and compute_up(server)
    compute = _compute_health(server, now, ready=ready)
    valid = compute["valid"] if ready or not server_conditions.null_health else None
    shown = admin and server.compute_known and not server_conditions.compute_missing
    controller = {
        "core_connected": core,
        "nodes_loaded": True,
        "images_loaded": True,
        "valid": core,
    }
    if server.config.profile.overload_flags:
        controller |= dict.fromkeys(("airhandler", "dispatcher", "ipsnooper", "pcapdemux"), core)
    return {
        "valid": valid if core else False,
        "computes": {server.compute_id: compute} if shown else {},
        "is_licensed": None if server_conditions.null_health else server.licence.authorized,
        "is_enterprise": server.licence.product in {"CML_Enterprise", "CML_Education"},
        "controller": controller,
    }


def _compute_health(server: Server, now: float, *, ready: bool) -> dict[str, Any]:
    machine, server_conditions, profile = (
        server.config.machine,
        server.server_conditions,
        server.config.profile,
    )
    kvm, cpus = machine.kvm, machine.cpus >= 4
    checks: dict[str, bool | None] = {
        "kvm_vmx_enabled": kvm,
        "enough_cpus": cpus,
        "lld_synced": ready or None,
        "libvirt": True,
        "fabric": True,
        "device_mux": True,
        "refplat_images_available": True,
    }
    if profile.docker:
        checks["docker_shim"] = True
    if profile.overload_flags:
        checks |= {
            "cpu_overload": False,
            "memory_overload": False,
            "disk_overload": disk_overload(server, now),
        }
    checks["valid"] = ready and kvm and cpus
    if server_conditions.null_health:
        checks = dict.fromkeys(checks)
    return {
        **checks,
        "lld_connected": ready,
        "admission_state": str(server.admission),
        "is_controller": True,
        "hostname": server.config.identity.hostname,
    }


def compute_host(server: Server, now: float) -> dict[str, Any]:
    """Return the one compute host."""
    use, orphans = host_use(server, now), server.server_conditions.orphans
    ready = boot_stage(server, now) is BootStage.READY and compute_up(server)
    body = {
        "id": server.compute_id,
        "server_address": "fe80::1%cluster",
        "hostname": server.config.identity.hostname,
        "is_simulator": True,
        "is_connector": True,
        "admission_state": str(server.admission),
        "is_connected": ready,
        "is_synced": ready,
        "nodes": [n.id for n in server.nodes.values() if n.disk],
        "node_counts": {
            "total_nodes": use.total_nodes,
            "total_orphans": orphans,
            "running_nodes": use.running_nodes,
            "running_orphans": orphans,
        },
    }
    if not server.config.profile.compute_counts:
        del body["node_counts"]
    if not server.config.profile.compute_nodes:
        del body["nodes"]
    return body
