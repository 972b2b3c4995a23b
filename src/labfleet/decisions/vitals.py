"""Chooses a worker's numbers from the measurements, and names the source of each.

Pure. CML is preferred: it is free, fresher, and has memory and disk. CloudWatch is the fallback,
and the only source for a server that does not answer (facts/aws.md#cloudwatch,
facts/upstream.md#worker-reports).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from labfleet.resources.meta import Record
from labfleet.resources.telemetry import ProviderPoint, Room, Sample

CLOUDWATCH_LATE = timedelta(minutes=15)
"""CloudWatch's points come 3 to 15 minutes late, so they are fresh for longer than their period
(facts/aws.md#cloudwatch)."""

FRESH_LOOKS = 3
"""A number is fresh for this many polling intervals, and unknown after that."""

EXCHANGE_SECONDS = 5.0
"""Machine seconds between two exchanges of samples among processes: so much later, and once more
so much, another process knows of a measurement."""

REPORTED = "reported"
"""The boot id of reported samples, so that they are never compared with our own."""


class Number(Record, frozen=True, kw_only=True):
    """One number: its source, when it was measured, its age, and if null, why.

    value: The number; null when it is not known.
    unit: Its unit.
    source: Who measured it.
    at: When it was measured.
    age_seconds: How long ago that is.
    fresh: Whether it was measured lately.
    reason: Why it is null; empty when it is not.
    """

    value: float | None = None
    unit: str = ""
    source: str | None = None
    at: datetime | None = None
    age_seconds: float | None = None
    fresh: bool = False
    reason: str = ""


def fresh_for(poll: float, rate: float) -> timedelta:
    """Return for how long a sample counts: `poll` is in fleet seconds, `rate` is the clock's.

    Long enough for another process to hear of it under a fast clock too.
    """
    return timedelta(seconds=max(FRESH_LOOKS * poll, poll + 2 * EXCHANGE_SECONDS * rate))


def point_life(point: ProviderPoint) -> timedelta:
    """Return for how long after its beginning a CloudWatch point counts."""
    return CLOUDWATCH_LATE + timedelta(seconds=2 * point.seconds)


def replaces(sample: Sample, known: Sample | None, now: datetime, late: timedelta) -> bool:
    """Tell whether a sample from elsewhere takes the place of the newest one known.

    A report never replaces numbers of our own while they are fresh: it would hide those that
    health, alerts and the idle rule use.
    """
    if known is None:
        return True
    if sample.boot == REPORTED != known.boot and now - known.at <= late:
        return False
    return sample.at >= known.at or known.at > now


def share(room: Room) -> float | None:
    """Return the used percent of memory or a disk; None when unknown."""
    if not room.total:
        return None
    if room.used is not None:
        return 100.0 * room.used / room.total
    return None if room.free is None else 100.0 * (1 - room.free / room.total)


def cml_cpu(sample: Sample) -> tuple[float | None, str]:
    """Return CPU percent and its source: of the whole server, else of its first compute host."""
    stats = sample.stats
    if stats is None:
        return None, "cml"
    if stats.cpu_percent is not None:
        return stats.cpu_percent, "cml"
    told = (each.cpu_percent for each in stats.computes.values() if each.cpu_percent is not None)
    return next(told, None), "cml-compute"


def cml_memory(sample: Sample) -> tuple[float | None, str]:
    """Return used memory in percent and its source: of the server, else its first compute host."""
    stats = sample.stats
    if stats is None:
        return None, "cml"
    whole = share(stats.memory)
    if whole is not None:
        return whole, "cml"
    told = (part for each in stats.computes.values() if (part := share(each.memory)) is not None)
    return next(told, None), "cml-compute"


def fullest_disk(sample: Sample) -> float | None:
    """Return the used percent of the fullest disk; None when no disk is known.

    It is computed from the free space, since we cannot use reserved blocks.
    """
    health = sample.health
    if health is not None and any(each.disk_overload for each in health.computes.values()):
        return 100.0
    if sample.stats is None:
        return None
    rooms = [sample.stats.controller_disk, sample.stats.disk]
    rooms += [each.disk for each in sample.stats.computes.values()]
    return max((part for room in rooms if (part := _taken(room)) is not None), default=None)


def _taken(room: Room) -> float | None:
    if not room.total:
        return None
    if room.free is not None:
        return 100.0 * (1 - room.free / room.total)
    return None if room.used is None else 100.0 * room.used / room.total


def of_sample(sample: Sample) -> dict[str, float | None]:
    """Return a CML sample's values, by the names of `resources.series.METRICS`."""
    stats = sample.stats
    return {
        "cpu": cml_cpu(sample)[0],
        "memory": cml_memory(sample)[0],
        "disk": fullest_disk(sample),
        "nodes": None if stats is None else stats.running_nodes,
        "labs": sample.labs_count,
    }


def of_point(point: ProviderPoint) -> dict[str, float | None]:
    """Return a CloudWatch point's values, by the same names."""
    return {
        "ec2Cpu": point.cpu_percent,
        "networkIn": point.network_in_bytes_per_second,
        "networkOut": point.network_out_bytes_per_second,
    }


def moved(
    before: Mapping[str, float | None], after: Mapping[str, float | None], percent: float
) -> tuple[str, ...]:
    """Return which numbers moved by `percent` or more.

    Percentages move by that many points, counts by one, rates relative to the former value. A
    change from or to unknown counts too.
    """
    return tuple(name for name in after if _moved(name, before.get(name), after[name], percent))


def _moved(name: str, before: float | None, after: float | None, percent: float) -> bool:
    if before is None or after is None:
        return before is not after
    if name in {"cpu", "memory", "disk", "ec2Cpu"}:
        return abs(after - before) >= percent
    if name in {"nodes", "labs", "sessions"}:
        return before != after
    return abs(after - before) >= abs(before) * percent / 100 and before != after


def numbers(
    sample: Sample | None,
    points: Sequence[ProviderPoint],
    now: datetime,
    *,
    late: timedelta,
    missing: str,
) -> dict[str, Number]:
    """Return every number with source, age and freshness; null ones say why.

    `late` is from which age on a sample's numbers are unknown, `missing` why there is no sample.
    """
    made: dict[str, Number] = {}
    for name, unit, value, source in _told(sample):
        reason = missing if sample is None else _gap(sample, name)
        at = None if sample is None else sample.at
        made[name] = _aged(
            Number(value=value, unit=unit, source=source, at=at, reason=reason), now, late
        )
    for name, unit in (("networkIn", "bytes/s"), ("networkOut", "bytes/s"), ("ec2Cpu", "percent")):
        made[name] = _provided(name, unit, points, now)
    return {**made, "cpu": _better(made["cpu"], made["ec2Cpu"])}


def _gap(sample: Sample, name: str) -> str:
    path = "labs_count" if name == "labs" else "stats"
    return sample.gaps.get(path) or "CML does not tell"


def _told(sample: Sample | None) -> list[tuple[str, str, float | None, str]]:
    units = {"cpu": "percent", "memory": "percent", "disk": "percent", "nodes": "nodes",
             "labs": "labs"}  # fmt: skip
    if sample is None:
        return [(name, unit, None, "cml") for name, unit in units.items()]
    told = of_sample(sample)
    sources = {"cpu": cml_cpu(sample)[1], "memory": cml_memory(sample)[1]}
    return [(name, unit, told[name], sources.get(name, "cml")) for name, unit in units.items()]


def _provided(name: str, unit: str, points: Sequence[ProviderPoint], now: datetime) -> Number:
    found = [each for each in points if of_point(each)[name] is not None]
    if not found:
        why = "CloudWatch has no points" if points else "CloudWatch is not asked, or has no points"
        return Number(unit=unit, source="cloudwatch", reason=why)
    newest = found[-1]
    end = newest.at + timedelta(seconds=newest.seconds)
    late = newest.at + point_life(newest) - end
    value = of_point(newest)[name]
    return _aged(Number(value=value, unit=unit, source="cloudwatch", at=end), now, late)


def _aged(number: Number, now: datetime, late: timedelta) -> Number:
    """Return the number with age and freshness; its value is unknown once it is late."""
    if number.value is None or number.at is None:
        return number
    age = max((now - number.at).total_seconds(), 0.0)
    fresh = age <= late.total_seconds()
    return Number(
        value=round(number.value, 3) if fresh else None,
        unit=number.unit,
        source=number.source,
        at=number.at,
        age_seconds=round(age, 1),
        fresh=fresh,
        reason="" if fresh else f"last measured {age:.0f} s ago",
    )


def _better(cml: Number, cloudwatch: Number) -> Number:
    """Return CML's number; CloudWatch's when only that is known."""
    return cloudwatch if cml.value is None and cloudwatch.value is not None else cml
