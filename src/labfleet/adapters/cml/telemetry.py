"""Reads system_stats and system_health tolerantly into the typed records (seed 003).

Pure. What the server does not tell is null and named in `gaps` with the reason; nothing here
raises, because half an answer is worth more than none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from labfleet.adapters.cml import parsing
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    Room,
    SystemHealth,
    SystemStats,
)

NOT_TOLD = "the server does not tell"
COMPUTES = 64
_TOLD_BY_ALL_RELEASES = (
    "valid", "kvm_vmx_enabled", "enough_cpus", "lld_connected", "lld_synced", "libvirt", "fabric",
    "device_mux", "refplat_images_available",
)  # fmt: skip


def room(value: Any) -> Room:
    """Return sizes in bytes; servers write them as integers or floats."""
    raw = parsing.mapping(value)
    return Room(
        total=parsing.integer(raw.get("total")),
        free=parsing.integer(raw.get("free")),
        used=parsing.integer(raw.get("used")),
    )


def compute_stats(value: Any) -> ComputeStats:
    """Return one compute's numbers."""
    raw = parsing.mapping(value)
    stats = parsing.mapping(raw.get("stats"))
    cpu, domains = parsing.mapping(stats.get("cpu")), parsing.mapping(stats.get("dominfo"))
    load = cpu.get("load")
    kib = parsing.integer(domains.get("allocated_memory"))
    return ComputeStats(
        hostname=parsing.text(raw.get("hostname")),
        is_controller=parsing.flag(raw.get("is_controller")),
        cpu_count=parsing.integer(cpu.get("count")),
        cpu_percent=parsing.number(cpu.get("percent")),
        cpu_model=parsing.text(cpu.get("model")),
        cpu_predicted=parsing.integer(cpu.get("predicted")),
        load=tuple(n for each in load if (n := parsing.number(each)) is not None)
        if isinstance(load, list)
        else (),
        memory=room(stats.get("memory")),
        disk=room(stats.get("disk")),
        allocated_cpus=parsing.integer(domains.get("allocated_cpus")),
        allocated_memory_mib=None if kib is None else kib // 1024,
        total_nodes=parsing.integer(domains.get("total_nodes")),
        running_nodes=parsing.integer(domains.get("running_nodes")),
        total_orphans=parsing.integer(domains.get("total_orphans")),
        running_orphans=parsing.integer(domains.get("running_orphans")),
    )


def system_stats(value: Any) -> SystemStats:
    """Return the whole server: the totals of `all`, else the sum over the computes."""
    raw = parsing.mapping(value)
    totals = parsing.mapping(raw.get("all"))
    cpu = parsing.mapping(totals.get("cpu"))
    listed = list(parsing.mapping(raw.get("computes")).items())
    computes = {key: compute_stats(each) for key, each in listed[:COMPUTES]}
    every = list(computes.values())
    percent = parsing.number(cpu.get("percent"))
    if percent is None and len(every) == 1:
        percent = every[0].cpu_percent
    count = parsing.integer(cpu.get("count"))
    made = SystemStats(
        cpu_count=_sum(every, lambda each: each.cpu_count) if count is None else count,
        cpu_percent=percent,
        memory=_total(room(totals.get("memory")), [each.memory for each in every]),
        disk=_total(room(totals.get("disk")), [each.disk for each in every]),
        controller_disk=room(parsing.mapping(raw.get("controller")).get("disk")),
        allocated_cpus=_sum(every, lambda each: each.allocated_cpus),
        allocated_memory_mib=_sum(every, lambda each: each.allocated_memory_mib),
        total_nodes=_sum(every, lambda each: each.total_nodes),
        running_nodes=_sum(every, lambda each: each.running_nodes),
        running_orphans=_sum(every, lambda each: each.running_orphans),
        computes=computes,
    )
    gaps = dict(_missing(made, every))
    if len(listed) > COMPUTES:
        gaps["computes"] = f"{len(listed)} computes are told, {COMPUTES} are kept"
    return SystemStats(**{name: getattr(made, name) for name in _FIELDS}, gaps=gaps)


_FIELDS = tuple(name for name in SystemStats.__struct_fields__ if name != "gaps")


def _sum(every: list[ComputeStats], of: Callable[[ComputeStats], int | None]) -> int | None:
    """Return the sum over all computes; None when one of them, or all, tell nothing."""
    found = [of(each) for each in every]
    known = [amount for amount in found if amount is not None]
    return sum(known) if known and len(known) == len(found) else None


def _total(told: Room, parts: list[Room]) -> Room:
    """Return the sizes told, each replaced by the sum of its parts when it is not."""

    def one(name: str) -> int | None:
        direct: int | None = getattr(told, name)
        if direct is not None:
            return direct
        found = [getattr(each, name) for each in parts]
        return sum(found) if found and None not in found else None

    return Room(total=one("total"), free=one("free"), used=one("used"))


def _missing(made: SystemStats, every: list[ComputeStats]) -> Iterable[tuple[str, str]]:
    why = NOT_TOLD if every else f"{NOT_TOLD}: it lists no compute (early in a boot, or lost)"
    for name in _FIELDS:
        value = getattr(made, name)
        if value is None:
            yield name, why if name.endswith(("nodes", "orphans")) or "alloc" in name else NOT_TOLD
        elif isinstance(value, Room):
            for part in ("total", "free", "used"):
                if getattr(value, part) is None:
                    yield f"{name}.{part}", NOT_TOLD
    if not every:
        yield "computes", why


def compute_health(value: Any) -> ComputeHealth:
    """Return one compute's flags."""
    raw = parsing.mapping(value)
    names = [*_TOLD_BY_ALL_RELEASES, "docker_shim", "is_controller"]
    names += ["cpu_overload", "memory_overload", "disk_overload"]
    return ComputeHealth(
        hostname=parsing.text(raw.get("hostname")),
        admission_state=parsing.text(raw.get("admission_state")),
        **{name: parsing.flag(raw.get(name)) for name in names},
    )


def system_health(value: Any) -> SystemHealth:
    """Return every flag as the server gives it; null stays null, with the reason."""
    raw = parsing.mapping(value)
    control = parsing.mapping(raw.get("controller"))
    listed = list(parsing.mapping(raw.get("computes")).items())
    computes = {key: compute_health(each) for key, each in listed[:COMPUTES]}
    controller = ControllerHealth(
        **{
            name: parsing.flag(control.get(name))
            for name in ("valid", "core_connected", "nodes_loaded", "images_loaded")
        }
    )
    top = {name: parsing.flag(raw.get(name)) for name in ("valid", "is_licensed", "is_enterprise")}
    gaps = {name: NOT_TOLD for name, found in top.items() if found is None}
    for name in ControllerHealth.__struct_fields__:
        if getattr(controller, name) is None:
            gaps[f"controller.{name}"] = NOT_TOLD
    for key, each in computes.items():
        for name in _TOLD_BY_ALL_RELEASES:
            if getattr(each, name) is None:
                gaps[f"computes.{key}.{name}"] = NOT_TOLD
    if not computes:
        gaps["computes"] = f"{NOT_TOLD}: it lists no compute"
    return SystemHealth(**top, computes=computes, controller=controller, gaps=gaps)
