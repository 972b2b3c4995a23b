"""Bodies about the server itself: system_stats, health, compute hosts, system_information.

Shapes are closed in 2.9: no key more, none less (`facts/cml-api.md` sections 3.1 to 3.4).
"""

from typing import Any

from cml_simulator.core.usage import host_use
from cml_simulator.core.world import BootStage, Server, boot_stage


def information(server: Server, now: float) -> dict[str, Any]:
    """Return system_information; ready means that a compute host can start nodes."""
    return {
        "version": server.config.profile.version,
        "ready": boot_stage(server, now) is BootStage.READY,
        "allow_ssh_pubkey_auth": False,
        "oui": "52:54:00:00:00:00",
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
    compute = {
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
            "dominfo": {
                "total_nodes": use.total_nodes,
                "total_orphans": 0,
                "running_nodes": use.running_nodes,
                "running_orphans": 0,
                "allocated_cpus": use.allocated_cpus,
                "allocated_memory": use.allocated_kib,
            },
        },
    }
    ready = boot_stage(server, now) is BootStage.READY
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
    machine = server.config.machine
    ready = boot_stage(server, now) is BootStage.READY
    kvm, cpus = machine.kvm, machine.cpus >= 4
    valid = ready and kvm and cpus
    compute = {
        "kvm_vmx_enabled": kvm,
        "enough_cpus": cpus,
        "lld_connected": ready,
        "lld_synced": ready or None,
        "libvirt": True,
        "fabric": True,
        "device_mux": True,
        "refplat_images_available": True,
        "docker_shim": True,
        "valid": valid,
        "admission_state": "READY",
        "is_controller": True,
        "hostname": server.config.identity.hostname,
    }
    return {
        "valid": valid,
        "computes": {server.compute_id: compute} if admin else {},
        "is_licensed": server.licence.authorized,
        "is_enterprise": server.licence.product in {"CML_Enterprise", "CML_Education"},
        "controller": {
            "core_connected": True,
            "nodes_loaded": True,
            "images_loaded": True,
            "valid": True,
        },
    }


def compute_host(server: Server, now: float) -> dict[str, Any]:
    """Return the one compute host."""
    use = host_use(server, now)
    ready = boot_stage(server, now) is BootStage.READY
    return {
        "id": server.compute_id,
        "server_address": "fe80::1%cluster",
        "hostname": server.config.identity.hostname,
        "is_simulator": True,
        "is_connector": True,
        "admission_state": "READY",
        "is_connected": ready,
        "is_synced": ready,
        "nodes": [n.id for n in server.nodes.values() if n.disk],
        "node_counts": {
            "total_nodes": use.total_nodes,
            "total_orphans": 0,
            "running_nodes": use.running_nodes,
            "running_orphans": 0,
        },
    }
