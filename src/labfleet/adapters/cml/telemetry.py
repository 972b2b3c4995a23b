"""Reads system_stats and system_health tolerantly into the typed records (upstream 003).

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
EMPTY = Room()
_TOLD_BY_ALL_RELEASES = (
    "valid", "kvm_vmx_enabled", "enough_cpus", "lld_connected", "lld_synced", "libvirt", "fabric",
    "device_mux", "refplat_images_available",
)  # fmt: skip


def room(value: Any) -> Room:
    """Return sizes in bytes; servers write them as integers or floats."""
    raw = parsing.mapping(value)
    if not raw:
        return EMPTY
    integer = parsing.integer
    return Room(
        total=integer(raw.get("total")),
        free=integer(raw.get("free")),
        used=integer(raw.get("used")),
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
    told: dict[str, Any] = {
        "cpu_count": _sum(every, lambda each: each.cpu_count) if count is None else count,
        "cpu_percent": percent,
        "memory": _total(room(totals.get("memory")), [each.memory for each in every]),
        "disk": _total(room(totals.get("disk")), [each.disk for each in every]),
        "controller_disk": room(parsing.mapping(raw.get("controller")).get("disk")),
        "allocated_cpus": _sum(every, lambda each: each.allocated_cpus),
        "allocated_memory_mib": _sum(every, lambda each: each.allocated_memory_mib),
        "total_nodes": _sum(every, lambda each: each.total_nodes),
        "running_nodes": _sum(every, lambda each: each.running_nodes),
        "running_orphans": _sum(every, lambda each: each.running_orphans),
        "computes": computes,
    }
    gaps = _missing(told, every)
    if len(listed) > COMPUTES:
        gaps["computes"] = f"{len(listed)} computes are told, {COMPUTES} are kept"
    return SystemStats(**told, gaps=gaps)


def _sum(every: list[ComputeStats], of: Callable[[ComputeStats], int | None]) -> int | None:
    """Return the sum over all computes; None when one of them, or all, tell nothing."""
    if len(every) == 1:
        return of(every[0])
    found = [of(each) for each in every]
    known = [amount for amount in found if amount is not None]
    return sum(known) if known and len(known) == len(found) else None


def _total(told: Room, parts: list[Room]) -> Room:
    """Return the sizes told, each replaced by the sum of its parts when it is not."""
    if told.total is not None and told.free is not None and told.used is not None:
        return told

    def one(name: str) -> int | None:
        direct: int | None = getattr(told, name)
        if direct is not None:
            return direct
        found = [getattr(each, name) for each in parts]
        return sum(found) if found and None not in found else None

    return Room(total=one("total"), free=one("free"), used=one("used"))


def _missing(told: dict[str, Any], every: list[ComputeStats]) -> dict[str, str]:
    """Return the path of each value that is null -> why."""
    why = NOT_TOLD if every else f"{NOT_TOLD}: it lists no compute (early in a boot, or lost)"
    gaps: dict[str, str] = {}
    for name, value in told.items():
        if value is None:
            summed = name.endswith(("nodes", "orphans")) or "alloc" in name
            gaps[name] = why if summed else NOT_TOLD
    for name in ("memory", "disk", "controller_disk"):
        here: Room = told[name]
        if here.total is None or here.free is None or here.used is None:
            for part in ("total", "free", "used"):
                if getattr(here, part) is None:
                    gaps[f"{name}.{part}"] = NOT_TOLD
    if not every:
        gaps["computes"] = why
    return gaps


_COMPUTE_FLAGS = (
    *_TOLD_BY_ALL_RELEASES, "docker_shim", "is_controller",
    "cpu_overload", "memory_overload", "disk_overload",
)  # fmt: skip
_CONTROLLER_FLAGS = ControllerHealth.__struct_fields__


def _flags(raw: dict[str, Any], names: Iterable[str]) -> dict[str, bool | None]:
    flag, get = parsing.flag, raw.get
    return {name: flag(get(name)) for name in names}


def compute_health(value: Any) -> ComputeHealth:
    """Return one compute's flags."""
    raw = parsing.mapping(value)
    return ComputeHealth(
        hostname=parsing.text(raw.get("hostname")),
        admission_state=parsing.text(raw.get("admission_state")),
        **_flags(raw, _COMPUTE_FLAGS),
    )


def system_health(value: Any) -> SystemHealth:
    """Return every flag as the server gives it; null stays null, with the reason."""
    raw = parsing.mapping(value)
    listed = list(parsing.mapping(raw.get("computes")).items())
    computes = {key: compute_health(each) for key, each in listed[:COMPUTES]}
    control = _flags(parsing.mapping(raw.get("controller")), _CONTROLLER_FLAGS)
    top = _flags(raw, ("valid", "is_licensed", "is_enterprise"))
    gaps = {name: NOT_TOLD for name, found in top.items() if found is None}
    gaps.update({f"controller.{name}": NOT_TOLD for name, told in control.items() if told is None})
    for key, each in computes.items():
        for name in _TOLD_BY_ALL_RELEASES:
            if getattr(each, name) is None:
                gaps[f"computes.{key}.{name}"] = NOT_TOLD
    if not computes:
        gaps["computes"] = f"{NOT_TOLD}: it lists no compute"
    return SystemHealth(**top, computes=computes, controller=ControllerHealth(**control), gaps=gaps)
