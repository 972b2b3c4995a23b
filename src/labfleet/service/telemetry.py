"""Reading telemetry: the newest sample of a worker, how old it is, and why values are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from labfleet.resources.meta import Record
from labfleet.resources.telemetry import Sample
from labfleet.resources.worker import Worker
from labfleet.service import access, verbs
from labfleet.service.parts import Caller, Parts

FRESH = timedelta(seconds=90)
"""A sample younger than this is called fresh: three looks at a hosting worker (fleet time)."""

NOT_TOLD = "the server does not tell"
"""Reason of a null that nobody gave another one, such as a flag that only later releases have."""

UNITS = {
    "cpuCount": "CPUs",
    "cpuPercent": "percent of the whole host, 0-100",
    "memory, disk, controllerDisk": "bytes",
    "allocatedCpus": "vCPUs of running nodes",
    "allocatedMemoryMib": "MiB",
    "uptimeSeconds": "seconds since the instance's launch",
    "load": "load averages over 1, 5 and 15 minutes",
}


class Reading(Record, frozen=True, kw_only=True):
    """The newest sample with its freshness.

    `sample` is null when this process has none, with `reason`. `unknown`: path of each null
    value -> why it is null.
    """

    worker: str
    fresh: bool
    age_seconds: float | None = None
    reason: str = ""
    unknown: dict[str, str] = {}
    units: dict[str, str] = msgspec.field(default_factory=UNITS.copy)
    sample: Sample | None = None


async def newest(parts: Parts, caller: Caller, name: str, namespace: str = "default") -> Reading:
    """Return a worker's newest sample; Gone when there is no such worker."""
    access.demand(caller.principal, "read", "Worker")
    return of(parts, await verbs.found(parts, caller, Worker, name, namespace))


def of(parts: Parts, worker: Worker) -> Reading:
    """Return the newest sample of a worker as this process has it."""
    sample = parts.samples.newest(worker.name)
    if sample is None:
        told = (
            f"no sample here: {worker.name} is {worker.status.phase}, and samples live in the "
            "process that leads the worker controller, since its start"
        )
        return Reading(worker=worker.name, fresh=False, reason=told)
    age = max(parts.clock.now() - sample.at, timedelta(0))
    fresh = age <= FRESH
    return Reading(
        worker=worker.name,
        fresh=fresh,
        age_seconds=round(age.total_seconds(), 1),
        reason="" if fresh else f"last measured {age.total_seconds():.0f} s ago",
        unknown=unknown(sample),
        sample=sample,
    )


def unknown(sample: Sample) -> dict[str, str]:
    """Return the path of every null value with its reason, of the sample and its parts."""
    made = dict.fromkeys(_nulls(sample), NOT_TOLD) | sample.gaps
    for name in ("stats", "health", "licence"):
        part = getattr(sample, name)
        if part is not None:
            made |= {f"{name}.{path}": why for path, why in part.gaps.items()}
    return dict(sorted(made.items()))


def _nulls(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of each null in records and maps; a release does not tell all of them."""
    if value is None:
        yield path
        return
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name != "gaps")
        parts = [(name, getattr(value, name)) for name in names]
    else:
        parts = list(value.items()) if isinstance(value, dict) else []
    for name, part in parts:
        yield from _nulls(part, f"{path}.{name}" if path else name)
